/* Descriptors are the kernel's: what POSIX says of them holds for ours.
 *
 *   descriptors FILE        |   descriptors FILE FD OFFSET: what was executed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void child_ends_well(pid_t child, const char *what) {
    int status;
    check(waitpid(child, &status, 0) == child && status == 0, what);
}

static int file;

static void *in_a_thread(void *argument) {
    char byte = *(char *)argument, seen[100];
    for (int round = 0; round < 50; round++) {
        char out[100];
        memset(out, byte, sizeof out);
        int64_t offset = 10000 + (byte - 'a') * 100;
        check(pvfs_pwrite(file, out, 100, offset) == 100, "pwrite in a thread");
        check(pvfs_pread(file, seen, 100, offset) == 100 && !memcmp(seen, out, 100), "pread in a thread");
    }
    return NULL;
}

int main(int argc, char **argv) {
    char seen[16] = "";
    if (argc == 4) {
        int fd = atoi(argv[2]);
        check(pvfs_lseek(fd, 0, SEEK_CUR) == atoi(argv[3]), "the position after exec");
        check(pvfs_read(fd, seen, 3) == 3 && !memcmp(seen, "345", 3), "a read after exec");
        return 0;
    }
    check(argc == 2, "which file?");
    file = pvfs_open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(file >= 0 && pvfs_write(file, "0123456789", 10) == 10, "open");
    check(pvfs_lseek(file, 3, SEEK_SET) == 3, "lseek");

    /* Executed: the descriptor goes on, with its position. */
    pid_t child = fork();
    if (child == 0) {
        char number[20];
        snprintf(number, sizeof number, "%d", file);
        execl(argv[0], argv[0], argv[1], number, "3", (char *)NULL);
        _exit(9);
    }
    child_ends_well(child, "exec");
    check(pvfs_lseek(file, 0, SEEK_CUR) == 6, "the position is shared");
    check(pvfs_fcntl(file, F_SETFD, FD_CLOEXEC) == 0 && pvfs_fcntl(file, F_GETFD) == FD_CLOEXEC, "FD_CLOEXEC");

    /* Duplicates, also those that the C library makes. */
    int two = dup(file), high = pvfs_fcntl(file, F_DUPFD, 200), same = pvfs_dup2(file, 300);
    check(two >= 0 && high >= 200 && same == 300, "duplicates");
    check(pvfs_read(two, seen, 1) == 1 && pvfs_read(high, seen + 1, 1) == 1 && pvfs_read(same, seen + 2, 1) == 1, "read");
    check(!memcmp(seen, "678", 3), "one position");
    check(pvfs_fcntl(two, F_SETFL, O_APPEND) == 0 && pvfs_fcntl(high, F_GETFL) & O_APPEND, "one set of flags");
    check(pvfs_write(same, "x", 1) == 1 && pvfs_pread(file, seen, 1, 10) == 1 && seen[0] == 'x', "an append");
    check(pvfs_fcntl(two, F_SETFL, 0) == 0, "F_SETFL");
    check(pvfs_close(two) == 0 && pvfs_close(high) == 0 && pvfs_close(same) == 0, "close");

    /* Closed behind our back, the number is an ordinary one's. */
    two = pvfs_dup(file);
    close(two);
    int other = open("/dev/zero", O_RDONLY);
    check(other == two && pvfs_read(other, seen, 3) == 3 && seen[2] == 0, "the number of another file");
    close(other);

    /* Unlinked, in a child, and passed through a socket. */
    check(pvfs_unlink(argv[1]) == 0, "unlink");
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    child = fork();
    if (child == 0) {
        pvfs_close(file);
        char room[CMSG_SPACE(sizeof(int))];
        struct iovec one = {seen, 1};
        struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        check(recvmsg(pair[1], &message, 0) == 1, "recvmsg");
        int given;
        memcpy(&given, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof given);
        check(pvfs_pread(given, seen, 3, 4) == 3 && !memcmp(seen, "456", 3), "a descriptor through a socket");
        check(pvfs_pwrite(given, "child", 5, 100) == 5, "a write through it");
        exit(0);
    }
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec one = {"x", 1};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof file);
    check(sendmsg(pair[0], &message, 0) == 1, "sendmsg");
    child_ends_well(child, "a child");
    check(pvfs_pread(file, seen, 5, 100) == 5 && !memcmp(seen, "child", 5), "what the child wrote");

    /* Partitions and blocks go along with a fork. */
    struct fpart part = {.offset = 1, .gsize = 1, .stride = 2}, told;
    int64_t lengths[] = {5}, counts[] = {2}, index[] = {1};
    check(pvfs_ioctl(file, SETPART, &part) == 0 && pvfs_set_blk(file, 1, 1, lengths, counts) == 0, "SETPART");
    child = fork();
    if (child == 0) {
        check(pvfs_ioctl(file, GETPART, &told) == 0 && told.stride == 2, "the partition in a child");
        check(pvfs_pread(file, seen, 3, 0) == 3 && !memcmp(seen, "135", 3), "through it");
        check(pvfs_read_blk(file, seen, index) == 5 && !memcmp(seen, "56789", 5), "a block in a child");
        exit(0);
    }
    child_ends_well(child, "a child with a partition");
    check(pvfs_ioctl(file, SETPART, &(struct fpart){0}) == 0, "SETPART");

    /* Threads, and a fork while they are at work. */
    pthread_t threads[4];
    char letters[] = "abcd";
    for (int at = 0; at < 4; at++) check(!pthread_create(&threads[at], NULL, in_a_thread, &letters[at]), "a thread");
    for (int round = 0; round < 5; round++) {
        child = fork();
        if (child == 0) {
            check(pvfs_pread(file, seen, 3, 4) == 3 && !memcmp(seen, "456", 3), "a child of threads");
            _exit(0);
        }
        child_ends_well(child, "a child of threads");
    }
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);

    check(pvfs_close(file) == 0, "close");
    puts("descriptors: done");
    return 0;
}
