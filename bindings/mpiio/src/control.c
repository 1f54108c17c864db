/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a file beside its data: size, space, durability, locks.
 */
#include <errno.h>

#include "driver.h"

static int size_of(ADIO_File fd, ADIO_Offset *size) {
    struct stat st;
    int failed = pvfs_fstat(fd->fd_sys, &st);
    *size = failed ? -1 : st.st_size;
    return failed ? errno : 0;
}

/* Space for the first bytes of the file. Where the iods' disks cannot promise any, the file is at least so long, which is what
 * a program sees. */
static int reserve(ADIO_File fd, ADIO_Offset bytes) {
    ADIO_Offset size;
    if (pvfs_fallocate(fd->fd_sys, 0, 0, bytes) == 0) return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    int error = size_of(fd, &size);
    if (error || size >= bytes) return error;
    return pvfs_ftruncate(fd->fd_sys, bytes) == 0 ? 0 : errno;
}

void pvfs_control(ADIO_File fd, int flag, ADIO_Fcntl_t *argument, int *code) {
    *code = MPI_SUCCESS;
    switch (flag) {
    case ADIO_FCNTL_GET_FSIZE:
        *code = pvfs_mpi_error("asking for the size of", fd->filename, size_of(fd, &argument->fsize));
        break;
    case ADIO_FCNTL_SET_DISKSPACE:
        *code = pvfs_mpi_error("reserving space for", fd->filename, reserve(fd, argument->diskspace));
        break;
    case ADIO_FCNTL_SET_ATOMICITY:
        fd->atomicity = argument->atomicity != 0;
        break;
    default:
        *code = pvfs_mpi_error("controlling", fd->filename, EINVAL);
    }
}

/* A rank that has written nothing since its last flush has nothing to wait for. */
void pvfs_flush_file(ADIO_File fd, int *code) {
    int error = 0;
    if (fd->dirty_write) error = pvfs_fsync(fd->fd_sys) == 0 ? 0 : errno;
    if (!error) fd->dirty_write = 0;
    if (fd->hints->synchronizing_flush > 0) PMPI_Barrier(fd->comm);
    *code = pvfs_mpi_error("flushing", fd->filename, error);
}

void pvfs_resize(ADIO_File fd, ADIO_Offset size, int *code) {
    int rank, error = 0, leader = fd->hints->ranklist[0];
    PMPI_Comm_rank(fd->comm, &rank);
    if (rank == leader) error = pvfs_ftruncate(fd->fd_sys, size) == 0 ? 0 : errno;
    PMPI_Bcast(&error, 1, MPI_INT, leader, fd->comm);
    *code = pvfs_mpi_error("resizing", fd->filename, error);
}

int pvfs_feature(ADIO_File fd, int flag) {
    (void)fd;
    switch (flag) {
    case ADIO_LOCKS:
    case ADIO_SHARED_FP:
    case ADIO_ATOMIC_MODE:
    case ADIO_SCALABLE_OPEN:
    case ADIO_UNLINK_AFTER_CLOSE:
    case ADIO_TWO_PHASE:
    case ADIO_SCALABLE_RESIZE:
    case ADIO_IMMEDIATELY_VISIBLE:
        return 1;
    default:
        return 0; /* above all: no data sieving on writes */
    }
}

int pvfs_set_lock(ADIO_File fd, int command, int type, ADIO_Offset offset, int whence, ADIO_Offset length) {
    struct flock lock = {.l_type = (short)type, .l_whence = (short)whence, .l_start = offset, .l_len = length};
    int failed;
    if (length == 0) return MPI_SUCCESS;
    do failed = pvfs_fcntl(fd->fd_sys, command, &lock);
    while (failed && errno == EINTR);
    if (failed && type != F_UNLCK) {
        /* ROMIO does not look at what this returns, and without the lock data would be damaged. */
        fprintf(stderr, "PVFS: cannot lock %lld bytes of %s at %lld: %s\n", (long long)length, fd->filename, (long long)offset,
                strerror(errno));
        PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_IO);
    }
    return failed ? MPI_ERR_IO : MPI_SUCCESS;
}
