/* Calls with random arguments, of which many are wrong, on one file whose content is known: fuzz DIRECTORY SEED STEPS.
 *
 * What succeeds must do what it says; what fails must change nothing; nothing may touch memory that it was not given,
 * which ends where a page ends that nobody may touch.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chance.h"

enum { ROOM = 1 << 20, LONGEST = 1 << 19, PIECES = 40, SEAL = 36 };

static int64_t hostile(void) {
    static const int64_t edges[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX - 1, 1LL << 62, 1LL << 32, -4096, INT32_MIN, 1LL << 53};
    return below(3) ? edges[below(sizeof edges / sizeof *edges)] : (int64_t)number();
}

static int wrongly(void) { return below(4) == 0; }

/* ---- Memory that ends where nobody may go ---- */

static char *make_room(void) {
    char *start = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED && mprotect(start + ROOM, 4096, PROT_NONE) == 0);
    return start + ROOM;
}

static char *end_of_room, *end_of_other;

/* So many bytes, the last of which is the last that may be touched. */
static char *room(size_t bytes) { return end_of_room - bytes; }

static void fill(char *bytes, size_t count) {
    uint64_t value = number();
    for (size_t i = 0; i < count; i++) bytes[i] = (char)(value >> (i % 7 * 8)) + (char)i;
}

/* ---- The file, and what is known of it ---- */

static char model[2 * LONGEST];
static size_t size;
static char directory[4096], path[4200];
static int fd, reader, shared, view_fd;
static int64_t position;

static void wrote(size_t offset, const char *bytes, size_t count) {
    if (!count) return;
    if (offset + count > size) {
        if (offset > size) memset(model + size, 0, offset - size);
        size = offset + count;
    }
    memcpy(model + offset, bytes, count);
}

static size_t readable(size_t offset, size_t count) {
    return offset >= size ? 0 : count < size - offset ? count : size - offset;
}

static void check_all(void) {
    static char all[2 * LONGEST];
    struct stat st;
    doing = "a look at the whole file";
    CHECK(pvfs_fstat(fd, &st) == 0 && (size_t)st.st_size == size);
    CHECK(pvfs_pread(shared, all, sizeof all, 0) == (ssize_t)size);
    for (size_t i = 0; i < size; i++)
        if (all[i] != model[i]) {
            fprintf(stderr, "byte %zu of %zu is wrong\n", i, size);
            CHECK(all[i] == model[i]);
        }
}

static int any_fd(void) {
    const int all[] = {fd, fd, shared, reader, -1, 900, INT32_MAX, 0};
    return all[below(sizeof all / sizeof *all)];
}

/* ---- Vectors ---- */

static struct iovec pieces[PIECES + 1];
static struct xtvec regions[PIECES + 1];

/* Cuts memory of `bytes` into pieces in an order of their own. */
static int cut(char *start, size_t bytes) {
    int count = 0;
    while (bytes > 0 && count < PIECES - 2) {
        size_t length = below(5) ? 1 + below(bytes) : 0;
        pieces[count++] = (struct iovec){length ? start : NULL, length};
        start += length;
        bytes -= length;
    }
    if (bytes) pieces[count++] = (struct iovec){start, bytes};
    for (int i = count - 1; i > 0; i--) {
        int other = (int)below((uint64_t)i + 1);
        struct iovec swapped = pieces[i];
        pieces[i] = pieces[other];
        pieces[other] = swapped;
    }
    return count;
}

static size_t any_regions(int *count) {
    size_t bytes = 0;
    *count = (int)below(PIECES);
    uint64_t stride = below(2) ? 0 : 1 + below(5000), length = 1 + below(3000);
    for (int i = 0; i < *count; i++) {
        uint64_t own = stride ? length : below(3000);
        regions[i] = (struct xtvec){.xtv_off = stride ? (int64_t)(stride * i) : (int64_t)below(LONGEST), .xtv_len = own};
        bytes += own;
    }
    return bytes;
}

/* Spoils one thing about both vectors; returns the number that the call has to fail with. */
static int spoil(int *iov, struct iovec **iov_start, size_t *iov_count, struct xtvec **xtv_start, size_t *xtv_count) {
    switch (below(8)) {
    case 0: *iov_start = NULL; return *iov ? EFAULT : 0;
    case 1: *xtv_start = NULL; return *xtv_count ? EFAULT : 0;
    case 2: *iov_start = (struct iovec *)((char *)*iov_start + 1); return *iov ? EINVAL : 0;
    case 3: *xtv_start = (struct xtvec *)((char *)*xtv_start + 1); return *xtv_count ? EINVAL : 0;
    case 4: *iov_count = SIZE_MAX - below(100); return EINVAL;
    case 5: *xtv_count = SIZE_MAX / 2 + below(100); return EINVAL;
    case 6:
        if (!*xtv_count) return 0;
        regions[below(*xtv_count)].xtv_off = -1 - (int64_t)below(INT64_MAX);
        return EINVAL;
    default:
        if (!*xtv_count) return 0;
        regions[below(*xtv_count)].xtv_len += 1 + below(1000);
        return EINVAL;
    }
}

/* ---- The calls ---- */

static void positioned(void) {
    doing = "pread or pwrite";
    int on = any_fd(), is_write = (int)below(2), cuts = (int)below(2);
    size_t count = below(below(4) ? 9000 : 200000), offset = below(LONGEST);
    char *memory = room(count);
    fill(memory, count);
    int list = cuts ? cut(memory, count) : 0;
    int is_good = on == fd || on == shared || (on == reader && !is_write);
    int64_t at = (int64_t)offset;
    if (wrongly()) {
        is_good = 0;
        switch (below(3)) {
        case 0: at = -1 - (int64_t)below(INT64_MAX); break;
        case 1:
            if (cuts) list = -1;
            else memory = NULL, count += 1;
            break;
        default:
            if (cuts) {
                pieces[list++] = (struct iovec){NULL, 1 + below(100)};
            } else {
                count = (size_t)SSIZE_MAX + 1 + below(1000);
            }
        }
    }
    /* Whatever stdin is, it is not written to. */
    if (on == 0) return;
    ssize_t done = is_write ? cuts ? pvfs_pwritev(on, pieces, list, at) : pvfs_pwrite(on, memory, count, at)
                 : cuts     ? pvfs_preadv(on, pieces, list, at)
                            : pvfs_pread(on, memory, count, at);
    if (!is_good) {
        CHECK(done == -1);
        return;
    }
    if (is_write) {
        CHECK(done == (ssize_t)count);
        if (!cuts) wrote(offset, memory, count);
        for (int i = 0; i < list; i++) {
            wrote(offset, pieces[i].iov_base, pieces[i].iov_len);
            offset += pieces[i].iov_len;
        }
        return;
    }
    CHECK(done == (ssize_t)readable(offset, count));
    size_t left = (size_t)done;
    if (!cuts) CHECK(!memcmp(memory, model + offset, left));
    for (int i = 0; i < list && left; i++) {
        size_t here = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        CHECK(!here || !memcmp(pieces[i].iov_base, model + offset, here));
        offset += here;
        left -= here;
    }
}

static void vectors(void) {
    doing = "readx or writex";
    int on = any_fd(), is_write = (int)below(2), count;
    if (on == 0) return;
    size_t bytes = any_regions(&count);
    char *memory = room(bytes);
    fill(memory, bytes);
    int list = cut(memory, bytes);
    struct iovec *iov = pieces;
    struct xtvec *xtv = regions;
    size_t iov_count = (size_t)list, xtv_count = (size_t)count;
    int is_good = on == fd || on == shared || (on == reader && !is_write);
    int number_wanted = wrongly() ? spoil(&list, &iov, &iov_count, &xtv, &xtv_count) : 0;
    if (!is_good && bytes == 0) return;
    ssize_t done = is_write ? writex(on, iov, iov_count, xtv, xtv_count) : readx(on, iov, iov_count, xtv, xtv_count);
    if (!is_good || number_wanted) {
        CHECK(done == -1 && (!is_good || errno == number_wanted));
        return;
    }
    static char stream[PIECES * 8000];
    size_t filled = 0, before = 0;
    if (is_write) {
        CHECK(done == (ssize_t)bytes);
        for (int i = 0; i < list; i++) {
            if (pieces[i].iov_len) memcpy(stream + filled, pieces[i].iov_base, pieces[i].iov_len);
            filled += pieces[i].iov_len;
        }
        filled = 0;
        for (int i = 0; i < count; i++) {
            wrote((size_t)regions[i].xtv_off, stream + filled, regions[i].xtv_len);
            filled += regions[i].xtv_len;
        }
        return;
    }
    for (int i = 0; i < count; i++) {
        size_t inside = readable((size_t)regions[i].xtv_off, regions[i].xtv_len);
        if (inside) memcpy(stream + filled, model + regions[i].xtv_off, inside);
        memset(stream + filled + inside, 0, regions[i].xtv_len - inside);
        filled += regions[i].xtv_len;
        before += inside;
    }
    CHECK(done == (ssize_t)before);
    filled = 0;
    for (int i = 0; i < list; i++) {
        CHECK(!pieces[i].iov_len || !memcmp(pieces[i].iov_base, stream + filled, pieces[i].iov_len));
        filled += pieces[i].iov_len;
    }
}

static void sequential(void) {
    doing = "read, write or lseek";
    size_t count = below(5000);
    char *memory = room(count);
    if (below(3) == 0) {
        int64_t to = wrongly() ? -1 - (int64_t)below(INT64_MAX) : (int64_t)below(LONGEST);
        int64_t moved = pvfs_lseek(fd, to, SEEK_SET);
        CHECK(moved == (to < 0 ? -1 : to));
        if (moved >= 0) position = moved;
        CHECK(pvfs_lseek(fd, 0, 7 + (int)below(1000)) == -1 && errno == EINVAL);
    } else if (below(2)) {
        CHECK(pvfs_read(fd, memory, count) == (ssize_t)readable((size_t)position, count));
        size_t got = readable((size_t)position, count);
        CHECK(!got || !memcmp(memory, model + position, got));
        position += (int64_t)got;
    } else if (position + (int64_t)count < LONGEST) {
        fill(memory, count);
        CHECK(pvfs_write(fd, memory, count) == (ssize_t)count);
        wrote((size_t)position, memory, count);
        position += (int64_t)count;
    }
}

static void truncated(void) {
    doing = "ftruncate";
    int64_t to = wrongly() ? -1 - (int64_t)below(INT64_MAX) : (int64_t)below(LONGEST);
    int done = pvfs_ftruncate(fd, to);
    CHECK(done == (to < 0 ? -1 : 0));
    if (done) return;
    if ((size_t)to > size) memset(model + size, 0, (size_t)to - size);
    size = (size_t)to;
}

static size_t seen(const struct fpart *part, size_t at) {
    if (!part->gsize) return (size_t)part->offset + at;
    size_t group = at / (size_t)part->gsize;
    return (size_t)part->offset + group * (size_t)part->stride + at % (size_t)part->gsize;
}

static void partitioned(void) {
    doing = "a partition";
    struct fpart part = {.offset = (int64_t)below(100000), .gsize = (int64_t)below(3000)}, got;
    part.stride = part.gsize + (int64_t)below(3000);
    int is_simple = 1;
    if (wrongly()) {
        int64_t *fields[] = {&part.offset, &part.gsize, &part.stride, &part.gstride, &part.ngroups};
        *fields[below(5)] = hostile();
        *fields[below(5)] = hostile();
        is_simple = 0;
    }
    CHECK(pvfs_ioctl(view_fd, SETPART, NULL) == -1 && errno == EFAULT);
    CHECK(pvfs_ioctl(view_fd, SETPART, (char *)&part + 1) == -1);
    int set = pvfs_ioctl(view_fd, SETPART, &part);
    if (is_simple) CHECK(set == 0);
    CHECK(pvfs_ioctl(view_fd, GETPART, &got) == 0);
    size_t count = below(6000), at = below(20000);
    char *memory = room(count);
    if (!is_simple) {
        /* Whatever was set may be read through, and ends. */
        ssize_t done = pvfs_pread(view_fd, memory, count, hostile());
        CHECK(done >= -1 && done <= (ssize_t)count);
        return;
    }
    size_t before = 0;
    while (before < count && seen(&part, at + before) < size) before++;
    CHECK(pvfs_pread(view_fd, memory, count, (int64_t)at) == (ssize_t)before);
    for (size_t i = 0; i < before; i++) CHECK(memory[i] == model[seen(&part, at + i)]);
}

static void laid_out(void) {
    doing = "a layout";
    static struct pvfs_layout layout;
    if (below(2)) {
        CHECK(pvfs_fgetlayout(below(2) ? fd : reader, &layout) == 0);
        CHECK(layout.pcount > 0 && layout.iod_count > 0 && layout.iod_count <= PVFS_IODS_MAX);
        CHECK(memchr(layout.distribution, 0, sizeof layout.distribution));
        CHECK(pvfs_fgetlayout(fd, NULL) == -1 && pvfs_getlayout(NULL, &layout) == -1);
        CHECK(pvfs_fgetlayout(900, &layout) == -1 && errno == EBADF);
    }
    char *bytes = (char *)&layout;
    switch (below(4)) {
    case 0:
        for (size_t i = 0; i < sizeof layout; i++) bytes[i] = (char)number();
        break;
    case 1: memset(layout.distribution, 'x', sizeof layout.distribution); break;
    case 2:
        memset(layout.distribution, 0, sizeof layout.distribution);
        layout.base = (int32_t)hostile();
        layout.pcount = (int32_t)hostile();
        layout.ssize = hostile();
        layout.iod_count = (uint32_t)below(4);
        break;
    default: layout.iod_count = (uint32_t)hostile();
    }
    char other[4300];
    snprintf(other, sizeof other, "%s/laid", directory);
    int made = pvfs_open_layout(other, O_CREAT | O_RDWR | O_EXCL, 0600, &layout);
    if (made >= 0) {
        struct pvfs_layout is;
        CHECK(pvfs_pwrite(made, "content", 7, 100000) == 7);
        CHECK(pvfs_fgetlayout(made, &is) == 0 && is.pcount > 0);
        CHECK(pvfs_close(made) == 0 && pvfs_unlink(other) == 0);
    } else {
        CHECK(pvfs_access(other, F_OK) == -1 && errno == ENOENT);
    }
    CHECK(pvfs_open_layout(NULL, O_RDONLY, 0, NULL) == -1);
}

static char handle[PVFS_GROUP_HANDLE_MAX];
static size_t handle_len;

static void grouped(void) {
    doing = "a group handle";
    char changed[PVFS_GROUP_HANDLE_MAX];
    memcpy(changed, handle, sizeof handle);
    size_t length = handle_len;
    int is_whole = below(4) == 0, is_seal = 0;
    if (!is_whole) {
        if (below(2)) {
            size_t at = below(handle_len);
            changed[at] ^= (char)(1 << below(8));
            /* Only who has the cluster key can tell. */
            is_seal = at >= handle_len - SEAL;
        }
        else length = below(2) ? below(handle_len) : handle_len + 1 + below(sizeof handle - handle_len);
    }
    int opened = openfh(changed, length);
    CHECK(is_seal || (opened >= 0) == is_whole);
    if (opened >= 0) {
        char bytes[100];
        CHECK(pvfs_pread(opened, bytes, 100, 0) == (ssize_t)readable(0, 100));
        CHECK(!memcmp(bytes, model, readable(0, 100)));
        CHECK(pvfs_close(opened) == 0);
    }
    CHECK(openfh(NULL, handle_len) == -1 && openfh(handle, SIZE_MAX) == -1);
    size_t little = below(handle_len);
    char *end = end_of_other - little;
    CHECK(openg(path, end, &little, O_RDONLY, 0) == -1 && errno == ERANGE && little >= handle_len / 2);
    CHECK(openg(path, NULL, &little, O_RDONLY, 0) == -1 && openg(path, changed, NULL, O_RDONLY, 0) == -1);
    /* One that only the manager can refuse is not tried: it locks out whoever does that often. */
    CHECK(pvfs_closeg(changed, 0) == -1 && pvfs_closeg(NULL, handle_len) == -1);
}

static void listed(void) {
    doing = "getdents_plus";
    int listing = pvfs_open(directory, O_RDONLY | O_DIRECTORY);
    CHECK(listing >= 0);
    unsigned count = (unsigned)below(below(3) ? 4000 : 300);
    char *memory = (char *)((uintptr_t)(end_of_room - count) & ~(uintptr_t)7);
    unsigned char *end = (unsigned char *)memory + count;
    int is_lite = (int)below(2), names = 0;
    unsigned long mask = below(2) ? below(0x40) : number();
    CHECK(getdents_plus(listing, NULL, 4000) == -1 && getdents_plus(fd, (struct dirent_plus *)memory, count) == -1);
    CHECK(getdents_plus(listing, (struct dirent_plus *)(memory - 7), 2000) == -1 && errno == EINVAL);
    if (is_lite && mask & ~0x3ful) {
        CHECK(getdents_plus_lite(listing, mask, (struct dirent_plus_lite *)memory, count) == -1 && errno == EINVAL);
    }
    mask &= 0x3f;
    for (int rounds = 0; rounds < 1000; rounds++) {
        int got = is_lite ? getdents_plus_lite(listing, mask, (struct dirent_plus_lite *)memory, count)
                          : getdents_plus(listing, (struct dirent_plus *)memory, count);
        if (got == -1) CHECK(errno == EINVAL && count < 1200);
        if (got <= 0) break;
        CHECK((unsigned)got <= count);
        for (unsigned char *at = (unsigned char *)memory; at < (unsigned char *)memory + got;) {
            const char *name = is_lite ? ((struct dirent_plus_lite *)at)->d_name : ((struct dirent_plus *)at)->d_name;
            unsigned step_bytes = is_lite ? ((struct dirent_plus_lite *)at)->d_reclen : ((struct dirent_plus *)at)->d_reclen;
            CHECK(step_bytes > 0 && at + step_bytes <= end && memchr(name, 0, (size_t)(end - (const unsigned char *)name)));
            names += !strcmp(name, "file");
            at += step_bytes;
        }
    }
    CHECK(names <= 1 && (names == 1 || count < 1200));
    CHECK(pvfs_close(listing) == 0);
}

static void lite(void) {
    doing = "statlite";
    struct stat_lite st = {.st_litemask = below(2) ? below(0x40) : number()};
    unsigned long asked = st.st_litemask;
    int done = below(2) ? statlite(path, &st) : fstatlite(fd, &st);
    CHECK(done == (asked & ~0x3ful ? -1 : 0));
    if (done == 0 && SLITE_SIZET(asked)) CHECK(SLITE_SIZET(st.st_litemask) && (size_t)st.st_size == size);
    CHECK(statlite(NULL, &st) == -1 && statlite(path, NULL) == -1 && fstatlite(900, &st) == -1);
    CHECK(fstatlite(fd, (struct stat_lite *)((char *)&st + 1)) == -1 && errno == EINVAL);
}

static void blocks(void) {
    doing = "blocks";
    char other[4300];
    snprintf(other, sizeof other, "%s/blocks", directory);
    int array = open_blk(other, O_CREAT | O_RDWR, 0600);
    CHECK(array >= 0);
    int64_t index[PVFS_DIMENSIONS_MAX + 1] = {0}, elements[PVFS_DIMENSIONS_MAX + 1], counts[PVFS_DIMENSIONS_MAX + 1];
    CHECK(pvfs_read_blk(array, room(1), index) == -1 && pvfs_blk_dimensions(array) == -1 && errno == EINVAL);
    int dimensions = 1 + (int)below(4);
    int64_t record = 1 + (int64_t)below(16);
    for (int i = 0; i <= PVFS_DIMENSIONS_MAX; i++) elements[i] = 1 + (int64_t)below(8), counts[i] = 1 + (int64_t)below(5);
    int is_wrong = wrongly();
    if (is_wrong) {
        switch (below(4)) {
        case 0: dimensions = below(2) ? 0 : PVFS_DIMENSIONS_MAX + 1 + (int)below(1000); break;
        case 1: record = -(int64_t)below(INT64_MAX); break;
        case 2: elements[below((uint64_t)dimensions)] = below(2) ? -1 : 0; break;
        default: counts[below((uint64_t)dimensions)] = below(2) ? INT64_MIN : 0;
        }
    }
    int set = pvfs_set_blk(array, dimensions, record, elements, counts);
    CHECK(set == (is_wrong ? -1 : 0));
    if (set == 0) {
        size_t bytes = (size_t)record;
        for (int i = 0; i < dimensions; i++) bytes *= (size_t)elements[i], index[i] = (int64_t)below((uint64_t)counts[i]);
        char *out = end_of_other - bytes, *in = room(bytes);
        fill(out, bytes);
        CHECK(pvfs_blk_dimensions(array) == dimensions);
        if (below(2)) CHECK(pvfs_buf_blk(array, counts) == 0);
        CHECK(pvfs_write_blk(array, out, index) == (ssize_t)bytes);
        CHECK(pvfs_read_blk(array, in, index) == (ssize_t)bytes && !memcmp(in, out, bytes));
        int64_t kept = index[0];
        index[0] = below(2) ? -1 : INT64_MAX;
        CHECK(pvfs_read_blk(array, in, index) == -1 && pvfs_write_blk(array, out, index) == -1);
        index[0] = kept;
        CHECK(pvfs_read_blk(array, NULL, index) == -1 && pvfs_write_blk(array, out, NULL) == -1);
    }
    CHECK(close_blk(array) == 0 && close_blk(array) == -1 && pvfs_unlink(other) == 0);
    CHECK(pvfs_set_blk(900, 1, 1, elements, counts) == -1);
}

static void queued(void) {
    doing = "a queue";
    pvfs_queue *queue = pvfs_queue_create();
    CHECK(queue != NULL);
    static struct { size_t at, count; char *memory; } asked[20];
    char *memory = end_of_room;
    int count = (int)below(20);
    for (int i = 0; i < count; i++) {
        asked[i].count = below(4000), asked[i].at = below(LONGEST);
        asked[i].memory = memory -= asked[i].count;
        CHECK(pvfs_submit_read(queue, below(2) ? shared : fd, memory, asked[i].count, (int64_t)asked[i].at, &asked[i]));
        if (wrongly()) CHECK(!pvfs_submit_write(queue, fd, memory, 1, -1 - (int64_t)below(INT64_MAX), NULL));
    }
    int left = count;
    struct pvfs_event event;
    while (left-- > 0) {
        CHECK(pvfs_wait_any(queue, &event, -1) == 1);
        size_t which = (size_t)((char *)event.data - (char *)asked) / sizeof *asked;
        size_t got = readable(asked[which].at, asked[which].count);
        CHECK(event.result == (int64_t)got && (!got || !memcmp(asked[which].memory, model + asked[which].at, got)));
    }
    CHECK(pvfs_test(queue, number(), &event) == -1 && pvfs_cancel(queue, number()) == 0);
    CHECK(pvfs_queue_destroy(queue) == 0);
}

static void counted(void) {
    doing = "the number of a group";
    static int64_t known;
    int64_t by = wrongly() ? hostile() : (int64_t)below(1000);
    int64_t after;
    int is_good = !__builtin_add_overflow(known, by, &after) && after >= 0;
    int64_t before = pvfs_fetch_and_add(shared, by);
    CHECK(before == (is_good ? known : -1));
    if (is_good) known = after;
    if (below(3) == 0) {
        CHECK(pvfs_fetch_and_set(shared, 5) == known);
        known = 5;
    }
    CHECK(pvfs_fetch_and_add(fd, 1) == -1 && errno == EINVAL);
    CHECK(pvfs_fetch_and_add(900, 1) == -1 && errno == EBADF);
}

int main(int argc, char **argv) {
    static void (*const calls[])(void) = {
        positioned, positioned, positioned, vectors, vectors, vectors, vectors, sequential, truncated,
        partitioned, laid_out, grouped, listed, lite, blocks, queued, counted,
    };
    CHECK(argc == 4);
    seed = state = strtoull(argv[2], NULL, 10);
    long steps = strtol(argv[3], NULL, 10);
    end_of_room = make_room();
    end_of_other = make_room();
    snprintf(directory, sizeof directory, "%s", argv[1]);
    snprintf(path, sizeof path, "%s/file", directory);
    fd = pvfs_open(path, O_CREAT | O_RDWR, 0600);
    reader = pvfs_open(path, O_RDONLY);
    view_fd = pvfs_open(path, O_RDWR);
    handle_len = sizeof handle;
    CHECK(fd >= 0 && reader >= 0 && view_fd >= 0 && openg(path, handle, &handle_len, O_RDWR, 0) == 0);
    shared = openfh(handle, handle_len);
    CHECK(shared >= 0);
    for (step = 0; step < steps; step++) {
        calls[below(sizeof calls / sizeof *calls)]();
        if (step % 50 == 49) check_all();
    }
    check_all();
    CHECK(pvfs_closeg(handle, handle_len) == 0);
    puts("fuzz: done");
    return 0;
}
