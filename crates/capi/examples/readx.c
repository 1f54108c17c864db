/* Noncontiguous access: a column of an array in one call, and memory and file cut where each likes.
 *
 *   readx DIRECTORY      below the prefix, or any other
 */
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1000, ROW = 800, ELEMENT = 8 };

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

int main(int argc, char **argv) {
    check(argc == 2, "which directory?");
    char path[4096];
    snprintf(path, sizeof path, "%s/readx", argv[1]);
    int fd = pvfs_open(path, O_CREAT | O_TRUNC | O_RDWR, 0644);
    check(fd >= 0, path);
    char *array = malloc(ROWS * ROW), *back = malloc(ROWS * ROW);
    for (int at = 0; at < ROWS * ROW; at++) array[at] = (char)(at * 31 + at / ROW);
    check(pvfs_write(fd, array, ROWS * ROW) == ROWS * ROW, "write");

    /* Column 5, into one piece of memory. */
    struct xtvec column[ROWS];
    static char elements[ROWS * ELEMENT];
    for (int row = 0; row < ROWS; row++) column[row] = (struct xtvec){row * ROW + 5 * ELEMENT, ELEMENT};
    struct iovec one = {elements, sizeof elements};
    check(readx(fd, &one, 1, column, ROWS) == (ssize_t)sizeof elements, "readx of a column");
    for (int row = 0; row < ROWS; row++) {
        check(!memcmp(elements + row * ELEMENT, array + row * ROW + 5 * ELEMENT, ELEMENT), "an element");
    }

    /* The column goes where column 9 is, in any order of rows. */
    for (int row = 0; row < ROWS; row++) {
        int to = (row * 7) % ROWS;
        column[row] = (struct xtvec){to * ROW + 9 * ELEMENT, ELEMENT};
        memcpy(array + to * ROW + 9 * ELEMENT, elements + row * ELEMENT, ELEMENT);
    }
    check(writex(fd, &one, 1, column, ROWS) == (ssize_t)sizeof elements, "writex of a column");
    check(pvfs_pread(fd, back, ROWS * ROW, 0) == ROWS * ROW && !memcmp(back, array, ROWS * ROW), "all of it");

    /* Pieces of memory and regions of the file end where they like. */
    struct iovec pieces[] = {{back, 100}, {back + 500, 0}, {back + 200, 50}};
    struct xtvec regions[] = {{5000, 120}, {0, 0}, {10, 30}};
    check(readx(fd, pieces, 3, regions, 3) == 150, "readx of pieces");
    check(!memcmp(back, array + 5000, 100) && !memcmp(back + 200, array + 5100, 20), "the first region");
    check(!memcmp(back + 220, array + 10, 30), "the last region");

    /* Beyond the end: zeros, and the count tells. */
    struct xtvec beyond[] = {{ROWS * ROW - 10, 20}, {10, 5}};
    struct iovec memory = {back, 25};
    memset(back, 1, 25);
    check(readx(fd, &memory, 1, beyond, 2) == 15, "readx at the end");
    check(back[10] == 0 && back[19] == 0 && !memcmp(back + 20, array + 10, 5), "zeros beyond the end");

    /* Where regions overlap, the last one stays. */
    char letters[] = "aaaaaabbbb";
    struct iovec text = {letters, 10};
    struct xtvec overlapping[] = {{0, 6}, {4, 4}};
    check(writex(fd, &text, 1, overlapping, 2) == 10, "writex of overlapping regions");
    check(pvfs_pread(fd, back, 8, 0) == 8 && !memcmp(back, "aaaabbbb", 8), "the last one stays");

    check(pvfs_close(fd) == 0 && pvfs_unlink(path) == 0, "close");
    free(array);
    free(back);
    puts("readx: done");
    return 0;
}
