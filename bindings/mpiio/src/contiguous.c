/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes of one range: one call of the library, from and to the program's memory.
 */
#include <errno.h>

#include "driver.h"

static ADIO_Offset bytes_of(romio_count count, MPI_Datatype datatype) {
    MPI_Count size;
    PMPI_Type_size_x(datatype, &size);
    return (ADIO_Offset)size * count;
}

/* Bytes done before the end of the file, or -1 and errno. */
static ADIO_Offset move(ADIO_File fd, char *buffer, ADIO_Offset bytes, ADIO_Offset offset, int is_write) {
    ADIO_Offset done = 0;
    while (done < bytes) {
        size_t left = (size_t)(bytes - done);
        ssize_t now = is_write ? pvfs_pwrite(fd->fd_sys, buffer + done, left, offset + done)
                               : pvfs_pread(fd->fd_sys, buffer + done, left, offset + done);
        if (now < 0 && errno == EINTR) continue;
        if (now < 0 && errno == ESTALE && pvfs_reopen(fd) == 0) continue;
        if (now < 0) return -1;
        if (now == 0) break;
        done += now;
    }
    return done;
}

static void access_range(ADIO_File fd, char *buffer, ADIO_Offset bytes, int pointer, ADIO_Offset offset, int is_write,
                         MPI_Datatype datatype, ADIO_Status *status, int *code) {
    if (pointer == ADIO_INDIVIDUAL) offset = fd->fp_ind;
    ADIO_Offset done = move(fd, buffer, bytes, offset, is_write);
    *code = done < 0 ? pvfs_mpi_error(is_write ? "writing" : "reading", fd->filename, errno) : MPI_SUCCESS;
    if (done < 0) return;
    if (is_write) fd->dirty_write = 1;
    if (pointer == ADIO_INDIVIDUAL) fd->fp_ind += done;
    fd->fp_sys_posn = -1;
    MPIR_Status_set_bytes(status, datatype, done);
}

void pvfs_read_contig(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                      ADIO_Status *status, int *code) {
    access_range(fd, buffer, bytes_of(count, datatype), pointer, offset, 0, datatype, status, code);
}

void pvfs_write_contig(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                       ADIO_Status *status, int *code) {
    access_range(fd, (char *)buffer, bytes_of(count, datatype), pointer, offset, 1, datatype, status, code);
}
