/* SPDX-License-Identifier: Apache-2.0
 *
 * The file pointer that all ranks share: a number the manager keeps with the group's open, moved by fetch and add.
 *
 * ROMIO keeps it in a hidden file beside the real one, which every rank opens, locks, reads and writes. That way stays for
 * files that could not be opened as a group. A file of one rank needs neither.
 */
#include <errno.h>

#include "driver.h"

void __real_ADIO_Get_shared_fp(ADIO_File fd, ADIO_Offset increment, ADIO_Offset *pointer, int *code);
void __real_ADIO_Set_shared_fp(ADIO_File fd, ADIO_Offset pointer, int *code);
void __real_ADIO_Set_view(ADIO_File fd, ADIO_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, MPI_Info info,
                          int *code);

/* The file whose pointer is kept here or by the manager; NULL where it is in a hidden file. */
static struct pvfs_file *counted(ADIO_File fd) {
    struct pvfs_file *file = fd->fns == &pvfs_operations ? pvfs_file_of(fd) : NULL;
    return file && file->opened != PVFS_BY_NAME ? file : NULL;
}

void __wrap_ADIO_Get_shared_fp(ADIO_File fd, ADIO_Offset increment, ADIO_Offset *pointer, int *code) {
    struct pvfs_file *file = counted(fd);
    if (!file) {
        __real_ADIO_Get_shared_fp(fd, increment, pointer, code);
        return;
    }
    file->shared_used |= increment != 0;
    if (file->opened == PVFS_ALONE) {
        *pointer = file->shared_pointer;
        file->shared_pointer += increment;
        *code = MPI_SUCCESS;
        return;
    }
    errno = 0;
    *pointer = pvfs_fetch_and_add(fd->fd_sys, increment);
    *code = pvfs_mpi_error("moving the shared pointer of", fd->filename, *pointer < 0 ? errno : 0);
}

void __wrap_ADIO_Set_shared_fp(ADIO_File fd, ADIO_Offset pointer, int *code) {
    struct pvfs_file *file = counted(fd);
    if (!file) {
        __real_ADIO_Set_shared_fp(fd, pointer, code);
        return;
    }
    file->shared_used |= pointer != 0;
    *code = MPI_SUCCESS;
    errno = 0;
    if (file->opened == PVFS_ALONE)
        file->shared_pointer = pointer;
    else if (pvfs_fetch_and_set(fd->fd_sys, pointer) < 0)
        *code = pvfs_mpi_error("setting the shared pointer of", fd->filename, errno);
}

/* A new view sets the pointer to zero (MPI-4.0, 14.3). ROMIO does so only for its hidden file, and lets all ranks meet
 * afterwards. Most programs never use the pointer: then the manager is not asked. */
void __wrap_ADIO_Set_view(ADIO_File fd, ADIO_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, MPI_Info info,
                          int *code) {
    struct pvfs_file *file = counted(fd);
    int rank, used = 0, reset = MPI_SUCCESS;
    __real_ADIO_Set_view(fd, displacement, etype, filetype, info, code);
    if (!file) return;
    PMPI_Allreduce(&file->shared_used, &used, 1, MPI_INT, MPI_MAX, fd->comm);
    PMPI_Comm_rank(fd->comm, &rank);
    if (used && rank == fd->hints->ranklist[0]) __wrap_ADIO_Set_shared_fp(fd, 0, &reset);
    file->shared_used = 0;
    if (*code == MPI_SUCCESS) *code = reset;
}
