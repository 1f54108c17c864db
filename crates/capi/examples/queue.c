/* Many operations on the way from one thread, among whatever else a program polls.
 *
 *   queue DIRECTORY     one below the prefix, or any other
 */
#include <errno.h>
#include <poll.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 256, BYTES = 4096 };

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

/* Takes events as they come until nothing is on the way; returns how many operations did `result`. */
static int finish(pvfs_queue *queue, int64_t result) {
    struct pollfd polled = {.fd = pvfs_queue_fd(queue), .events = POLLIN};
    struct pvfs_event events[16];
    int right = 0;
    while (pvfs_queue_len(queue) > 0) {
        check(poll(&polled, 1, 60000) == 1, "poll");
        int taken = pvfs_wait_some(queue, events, 16, 0);
        check(taken >= 0, "pvfs_wait_some");
        for (int i = 0; i < taken; i++) {
            errno = events[i].error;
            check(events[i].result == result, (const char *)events[i].data);
            right++;
        }
    }
    return right;
}

int main(int argc, char **argv) {
    check(argc == 2, "which directory?");
    char path[4096];
    snprintf(path, sizeof path, "%s/queue", argv[1]);
    int fd = pvfs_open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(fd >= 0, path);
    char *out = malloc(COUNT * BYTES), *in = malloc(COUNT * BYTES);
    for (int i = 0; i < COUNT * BYTES; i++) out[i] = (char)(i * 7 + i / 4093);

    pvfs_queue *queue = pvfs_queue_create();
    check(queue != NULL, "pvfs_queue_create");
    for (int i = 0; i < COUNT; i++) {
        int64_t at = (int64_t)(COUNT - 1 - i) * BYTES;
        check(pvfs_submit_write(queue, fd, out + at, BYTES, at, "write") != 0, "pvfs_submit_write");
    }
    check(pvfs_queue_len(queue) == COUNT, "all are on the way");
    check(finish(queue, BYTES) == COUNT, "writes");

    for (int i = 0; i < COUNT; i++) {
        int64_t at = (int64_t)i * BYTES;
        check(pvfs_submit_read(queue, fd, in + at, BYTES, at, "read") != 0, "pvfs_submit_read");
    }
    check(finish(queue, BYTES) == COUNT, "reads");
    check(memcmp(in, out, COUNT * BYTES) == 0, "what was read is what was written");

    /* A hundred pieces of 17 bytes, the last of the file first in memory. */
    struct xtvec column[100];
    struct iovec memory[100];
    for (int i = 0; i < 100; i++) {
        column[i] = (struct xtvec){.xtv_off = (int64_t)i * 17 * 100, .xtv_len = 17};
        memory[i] = (struct iovec){.iov_base = in + (99 - i) * 17, .iov_len = 17};
    }
    pvfs_ticket readx = pvfs_submit_readx(queue, fd, memory, 100, column, 100, NULL);
    struct pvfs_event event;
    check(readx != 0 && pvfs_wait(queue, readx, &event, -1) == 1, "pvfs_wait");
    check(event.result == 1700 && memcmp(in, out + 99 * 1700, 17) == 0, "readx");

    struct stat st;
    pvfs_ticket stated = pvfs_submit_stat(queue, path, &st, &st);
    pvfs_ticket synced = pvfs_submit_fsync(queue, fd, NULL);
    pvfs_ticket opened = pvfs_submit_open(queue, path, O_RDONLY, 0, NULL);
    check(stated && synced && opened && pvfs_flush(queue) == 0, "submit");
    check(pvfs_wait(queue, opened, &event, -1) == 1 && event.result >= 0, "open");
    check(pvfs_close((int)event.result) == 0, "close");
    check(pvfs_wait(queue, stated, &event, -1) == 1 && event.result == 0 && event.data == &st, "stat");
    check(st.st_size == COUNT * BYTES, "the size");
    check(pvfs_wait(queue, synced, &event, -1) == 1 && event.result == 0, "fsync");
    check(pvfs_wait_any(queue, &event, -1) == 0, "nothing is left");
    check(pvfs_queue_destroy(queue) == 0 && pvfs_close(fd) == 0, "the end");
    free(out);
    free(in);
    puts("queue: done");
    return 0;
}
