/* Native calls: a file with a striping of its own, read and written; the same calls on an ordinary file.
 *
 *   native DIRECTORY     one below the prefix, or any other
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

int main(int argc, char **argv) {
    check(argc == 2, "which directory?");
    check(pvfs_version() >= PVFS_VERSION_MAJOR * 10000 + PVFS_VERSION_MINOR * 100, "a library as new as the header");
    const char *directory = argv[1];
    char path[4096];
    snprintf(path, sizeof path, "%s/native", directory);

    /* Strips of 4 KiB over two iods, from the first one on; other fields are filled in. */
    struct pvfs_filestat meta = {.base = 0, .pcount = 2, .ssize = 4096};
    int fd = pvfs_open(path, O_CREAT | O_TRUNC | O_RDWR | O_META, 0640, &meta);
    check(fd >= 0, path);
    if (pvfs_is_ours(path)) {
        struct pvfs_filestat seen;
        check(strncmp(path, pvfs_prefix(), strlen(pvfs_prefix())) == 0, "the prefix of a path of ours");
        check(meta.base == 0 && meta.pcount == 2 && meta.ssize == 4096, "the metadata of the open");
        check(pvfs_ioctl(fd, GETMETA, &seen) == 0 && !memcmp(&seen, &meta, sizeof seen), "GETMETA");
    }

    char *out = malloc(100000), *in = malloc(100000);
    for (int i = 0; i < 100000; i++) out[i] = (char)(i * 7 + i / 251);
    check(pvfs_write(fd, out, 100000) == 100000, "write");
    check(pvfs_lseek(fd, 0, SEEK_SET) == 0, "lseek");
    check(pvfs_read(fd, in, 100000) == 100000 && !memcmp(in, out, 100000), "read");

    /* A duplicate shares the position. */
    int other = pvfs_dup(fd);
    check(other >= 0 && pvfs_lseek(other, 0, SEEK_CUR) == 100000, "dup");
    check(pvfs_close(other) == 0, "close");

    struct iovec pieces[] = {{in, 10}, {in + 10, 0}, {in + 10, 20}};
    check(pvfs_preadv(fd, pieces, 3, 4090) == 30 && !memcmp(in, out + 4090, 30), "preadv");
    check(pvfs_pwritev(fd, pieces, 3, 200000) == 30, "pwritev");
    check(pvfs_pread(fd, in, 30, 200000) == 30 && !memcmp(in, out + 4090, 30), "pread");

    check(pvfs_lseek(fd, 200030, SEEK_SET) == 200030 && pvfs_writev(fd, pieces, 3) == 30, "writev");
    memset(in, 0, 30);
    check(pvfs_lseek(fd, -30, SEEK_END) == 200030 && pvfs_readv(fd, pieces, 3) == 30, "readv");
    check(!memcmp(in, out + 4090, 30) && pvfs_readv(fd, pieces, 3) == 0, "what was written, then the end");

    struct stat st;
    check(pvfs_fstat(fd, &st) == 0 && st.st_size == 200060 && (st.st_mode & 0777) == 0640, "fstat");
    check(pvfs_ftruncate(fd, 1000) == 0 && pvfs_fsync(fd) == 0, "ftruncate");
    check(pvfs_stat(path, &st) == 0 && st.st_size == 1000, "stat");
    check(pvfs_fallocate(fd, 0, 1000, 3000) == 0 && pvfs_fdatasync(fd) == 0, "fallocate");
    check(pvfs_fstat(fd, &st) == 0 && st.st_size == 4000 && pvfs_truncate(path, 1000) == 0, "truncate");
    check(pvfs_fchmod(fd, 0644) == 0 && pvfs_fchown(fd, getuid(), getgid()) == 0, "fchmod, fchown");
    check(pvfs_fstat(fd, &st) == 0 && st.st_size == 1000 && (st.st_mode & 0777) == 0644, "fstat");
    check(pvfs_flock(fd, LOCK_EX | LOCK_NB) == 0, "flock");
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 20};
    check(pvfs_fcntl(fd, F_SETLK, &lock) == 0, "fcntl");
    check((pvfs_fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR, "F_GETFL");
    other = pvfs_creat(path, 0600);
    check(other >= 0 && (pvfs_fcntl(other, F_GETFL) & O_ACCMODE) == O_WRONLY, "creat");
    check(pvfs_fstat(fd, &st) == 0 && st.st_size == 0 && (st.st_mode & 0777) == 0644, "what was there is empty");
    check(pvfs_dup2(fd, other) == other && pvfs_write(other, "again", 5) == 5 && pvfs_close(other) == 0, "dup2");
    struct statfs space;
    check(pvfs_fstatfs(fd, &space) == 0 && space.f_blocks > 0 && space.f_bsize > 0, "fstatfs");

    /* Offsets have 64 bits. */
    int64_t far = INT64_C(1) << 42;
    check(pvfs_pwrite(fd, "far", 3, far) == 3 && pvfs_lseek(fd, 0, SEEK_END) == far + 3, "pwrite at 4 TiB");
    check(pvfs_pread(fd, in, 10, far - 2) == 5 && !memcmp(in, "\0\0far", 5), "pread at 4 TiB");
    check(pvfs_ftruncate(fd, far / 2) == 0 && pvfs_stat(path, &st) == 0 && st.st_size == far / 2, "a size of 2 TiB");
    check(pvfs_close(fd) == 0, "close");

    /* Names. */
    char moved[4096], sub[4096];
    snprintf(moved, sizeof moved, "%s/moved", directory);
    snprintf(sub, sizeof sub, "%s/sub", directory);
    check(pvfs_rename(path, moved) == 0, "rename");
    check(pvfs_access(path, F_OK) == -1 && errno == ENOENT, "access of what is gone");
    check(pvfs_mkdir(sub, 0700) == 0 && pvfs_symlink("moved", path) == 0, "mkdir, symlink");
    check(pvfs_readlink(path, in, 100) == 5 && !memcmp(in, "moved", 5), "readlink");
    check(pvfs_lstat(path, &st) == 0 && S_ISLNK(st.st_mode), "lstat");
    struct utimbuf times = {.actime = 1000, .modtime = 2000};
    check(pvfs_chmod(moved, 0600) == 0 && pvfs_utime(moved, &times) == 0, "chmod, utime");
    check(pvfs_ostat(moved, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_mtime == 2000, "ostat");
    struct timespec exact[] = {{.tv_sec = 3000, .tv_nsec = 5}, {.tv_nsec = UTIME_OMIT}};
    check(pvfs_utimensat(AT_FDCWD, moved, exact, 0) == 0, "utimensat");
    check(pvfs_stat(moved, &st) == 0 && st.st_atim.tv_nsec == 5 && st.st_mtime == 2000, "one of two times");
    check(pvfs_chown(moved, getuid(), -1) == 0 && pvfs_lchown(path, -1, getgid()) == 0, "chown, lchown");
    char linked[4200];
    snprintf(linked, sizeof linked, "%s/linked", sub);
    check(pvfs_link(moved, linked) == 0 && pvfs_stat(linked, &st) == 0 && st.st_nlink == 2, "link");
    check(pvfs_unlink(linked) == 0, "unlink");

    int dir = pvfs_open(directory, O_RDONLY | O_DIRECTORY);
    check(dir >= 0, "open of a directory");
    int names = 0;
    for (ssize_t bytes; (bytes = pvfs_getdents(dir, in, 256)) != 0;) {
        check(bytes > 0, "getdents");
        for (ssize_t at = 0; at < bytes; names++) at += ((struct dirent64 *)(in + at))->d_reclen;
    }
    check(names == 5, ".  ..  moved  native  sub");
    check(pvfs_close(dir) == 0, "close");

    check(pvfs_statfs(directory, &space) == 0 && space.f_blocks > 0, "statfs");
    check(pvfs_unlink(path) == 0 && pvfs_unlink(moved) == 0 && pvfs_rmdir(sub) == 0, "unlink, rmdir");
    free(out);
    free(in);
    puts("native: done");
    return 0;
}
