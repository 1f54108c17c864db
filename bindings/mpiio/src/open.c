/* SPDX-License-Identifier: Apache-2.0
 *
 * One open for all ranks: one rank asks the manager, one broadcast carries what it got, the others make their descriptors of
 * that without asking anybody (openg and openfh). So the servers see as many messages for a thousand ranks as for one.
 */
#include <errno.h>
#include <stdlib.h>

#include "driver.h"

/* The group's open outlives its last use by this much. Jobs that compute longer between two accesses open again (pvfs_reopen);
 * those that die leave an open behind for so long, and a user can have only some hundreds. */
#define IDLE_MAX_S (4 * 3600)

/* What one rank tells the others. */
struct broadcast {
    int error;
    enum pvfs_opened opened;
    int flags;
    ADIO_Offset size;
    ino_t ino;
    struct pvfs_striping striping;
    size_t handle_len;
    unsigned char handle[PVFS_GROUP_HANDLE_MAX];
};

static int flags_of(int access_mode) {
    int flags = access_mode & ADIO_RDWR ? O_RDWR : access_mode & ADIO_WRONLY ? O_WRONLY : O_RDONLY;
    if (access_mode & ADIO_CREATE) flags |= O_CREAT;
    if (access_mode & ADIO_EXCL) flags |= O_EXCL;
    return flags;
}

static mode_t mode_of(const ADIO_File fd) {
    if (fd->perm != ADIO_PERM_NULL) return (mode_t)fd->perm;
    mode_t mask = umask(022);
    umask(mask);
    return 0666 & ~mask;
}

/* A descriptor for this rank, and in `told` what the others need for theirs. */
static int open_once(const char *path, int flags, mode_t mode, const struct pvfs_layout *layout, struct broadcast *told) {
    int fd;
    if (told->opened == PVFS_BY_GROUP) {
        told->handle_len = sizeof told->handle;
        if (pvfs_openg(path, told->handle, &told->handle_len, flags, (int)mode, PVFS_SHARE_USER, IDLE_MAX_S, layout) == 0)
            return openfh(told->handle, told->handle_len);
        if (errno != EMFILE && errno != ENFILE) return -1;
        told->opened = PVFS_BY_NAME;
    }
    fd = layout ? pvfs_open_layout(path, flags, mode, layout) : pvfs_open(path, flags, mode);
    return fd;
}

/* Hints are no orders (MPI-4.0, 10): where the file system cannot do as wished, the nearest it can. */
static int open_with_hints(ADIO_File fd, const char *path, int flags, struct broadcast *told) {
    struct pvfs_layout wish;
    mode_t mode = mode_of(fd);
    if (!(flags & O_CREAT) || !pvfs_layout_wished(fd, &wish)) return open_once(path, flags, mode, NULL, told);
    int opened = open_once(path, flags, mode, &wish, told);
    if (opened < 0 && errno == EINVAL && wish.pcount > 0) {
        wish.pcount = -1; /* more iods than there are: all of them */
        opened = open_once(path, flags, mode, &wish, told);
    }
    if (opened < 0 && errno == EINVAL) opened = open_once(path, flags, mode, NULL, told);
    return opened;
}

/* Two-phase writes with holes read what is between. So files for writing only are opened for both where that is allowed. */
static int open_readable(ADIO_File fd, const char *path, int flags, struct broadcast *told) {
    if ((flags & O_ACCMODE) != O_WRONLY) return open_with_hints(fd, path, told->flags = flags, told);
    told->flags = (flags & ~O_ACCMODE) | O_RDWR;
    int opened = open_with_hints(fd, path, told->flags, told);
    if (opened < 0 && (errno == EACCES || errno == EPERM)) opened = open_with_hints(fd, path, told->flags = flags, told);
    return opened;
}

static void look(int descriptor, struct broadcast *told) {
    struct pvfs_layout *layout = malloc(sizeof *layout);
    struct stat_lite st = {.st_litemask = 0};
    if (fstatlite(descriptor, &st) == 0) told->ino = st.st_ino;
    if (layout && pvfs_fgetlayout(descriptor, layout) == 0) {
        told->striping.factor = layout->pcount;
        told->striping.unit = layout->ssize > 0 && layout->ssize <= INT_MAX ? (int)layout->ssize : 0;
        told->striping.first = layout->base;
        memcpy(told->striping.distribution, layout->distribution, sizeof told->striping.distribution);
    }
    free(layout);
}

/* What the opening rank does. */
static int lead(ADIO_File fd, const char *path, int access_mode, struct broadcast *told) {
    int descriptor = open_readable(fd, path, flags_of(access_mode), told);
    told->error = descriptor < 0 ? errno : 0;
    if (descriptor < 0) return -1;
    look(descriptor, told);
    if (access_mode & ADIO_APPEND) {
        struct stat st;
        if (pvfs_fstat(descriptor, &st) == 0)
            told->size = st.st_size;
        else
            told->error = errno;
    }
    return descriptor;
}

static int follow(const char *path, const struct broadcast *told) {
    if (told->opened == PVFS_BY_GROUP) return openfh((void *)told->handle, told->handle_len);
    return pvfs_open(path, told->flags & ~(O_CREAT | O_EXCL), 0);
}

static void keep(ADIO_File fd, const struct broadcast *told, int is_leader, int access_mode) {
    struct pvfs_file *file = fd->fs_ptr;
    file->opened = told->opened;
    file->flags = told->flags & ~(O_CREAT | O_EXCL);
    file->ino = told->ino;
    if (is_leader && told->opened == PVFS_BY_GROUP && (file->handle = malloc(told->handle_len))) {
        memcpy(file->handle, told->handle, told->handle_len);
        file->handle_len = told->handle_len;
    }
    if ((file->flags & O_ACCMODE) == O_WRONLY) fd->hints->cb_write = ADIOI_HINT_DISABLE; /* it would have to read */
    if (access_mode & ADIO_APPEND) fd->fp_ind = told->size;
    pvfs_tell_layout(fd, &told->striping);
    file->layout_known = 1;
    fd->is_open = 1;
    fd->dirty_write = 0;
    fd->blksize = told->striping.unit > 0 ? told->striping.unit : 4 * 1024 * 1024;
}

void pvfs_open_collectively(ADIO_File fd, int rank, int access_mode, int *code) {
    char path[PATH_MAX];
    int ranks, leader = fd->hints->ranklist[0], descriptor = -1, error = pvfs_path(fd->filename, path);
    struct broadcast *told = calloc(1, sizeof *told);
    struct pvfs_file *file = calloc(1, sizeof *file);
    if (!told || !file) {
        fprintf(stderr, "PVFS: no memory to open %s\n", fd->filename);
        PMPI_Abort(fd->comm, MPI_ERR_NO_MEM); /* the others wait for the broadcast */
    }
    PMPI_Comm_size(fd->comm, &ranks);
    fd->access_mode = access_mode;
    fd->fd_sys = -1;
    fd->fs_ptr = file;
    told->opened = ranks == 1 ? PVFS_ALONE : PVFS_BY_GROUP;
    told->error = error;
    if (rank == leader && !error) descriptor = lead(fd, path, access_mode, told);
    if (ranks > 1) PMPI_Bcast(told, sizeof *told, MPI_BYTE, leader, fd->comm);
    error = told->error;
    if (rank != leader && !error && (descriptor = follow(path, told)) < 0) error = errno;
    if (error) {
        if (descriptor >= 0) pvfs_close(descriptor);
        free(file);
        fd->fs_ptr = NULL;
    } else {
        fd->fd_sys = descriptor;
        keep(fd, told, rank == leader, access_mode);
    }
    free(told);
    *code = pvfs_mpi_error("opening", fd->filename, error);
}

/* ROMIO opens so what one rank has for itself. */
void pvfs_open_alone(ADIO_File fd, int *code) {
    int rank;
    PMPI_Comm_rank(fd->comm, &rank);
    pvfs_open_collectively(fd, rank, fd->access_mode, code);
}

void pvfs_close_file(ADIO_File fd, int *code) {
    struct pvfs_file *file = fd->fs_ptr;
    int error = pvfs_close(fd->fd_sys) == 0 ? 0 : errno;
    /* ROMIO has had all ranks meet since their last access, so nobody writes any more and the size can be settled. Where the
     * group's end cannot be told, it comes by itself. */
    if (file && file->handle) {
        pvfs_closeg(file->handle, file->handle_len);
        free(file->handle);
    }
    free(file);
    fd->fs_ptr = NULL;
    fd->fd_sys = -1;
    *code = pvfs_mpi_error("closing", fd->filename, error);
}

void pvfs_delete(const char *name, int *code) {
    char path[PATH_MAX];
    int error = pvfs_path(name, path);
    if (!error && pvfs_unlink(path) < 0) error = errno;
    *code = pvfs_mpi_error("deleting", name, error);
}

int pvfs_reopen(ADIO_File fd) {
    char path[PATH_MAX];
    struct stat_lite st = {.st_litemask = 0};
    struct pvfs_file *file = fd->fs_ptr;
    if (file->opened != PVFS_BY_GROUP) return ESTALE;
    int error = pvfs_path(fd->filename, path), descriptor = error ? -1 : pvfs_open(path, file->flags, 0);
    if (descriptor < 0) return ESTALE;
    /* The name may have become another file's meanwhile. */
    if (fstatlite(descriptor, &st) < 0 || st.st_ino != file->ino) {
        pvfs_close(descriptor);
        return ESTALE;
    }
    pvfs_close(fd->fd_sys);
    fd->fd_sys = descriptor;
    return 0;
}
