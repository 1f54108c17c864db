/* What a queue does when it is treated badly. One case per run: queue DIRECTORY CASE. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(holds)                                                                        \
    do {                                                                                    \
        if (!(holds)) {                                                                     \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #holds, strerror(errno));        \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)
#define FAILS(call, number) CHECK((errno = 0, (int64_t)(call) == FAILED(call)) && errno == (number))
#define FAILED(call) _Generic((call), pvfs_ticket: 0, default: -1)

static char path[4096], content[1 << 20];
static int fd;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static pvfs_queue *created(void) {
    pvfs_queue *queue = pvfs_queue_create();
    CHECK(queue != NULL);
    return queue;
}

static void arguments(void) {
    pvfs_queue *queue = created();
    struct pvfs_event event, *crooked = (struct pvfs_event *)((char *)&event + 1);
    struct stat st;
    char byte = 1;
    struct iovec piece = {&byte, 1};
    struct xtvec region = {0, 1}, negative = {-1, 1}, longer = {0, 2};
    FAILS(pvfs_submit_read(NULL, fd, &byte, 1, 0, NULL), EFAULT);
    FAILS(pvfs_submit_read((pvfs_queue *)64000, fd, &byte, 1, 0, NULL), EINVAL);
    FAILS(pvfs_submit_read(queue, -1, &byte, 1, 0, NULL), EBADF);
    FAILS(pvfs_submit_read(queue, 9999, &byte, 1, 0, NULL), EBADF);
    FAILS(pvfs_submit_read(queue, fd, NULL, 1, 0, NULL), EFAULT);
    FAILS(pvfs_submit_read(queue, fd, &byte, 1, -1, NULL), EINVAL);
    FAILS(pvfs_submit_read(queue, fd, &byte, (size_t)-1, 0, NULL), EINVAL);
    FAILS(pvfs_submit_write(queue, fd, NULL, 1, 0, NULL), EFAULT);
    FAILS(pvfs_submit_write(queue, fd, &byte, 1, INT64_MIN, NULL), EINVAL);
    FAILS(pvfs_submit_readx(queue, fd, NULL, 1, &region, 1, NULL), EFAULT);
    FAILS(pvfs_submit_readx(queue, fd, &piece, 1, &negative, 1, NULL), EINVAL);
    FAILS(pvfs_submit_readx(queue, fd, &piece, 1, &longer, 1, NULL), EINVAL);
    FAILS(pvfs_submit_writex(queue, fd, &piece, 1, &longer, 1, NULL), EINVAL);
    FAILS(pvfs_submit_writex(queue, fd, &piece, (size_t)-1, &region, 1, NULL), EINVAL);
    FAILS(pvfs_submit_fsync(queue, -1, NULL), EBADF);
    FAILS(pvfs_submit_open(queue, NULL, O_RDONLY, 0, NULL), EFAULT);
    FAILS(pvfs_submit_open(queue, path, O_RDONLY | O_META, 0, NULL), EINVAL);
    FAILS(pvfs_submit_stat(queue, NULL, &st, NULL), EFAULT);
    FAILS(pvfs_submit_stat(queue, path, NULL, NULL), EFAULT);
    int only = pvfs_open(path, O_RDONLY);
    CHECK(only >= 0);
    FAILS(pvfs_submit_write(queue, only, &byte, 1, 0, NULL), EBADF);
    FAILS(pvfs_submit_writex(queue, only, &piece, 1, &region, 1, NULL), EBADF);
    CHECK(pvfs_close(only) == 0);
    CHECK(pvfs_queue_len(queue) == 0);

    FAILS(pvfs_test(queue, 0, &event), EINVAL);
    FAILS(pvfs_test(queue, 77, &event), EINVAL);
    FAILS(pvfs_wait(queue, 77, &event, -1), EINVAL);
    FAILS(pvfs_wait_any(queue, NULL, 0), EFAULT);
    FAILS(pvfs_wait_any(queue, crooked, 0), EINVAL);
    FAILS(pvfs_wait_some(queue, &event, -1, 0), EINVAL);
    CHECK(pvfs_wait_some(queue, &event, 0, -1) == 0);
    CHECK(pvfs_wait_any(queue, &event, -1) == 0);
    CHECK(pvfs_cancel(queue, 77) == 0);
    FAILS(pvfs_flush(NULL), EFAULT);
    FAILS(pvfs_queue_fd(NULL), EFAULT);

    /* Paths that fail say so in their events; descriptors that are closed meanwhile change nothing. */
    pvfs_ticket missing = pvfs_submit_stat(queue, "/pvfs/nothing/here", &st, content);
    CHECK(missing && pvfs_wait(queue, missing, &event, -1) == 1);
    CHECK(event.ticket == missing && event.result == -1 && event.error == ENOENT && event.data == content);
    FAILS(pvfs_test(queue, missing, &event), EINVAL);
    int other = pvfs_open(path, O_RDWR);
    pvfs_ticket late = pvfs_submit_write(queue, other, "late", 4, 0, NULL);
    CHECK(late && pvfs_close(other) == 0);
    CHECK(pvfs_wait(queue, late, &event, -1) == 1 && event.result == 4);
    CHECK(pvfs_pread(fd, content, 4, 0) == 4 && !memcmp(content, "late", 4));

    /* Ordinary files: done when submitted. */
    char ordinary[] = "/tmp/queue-XXXXXX";
    int plain = mkstemp(ordinary);
    CHECK(plain >= 0 && unlink(ordinary) == 0);
    pvfs_ticket written = pvfs_submit_write(queue, plain, "plain", 5, 3, NULL);
    struct pollfd polled = {.fd = pvfs_queue_fd(queue), .events = POLLIN};
    CHECK(written && poll(&polled, 1, 0) == 1);
    CHECK(pread(plain, content, 8, 0) == 8 && !memcmp(content + 3, "plain", 5));
    CHECK(pvfs_cancel(queue, written) == 0);
    CHECK(pvfs_test(queue, written, &event) == 1 && event.result == 5);
    CHECK(poll(&polled, 1, 0) == 0);
    pvfs_ticket there = pvfs_submit_stat(queue, "/", &st, NULL);
    CHECK(there && pvfs_test(queue, there, &event) == 1 && event.result == 0 && S_ISDIR(st.st_mode));

    CHECK(pvfs_queue_destroy(queue) == 0);
    FAILS(pvfs_queue_destroy(queue), EINVAL);
    FAILS(pvfs_submit_read(queue, fd, &byte, 1, 0, NULL), EINVAL);
    FAILS(pvfs_wait_any(queue, &event, -1), EINVAL);
}

/* Reads and writes while an iod does not answer: all end in time. */
static void stopped(void) {
    static char buffers[100][4096];
    pvfs_queue *queue = created();
    puts("ready");
    fflush(stdout);
    CHECK(getchar() == '\n');
    double begun = now();
    for (int i = 0; i < 100; i++) {
        int64_t at = (int64_t)i * 10000;
        pvfs_ticket ticket = i % 2 ? pvfs_submit_read(queue, fd, buffers[i], 4096, at, NULL)
                                   : pvfs_submit_write(queue, fd, content + at, 4096, at, NULL);
        CHECK(ticket != 0);
    }
    struct pvfs_event event;
    int whole = 0, failed = 0;
    CHECK(pvfs_flush(queue) == 0);
    CHECK(now() - begun < 5);
    double asked = now();
    int left = 100;
    while (left > 0 && now() - asked < 1) left -= pvfs_wait_any(queue, &event, 100) == 1 ? 1 : 0;
    whole = 100 - left;
    CHECK(left > 0 && now() - asked < 3);
    while (pvfs_wait_any(queue, &event, -1) == 1) {
        if (event.result == 4096) whole++;
        else {
            CHECK(event.result == -1 && event.error == EIO);
            failed++;
        }
    }
    CHECK(whole + failed == 100 && whole > 0 && failed > 0);
    CHECK(now() - begun < 60);
    CHECK(pvfs_queue_destroy(queue) == 0);
}

static int descriptors(void) {
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static void destroyed(void) {
    static char buffers[200][70000];
    int before = 0;
    for (int round = 0; round < 20; round++) {
        pvfs_queue *queue = created();
        for (int i = 0; i < 200; i++) {
            size_t bytes = i % 5 ? 512 : 70000;
            if (i % 3) CHECK(pvfs_submit_read(queue, fd, buffers[i], bytes, i * 4000, NULL));
            else CHECK(pvfs_submit_write(queue, fd, content + i * 4000, bytes, i * 4000, NULL));
        }
        CHECK(pvfs_submit_open(queue, path, O_RDONLY, 0, NULL));
        CHECK(pvfs_submit_open(queue, "/dev/null", O_RDONLY, 0, NULL));
        CHECK(pvfs_queue_fd(queue) > 2);
        if (round % 4) CHECK(pvfs_flush(queue) == 0);
        for (int i = 0; i < round % 3; i++) {
            struct pvfs_event event;
            CHECK(pvfs_wait_any(queue, &event, 1000) == 1);
            if (event.data == queue) CHECK(pvfs_close((int)event.result) == 0);
        }
        CHECK(pvfs_queue_destroy(queue) == 0);
        char all[1000];
        CHECK(pvfs_pread(fd, all, 1000, 0) == 1000 && !memcmp(all, content, 1000));
        if (round == 5) before = descriptors();
    }
    /* Connections are kept and used again; nothing grows from round to round. */
    int after = descriptors();
    if (after > before + 30) fprintf(stderr, "%d descriptors, then %d\n", before, after);
    CHECK(after <= before + 30);
}

static pvfs_queue *shared;

static void *one_of_two(void *argument) {
    long own = (long)argument;
    char buffers[8][600];
    for (int round = 0; round < 100; round++) {
        pvfs_ticket tickets[8];
        for (int i = 0; i < 8; i++) {
            tickets[i] = pvfs_submit_read(shared, fd, buffers[i], 600, own * 300000 + round * 2000 + i * 7, argument);
            CHECK(tickets[i] != 0);
        }
        for (int i = 0; i < 8; i++) {
            struct pvfs_event event;
            CHECK(pvfs_wait(shared, tickets[i], &event, -1) == 1);
            CHECK(event.result == 600 && event.data == argument && event.ticket == tickets[i]);
            CHECK(!memcmp(buffers[i], content + own * 300000 + round * 2000 + i * 7, 600));
        }
    }
    return NULL;
}

static void *waits(void *argument) {
    struct pvfs_event event;
    CHECK(pvfs_wait(shared, *(pvfs_ticket *)argument, &event, 60000) == 1 && event.result == 4);
    return NULL;
}

static void threads(void) {
    shared = created();
    pthread_t two[2];
    for (long i = 0; i < 2; i++) CHECK(pthread_create(&two[i], NULL, one_of_two, (void *)i) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(two[i], NULL) == 0);
    CHECK(pvfs_queue_len(shared) == 0);
    CHECK(pvfs_queue_destroy(shared) == 0);
}

/* A thread that waits long keeps another one that submits from nothing. */
static void patient(void) {
    shared = created();
    puts("ready");
    fflush(stdout);
    CHECK(getchar() == '\n');
    static char buffer[4];
    pvfs_ticket slow = pvfs_submit_read(shared, fd, buffer, 4, 0, NULL);
    pthread_t waiter;
    CHECK(slow && pthread_create(&waiter, NULL, waits, &slow) == 0);
    usleep(300000);
    double begun = now();
    for (int i = 0; i < 50; i++) {
        struct pvfs_event event;
        pvfs_ticket quick = pvfs_submit_fsync(shared, 0, NULL);
        CHECK(quick != 0 && pvfs_wait(shared, quick, &event, 1000) == 1);
    }
    CHECK(now() - begun < 5);
    puts("go on");
    fflush(stdout);
    CHECK(pthread_join(waiter, NULL) == 0);
    CHECK(pvfs_queue_destroy(shared) == 0);
}

static void forked(void) {
    pvfs_queue *queue = created();
    struct pvfs_event event;
    static char buffers[40][500];
    for (int i = 0; i < 40; i++) CHECK(pvfs_submit_read(queue, fd, buffers[i], 500, i * 500, NULL));
    CHECK(pvfs_flush(queue) == 0);
    pid_t child = fork();
    if (child == 0) {
        FAILS(pvfs_wait_any(queue, &event, 0), EINVAL);
        FAILS(pvfs_submit_fsync(queue, fd, NULL), EINVAL);
        CHECK(pvfs_queue_destroy(queue) == 0);
        queue = created();
        char bytes[500];
        pvfs_ticket own = pvfs_submit_read(queue, fd, bytes, 500, 0, NULL);
        CHECK(own && pvfs_wait(queue, own, &event, -1) == 1 && event.result == 500);
        CHECK(!memcmp(bytes, content, 500) && pvfs_queue_destroy(queue) == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 40; i++) CHECK(pvfs_wait_any(queue, &event, -1) == 1 && event.result == 500);
    CHECK(!memcmp(buffers, content, 20000));
    CHECK(pvfs_queue_destroy(queue) == 0);
}

static void cancelled(void) {
    static char buffers[90][500];
    pvfs_queue *queue = created();
    pvfs_ticket tickets[90];
    struct pvfs_event event;
    for (int round = 0; round < 10; round++) {
        int given_up = 0;
        for (int i = 0; i < 90; i++) {
            tickets[i] = i % 2 ? pvfs_submit_read(queue, fd, buffers[i], 500, i * 500, NULL)
                               : pvfs_submit_write(queue, fd, content + i * 500, 500, i * 500, NULL);
            CHECK(tickets[i] != 0);
        }
        if (round % 2) CHECK(pvfs_flush(queue) == 0);
        for (int i = 0; i < 90; i += 3) {
            int gone = pvfs_cancel(queue, tickets[i]);
            CHECK(gone == 0 || gone == 1);
            given_up += gone;
            if (gone) FAILS(pvfs_test(queue, tickets[i], &event), EINVAL);
        }
        int ended = 0;
        while (pvfs_wait_any(queue, &event, -1) == 1) {
            CHECK(event.result == 500);
            ended++;
        }
        /* Once the iods have lent the file, all is done when it is submitted, and nothing can be given up. */
        CHECK(ended + given_up == 90 && (given_up > 0 || round > 0));
    }
    char *all = malloc(45000);
    CHECK(pvfs_pread(fd, all, 45000, 0) == 45000 && !memcmp(all, content, 45000));
    CHECK(pvfs_queue_destroy(queue) == 0);
}

int main(int argc, char **argv) {
    const struct { const char *name; void (*run)(void); } cases[] = {
        {"arguments", arguments}, {"stopped", stopped}, {"destroyed", destroyed}, {"threads", threads},
        {"patient", patient},     {"forked", forked},   {"cancelled", cancelled},
    };
    CHECK(argc == 3);
    snprintf(path, sizeof path, "%s/file", argv[1]);
    for (size_t i = 0; i < sizeof content; i++) content[i] = (char)(i * 7 + i / 4093);
    fd = pvfs_open(path, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && pvfs_pwrite(fd, content, sizeof content, 0) == sizeof content);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[2])) continue;
        cases[i].run();
        CHECK(pvfs_close(fd) == 0);
        printf("%s: done\n", argv[2]);
        return 0;
    }
    return 2;
}
