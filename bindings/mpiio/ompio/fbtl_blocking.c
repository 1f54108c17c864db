/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing: one call of ours, and so at most one request to each I/O daemon, for each call of OMPIO's. No data sieving,
 * and locks in atomic mode only.
 */
#include "pvfs_ompio.h"

#include <errno.h>
#include <string.h>

/* In atomic mode an access is seen as a whole or not at all (MPI 4.1, 14.6.1). What is more than one strip long, or scattered, is so by
 * a lock; writers exclude everybody, readers exclude writers. */
static int lock(const ompio_file_t *file, const struct pvfs_ompio_access *access, short kind) {
    if (!file->f_atomicity) return 0;
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = access->first,
                          .l_len = access->end - access->first};
    int result;
    do result = pvfs_fcntl(file->fd, F_SETLKW, &range);
    while (result != 0 && errno == EINTR);
    return result;
}

static void unlock(const ompio_file_t *file, const struct pvfs_ompio_access *access) {
    int error = errno;
    (void)lock(file, access, F_UNLCK);
    errno = error;
}

static ssize_t move(const ompio_file_t *file, const struct pvfs_ompio_access *access, bool writes) {
    int fd = file->fd;
    if (access->region_count == 1 && access->memory_count == 1) {
        void *memory = access->memory[0].iov_base;
        int64_t offset = access->regions[0].xtv_off;
        return writes ? pvfs_pwrite(fd, memory, access->bytes, offset) : pvfs_pread(fd, memory, access->bytes, offset);
    }
    return writes ? writex(fd, access->memory, access->memory_count, access->regions, access->region_count)
                  : readx(fd, access->memory, access->memory_count, access->regions, access->region_count);
}

/* The bytes moved, or OMPI_ERROR: OMPIO knows no other errors here. */
static ssize_t transfer(const ompio_file_t *file, bool writes) {
    struct pvfs_ompio_access access;
    if (pvfs_ompio_access(file, &access) != 0) return OMPI_ERROR;
    ssize_t bytes = 0;
    if (access.bytes > 0) {
        if (lock(file, &access, writes ? F_WRLCK : F_RDLCK) != 0) {
            bytes = -1;
        } else {
            bytes = move(file, &access, writes);
            unlock(file, &access);
        }
    }
    if (bytes < 0)
        opal_output(1, "pvfs: cannot %s %zu bytes of %s: %s", writes ? "write" : "read", access.bytes, file->f_filename,
                    strerror(errno));
    pvfs_ompio_access_free(&access);
    return bytes < 0 ? OMPI_ERROR : bytes;
}

ssize_t pvfs_ompio_preadv(ompio_file_t *file) { return transfer(file, false); }

ssize_t pvfs_ompio_pwritev(ompio_file_t *file) { return transfer(file, true); }
