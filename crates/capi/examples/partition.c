/* Partitions: four processes share a file of records, each sees its own every fourth one as if they lay end to end.
 *
 *   partition DIRECTORY      below the prefix
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, RECORD = 1000, RECORDS = 50 };

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static struct fpart part_of(int process) {
    return (struct fpart){.offset = process * RECORD, .gsize = RECORD, .stride = PROCESSES * RECORD};
}

int main(int argc, char **argv) {
    check(argc == 2, "which directory?");
    char path[4096], buffer[RECORD * 3];
    snprintf(path, sizeof path, "%s/partition", argv[1]);
    int whole = pvfs_open(path, O_CREAT | O_TRUNC | O_RDWR, 0644);
    check(whole >= 0, path);

    for (int process = 0; process < PROCESSES; process++) {
        if (fork() != 0) continue;
        struct fpart part = part_of(process);
        int fd = pvfs_open(path, O_WRONLY | O_PART, 0, &part);
        check(fd >= 0, "open with a partition");
        memset(buffer, 'a' + process, sizeof buffer);
        /* Three records at once, then two: each write is one request to each iod. */
        for (int done = 0; done < RECORDS; done += 5) {
            check(pvfs_write(fd, buffer, 3 * RECORD) == 3 * RECORD, "write of three records");
            check(pvfs_write(fd, buffer, 2 * RECORD) == 2 * RECORD, "write of two records");
        }
        check(pvfs_lseek(fd, 0, SEEK_CUR) == RECORDS * RECORD, "the position in the partition");
        check(pvfs_close(fd) == 0, "close");
        exit(0);
    }
    for (int process = 0, status; process < PROCESSES; process++) {
        check(wait(&status) > 0 && status == 0, "a process");
    }

    struct stat st;
    check(pvfs_fstat(whole, &st) == 0 && st.st_size == PROCESSES * RECORDS * RECORD, "the size of the file");
    for (int record = 0; record < PROCESSES * RECORDS; record++) {
        check(pvfs_read(whole, buffer, RECORD) == RECORD, "read");
        for (int at = 0; at < RECORD; at++) check(buffer[at] == 'a' + record % PROCESSES, "a record");
    }

    /* A partition can be set later, read across groups, and asked for. */
    struct fpart part = part_of(2), seen;
    check(pvfs_ioctl(whole, SETPART, &part) == 0, "SETPART");
    check(pvfs_ioctl(whole, GETPART, &seen) == 0 && !memcmp(&seen, &part, sizeof part), "GETPART");
    check(pvfs_lseek(whole, 0, SEEK_CUR) == 0, "the position begins anew");
    check(pvfs_lseek(whole, 0, SEEK_END) == RECORDS * RECORD, "the end of the partition");
    check(pvfs_pread(whole, buffer, 2500, 500) == 2500, "pread");
    for (int at = 0; at < 2500; at++) check(buffer[at] == 'c', "only our records");
    check(pvfs_pread(whole, buffer, 100, RECORDS * RECORD - 10) == 10, "the end");
    int other = pvfs_dup(whole);
    check(pvfs_ioctl(other, GETPART, &seen) == 0 && seen.offset == part.offset, "a duplicate shares it");
    check(pvfs_close(other) == 0, "close");

    /* Nested: the first two records of every four. */
    struct fpart nested = {.gsize = RECORD, .stride = RECORD, .gstride = 4 * RECORD, .ngroups = 2};
    check(pvfs_ioctl(whole, SETPART, &nested) == 0, "SETPART, nested");
    check(pvfs_lseek(whole, 0, SEEK_END) == PROCESSES * RECORDS * RECORD / 2, "the end");
    check(pvfs_pread(whole, buffer, 3000, 0) == 3000, "pread");
    check(buffer[0] == 'a' && buffer[1000] == 'b' && buffer[2000] == 'a', "two of four");
    struct fpart none = {0};
    check(pvfs_ioctl(whole, SETPART, &none) == 0, "all of the file again");
    check(pvfs_lseek(whole, 0, SEEK_END) == PROCESSES * RECORDS * RECORD, "the end of the file");
    check(pvfs_close(whole) == 0 && pvfs_unlink(path) == 0, "close");
    puts("partition: done");
    return 0;
}
