/* Multi-dimensional blocks: a picture of 60 x 40 pixels as 6 x 5 tiles.
 *
 *   blocks DIRECTORY      below the prefix, or any other
 */
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILES_X = 6, TILES_Y = 5, WIDTH = 10, HEIGHT = 8, PIXEL = 3, TILE = WIDTH * HEIGHT * PIXEL };

static void check(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void paint(char *tile, int x, int y) {
    for (int at = 0; at < TILE; at++) tile[at] = (char)(x * 37 + y * 11 + at);
}

int main(int argc, char **argv) {
    check(argc == 2, "which directory?");
    char path[4096], tile[TILE], expected[TILE];
    snprintf(path, sizeof path, "%s/blocks", argv[1]);
    int fd = open_blk(path, O_CREAT | O_TRUNC | O_RDWR, 0644);
    check(fd >= 0, path);
    check(read_blk(fd, tile, 0, 0) == -1 && errno == EINVAL, "before set_blk");
    check(set_blk(fd, 2, PIXEL, WIDTH, TILES_X, HEIGHT, TILES_Y) == 0, "set_blk");
    check(pvfs_blk_dimensions(fd) == 2, "pvfs_blk_dimensions");

    /* Tiles in an order that is none of the file's; the first half one by one, the second in groups of 3 x 2. */
    for (int number = 0; number < TILES_X * TILES_Y; number++) {
        int scattered = number * 7 % (TILES_X * TILES_Y), x = scattered % TILES_X, y = scattered / TILES_X;
        if (number == TILES_X * TILES_Y / 2) check(buf_blk(fd, 3, 2) == 0, "buf_blk");
        paint(tile, x, y);
        check(write_blk(fd, tile, x, y) == TILE, "write_blk");
    }
    for (int y = 0; y < TILES_Y; y++) {
        for (int x = 0; x < TILES_X; x++) {
            paint(expected, x, y);
            check(read_blk(fd, tile, x, y) == TILE && !memcmp(tile, expected, TILE), "read_blk");
        }
    }
    check(read_blk(fd, tile, TILES_X, 0) == -1 && errno == EINVAL, "beyond the array");
    check(close_blk(fd) == 0, "close_blk");

    /* In the file the picture lies row after row. */
    fd = pvfs_open(path, O_RDONLY);
    check(fd >= 0, "open");
    struct stat st;
    check(pvfs_fstat(fd, &st) == 0 && st.st_size == TILES_X * TILES_Y * TILE, "the size of the picture");
    for (int row = 0; row < TILES_Y * HEIGHT; row++) {
        char line[TILES_X * WIDTH * PIXEL];
        check(pvfs_read(fd, line, sizeof line) == (ssize_t)sizeof line, "a line");
        for (int x = 0; x < TILES_X; x++) {
            paint(expected, x, row / HEIGHT);
            const char *part = expected + row % HEIGHT * WIDTH * PIXEL;
            check(!memcmp(line + x * WIDTH * PIXEL, part, WIDTH * PIXEL), "a line of a tile");
        }
    }
    check(pvfs_close(fd) == 0 && pvfs_unlink(path) == 0, "close");
    puts("blocks: done");
    return 0;
}
