/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, sync and delete.
 */
#include "pvfs_ompio.h"

#include <errno.h>

int pvfs_ompio_delete(char *name, struct opal_info_t *info) {
    (void)info;
    char path[PATH_MAX];
    int error = pvfs_ompio_path(name, path);
    if (error != 0) return pvfs_ompio_error(error);
    return pvfs_unlink(path) == 0 ? OMPI_SUCCESS : pvfs_ompio_error(errno);
}

/* Every rank sets the size: OMPIO calls this from MPI_File_preallocate on some ranks only, so that nothing collective can be
 * done here, and it waits for all ranks afterwards only where none of them has failed. */
int pvfs_ompio_set_size(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE size) {
    return pvfs_ftruncate(file->fd, size) == 0 ? OMPI_SUCCESS : pvfs_ompio_error(errno);
}

int pvfs_ompio_get_size(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE *size) {
    struct stat_lite st = {.st_litemask = S_SLITE_SIZET};
    if (fstatlite(file->fd, &st) != 0) return pvfs_ompio_error(errno);
    *size = st.st_size;
    return OMPI_SUCCESS;
}

int pvfs_ompio_sync(ompio_file_t *file) {
    return pvfs_fsync(file->fd) == 0 ? OMPI_SUCCESS : pvfs_ompio_error(errno);
}
