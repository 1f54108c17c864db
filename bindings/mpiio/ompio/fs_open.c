/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening for a whole communicator with one open at the manager (paper 003): rank 0 makes a group open, everybody else makes a
 * descriptor of its handle, which contacts no server.
 *
 *   rank 0:  openg ----> manager          others:
 *            handle, layout or errno  --- broadcast --->  openfh
 */
#include "pvfs_ompio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What rank 0 tells the others. */
struct opened {
    int error; /* errno */
    struct pvfs_layout layout;
    struct pvfs_ompio_file file;
};

static int flags_of(int amode) {
    int flags = 0;
    if (amode & MPI_MODE_RDONLY) flags |= O_RDONLY;
    if (amode & MPI_MODE_WRONLY) flags |= O_WRONLY;
    if (amode & MPI_MODE_RDWR) flags |= O_RDWR;
    if (amode & MPI_MODE_CREATE) flags |= O_CREAT;
    if (amode & MPI_MODE_EXCL) flags |= O_EXCL;
    return flags;
}

/* A file of one process is opened like any other: there is nobody to share with. */
static int open_alone(const char *path, int flags, const struct pvfs_layout *layout) {
    return layout != NULL ? pvfs_open_layout(path, flags, 0666, layout) : pvfs_open(path, flags, 0666);
}

static int open_group(const char *path, int flags, const struct pvfs_layout *layout, struct pvfs_ompio_file *group) {
    size_t len = sizeof group->handle;
    if (pvfs_openg(path, group->handle, &len, flags, 0666, PVFS_SHARE_USER, 0, layout) != 0) return -1;
    group->handle_len = len;
    int fd = openfh(group->handle, len);
    if (fd >= 0) return fd;
    int error = errno;
    pvfs_closeg(group->handle, len);
    errno = error;
    return -1;
}

/* On rank 0. */
static int open_for_all(const char *name, int amode, struct opal_info_t *info, int ranks, struct opened *opened) {
    char path[PATH_MAX];
    opened->error = pvfs_ompio_path(name, path);
    if (opened->error != 0) return -1;
    struct pvfs_layout wanted;
    int hinted = amode & MPI_MODE_CREATE ? pvfs_ompio_wanted_layout(info, &wanted) : 0;
    /* A hint that cannot be followed is no error (MPI 4.1, 14.2.8). */
    const struct pvfs_layout *layout = hinted > 0 ? &wanted : NULL;
    int fd = -1, flags = flags_of(amode);
    for (;;) {
        fd = ranks == 1 ? open_alone(path, flags, layout) : open_group(path, flags, layout, &opened->file);
        if (fd >= 0 || layout == NULL || errno != EINVAL) break;
        layout = NULL;
    }
    opened->error = fd < 0 ? errno : 0;
    if (fd >= 0 && pvfs_fgetlayout(fd, &opened->layout) != 0) memset(&opened->layout, 0, sizeof opened->layout);
    return fd;
}

int pvfs_ompio_open(struct ompi_communicator_t *comm, const char *name, int amode, struct opal_info_t *info,
                    ompio_file_t *file) {
    struct opened *opened = calloc(1, sizeof *opened);
    file->fd = -1;
    file->f_fs_ptr = NULL;
    if (opened == NULL) return MPI_ERR_NO_MEM;
    if (file->f_rank == OMPIO_ROOT) file->fd = open_for_all(name, amode, info, file->f_size, opened);
    int result = comm->c_coll->coll_bcast(opened, sizeof *opened, MPI_BYTE, OMPIO_ROOT, comm,
                                          comm->c_coll->coll_bcast_module);
    if (result == OMPI_SUCCESS) result = pvfs_ompio_error(opened->error);
    if (result == OMPI_SUCCESS && file->fd < 0) {
        file->fd = openfh(opened->file.handle, opened->file.handle_len);
        if (file->fd < 0) result = pvfs_ompio_error(errno);
    }
    if (result == OMPI_SUCCESS) {
        struct pvfs_ompio_file *kept = malloc(sizeof *kept);
        if (kept == NULL) {
            result = MPI_ERR_NO_MEM;
        } else {
            *kept = opened->file;
            file->f_fs_ptr = kept;
            pvfs_ompio_tell_layout(info, &opened->layout, file);
            /* Our own calls need no locks of OMPIO's. */
            file->f_flags |= OMPIO_LOCK_NEVER;
        }
    }
    free(opened);
    return result;
}

int pvfs_ompio_close(ompio_file_t *file) {
    struct pvfs_ompio_file *kept = file->f_fs_ptr;
    int result = OMPI_SUCCESS;
    if (file->fd >= 0 && pvfs_close(file->fd) != 0) result = pvfs_ompio_error(errno);
    file->fd = -1;
    if (kept == NULL) return result;
    if (kept->handle_len > 0) {
        /* Whoever still writes must be done before the open that stands for all of them ends. */
        file->f_comm->c_coll->coll_barrier(file->f_comm, file->f_comm->c_coll->coll_barrier_module);
        if (file->f_rank == OMPIO_ROOT) pvfs_closeg(kept->handle, kept->handle_len);
    }
    free(kept);
    file->f_fs_ptr = NULL;
    return result;
}
