/* Half a million small regions in one call, which nothing makes regular and nothing joins: many FILE. Says how many KiB the
 * program has grown meanwhile.
 */
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { COUNT = 500000, BYTES = COUNT / 2 * 3 };

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static long most_kib(void) {
    struct rusage usage;
    check(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage");
    return usage.ru_maxrss;
}

static struct xtvec regions[COUNT];
static struct iovec pieces[COUNT];
static char out[BYTES], in[BYTES];

/* Memory is cut elsewhere than the file. */
static void cut(char *memory) {
    for (int at = 0; at < COUNT; at++) {
        pieces[at] = (struct iovec){memory, 2 - (size_t)at % 2};
        memory += 2 - at % 2;
    }
}

int main(int argc, char **argv) {
    check(argc == 2, "which file?");
    /* Backwards, one and two bytes by turns. */
    for (int at = 0; at < COUNT; at++) {
        regions[at] = (struct xtvec){(int64_t)(COUNT - 1 - at) * 3, 1 + (size_t)at % 2};
    }
    for (int at = 0; at < BYTES; at++) out[at] = (char)(at * 7 + at / 255);
    memset(in, 1, sizeof in);
    cut(in);
    int fd = pvfs_open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(fd >= 0, argv[1]);

    long before = most_kib();
    cut(out);
    check(writex(fd, pieces, COUNT, regions, COUNT) == BYTES, "writex");
    cut(in);
    check(readx(fd, pieces, COUNT, regions, COUNT) == BYTES, "readx");
    long grown = most_kib() - before;

    check(memcmp(in, out, BYTES) == 0, "what was read is what was written");
    struct stat st;
    check(pvfs_fstat(fd, &st) == 0 && st.st_size == (COUNT - 1) * 3 + 1, "the end of the first region");
    check(pvfs_close(fd) == 0 && pvfs_unlink(argv[1]) == 0, "close");
    printf("%ld\n", grown);
    return 0;
}
