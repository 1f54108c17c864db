/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of the file system as error classes of MPI.
 */
#include "pvfs_ompio.h"

#include <errno.h>

static const struct {
    int number, class;
} CLASSES[] = {
    {0, MPI_SUCCESS},
    {EACCES, MPI_ERR_ACCESS},
    {EPERM, MPI_ERR_ACCESS},
    {ENAMETOOLONG, MPI_ERR_BAD_FILE},
    {EISDIR, MPI_ERR_BAD_FILE},
    {ELOOP, MPI_ERR_BAD_FILE},
    {ENOTDIR, MPI_ERR_BAD_FILE},
    {ENOENT, MPI_ERR_NO_SUCH_FILE},
    {EEXIST, MPI_ERR_FILE_EXISTS},
    {EROFS, MPI_ERR_READ_ONLY},
    {ENOSPC, MPI_ERR_NO_SPACE},
    {EFBIG, MPI_ERR_NO_SPACE},
    {EDQUOT, MPI_ERR_QUOTA},
    {EBUSY, MPI_ERR_FILE_IN_USE},
    {ETXTBSY, MPI_ERR_FILE_IN_USE},
    {EBADF, MPI_ERR_FILE},
    {EINVAL, MPI_ERR_ARG},
    {ENOMEM, MPI_ERR_NO_MEM},
};

int pvfs_ompio_error(int number) {
    for (size_t at = 0; at < sizeof CLASSES / sizeof CLASSES[0]; at++)
        if (CLASSES[at].number == number) return CLASSES[at].class;
    return MPI_ERR_IO;
}
