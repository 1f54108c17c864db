/* Group opens: one process opens a file for all, and no other one asks a server to use it.
 *
 *   group DIRECTORY      below the prefix
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, PART = 70000 };

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void write_part(int fd, int process) {
    char *part = malloc(PART);
    memset(part, 'A' + process, PART);
    check(pvfs_pwrite(fd, part, PART, (int64_t)process * PART) == PART, "pwrite of a part");
    free(part);
}

int main(int argc, char **argv) {
    check(argc == 2, "which directory?");
    char path[4096], handle[PVFS_GROUP_HANDLE_MAX], longer[PVFS_GROUP_HANDLE_MAX];
    snprintf(path, sizeof path, "%s/group", argv[1]);

    size_t handle_len = 10;
    check(openg(path, handle, &handle_len, O_CREAT | O_RDWR, 0644) == -1 && errno == ERANGE, "no room");
    check(handle_len > 10 && handle_len <= sizeof handle, "how much room it takes");
    handle_len = sizeof handle;
    check(openg(path, handle, &handle_len, O_CREAT | O_RDWR, 0644) == 0, "openg");

    /* A descriptor made before a fork stays good in the child. */
    int before = openfh(handle, handle_len);
    check(before >= 0, "openfh");
    for (int process = 0; process < PROCESSES; process++) {
        if (fork() != 0) continue;
        int fd = process == 0 ? before : openfh(handle, handle_len);
        check(fd >= 0, "openfh in a child");
        write_part(fd, process);
        check(pvfs_close(fd) == 0, "close in a child");
        exit(0);
    }
    for (int process = 0, status; process < PROCESSES; process++) {
        check(wait(&status) > 0 && status == 0, "a process");
    }
    struct stat st;
    check(pvfs_fstat(before, &st) == 0 && st.st_size == PROCESSES * PART, "the size");
    for (int process = 0; process < PROCESSES; process++) {
        char byte;
        check(pvfs_pread(before, &byte, 1, (int64_t)process * PART + PART / 2) == 1, "pread");
        check(byte == 'A' + process, "a part");
    }

    /* A handle for reading gives no right to write. */
    size_t reading_len = sizeof longer;
    check(pvfs_openg(path, longer, &reading_len, O_RDONLY, 0, PVFS_SHARE_ANYONE, 600, NULL) == 0, "pvfs_openg");
    int reading = openfh(longer, reading_len);
    check(reading >= 0 && pvfs_write(reading, "x", 1) == -1 && errno == EBADF, "a write for reading");
    check(pvfs_closeg(longer, reading_len) == 0 && pvfs_close(reading) == 0, "pvfs_closeg");

    /* Renewed, tampered with, cut short. */
    memcpy(longer, handle, handle_len);
    size_t longer_len = handle_len;
    check(pvfs_renewg(longer, &longer_len, sizeof longer) == 0, "pvfs_renewg");
    int renewed = openfh(longer, longer_len);
    check(renewed >= 0 && pvfs_close(renewed) == 0, "openfh of a renewed handle");
    longer[longer_len / 2] ^= 1;
    check(openfh(longer, longer_len) == -1 && errno == EINVAL, "a handle that was changed");
    check(openfh(handle, handle_len - 1) == -1 && errno == EINVAL, "a handle that was cut short");

    check(pvfs_close(before) == 0 && pvfs_closeg(handle, handle_len) == 0, "pvfs_closeg");
    check(pvfs_unlink(path) == 0, "unlink");
    puts("group: done");
    return 0;
}
