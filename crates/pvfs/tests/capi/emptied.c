/* A program that closes every descriptor which it does not know, and has others in their place.
 *
 *   emptied FILE LOCAL: writes FILE in windows, before and after; LOCAL must not be touched
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW = 1 << 20, WINDOWS = 4, NUMBERS = 1000 };

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int file;
static char out[WINDOW], seen[WINDOW];

static void write_all(char byte, int rounds) {
    memset(out, byte, WINDOW);
    for (int round = 0; round < rounds; round++)
        for (int at = 0; at < WINDOWS; at++) {
            int64_t offset = (int64_t)at * WINDOW;
            check(pvfs_pwrite(file, out, WINDOW, offset) == WINDOW, "pwrite");
            check(pvfs_pread(file, seen, WINDOW, offset) == WINDOW && !memcmp(seen, out, WINDOW), "pread");
        }
}

int main(int argc, char **argv) {
    int numbers[NUMBERS], count = 0;
    check(argc == 3, "which files?");
    file = pvfs_open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(file >= 0, "open");
    /* Long enough for objects to be borrowed, and written directly. */
    write_all('a', 3);
    DIR *all = opendir("/proc/self/fd");
    check(all != NULL, "/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(all));) {
        int number = atoi(entry->d_name);
        if (number > 2 && number != file && number != dirfd(all) && count < NUMBERS) numbers[count++] = number;
    }
    closedir(all);
    check(count > 0, "the library has descriptors");
    int other = open(argv[2], O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(other >= 0 && write(other, "ours", 4) == 4, "an ordinary file");
    for (int at = 0; at < count; at++)
        if (numbers[at] != other) check(dup2(other, numbers[at]) == numbers[at], "dup2");
    write_all('b', 3);
    struct stat about;
    check(stat(argv[2], &about) == 0 && about.st_size == 4, "the ordinary file is as it was");
    check(pvfs_close(file) == 0, "close");
    puts("emptied: done");
    return 0;
}
