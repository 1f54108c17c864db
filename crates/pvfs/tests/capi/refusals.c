/* Every call with arguments that make no sense: the errno that the manual pages say, nothing written, no crash.
 *
 *   refusals DIRECTORY      below the prefix
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pvfs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

static void refused(int line, const char *call, long long answer, int expected) {
    if (answer == -1 && errno == expected) return;
    fprintf(stderr, "line %d: %s gave %lld, %s; expected %s\n", line, call, answer, strerror(errno), strerror(expected));
    failures++;
}

#define REFUSED(call, number) (errno = 0, refused(__LINE__, #call, (long long)(call), number))
#define HOLDS(what) \
    do { if (!(what)) { fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #what, strerror(errno)); failures++; } } while (0)

/* A pointer that is aligned for nothing. */
#define CROOKED(type) ((type *)((char *)aligned + 1))
static long aligned[1000];

static char path[4096], gone[4096], sub[4096];
static int closed;

static void native(int fd, int read_only, int write_only, int dir) {
    char byte;
    struct stat st;
    struct statfs space;
    struct iovec none[] = {{NULL, 5}}, endless[] = {{&byte, SIZE_MAX / 2}, {&byte, SIZE_MAX / 2}, {&byte, 2}};
    struct iovec many[IOV_MAX + 1];
    for (int at = 0; at <= IOV_MAX; at++) many[at] = (struct iovec){&byte, 0};

    REFUSED(pvfs_open(NULL, O_RDONLY), EFAULT);
    REFUSED(pvfs_open("", O_RDONLY), ENOENT);
    REFUSED(pvfs_open(gone, O_RDONLY), ENOENT);
    REFUSED(pvfs_open(path, O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST);
    REFUSED(pvfs_open(path, O_RDONLY | O_META, 0, NULL), EFAULT);
    REFUSED(pvfs_open(path, O_RDONLY | O_PART, 0, NULL), EFAULT);
    REFUSED(pvfs_open(path, O_RDONLY | O_META | O_PART, 0, aligned, NULL), EFAULT);
    REFUSED(pvfs_open(path, O_RDONLY | O_META, 0, CROOKED(struct pvfs_filestat)), EINVAL);
    struct pvfs_filestat meta = {.base = -2, .pcount = -1};
    REFUSED(pvfs_open(gone, O_CREAT | O_RDWR | O_META, 0600, &meta), EINVAL);
    meta = (struct pvfs_filestat){.base = -1, .pcount = 1000, .ssize = 0};
    REFUSED(pvfs_open(gone, O_CREAT | O_RDWR | O_META, 0600, &meta), EINVAL);
    REFUSED(pvfs_access(gone, F_OK), ENOENT); /* nothing was made */
    struct fpart part = {.offset = -1};
    REFUSED(pvfs_open(path, O_RDONLY | O_PART, 0, &part), EINVAL);
    REFUSED(pvfs_open(sub, O_RDONLY | O_PART, 0, &(struct fpart){0}), EINVAL);
    REFUSED(pvfs_creat(NULL, 0600), EFAULT);

    for (int at = 0; at < 3; at++) {
        int bad = (int[]){-1, closed, INT_MAX}[at];
        REFUSED(pvfs_close(bad), EBADF);
        REFUSED(pvfs_read(bad, &byte, 1), EBADF);
        REFUSED(pvfs_write(bad, &byte, 1), EBADF);
        REFUSED(pvfs_pread(bad, &byte, 1, 0), EBADF);
        REFUSED(pvfs_pwrite(bad, &byte, 1, 0), EBADF);
        REFUSED(pvfs_readv(bad, many, 1), EBADF);
        REFUSED(pvfs_writev(bad, many, 1), EBADF);
        REFUSED(pvfs_lseek(bad, 0, SEEK_SET), EBADF);
        REFUSED(pvfs_fstat(bad, &st), EBADF);
        REFUSED(pvfs_fchmod(bad, 0600), EBADF);
        REFUSED(pvfs_fchown(bad, 0, 0), EBADF);
        REFUSED(pvfs_ftruncate(bad, 0), EBADF);
        REFUSED(pvfs_fallocate(bad, 0, 0, 1), EBADF);
        REFUSED(pvfs_getdents(bad, aligned, sizeof aligned), EBADF);
        REFUSED(pvfs_dup(bad), EBADF);
        REFUSED(pvfs_dup2(bad, 100), EBADF);
        REFUSED(pvfs_fcntl(bad, F_GETFL), EBADF);
        REFUSED(pvfs_flock(bad, LOCK_SH), EBADF);
        REFUSED(pvfs_fsync(bad), EBADF);
        REFUSED(pvfs_fdatasync(bad), EBADF);
        REFUSED(pvfs_fstatfs(bad, &space), EBADF);
        REFUSED(pvfs_ioctl(bad, GETPART, &part), EBADF);
    }

    REFUSED(pvfs_read(fd, NULL, 1), EFAULT);
    REFUSED(pvfs_write(fd, NULL, 1), EFAULT);
    REFUSED(pvfs_pread(fd, NULL, 1, 0), EFAULT);
    REFUSED(pvfs_pwrite(fd, NULL, 1, 0), EFAULT);
    HOLDS(pvfs_read(fd, NULL, 0) == 0 && pvfs_write(fd, NULL, 0) == 0);
    REFUSED(pvfs_pread(fd, &byte, 1, -1), EINVAL);
    REFUSED(pvfs_pwrite(fd, &byte, 1, -1), EINVAL);
    REFUSED(pvfs_pread(fd, &byte, 1, INT64_MIN), EINVAL);
    REFUSED(pvfs_pwrite(fd, &byte, 1, INT64_MAX), EFBIG);
    REFUSED(pvfs_read(write_only, &byte, 1), EBADF);
    REFUSED(pvfs_write(read_only, &byte, 1), EBADF);
    REFUSED(pvfs_read(dir, &byte, 1), EISDIR);
    REFUSED(pvfs_readv(fd, NULL, 1), EFAULT);
    REFUSED(pvfs_readv(fd, CROOKED(struct iovec), 1), EINVAL);
    REFUSED(pvfs_readv(fd, many, -1), EINVAL);
    REFUSED(pvfs_readv(fd, many, IOV_MAX + 1), EINVAL);
    REFUSED(pvfs_writev(fd, many, IOV_MAX + 1), EINVAL);
    HOLDS(pvfs_readv(fd, NULL, 0) == 0 && pvfs_writev(fd, many, IOV_MAX) == 0);
    REFUSED(pvfs_readv(fd, none, 1), EFAULT);
    REFUSED(pvfs_writev(fd, none, 1), EFAULT);
    REFUSED(pvfs_writev(fd, endless, 3), EINVAL);
    REFUSED(pvfs_preadv(fd, many, 1, -1), EINVAL);
    REFUSED(pvfs_pwritev(fd, many, 1, -1), EINVAL);
    REFUSED(pvfs_lseek(fd, -1, SEEK_SET), EINVAL);
    REFUSED(pvfs_lseek(fd, 0, 77), EINVAL);
    REFUSED(pvfs_lseek(fd, INT64_MAX, SEEK_END), EOVERFLOW);

    REFUSED(pvfs_stat(NULL, &st), EFAULT);
    REFUSED(pvfs_stat(path, NULL), EFAULT);
    REFUSED(pvfs_lstat(path, CROOKED(struct stat)), EINVAL);
    REFUSED(pvfs_ostat(gone, &st), ENOENT);
    REFUSED(pvfs_fstat(fd, NULL), EFAULT);
    REFUSED(pvfs_chmod(NULL, 0), EFAULT);
    REFUSED(pvfs_chmod(gone, 0), ENOENT);
    REFUSED(pvfs_chown(gone, 0, 0), ENOENT);
    REFUSED(pvfs_lchown(NULL, 0, 0), EFAULT);
    REFUSED(pvfs_truncate(path, -1), EINVAL);
    REFUSED(pvfs_truncate(sub, 0), EISDIR);
    REFUSED(pvfs_ftruncate(fd, -1), EINVAL);
    REFUSED(pvfs_ftruncate(read_only, 0), EINVAL);
    REFUSED(pvfs_fallocate(fd, 0, 0, 0), EINVAL);
    REFUSED(pvfs_fallocate(fd, 0, -1, 1), EINVAL);
    REFUSED(pvfs_fallocate(fd, 0, INT64_MAX, 1), EFBIG);
    REFUSED(pvfs_fallocate(fd, 0x4000, 0, 1), EOPNOTSUPP);
    REFUSED(pvfs_unlink(NULL), EFAULT);
    REFUSED(pvfs_unlink(gone), ENOENT);
    REFUSED(pvfs_unlink(sub), EISDIR);
    REFUSED(pvfs_rename(path, NULL), EFAULT);
    REFUSED(pvfs_rename(NULL, path), EFAULT);
    REFUSED(pvfs_rename(path, "/tmp/elsewhere"), EXDEV);
    REFUSED(pvfs_link(path, "/tmp/elsewhere"), EXDEV);
    REFUSED(pvfs_symlink(NULL, gone), EFAULT);
    REFUSED(pvfs_symlink("x", NULL), EFAULT);
    REFUSED(pvfs_readlink(path, &byte, 1), EINVAL);
    REFUSED(pvfs_readlink(path, NULL, 1), EFAULT);
    REFUSED(pvfs_readlink(path, &byte, 0), EINVAL);
    REFUSED(pvfs_mkdir(NULL, 0700), EFAULT);
    REFUSED(pvfs_mkdir(path, 0700), EEXIST);
    REFUSED(pvfs_rmdir(path), ENOTDIR);
    REFUSED(pvfs_getdents(dir, NULL, 100), EFAULT);
    REFUSED(pvfs_getdents(dir, aligned, 3), EINVAL);
    REFUSED(pvfs_getdents(fd, aligned, sizeof aligned), ENOTDIR);
    REFUSED(pvfs_utime(NULL, NULL), EFAULT);
    REFUSED(pvfs_utime(path, CROOKED(struct utimbuf)), EINVAL);
    REFUSED(pvfs_utimensat(AT_FDCWD, path, CROOKED(struct timespec), 0), EINVAL);
    REFUSED(pvfs_utimensat(AT_FDCWD, path, (struct timespec[]){{0, -5}, {0, 0}}, 0), EINVAL);
    REFUSED(pvfs_utimensat(AT_FDCWD, path, NULL, 0x40000000), EINVAL);
    REFUSED(pvfs_access(path, 0x80), EINVAL);
    REFUSED(pvfs_access(NULL, F_OK), EFAULT);
    REFUSED(pvfs_statfs(path, NULL), EFAULT);
    REFUSED(pvfs_statfs(NULL, &space), EFAULT);
    REFUSED(pvfs_fstatfs(fd, NULL), EFAULT);
    REFUSED(pvfs_fcntl(fd, 12345, 0), EINVAL);
    REFUSED(pvfs_fcntl(fd, F_SETLK, NULL), EFAULT);
    struct flock lock = {.l_type = 77, .l_whence = SEEK_SET};
    REFUSED(pvfs_fcntl(fd, F_SETLK, &lock), EINVAL);
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = -5};
    REFUSED(pvfs_fcntl(fd, F_SETLK, &lock), EINVAL);
    REFUSED(pvfs_flock(fd, 0), EINVAL);
    REFUSED(pvfs_ioctl(fd, GETPART, NULL), EFAULT);
    REFUSED(pvfs_ioctl(fd, GETPART, CROOKED(struct fpart)), EINVAL);
    REFUSED(pvfs_ioctl(fd, SETPART, NULL), EFAULT);
    REFUSED(pvfs_ioctl(fd, GETMETA, NULL), EFAULT);
    REFUSED(pvfs_ioctl(fd, 0x5699, aligned), ENOTTY);
    struct fpart parts[] = {
        {.gsize = -1}, {.stride = -1}, {.gsize = 10, .stride = 5}, {.gsize = 10, .stride = 10, .ngroups = -1},
        {.gsize = 10, .stride = 10, .gstride = 15, .ngroups = 2}, {.gsize = 10, .stride = 10, .gstride = 100},
        {.gsize = INT64_MAX, .stride = INT64_MAX, .gstride = INT64_MAX, .ngroups = INT64_MAX},
    };
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++) REFUSED(pvfs_ioctl(fd, SETPART, &parts[at]), EINVAL);
    HOLDS(pvfs_is_ours(NULL) == 0 && pvfs_is_ours("") == 0 && pvfs_is_ours("/") == 0 && pvfs_is_ours(path) == 1);
}

static void vectors(int fd, int read_only, int append) {
    char byte[16];
    struct iovec one = {byte, 10}, null = {NULL, 10}, twice[] = {{byte, 6}, {byte + 5, 4}};
    struct iovec endless[] = {{byte, SIZE_MAX / 2}, {byte, SIZE_MAX / 2}};
    struct xtvec ten = {0, 10}, nine = {0, 9}, negative = {-1, 10}, far = {INT64_MAX, 10}, wide = {0, SIZE_MAX};
    struct xtvec wrap[] = {{0, INT64_MAX}, {0, INT64_MAX}, {0, 12}};
    for (int write = 0; write < 2; write++) {
#define X(...) (write ? writex(__VA_ARGS__) : readx(__VA_ARGS__))
        REFUSED(X(-1, &one, 1, &ten, 1), EBADF);
        REFUSED(X(closed, &one, 1, &ten, 1), EBADF);
        REFUSED(X(fd, NULL, 1, &ten, 1), EFAULT);
        REFUSED(X(fd, &one, 1, NULL, 1), EFAULT);
        REFUSED(X(fd, &null, 1, &ten, 1), EFAULT);
        REFUSED(X(fd, CROOKED(struct iovec), 1, &ten, 1), EINVAL);
        REFUSED(X(fd, &one, 1, CROOKED(struct xtvec), 1), EINVAL);
        REFUSED(X(fd, &one, 1, &nine, 1), EINVAL);
        REFUSED(X(fd, &one, 1, &ten, 0), EINVAL);
        REFUSED(X(fd, &one, 0, &ten, 1), EINVAL);
        REFUSED(X(fd, &one, SIZE_MAX, &ten, 1), EINVAL);
        REFUSED(X(fd, &one, 1, &ten, SIZE_MAX), EINVAL);
        REFUSED(X(fd, &one, 1, &negative, 1), EINVAL);
        REFUSED(X(fd, &one, 1, &far, 1), EFBIG);
        REFUSED(X(fd, &one, 1, &wide, 1), EINVAL);
        REFUSED(X(fd, &one, 1, wrap, 3), EINVAL);
        REFUSED(X(fd, endless, 2, &ten, 1), EINVAL);
        HOLDS(X(fd, NULL, 0, NULL, 0) == 0);
    }
    REFUSED(readx(fd, twice, 2, &ten, 1), EINVAL);
    REFUSED(writex(read_only, &one, 1, &ten, 1), EBADF);
    REFUSED(writex(append, &one, 1, &ten, 1), EINVAL);
}

static void groups(void) {
    static char handle[PVFS_GROUP_HANDLE_MAX];
    size_t room = sizeof handle;
    REFUSED(openg(NULL, handle, &room, O_RDONLY, 0), EFAULT);
    REFUSED(openg(path, NULL, &room, O_RDONLY, 0), EFAULT);
    REFUSED(openg(path, handle, NULL, O_RDONLY, 0), EFAULT);
    REFUSED(openg(gone, handle, &room, O_RDONLY, 0), ENOENT);
    REFUSED(openg(sub, handle, &room, O_RDONLY, 0), EISDIR);
    REFUSED(openg(path, handle, &room, O_WRONLY | O_APPEND, 0), EINVAL);
    REFUSED(openg("/tmp", handle, &room, O_RDONLY, 0), EOPNOTSUPP);
    REFUSED(pvfs_openg(path, handle, &room, O_RDONLY, 0, 3, 0, NULL), EINVAL);
    REFUSED(pvfs_openg(gone, handle, &room, O_RDWR | O_CREAT, 0600, 0, 0, (struct pvfs_layout *)CROOKED(long)), EINVAL);
    REFUSED(openfh(NULL, 100), EFAULT);
    REFUSED(openfh(handle, 0), EINVAL);
    REFUSED(openfh(handle, sizeof handle), EINVAL);
    REFUSED(pvfs_renewg(NULL, &room, sizeof handle), EFAULT);
    REFUSED(pvfs_renewg(handle, NULL, sizeof handle), EFAULT);
    REFUSED(pvfs_closeg(NULL, 10), EFAULT);
    REFUSED(pvfs_closeg(handle, 10), EINVAL);
}

static void attributes(int fd, int dir) {
    struct stat_lite lite = {.st_litemask = 0x40};
    REFUSED(statlite(path, &lite), EINVAL);
    REFUSED(lstatlite(path, &lite), EINVAL);
    REFUSED(fstatlite(fd, &lite), EINVAL);
    REFUSED(statlite("/tmp", &lite), EINVAL);
    lite.st_litemask = S_SLITE_ALL;
    REFUSED(statlite(NULL, &lite), EFAULT);
    REFUSED(statlite(path, NULL), EFAULT);
    REFUSED(statlite(path, CROOKED(struct stat_lite)), EINVAL);
    REFUSED(statlite(gone, &lite), ENOENT);
    REFUSED(fstatlite(closed, &lite), EBADF);
    REFUSED(fstatlite(fd, NULL), EFAULT);
    struct dirent_plus *plus = (struct dirent_plus *)aligned;
    struct dirent_plus_lite *few = (struct dirent_plus_lite *)aligned;
    REFUSED(getdents_plus(closed, plus, sizeof aligned), EBADF);
    REFUSED(getdents_plus(dir, NULL, 100), EFAULT);
    REFUSED(getdents_plus(dir, CROOKED(struct dirent_plus), 100), EINVAL);
    REFUSED(getdents_plus(dir, plus, 0), EINVAL);
    REFUSED(getdents_plus(fd, plus, sizeof aligned), ENOTDIR);
    REFUSED(getdents_plus_lite(dir, 0x40, few, sizeof aligned), EINVAL);
    REFUSED(getdents_plus_lite(dir, 0, NULL, sizeof aligned), EFAULT);
    REFUSED(getdents_plus_lite(-1, 0, few, sizeof aligned), EBADF);

    struct pvfs_layout layout = {.base = -1, .pcount = -1};
    REFUSED(pvfs_getlayout(NULL, &layout), EFAULT);
    REFUSED(pvfs_getlayout(path, NULL), EFAULT);
    REFUSED(pvfs_getlayout("/tmp", &layout), EOPNOTSUPP);
    REFUSED(pvfs_fgetlayout(closed, &layout), EBADF);
    REFUSED(pvfs_fgetlayout(fd, NULL), EFAULT);
    REFUSED(pvfs_setlayout(sub, NULL), EFAULT);
    REFUSED(pvfs_setlayout(path, &layout), ENOTDIR);
    REFUSED(pvfs_open_layout(gone, O_CREAT | O_RDWR, 0600, NULL), EFAULT);
    layout.ssize = -2;
    REFUSED(pvfs_setlayout(sub, &layout), EINVAL);
    layout = (struct pvfs_layout){.base = -1, .pcount = 1000};
    REFUSED(pvfs_setlayout(sub, &layout), EINVAL);
    layout = (struct pvfs_layout){.base = -1, .pcount = -1, .distribution = "nonsense"};
    REFUSED(pvfs_open_layout(gone, O_CREAT | O_RDWR, 0600, &layout), EINVAL);
    memset(layout.distribution, 'x', sizeof layout.distribution);
    REFUSED(pvfs_open_layout(gone, O_CREAT | O_RDWR, 0600, &layout), EINVAL);
    layout = (struct pvfs_layout){.base = -1, .pcount = -1, .iod_count = PVFS_IODS_MAX + 1};
    REFUSED(pvfs_open_layout(gone, O_CREAT | O_RDWR, 0600, &layout), EINVAL);
    layout = (struct pvfs_layout){.base = -1, .pcount = -1, .iod_count = 1, .iods = {77}};
    REFUSED(pvfs_open_layout(gone, O_CREAT | O_RDWR, 0600, &layout), EINVAL);
    REFUSED(pvfs_access(gone, F_OK), ENOENT);
    layout = (struct pvfs_layout){0};
    HOLDS(pvfs_getlayout(sub, &layout) == 0 && layout.pcount == -1 && layout.base == -1 && layout.ssize == 0);
}

static void blocks(int fd) {
    char block[64];
    int64_t two[] = {2, 2}, zero[] = {0, 1}, far[] = {5, 0}, below[] = {-1, 0}, huge[] = {INT64_MAX, INT64_MAX};
    REFUSED(open_blk(NULL, O_RDONLY, 0), EFAULT);
    REFUSED(pvfs_blk_dimensions(fd), EINVAL);
    REFUSED(pvfs_blk_dimensions(closed), EBADF);
    REFUSED(pvfs_read_blk(fd, block, two), EINVAL);
    REFUSED(pvfs_buf_blk(fd, two), EINVAL);
    REFUSED(pvfs_set_blk(closed, 2, 1, two, two), EBADF);
    REFUSED(pvfs_set_blk(fd, 0, 1, two, two), EINVAL);
    REFUSED(pvfs_set_blk(fd, -1, 1, two, two), EINVAL);
    REFUSED(pvfs_set_blk(fd, PVFS_DIMENSIONS_MAX + 1, 1, two, two), EINVAL);
    REFUSED(pvfs_set_blk(fd, 2, 0, two, two), EINVAL);
    REFUSED(pvfs_set_blk(fd, 2, 1, NULL, two), EFAULT);
    REFUSED(pvfs_set_blk(fd, 2, 1, two, CROOKED(int64_t)), EINVAL);
    REFUSED(pvfs_set_blk(fd, 2, 1, zero, two), EINVAL);
    REFUSED(pvfs_set_blk(fd, 2, 1, huge, huge), EFBIG);
    HOLDS(pvfs_set_blk(fd, 2, 1, two, two) == 0);
    REFUSED(pvfs_read_blk(fd, NULL, zero), EFAULT);
    REFUSED(pvfs_read_blk(fd, block, NULL), EFAULT);
    REFUSED(pvfs_read_blk(fd, block, far), EINVAL);
    REFUSED(pvfs_write_blk(fd, block, below), EINVAL);
    REFUSED(pvfs_write_blk(fd, NULL, zero), EFAULT);
    REFUSED(pvfs_buf_blk(fd, zero), EINVAL);
    REFUSED(pvfs_buf_blk(fd, NULL), EFAULT);
    /* A group of blocks that no memory holds, by their number and by their size. */
    int64_t tiny[] = {1, 1}, endless[] = {INT64_C(1) << 31, INT64_C(1) << 31}, wide[] = {1 << 15, 1 << 15};
    HOLDS(pvfs_set_blk(fd, 2, 1, tiny, endless) == 0);
    REFUSED(pvfs_buf_blk(fd, endless), ENOMEM);
    HOLDS(pvfs_set_blk(fd, 2, 1 << 20, wide, two) == 0);
    REFUSED(pvfs_buf_blk(fd, two), ENOMEM);
    REFUSED(close_blk(closed), EBADF);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    snprintf(path, sizeof path, "%s/file", argv[1]);
    snprintf(gone, sizeof gone, "%s/gone", argv[1]);
    snprintf(sub, sizeof sub, "%s/sub", argv[1]);
    int fd = pvfs_open(path, O_CREAT | O_RDWR, 0600);
    HOLDS(fd >= 0 && pvfs_write(fd, "0123456789", 10) == 10 && pvfs_mkdir(sub, 0700) == 0);
    int read_only = pvfs_open(path, O_RDONLY), write_only = pvfs_open(path, O_WRONLY);
    int append = pvfs_open(path, O_WRONLY | O_APPEND), dir = pvfs_open(argv[1], O_RDONLY | O_DIRECTORY);
    HOLDS(read_only >= 0 && write_only >= 0 && append >= 0 && dir >= 0);
    closed = pvfs_dup(fd);
    HOLDS(pvfs_close(closed) == 0);

    native(fd, read_only, write_only, dir);
    vectors(fd, read_only, append);
    groups();
    attributes(fd, dir);
    blocks(fd);

    /* Nothing of all that has changed the file, and success leaves errno alone. */
    char content[20];
    errno = 12345;
    HOLDS(pvfs_pread(fd, content, 20, 0) == 10 && !memcmp(content, "0123456789", 10));
    HOLDS(pvfs_access(path, R_OK) == 0 && pvfs_close(read_only) == 0 && pvfs_is_ours(path) == 1);
    HOLDS(errno == 12345);
    if (!failures) puts("refusals: done");
    return failures != 0;
}
