/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes with gaps, in the file or in memory: the pieces are given to the library as they are.
 *
 * ROMIO's own way is to read the gaps too, change what is to be written and write all of it back under a lock. Our iods pick
 * the pieces themselves, so nothing is read for a write, no byte that is not the program's own is written, and no lock is taken
 * (but in atomic mode).
 */
#include <errno.h>

#include "pieces.h"

/* Bytes done before the end of the file, or -1 and errno. */
static ADIO_Offset move(ADIO_File fd, struct cursor memory, struct cursor *file, ADIO_Offset bytes, int is_write) {
    struct pieces pieces = {0};
    ADIO_Offset done = 0;
    int error = 0;
    while (done < bytes && !error) {
        if ((error = pieces_take(&pieces, &memory, file, bytes - done))) break;
        ssize_t now = is_write ? writex(fd->fd_sys, pieces.memory, pieces.memory_count, pieces.file, pieces.file_count)
                               : readx(fd->fd_sys, pieces.memory, pieces.memory_count, pieces.file, pieces.file_count);
        if (now < 0 && errno == ESTALE && pvfs_reopen(fd) == 0)
            now = is_write ? writex(fd->fd_sys, pieces.memory, pieces.memory_count, pieces.file, pieces.file_count)
                           : readx(fd->fd_sys, pieces.memory, pieces.memory_count, pieces.file, pieces.file_count);
        if (now < 0)
            error = errno;
        else
            done += now;
        if (now < pieces.bytes) break; /* the file ends here */
    }
    pieces_free(&pieces);
    errno = error;
    return error ? -1 : done;
}

/* Atomic mode: whoever else touches bytes from the first to the last of this access waits. ROMIO locks contiguous accesses
 * itself. */
static ADIO_Offset move_locked(ADIO_File fd, struct cursor memory, struct cursor *file, ADIO_Offset bytes, int is_write) {
    struct cursor last = *file;
    ADIO_Offset from = cursor_at(file);
    cursor_advance(&last, bytes - 1);
    ADIO_Offset length = cursor_at(&last) + 1 - from;
    pvfs_set_lock(fd, F_SETLKW, is_write ? F_WRLCK : F_RDLCK, from, SEEK_SET, length);
    ADIO_Offset done = move(fd, memory, file, bytes, is_write);
    int error = errno;
    pvfs_set_lock(fd, F_SETLK, F_UNLCK, from, SEEK_SET, length);
    errno = error;
    return done;
}

static void access_pieces(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                          int is_write, ADIO_Status *status, int *code) {
    MPI_Count element, viewed;
    PMPI_Type_size_x(datatype, &element);
    PMPI_Type_size_x(fd->filetype, &viewed);
    ADIO_Offset bytes = (ADIO_Offset)element * count, done = 0;
    *code = MPI_SUCCESS;
    if (bytes > 0 && viewed > 0) {
        struct cursor memory = cursor_in_memory(buffer, datatype), start = cursor_in_file(fd, pointer, offset), end = start;
        done = fd->atomicity ? move_locked(fd, memory, &end, bytes, is_write) : move(fd, memory, &end, bytes, is_write);
        if (done < 0) {
            *code = pvfs_mpi_error(is_write ? "writing" : "reading", fd->filename, errno);
            return;
        }
        if (is_write) fd->dirty_write = 1;
        if (done < bytes) cursor_advance(&start, done);
        if (pointer == ADIO_INDIVIDUAL) fd->fp_ind = cursor_at(done < bytes ? &start : &end);
    }
    fd->fp_sys_posn = -1;
    MPIR_Status_set_bytes(status, datatype, done);
}

void pvfs_read_strided(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                       ADIO_Status *status, int *code) {
    access_pieces(fd, buffer, count, datatype, pointer, offset, 0, status, code);
}

void pvfs_write_strided(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                        ADIO_Status *status, int *code) {
    access_pieces(fd, (void *)buffer, count, datatype, pointer, offset, 1, status, code);
}

/* In atomic mode each rank locks and does its own part: two-phase accesses are done by other ranks, under no lock. */
void pvfs_read_collective(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                          ADIO_Status *status, int *code) {
    if (fd->atomicity)
        pvfs_read_strided(fd, buffer, count, datatype, pointer, offset, status, code);
    else
        ADIOI_GEN_ReadStridedColl(fd, buffer, count, datatype, pointer, offset, status, code);
}

void pvfs_write_collective(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                           ADIO_Status *status, int *code) {
    if (fd->atomicity)
        pvfs_write_strided(fd, buffer, count, datatype, pointer, offset, status, code);
    else
        ADIOI_GEN_WriteStridedColl(fd, buffer, count, datatype, pointer, offset, status, code);
}
