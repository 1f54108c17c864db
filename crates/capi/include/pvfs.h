/* SPDX-License-Identifier: Apache-2.0
 *
 * libpvfs: files of a PVFS file system for programs in C, C++ and whatever calls C.
 *
 *   cc program.c $(pkg-config --cflags --libs pvfs)
 *
 * Which paths are ours. Those below the prefix (PVFS_PREFIX, else /etc/pvfstab, else the place where a PVFS file system
 * is mounted, else /pvfs). Every other path and descriptor is an ordinary one and is handed to the C library, so that
 * a program can use these calls for all its files, as with PVFS 1.
 *
 * Descriptors are real descriptors of the kernel: dup, fork, exec, close-on-exec, passing over a socket and "the lowest
 * free number" are as POSIX says. A descriptor of ours is for the calls of this header (or, with libpvfs_preload.so,
 * for the C library's own).
 *
 * Errors: -1 and errno, unless said otherwise. Nothing waits for ever: where a daemon does not answer in its time the
 * call ends with EIO or ETIMEDOUT. Every call may be made from any thread.
 *
 * Offsets and sizes have 64 bits on every machine. Manual pages: pvfs(3) and those it names.
 */
#ifndef PVFS_H
#define PVFS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <utime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Versions of this header; pvfs_version() tells that of the library, as major * 10000 + minor * 100 + patch. */
#define PVFS_VERSION_MAJOR 0
#define PVFS_VERSION_MINOR 1
#define PVFS_VERSION_PATCH 0
int pvfs_version(void);

/* ---- How a file lies on the iods: pvfs_open(3), pvfs_layout(3) ---- */

/* Striping as PVFS 1 has it. To choose the default of the directory: base -1, pcount -1, ssize 0 (or -1). */
struct pvfs_filestat {
    int32_t base;   /* index of the iod that holds the first strip */
    int32_t pcount; /* iods that hold strips */
    int32_t ssize;  /* bytes of a strip */
    int32_t soff;   /* 0: kept for programs of PVFS 1 */
    int32_t bsize;  /* 0: kept for programs of PVFS 1 */
};

/* A partition: the groups of gsize bytes, every stride bytes from offset on, seen as if they lay end to end. With ngroups
 * above 0: so many groups every gstride bytes. gsize 0 is the whole file from offset on. */
struct fpart {
    int64_t offset;
    int64_t gsize;
    int64_t stride;
    int64_t gstride;
    int64_t ngroups;
};

/* Everything that is known of a layout. */
#define PVFS_DISTRIBUTION_MAX 256
#define PVFS_IODS_MAX 1024
struct pvfs_layout {
    char distribution[PVFS_DISTRIBUTION_MAX]; /* as "pvfs stripe get" prints it; empty: the default, by ssize */
    int32_t base;                             /* -1: the file system's choice */
    int32_t pcount;                           /* -1: the default */
    int64_t ssize;                            /* bytes of a strip; 0: the default; -1: the distribution has none */
    uint32_t iod_count;                       /* of iods[]; 0: the file system's choice */
    uint32_t iods[PVFS_IODS_MAX];             /* indices of iods, slot by slot */
};

/* ---- Native calls: names and meanings of PVFS 1 ---- */

/* Flags of pvfs_open beside those of open(2). Their values are free in Linux. */
#define O_META 0x10000000 /* the fourth argument says how a new file is striped, and is filled in with what is so */
#define O_PART 0x20000000 /* the fifth argument (the fourth without O_META) is the partition to begin with */
#define O_CONN 0          /* of PVFS 1: connections are made when they are needed */

/* Requests of pvfs_ioctl. */
#define GETPART 0x5601 /* struct fpart * */
#define SETPART 0x5602 /* const struct fpart *; the position goes to 0 */
#define GETMETA 0x5603 /* struct pvfs_filestat * */

/* pvfs_open(path, flags, mode, [struct pvfs_filestat *,] [struct fpart *]); each is read only where its flag is set. */
int pvfs_open(const char *path, int flags, ... /* mode_t, struct pvfs_filestat *, struct fpart * */);
int pvfs_creat(const char *path, mode_t mode);
int pvfs_close(int fd);

ssize_t pvfs_read(int fd, void *buffer, size_t count);
ssize_t pvfs_write(int fd, const void *buffer, size_t count);
ssize_t pvfs_readv(int fd, const struct iovec *vector, int count);
ssize_t pvfs_writev(int fd, const struct iovec *vector, int count);
ssize_t pvfs_pread(int fd, void *buffer, size_t count, int64_t offset);
ssize_t pvfs_pwrite(int fd, const void *buffer, size_t count, int64_t offset);
ssize_t pvfs_preadv(int fd, const struct iovec *vector, int count, int64_t offset);
ssize_t pvfs_pwritev(int fd, const struct iovec *vector, int count, int64_t offset);
int64_t pvfs_lseek(int fd, int64_t offset, int whence);

int pvfs_stat(const char *path, struct stat *st);
int pvfs_lstat(const char *path, struct stat *st);
int pvfs_fstat(int fd, struct stat *st);
int pvfs_ostat(const char *path, struct stat *st); /* of PVFS 1; the same as pvfs_stat */
int pvfs_chmod(const char *path, mode_t mode);
int pvfs_fchmod(int fd, mode_t mode);
int pvfs_chown(const char *path, uid_t owner, gid_t group);
int pvfs_lchown(const char *path, uid_t owner, gid_t group);
int pvfs_fchown(int fd, uid_t owner, gid_t group);
int pvfs_truncate(const char *path, int64_t size);
int pvfs_ftruncate(int fd, int64_t size);
int pvfs_fallocate(int fd, int mode, int64_t offset, int64_t length);
int pvfs_unlink(const char *path);
int pvfs_rename(const char *from, const char *to); /* EXDEV between us and others */
int pvfs_link(const char *from, const char *to);
int pvfs_symlink(const char *target, const char *path);
ssize_t pvfs_readlink(const char *path, char *buffer, size_t size);
int pvfs_mkdir(const char *path, mode_t mode);
int pvfs_rmdir(const char *path);
ssize_t pvfs_getdents(int fd, void *buffer, size_t bytes); /* records as of getdents64(2): struct dirent64 */
int pvfs_utime(const char *path, const struct utimbuf *times);
int pvfs_utimensat(int directory, const char *path, const struct timespec *times, int flags);
int pvfs_access(const char *path, int mode);
int pvfs_dup(int fd);
int pvfs_dup2(int fd, int to);
int pvfs_fcntl(int fd, int command, ... /* int, struct flock * */);
int pvfs_flock(int fd, int operation);
int pvfs_fsync(int fd);
int pvfs_fdatasync(int fd);
int pvfs_statfs(const char *path, struct statfs *st);
int pvfs_fstatfs(int fd, struct statfs *st);
int pvfs_ioctl(int fd, unsigned long request, void *argument);

/* Whether the path is one of ours, 1 or 0. Contacts nobody. */
int pvfs_is_ours(const char *path);
/* Where our files appear, without a slash at the end: the file system's /a is this and "/a". It belongs to the library. */
const char *pvfs_prefix(void);

/* ---- Layout and hints: pvfs_layout(3) ---- */

int pvfs_getlayout(const char *path, struct pvfs_layout *layout); /* of a file, or what a directory gives to new files */
int pvfs_fgetlayout(int fd, struct pvfs_layout *layout);
int pvfs_setlayout(const char *directory, const struct pvfs_layout *layout); /* for files created there from now on */
int pvfs_open_layout(const char *path, int flags, mode_t mode, const struct pvfs_layout *layout);

/* ---- Noncontiguous access: readx(3) ---- */

struct xtvec {
    int64_t xtv_off; /* in the file, from its start */
    size_t xtv_len;  /* bytes */
};

ssize_t readx(int fd, const struct iovec *iov, size_t iov_count, const struct xtvec *xtv, size_t xtv_count);
ssize_t writex(int fd, const struct iovec *iov, size_t iov_count, const struct xtvec *xtv, size_t xtv_count);

/* ---- Group opens: openg(3) ---- */

/* Bytes that any handle fits in. */
#define PVFS_GROUP_HANDLE_MAX 4096
/* *handle_len is the room in handle, then what the handle takes. ERANGE (and the size in *handle_len) where it is too small. */
int openg(const char *path, void *handle, size_t *handle_len, int flags, int mode);
int openfh(void *handle, size_t handle_len); /* a descriptor; contacts nobody */
/* Who may use a handle, and for how long after its last use; as openg otherwise. */
#define PVFS_SHARE_USER 0   /* the sessions of the same user */
#define PVFS_SHARE_GROUP 1  /* users of the opener's primary group */
#define PVFS_SHARE_ANYONE 2 /* whoever holds the handle */
int pvfs_openg(const char *path, void *handle, size_t *handle_len, int flags, int mode, int share,
               unsigned lifetime_s, const struct pvfs_layout *layout /* or NULL */);
int pvfs_renewg(void *handle, size_t *handle_len, size_t room);
int pvfs_closeg(const void *handle, size_t handle_len);
/* A number that all descriptors of one group open share, whatever process and node they are in; it begins at 0 and ends with
 * the group open. For shared file pointers. Returns what it was before; EINVAL for a descriptor that is not of openfh. */
int64_t pvfs_fetch_and_add(int fd, int64_t by);
int64_t pvfs_fetch_and_set(int fd, int64_t to);

/* ---- Attributes by mask: statlite(3), getdents_plus(3) ---- */

#define S_SLITE_SIZET 0x1
#define S_SLITE_BLKSIZE 0x2
#define S_SLITE_BLOCKS 0x4
#define S_SLITE_ATIME 0x8
#define S_SLITE_MTIME 0x10
#define S_SLITE_CTIME 0x20
#define S_SLITE_ALL 0x3f
#define SLITE_SIZET(m) ((m) & S_SLITE_SIZET)
#define SLITE_BLKSIZE(m) ((m) & S_SLITE_BLKSIZE)
#define SLITE_BLOCKS(m) ((m) & S_SLITE_BLOCKS)
#define SLITE_ATIME(m) ((m) & S_SLITE_ATIME)
#define SLITE_MTIME(m) ((m) & S_SLITE_MTIME)
#define SLITE_CTIME(m) ((m) & S_SLITE_CTIME)

/* As struct stat. The caller sets st_litemask to what is wanted; the call sets it to what is exact. EINVAL for other bits. */
struct stat_lite {
    dev_t st_dev;
    ino_t st_ino;
    mode_t st_mode;
    nlink_t st_nlink;
    uid_t st_uid;
    gid_t st_gid;
    dev_t st_rdev;
    unsigned long st_litemask;
    int64_t st_size;
    int64_t st_blksize;
    int64_t st_blocks;
    struct timespec st_atim;
    struct timespec st_mtim;
    struct timespec st_ctim;
};

int statlite(const char *path, struct stat_lite *st);
int lstatlite(const char *path, struct stat_lite *st);
int fstatlite(int fd, struct stat_lite *st);

/* Entries with attributes. Records lie end to end, each d_reclen bytes from its beginning to the next one's; d_name ends
 * with a zero byte. d_stat_err is 0 or the error number of the attributes. The calls fill at most `count` bytes and return
 * how many they filled; 0 at the end of the directory; EINVAL where not one entry fits. The directory's position moves on. */
struct dirent_plus {
    struct stat d_stat;
    int32_t d_stat_err;
    uint16_t d_reclen;
    uint8_t d_type;
    uint64_t d_ino;
    int64_t d_off;
    char d_name[256];
};
struct dirent_plus_lite {
    struct stat_lite d_stat_lite;
    int32_t d_stat_err;
    uint16_t d_reclen;
    uint8_t d_type;
    uint64_t d_ino;
    int64_t d_off;
    char d_name[256];
};

int getdents_plus(int fd, struct dirent_plus *entries, unsigned int count);
int getdents_plus_lite(int fd, unsigned long lite_mask, struct dirent_plus_lite *entries, unsigned int count);

/* ---- Many operations on the way: pvfs_queue(3) ---- */

/* Holds operations on their way; there is no thread behind it. Any thread may use it, one at a time is inside. */
typedef struct pvfs_queue pvfs_queue;
/* Names one operation of one queue; never 0. */
typedef uint64_t pvfs_ticket;

struct pvfs_event {
    pvfs_ticket ticket;
    int64_t result; /* what the blocking call would return, or -1 */
    int error;      /* the errno of a result of -1, else 0 */
    void *data;     /* given to the submit call */
};

pvfs_queue *pvfs_queue_create(void); /* NULL and errno */
int pvfs_queue_destroy(pvfs_queue *queue); /* cancels what is on the way */
/* A descriptor to poll: readable when pvfs_test or a wait would do something. It belongs to the queue. */
int pvfs_queue_fd(pvfs_queue *queue);
/* Operations on the way and events not taken. */
size_t pvfs_queue_len(pvfs_queue *queue);

/* What is handed over (buffers, vectors, the stat to be filled) belongs to the queue until its event is taken. Vectors of
 * readx and writex are copied by the call, the memory they name is not. 0 and errno: nothing was submitted. */
pvfs_ticket pvfs_submit_read(pvfs_queue *queue, int fd, void *buffer, size_t count, int64_t offset, void *data);
pvfs_ticket pvfs_submit_write(pvfs_queue *queue, int fd, const void *buffer, size_t count, int64_t offset, void *data);
pvfs_ticket pvfs_submit_readx(pvfs_queue *queue, int fd, const struct iovec *iov, size_t iov_count,
                              const struct xtvec *xtv, size_t xtv_count, void *data);
pvfs_ticket pvfs_submit_writex(pvfs_queue *queue, int fd, const struct iovec *iov, size_t iov_count,
                               const struct xtvec *xtv, size_t xtv_count, void *data);
pvfs_ticket pvfs_submit_fsync(pvfs_queue *queue, int fd, void *data);
pvfs_ticket pvfs_submit_open(pvfs_queue *queue, const char *path, int flags, mode_t mode, void *data);
pvfs_ticket pvfs_submit_stat(pvfs_queue *queue, const char *path, struct stat *st, void *data);

/* Sends what was submitted, without waiting. */
int pvfs_flush(pvfs_queue *queue);
/* 1 and the event; 0: not yet; -1: an error, EINVAL for a ticket that is not known (any more). An event is given once. */
int pvfs_test(pvfs_queue *queue, pvfs_ticket ticket, struct pvfs_event *event);
/* The like, waiting. timeout_ms -1: as long as the operation takes, which its deadline bounds. */
int pvfs_wait(pvfs_queue *queue, pvfs_ticket ticket, struct pvfs_event *event, int timeout_ms);
/* Whichever ends first. 0 when nothing ended in time, or nothing is on the way. */
int pvfs_wait_any(pvfs_queue *queue, struct pvfs_event *event, int timeout_ms);
/* At least one and at most count_max; returns how many. */
int pvfs_wait_some(pvfs_queue *queue, struct pvfs_event *events, int count_max, int timeout_ms);
/* 1: given up, there will be no event (a write may have been done in part or in whole); 0: it has ended already. */
int pvfs_cancel(pvfs_queue *queue, pvfs_ticket ticket);

/* ---- Multi-dimensional blocks (MDBI of PVFS 1): set_blk(3) ---- */

/* A file as an array of blocks of records of record_bytes; dimension i has elements[i] records in a block and blocks[i] blocks;
 * dimension 1 varies fastest. open_blk opens, set_blk describes, buf_blk sets how many blocks are buffered in each dimension,
 * read_blk and write_blk move one block, close_blk writes what is buffered and closes. */
#define PVFS_DIMENSIONS_MAX 16
int open_blk(const char *path, int flags, int mode);
int close_blk(int fd);
int pvfs_set_blk(int fd, int dimensions, int64_t record_bytes, const int64_t *elements, const int64_t *blocks);
int pvfs_buf_blk(int fd, const int64_t *blocks);
ssize_t pvfs_read_blk(int fd, void *buffer, const int64_t *index);
ssize_t pvfs_write_blk(int fd, const void *buffer, const int64_t *index);
int pvfs_blk_dimensions(int fd); /* as set; -1 and EINVAL before set_blk */

/* The forms of PVFS 1, with a list of int: set_blk(fd, D, record_bytes, elements1, blocks1, ... elementsD, blocksD),
 * buf_blk(fd, blocks1 ... blocksD), read_blk(fd, buffer, index1 ... indexD), write_blk likewise. */
static inline int pvfs_blk_list(int fd, int64_t *list, va_list arguments) {
    int dimensions = pvfs_blk_dimensions(fd);
    for (int i = 0; i < dimensions; i++) list[i] = va_arg(arguments, int);
    return dimensions;
}
static inline int set_blk(int fd, int dimensions, int record_bytes, ...) {
    int64_t elements[PVFS_DIMENSIONS_MAX], blocks[PVFS_DIMENSIONS_MAX];
    va_list arguments;
    va_start(arguments, record_bytes);
    for (int i = 0; i < dimensions && i < PVFS_DIMENSIONS_MAX; i++) {
        elements[i] = va_arg(arguments, int);
        blocks[i] = va_arg(arguments, int);
    }
    va_end(arguments);
    return pvfs_set_blk(fd, dimensions, record_bytes, elements, blocks);
}
static inline int buf_blk(int fd, ...) {
    int64_t blocks[PVFS_DIMENSIONS_MAX];
    va_list arguments;
    va_start(arguments, fd);
    int dimensions = pvfs_blk_list(fd, blocks, arguments);
    va_end(arguments);
    return dimensions < 0 ? -1 : pvfs_buf_blk(fd, blocks);
}
static inline ssize_t read_blk(int fd, void *buffer, ...) {
    int64_t index[PVFS_DIMENSIONS_MAX];
    va_list arguments;
    va_start(arguments, buffer);
    int dimensions = pvfs_blk_list(fd, index, arguments);
    va_end(arguments);
    return dimensions < 0 ? -1 : pvfs_read_blk(fd, buffer, index);
}
static inline ssize_t write_blk(int fd, const void *buffer, ...) {
    int64_t index[PVFS_DIMENSIONS_MAX];
    va_list arguments;
    va_start(arguments, buffer);
    int dimensions = pvfs_blk_list(fd, index, arguments);
    va_end(arguments);
    return dimensions < 0 ? -1 : pvfs_write_blk(fd, buffer, index);
}

#ifdef __cplusplus
}
#endif

#endif
