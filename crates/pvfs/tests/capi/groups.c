/* Group handles in other hands, processes and file systems:
 *
 *   groups make PATH HANDLE r|w|rw SHARE     creates the file where it may, writes to it where it may, and keeps a handle of it
 *   groups use HANDLE CALL...                what each call on the handle, or on a descriptor of it, says
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char handle[PVFS_GROUP_HANDLE_MAX], renewed[PVFS_GROUP_HANDLE_MAX], bytes[16];
static size_t length;
static int fd = -1;

static int made(char **arguments) {
    int flags = !strcmp(arguments[2], "r") ? O_RDONLY : !strcmp(arguments[2], "w") ? O_WRONLY : O_RDWR;
    int own = pvfs_open(arguments[0], O_CREAT | O_RDWR, 0600);
    if (own < 0 || pvfs_write(own, "content", 7) != 7 || pvfs_close(own)) return 3;
    length = sizeof handle;
    if (pvfs_openg(arguments[0], handle, &length, flags, 0, atoi(arguments[3]), 0, NULL)) return 4;
    FILE *file = fopen(arguments[1], "wb");
    return !file || fwrite(handle, 1, length, file) != length || fclose(file);
}

static int64_t queued(int is_write) {
    struct pvfs_event event;
    pvfs_queue *queue = pvfs_queue_create();
    pvfs_ticket ticket = is_write ? pvfs_submit_write(queue, fd, "Q", 1, 0, NULL) : pvfs_submit_read(queue, fd, bytes, 7, 0, NULL);
    int64_t result = -1;
    int error = errno;
    if (ticket && pvfs_wait(queue, ticket, &event, -1) == 1) result = event.result, error = event.error;
    pvfs_queue_destroy(queue);
    errno = error;
    return result;
}

static int64_t called(const char *call) {
    struct iovec piece = {bytes, 7};
    struct xtvec region = {0, 7};
    struct stat st;
    if (!strcmp(call, "openfh")) return (fd = openfh(handle, length)) < 0 ? -1 : 0;
    if (!strcmp(call, "read")) return pvfs_pread(fd, bytes, 7, 0);
    if (!strcmp(call, "readx")) return readx(fd, &piece, 1, &region, 1);
    if (!strcmp(call, "queued-read")) return queued(0);
    if (!strcmp(call, "write")) return pvfs_pwrite(fd, "W", 1, 0);
    if (!strcmp(call, "writex")) return memcpy(bytes, "written", 7), writex(fd, &piece, 1, &region, 1);
    if (!strcmp(call, "queued-write")) return queued(1);
    if (!strcmp(call, "fsync")) return pvfs_fsync(fd);
    if (!strcmp(call, "fallocate")) return pvfs_fallocate(fd, 0, 0, 100);
    if (!strcmp(call, "fstat")) return pvfs_fstat(fd, &st);
    if (!strcmp(call, "ftruncate")) return pvfs_ftruncate(fd, 3);
    if (!strcmp(call, "count")) return pvfs_fetch_and_add(fd, 0);
    if (!strcmp(call, "close")) return pvfs_close(fd);
    if (!strcmp(call, "closeg")) return pvfs_closeg(handle, length);
    if (strcmp(call, "renewg")) exit(2);
    size_t room = length;
    memcpy(renewed, handle, length);
    return pvfs_renewg(renewed, &room, sizeof renewed);
}

int main(int argc, char **argv) {
    if (argc == 6 && !strcmp(argv[1], "make")) return made(argv + 2);
    FILE *file = argc > 3 ? fopen(argv[2], "rb") : NULL;
    if (!file) return 2;
    length = fread(handle, 1, sizeof handle, file);
    for (int i = 3; i < argc; i++) {
        errno = 0;
        int64_t result = called(argv[i]);
        if (result < 0) printf("%s: %s\n", argv[i], strerrorname_np(errno));
        else printf("%s: %lld\n", argv[i], (long long)result);
    }
    return 0;
}
