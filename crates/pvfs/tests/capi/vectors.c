/* Random vectors for readx and writex next to a model in memory.
 *
 *   vectors FILE SEED
 */
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 300000, LIST_MAX = 400, ROUNDS = 60 };

static uint64_t state;
static unsigned number(unsigned below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 11) % below;
}

static void check(int holds, const char *what, int round) {
    if (holds) return;
    fprintf(stderr, "round %d: %s: %s\n", round, what, strerror(errno));
    exit(1);
}

static char model[SIZE * 2], memory[SIZE * 2], expected[SIZE * 2];

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
    int fd = pvfs_open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(fd >= 0, argv[1], 0);
    size_t size = 0;
    for (int round = 0; round < ROUNDS; round++) {
        static struct xtvec regions[LIST_MAX];
        static struct iovec pieces[LIST_MAX * 2];
        size_t count = number(LIST_MAX) + 1, total = 0, widest = SIZE / count;
        int is_regular = number(3) == 0;
        for (size_t at = 0; at < count; at++) {
            size_t len = is_regular ? widest / 2 : number((unsigned)widest);
            regions[at] = (struct xtvec){is_regular ? (int64_t)(at * widest) : (int64_t)number(SIZE), len};
            total += len;
        }
        /* Memory in pieces of other lengths, apart by a byte here and there. */
        size_t used = 0, place = 0, piece_count = 0;
        while (used < total) {
            size_t len = piece_count + 1 == LIST_MAX * 2 ? total - used : number((unsigned)(total / 3 + 2));
            if (len > total - used) len = total - used;
            pieces[piece_count++] = (struct iovec){memory + place, len};
            used += len, place += len + number(2);
            if (place + total - used + LIST_MAX >= sizeof memory) place = used;
        }
        if (number(2)) {
            for (size_t at = 0; at < sizeof memory; at++) memory[at] = (char)number(256);
            check(writex(fd, pieces, piece_count, regions, count) == (ssize_t)total, "writex", round);
            size_t piece = 0, within = 0;
            for (size_t at = 0; at < count; at++) {
                for (size_t byte = 0; byte < regions[at].xtv_len; byte++, within++) {
                    while (within == pieces[piece].iov_len) piece++, within = 0;
                    model[regions[at].xtv_off + byte] = ((char *)pieces[piece].iov_base)[within];
                }
                size_t end = regions[at].xtv_off + regions[at].xtv_len;
                if (regions[at].xtv_len && end > size) size = end;
            }
        } else {
            memset(memory, 1, sizeof memory);
            memset(expected, 1, sizeof expected);
            size_t piece = 0, within = 0, before_end = 0;
            for (size_t at = 0; at < count; at++) {
                for (size_t byte = 0; byte < regions[at].xtv_len; byte++, within++) {
                    while (within == pieces[piece].iov_len) piece++, within = 0;
                    size_t offset = regions[at].xtv_off + byte;
                    expected[(char *)pieces[piece].iov_base - memory + within] = offset < size ? model[offset] : 0;
                    before_end += offset < size;
                }
            }
            check(readx(fd, pieces, piece_count, regions, count) == (ssize_t)before_end, "readx", round);
            check(!memcmp(memory, expected, sizeof memory), "what was read", round);
        }
    }
    check(pvfs_pread(fd, memory, sizeof memory, 0) == (ssize_t)size && !memcmp(memory, model, size), "the file", ROUNDS);
    check(pvfs_close(fd) == 0 && pvfs_unlink(argv[1]) == 0, "close", ROUNDS);
    puts("vectors: done");
    return 0;
}
