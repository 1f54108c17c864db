/* A blocking call and the same operation in a queue are one thing: agree DIRECTORY SEED STEPS, in a new directory.
 *
 * One random stream of operations, many of them wrong, is done twice: by blocking calls below DIRECTORY/0, and submitted
 * and waited for below DIRECTORY/1. Results, error numbers, memory, positions, attributes and files must be the same.
 * Beside DIRECTORY there are a file that all may read, "public", and one for its owner, "secret".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chance.h"

enum { BLOCKING, QUEUED, SIDES };
enum { ARENA = 1 << 18, REACH = 400000, PIECES = 24, TOGETHER = 8 };

/* How the file is open, and what is no descriptor for it. */
enum { BOTH, READER, WRITER, APPENDS, SYNCED, VIEW, VIEW_APPENDS, GROUP, DIRECTORY, NAMED, CLOSED, NONE, BEYOND, KINDS };
enum { OPEN_KINDS = CLOSED };

static char asked[200];

static int rarely(void) { return below(8) == 0; }

static int64_t any_offset(void) {
    static const int64_t edges[] = {-1, -4096, INT64_MIN, INT64_MAX, INT64_MAX - 1, INT64_MAX - 70000, 1LL << 62, 1LL << 40};
    return rarely() ? edges[below(sizeof edges / sizeof *edges)] : (int64_t)below(REACH);
}

static size_t any_count(size_t most) {
    static const size_t edges[] = {0, 0, 1, SIZE_MAX, (size_t)SSIZE_MAX + 1};
    return rarely() ? edges[below(sizeof edges / sizeof *edges)] : below(below(4) ? 5000 : most);
}

/* ---- The two sides ---- */

static char directory[SIDES][2048];
static int fds[SIDES][KINDS];
static char arenas[SIDES][ARENA];
static pvfs_queue *queue;
static int is_ours;

/* What a call said; its errno where it failed. */
struct outcome {
    int64_t result;
    int error;
};

static struct outcome told(int64_t result) { return (struct outcome){result, result == -1 ? errno : 0}; }

/* Waits for one operation in one of the ways that there are. */
static struct outcome waited(pvfs_ticket ticket, void *data) {
    if (!ticket) return (struct outcome){-1, errno};
    struct pvfs_event event = {0};
    struct pollfd polled = {.fd = pvfs_queue_fd(queue), .events = POLLIN};
    int is_there = 0;
    CHECK(pvfs_queue_len(queue) == 1);
    switch (below(5)) {
    case 0: is_there = pvfs_wait(queue, ticket, &event, -1); break;
    case 1: is_there = pvfs_wait_any(queue, &event, 60000); break;
    case 2: is_there = pvfs_wait_some(queue, &event, 1, -1); break;
    case 3:
        while ((is_there = pvfs_test(queue, ticket, &event)) == 0) CHECK(poll(&polled, 1, 60000) == 1);
        break;
    default:
        CHECK(pvfs_flush(queue) == 0);
        while ((is_there = pvfs_wait(queue, ticket, &event, 1)) == 0) continue;
    }
    CHECK(is_there == 1 && event.ticket == ticket && event.data == data && pvfs_queue_len(queue) == 0);
    CHECK((event.result == -1) == (event.error != 0));
    return (struct outcome){event.result, event.error};
}

static long succeeded, failed;

static void agree(struct outcome one, struct outcome other) {
    if (one.result == other.result && one.error == other.error) {
        ++*(one.result == -1 ? &failed : &succeeded);
        return;
    }
    fprintf(stderr, "%s\nblocking: %lld (%s), queued: %lld (%s)\n", asked, (long long)one.result, strerror(one.error),
            (long long)other.result, strerror(other.error));
    CHECK(!"the two agree");
}

/* ---- Memory ---- */

static void fill(size_t count) {
    uint64_t value = number();
    for (size_t i = 0; i < count; i++) arenas[BLOCKING][i] = (char)((value >> (i % 7 * 8)) + i);
    memcpy(arenas[QUEUED], arenas[BLOCKING], count);
}

static void compare_memory(size_t count) { CHECK(!memcmp(arenas[BLOCKING], arenas[QUEUED], count)); }

/* ---- Operations on a descriptor ---- */

static int any_kind(void) { return (int)below(rarely() ? KINDS : DIRECTORY); }

static void positioned(void) {
    int kind = any_kind(), is_write = (int)below(2), is_null = rarely(), is_closed_early = rarely();
    int64_t offset = any_offset();
    size_t count = any_count(ARENA);
    doing = is_write ? "write" : "read";
    snprintf(asked, sizeof asked, "kind %d, %zu bytes at %lld, memory %d", kind, count, (long long)offset, !is_null);
    fill(ARENA);
    struct outcome outcomes[SIDES];
    for (int side = 0; side < SIDES; side++) {
        void *memory = is_null ? NULL : arenas[side];
        int fd = fds[side][kind];
        int is_copy = is_closed_early && kind < OPEN_KINDS;
        if (is_copy) CHECK((fd = pvfs_dup(fd)) >= 0);
        errno = 0;
        if (side == BLOCKING) {
            outcomes[side] = told(is_write ? pvfs_pwrite(fd, memory, count, offset) : pvfs_pread(fd, memory, count, offset));
            if (is_copy) CHECK(pvfs_close(fd) == 0);
            continue;
        }
        pvfs_ticket ticket = is_write ? pvfs_submit_write(queue, fd, memory, count, offset, memory)
                                      : pvfs_submit_read(queue, fd, memory, count, offset, memory);
        int error = errno;
        /* The operation goes on with the file. */
        if (is_copy) CHECK(pvfs_close(fd) == 0);
        errno = error;
        outcomes[side] = waited(ticket, memory);
    }
    agree(outcomes[BLOCKING], outcomes[QUEUED]);
    compare_memory(ARENA);
}

/* Pieces of memory, by where they begin in an arena (or nowhere), and regions. */
static struct { size_t at, length; int is_null; } pieces[PIECES];
static struct xtvec regions[PIECES + 1];

static size_t any_regions(int *count) {
    size_t bytes = 0;
    *count = (int)below(PIECES);
    uint64_t stride = below(2) ? 0 : 1 + below(9000), length = 1 + below(6000);
    for (int i = 0; i < *count; i++) {
        size_t own = stride ? length : below(6000);
        regions[i] = (struct xtvec){stride ? (int64_t)(stride * (uint64_t)i) : (int64_t)below(REACH), own};
        bytes += own;
    }
    return bytes;
}

static int cut(size_t bytes) {
    size_t at = 0;
    int count = 0;
    for (; at < bytes; count++) {
        size_t length = count == PIECES - 1 ? bytes - at : rarely() ? 0 : 1 + below(bytes - at);
        pieces[count].at = at, pieces[count].length = length, pieces[count].is_null = rarely() && rarely();
        at += length;
    }
    return count;
}

static void vectors(void) {
    int kind = any_kind(), is_write = (int)below(2), count;
    size_t bytes = any_regions(&count);
    int list = cut(bytes);
    size_t iov_count = (size_t)list, xtv_count = (size_t)count;
    int is_iov_null = 0, is_xtv_null = 0, iov_aside = 0, xtv_aside = 0;
    for (int faults = rarely() ? 1 + (int)below(2) : 0; faults > 0; faults--) {
        switch (below(10)) {
        case 0: is_iov_null = 1; break;
        case 1: is_xtv_null = 1; break;
        case 2: iov_aside = 1; break;
        case 3: xtv_aside = 4; break;
        case 4: iov_count = SIZE_MAX - below(100); break;
        case 5: xtv_count = SIZE_MAX / 2 + below(100); break;
        case 6: if (count) regions[below((uint64_t)count)].xtv_off = any_offset(); break;
        case 7: if (count) regions[below((uint64_t)count)].xtv_len = any_count(9000); break;
        case 8: if (list > 1) pieces[0].at = pieces[1].at; break;
        default: if (list) pieces[below((uint64_t)list)].length += below(2) ? 1 : SIZE_MAX / 2;
        }
    }
    doing = is_write ? "writex" : "readx";
    snprintf(asked, sizeof asked, "kind %d, %zu pieces, %zu regions, %zu bytes", kind, iov_count, xtv_count, bytes);
    fill(ARENA);
    struct outcome outcomes[SIDES];
    for (int side = 0; side < SIDES; side++) {
        struct iovec memory[PIECES + 1], *iov = memory;
        struct xtvec *xtv = regions;
        for (int i = 0; i < list; i++)
            memory[i] = (struct iovec){pieces[i].is_null ? NULL : arenas[side] + pieces[i].at, pieces[i].length};
        iov = is_iov_null ? NULL : (struct iovec *)((char *)iov + iov_aside);
        xtv = is_xtv_null ? NULL : (struct xtvec *)((char *)xtv + xtv_aside);
        int fd = fds[side][kind];
        errno = 0;
        if (side == BLOCKING) {
            outcomes[side] = told(is_write ? writex(fd, iov, iov_count, xtv, xtv_count) : readx(fd, iov, iov_count, xtv, xtv_count));
            continue;
        }
        pvfs_ticket ticket = is_write ? pvfs_submit_writex(queue, fd, iov, iov_count, xtv, xtv_count, pieces)
                                      : pvfs_submit_readx(queue, fd, iov, iov_count, xtv, xtv_count, pieces);
        /* Lists are copied, the memory that they name is not. */
        struct xtvec kept[PIECES + 1];
        memcpy(kept, regions, sizeof kept);
        memset(memory, 0x55, sizeof memory);
        memset(regions, 0x55, sizeof regions);
        outcomes[side] = waited(ticket, pieces);
        memcpy(regions, kept, sizeof kept);
    }
    agree(outcomes[BLOCKING], outcomes[QUEUED]);
    compare_memory(ARENA);
}

static void synced(void) {
    doing = "fsync";
    int kind = (int)below(KINDS);
    errno = 0;
    struct outcome blocking = told(pvfs_fsync(fds[BLOCKING][kind]));
    errno = 0;
    agree(blocking, waited(pvfs_submit_fsync(queue, fds[QUEUED][kind], &doing), &doing));
}

/* ---- Operations on a path ---- */

static const char *const names[] = {
    "file", "new", "sub", "sub/new", "gone/new", "file/new", "link", "dangling", "loop", "outside", "file/", "sub/", "sub/../file", ".",
    /* There before, and both sides' alike: maybe somebody else's. */
    "../../public", "../../secret",
};
/* What is no path at all comes before the names. */
enum { ODD_PATHS = 4, PATHS = ODD_PATHS + sizeof names / sizeof *names };
static const char *const passing[] = {"new", "sub/new", "made"};
static char longest[6000];

/* The same name on both sides; NULL now and then, or what is no path at all. */
static const char *any_path(int side, uint64_t choice) {
    static char path[SIDES][12000];
    switch (choice % PATHS) {
    case 0: return NULL;
    case 1: return "";
    case 2: snprintf(path[side], sizeof path[side], "%s/%.300s", directory[side], longest); break;
    case 3: snprintf(path[side], sizeof path[side], "%s/%s", directory[side], longest); break;
    default: snprintf(path[side], sizeof path[side], "%s/%s", directory[side], names[choice % PATHS - ODD_PATHS]);
    }
    return path[side];
}

static const int all_flags[] = {
    O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_CLOEXEC, O_NONBLOCK, O_SYNC, O_DSYNC, O_NOATIME, O_PATH, O_TMPFILE,
};
enum { ALL_FLAGS = sizeof all_flags / sizeof *all_flags, RARE_FLAGS = 3 };

static int any_flags(void) {
    int flags = (int)below(3) | (below(3) ? 0 : O_CREAT);
    for (size_t i = 0; i < ALL_FLAGS - RARE_FLAGS; i++)
        if (below(4) == 0) flags |= all_flags[i];
    if (rarely()) flags |= all_flags[ALL_FLAGS - 1 - below(RARE_FLAGS)];
    return flags;
}

/* What a new descriptor is like; it is closed. */
struct opened {
    int fd, flags, descriptor_flags, read_error;
    int64_t read, position;
    mode_t mode;
    nlink_t links;
    off_t size;
};

static struct opened looked_at(int fd) {
    struct opened is;
    memset(&is, 0, sizeof is);
    struct stat st;
    char bytes[10];
    is.fd = fd, is.flags = pvfs_fcntl(fd, F_GETFL), is.descriptor_flags = pvfs_fcntl(fd, F_GETFD);
    CHECK(pvfs_fstat(fd, &st) == 0);
    is.mode = st.st_mode, is.links = S_ISDIR(st.st_mode) ? 0 : st.st_nlink, is.size = S_ISREG(st.st_mode) ? st.st_size : 0;
    errno = 0;
    is.read = pvfs_read(fd, bytes, sizeof bytes);
    is.read_error = errno;
    is.position = S_ISREG(st.st_mode) ? pvfs_lseek(fd, 0, SEEK_CUR) : 0;
    CHECK(pvfs_close(fd) == 0);
    return is;
}

static void open_both(uint64_t choice, int flags, mode_t mode) {
    doing = "open";
    struct outcome outcomes[SIDES];
    struct opened seen[SIDES];
    memset(seen, 0, sizeof seen);
    for (int side = 0; side < SIDES; side++) {
        const char *path = any_path(side, choice);
        snprintf(asked, sizeof asked, "%.100s, flags %#o, mode %#o", path ? path : "null", flags, mode);
        errno = 0;
        if (side == BLOCKING) outcomes[side] = told(pvfs_open(path, flags, mode));
        else outcomes[side] = waited(pvfs_submit_open(queue, path, flags, mode, &seen), &seen);
        if (outcomes[side].result >= 0) seen[side] = looked_at((int)outcomes[side].result);
    }
    agree(outcomes[BLOCKING], outcomes[QUEUED]);
    const struct opened *one = &seen[BLOCKING], *other = &seen[QUEUED];
    CHECK(one->flags == other->flags && one->descriptor_flags == other->descriptor_flags);
    CHECK(one->mode == other->mode && one->links == other->links && one->size == other->size);
    CHECK(one->read == other->read && one->read_error == other->read_error && one->position == other->position);
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        if (below(2)) continue;
        struct outcome gone[SIDES];
        for (int side = 0; side < SIDES; side++) {
            char path[4200];
            snprintf(path, sizeof path, "%s/%s", directory[side], passing[i]);
            gone[side] = told(pvfs_unlink(path));
        }
        agree(gone[BLOCKING], gone[QUEUED]);
    }
}

static void opening(void) {
    int flags = any_flags();
    open_both(number(), flags, (mode_t)below(010000));
}

/* Every name with every flag by itself. */
static void every_open(void) {
    for (uint64_t choice = 0; choice < PATHS; choice++)
        for (int access = O_RDONLY; access <= O_RDWR; access++)
            for (int i = -1; i < ALL_FLAGS; i++) open_both(choice, access | (i < 0 ? 0 : all_flags[i]), 0640);
}

static int is_same_time(struct timespec one, struct timespec other) {
    return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

static void stated(void) {
    doing = "stat";
    uint64_t choice = number();
    int is_null = rarely(), aside = rarely();
    /* Blocking and queued, of the same file and of its like. */
    static struct stat room[3][2];
    memset(room, 0x5a, sizeof room);
    struct outcome outcomes[3];
    for (int which = 0; which < 3; which++) {
        const char *path = any_path(which == 0 ? BLOCKING : QUEUED, choice);
        struct stat *st = is_null ? NULL : (struct stat *)((char *)room[which] + aside);
        snprintf(asked, sizeof asked, "%.100s, room %d, aside %d", path ? path : "null", !is_null, aside);
        errno = 0;
        if (which < 2) outcomes[which] = told(pvfs_stat(path, st));
        else outcomes[which] = waited(pvfs_submit_stat(queue, path, st, room), room);
    }
    agree(outcomes[0], outcomes[2]);
    agree(outcomes[1], outcomes[2]);
    const struct stat *like = room[0], *one = room[1], *other = room[2];
    if (outcomes[2].result != 0) {
        CHECK(!memcmp(one, other, sizeof room[0]) && !memcmp(like, other, sizeof room[0]));
        return;
    }
    CHECK(one->st_dev == other->st_dev && one->st_ino == other->st_ino && one->st_mode == other->st_mode);
    CHECK(one->st_nlink == other->st_nlink && one->st_uid == other->st_uid && one->st_gid == other->st_gid);
    CHECK(one->st_size == other->st_size && one->st_blocks == other->st_blocks && one->st_blksize == other->st_blksize);
    CHECK(is_same_time(one->st_atim, other->st_atim) && is_same_time(one->st_mtim, other->st_mtim));
    CHECK(is_same_time(one->st_ctim, other->st_ctim));
    CHECK(like->st_mode == other->st_mode && like->st_nlink == other->st_nlink && like->st_blksize == other->st_blksize);
    CHECK(S_ISDIR(like->st_mode) || like->st_size == other->st_size);
}

/* ---- Several at once that have nothing to do with one another ---- */

static void together(void) {
    doing = "several at once";
    int count = 1 + (int)below(TOGETHER), is_write = (int)below(2), is_vector = (int)below(2);
    size_t share = ARENA / TOGETHER, lengths[TOGETHER];
    int64_t offsets[TOGETHER];
    struct outcome outcomes[SIDES][TOGETHER];
    pvfs_ticket tickets[TOGETHER];
    fill(ARENA);
    for (int i = 0; i < count; i++) {
        offsets[i] = (int64_t)(share * (size_t)i + below(share / 2));
        lengths[i] = below(share / 2);
    }
    for (int i = 0; i < count; i++) {
        for (int side = 0; side < SIDES; side++) {
            char *memory = arenas[side] + share * (size_t)i;
            struct iovec piece = {memory, lengths[i]};
            struct xtvec region = {offsets[i], lengths[i]};
            int fd = fds[side][BOTH];
            void *data = &lengths[i];
            if (side == QUEUED) {
                tickets[i] = is_vector ? is_write ? pvfs_submit_writex(queue, fd, &piece, 1, &region, 1, data)
                                                  : pvfs_submit_readx(queue, fd, &piece, 1, &region, 1, data)
                             : is_write ? pvfs_submit_write(queue, fd, memory, lengths[i], offsets[i], data)
                                        : pvfs_submit_read(queue, fd, memory, lengths[i], offsets[i], data);
                CHECK(tickets[i] != 0);
            } else {
                outcomes[side][i] = told(is_vector ? is_write ? writex(fd, &piece, 1, &region, 1) : readx(fd, &piece, 1, &region, 1)
                                         : is_write ? pvfs_pwrite(fd, memory, lengths[i], offsets[i])
                                                    : pvfs_pread(fd, memory, lengths[i], offsets[i]));
            }
        }
    }
    struct pvfs_event events[TOGETHER];
    for (int left = count, got; left > 0; left -= got) {
        got = pvfs_wait_some(queue, events, 1 + (int)below(TOGETHER), -1);
        CHECK(got > 0 && got <= left);
        for (int i = 0; i < got; i++) {
            size_t which = (size_t)((size_t *)events[i].data - lengths);
            CHECK(which < (size_t)count && events[i].ticket == tickets[which]);
            outcomes[QUEUED][which] = (struct outcome){events[i].result, events[i].error};
        }
    }
    for (int i = 0; i < count; i++) agree(outcomes[BLOCKING][i], outcomes[QUEUED][i]);
    compare_memory(ARENA);
}

/* ---- What changes what the operations find ---- */

static void partitioned(void) {
    doing = "a partition";
    if (!is_ours) return;
    struct fpart part = {.offset = (int64_t)below(50000), .gsize = (int64_t)below(3000)};
    part.stride = part.gsize + (int64_t)below(3000);
    if (part.gsize && below(2)) {
        part.ngroups = 1 + (int64_t)below(6);
        part.gstride = part.stride * part.ngroups + (int64_t)below(5000);
    }
    if (rarely()) {
        int64_t *fields[] = {&part.offset, &part.gsize, &part.stride, &part.gstride, &part.ngroups};
        *fields[below(5)] = any_offset();
    }
    for (int kind = VIEW; kind <= VIEW_APPENDS; kind++) {
        struct outcome outcomes[SIDES];
        for (int side = 0; side < SIDES; side++) outcomes[side] = told(pvfs_ioctl(fds[side][kind], SETPART, &part));
        agree(outcomes[BLOCKING], outcomes[QUEUED]);
    }
}

static void resized(void) {
    doing = "ftruncate";
    int64_t to = (int64_t)below(REACH);
    for (int side = 0; side < SIDES; side++) CHECK(pvfs_ftruncate(fds[side][BOTH], to) == 0);
}

static void moved(void) {
    doing = "lseek";
    int kind = (int)below(DIRECTORY);
    int64_t to = any_offset();
    struct outcome outcomes[SIDES];
    for (int side = 0; side < SIDES; side++) outcomes[side] = told(pvfs_lseek(fds[side][kind], to, SEEK_SET));
    agree(outcomes[BLOCKING], outcomes[QUEUED]);
}

static void another_queue(void) {
    CHECK(pvfs_queue_destroy(queue) == 0);
    queue = pvfs_queue_create();
    CHECK(queue != NULL);
}

/* ---- What must be the same after each ---- */

static int64_t positions[DIRECTORY];

static void note_positions(void) {
    for (int kind = 0; kind < DIRECTORY; kind++) {
        positions[kind] = pvfs_lseek(fds[BLOCKING][kind], 0, SEEK_CUR);
        CHECK(positions[kind] >= 0 && pvfs_lseek(fds[QUEUED][kind], 0, SEEK_CUR) == positions[kind]);
    }
}

/* No operation of a queue has a position, nor has its blocking form. */
static void check_positions(void) {
    for (int kind = 0; kind < DIRECTORY; kind++)
        for (int side = 0; side < SIDES; side++) CHECK(pvfs_lseek(fds[side][kind], 0, SEEK_CUR) == positions[kind]);
}

static void check_files(void) {
    static char contents[SIDES][2 * REACH];
    struct stat st[SIDES];
    for (int side = 0; side < SIDES; side++) CHECK(pvfs_fstat(fds[side][READER], &st[side]) == 0);
    CHECK(st[BLOCKING].st_size == st[QUEUED].st_size);
    for (int side = 0; side < SIDES; side++) {
        ssize_t most = sizeof contents[0], size = st[side].st_size < most ? st[side].st_size : most;
        CHECK(pvfs_pread(fds[side][READER], contents[side], sizeof contents[0], 0) == size);
        if (side == QUEUED) CHECK(!memcmp(contents[BLOCKING], contents[QUEUED], (size_t)size));
    }
    /* Far away is allowed, and of no use to what comes next. */
    if (st[BLOCKING].st_size > 2 * REACH - ARENA) resized();
}

/* ---- ---- */

static int opened(int side, int flags) {
    char path[4200];
    struct pvfs_filestat meta = {.base = 0, .pcount = -1, .ssize = 4096};
    snprintf(path, sizeof path, "%s/file", directory[side]);
    int fd = is_ours ? pvfs_open(path, flags | O_CREAT | O_META, 0600, &meta) : pvfs_open(path, flags | O_CREAT, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void linked(int side, const char *name, const char *target) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", directory[side], name);
    CHECK(pvfs_symlink(target, path) == 0);
}

static void begin(int side) {
    static const int flags[] = {O_RDWR, O_RDONLY, O_WRONLY, O_RDWR | O_APPEND, O_RDWR | O_SYNC, O_RDWR, O_RDWR | O_APPEND};
    char path[4200], cwd[2048];
    CHECK(pvfs_mkdir(directory[side], 0700) == 0);
    for (int kind = BOTH; kind <= VIEW_APPENDS; kind++) fds[side][kind] = opened(side, flags[kind]);
    snprintf(path, sizeof path, "%s/file", directory[side]);
    static char handle[PVFS_GROUP_HANDLE_MAX];
    size_t length = sizeof handle;
    if (is_ours) CHECK(openg(path, handle, &length, O_RDWR, 0) == 0);
    fds[side][GROUP] = is_ours ? openfh(handle, length) : opened(side, O_RDWR);
    fds[side][DIRECTORY] = pvfs_open(directory[side], O_RDONLY | O_DIRECTORY);
    fds[side][NAMED] = pvfs_open(path, O_PATH);
    CHECK(fds[side][GROUP] >= 0 && fds[side][DIRECTORY] >= 0 && fds[side][NAMED] >= 0);
    fds[side][NONE] = -1, fds[side][BEYOND] = INT_MAX, fds[side][CLOSED] = 990;
    snprintf(path, sizeof path, "%s/sub", directory[side]);
    CHECK(pvfs_mkdir(path, 0700) == 0);
    linked(side, "link", "file"), linked(side, "dangling", "made"), linked(side, "loop", "loop");
    CHECK(getcwd(cwd, sizeof cwd) != NULL);
    snprintf(path, sizeof path, "%s/outside-%d-%lu", cwd, side, (unsigned long)seed);
    linked(side, "outside", path);
}

int main(int argc, char **argv) {
    static void (*const operations[])(void) = {
        positioned, positioned, positioned, vectors, vectors, vectors, synced, opening, opening, stated, together,
    };
    static void (*const changes[])(void) = {partitioned, resized, moved, moved, another_queue};
    CHECK(argc == 4);
    seed = state = strtoull(argv[2], NULL, 10);
    long steps = strtol(argv[3], NULL, 10);
    is_ours = pvfs_is_ours(argv[1]);
    memset(longest, 'x', sizeof longest - 1);
    umask(027);
    CHECK((queue = pvfs_queue_create()) != NULL);
    CHECK(pvfs_mkdir(argv[1], 0700) == 0);
    for (int side = 0; side < SIDES; side++) {
        snprintf(directory[side], sizeof directory[side], "%s/%d", argv[1], side);
        begin(side);
    }
    every_open();
    succeeded = failed = 0;
    for (step = 0; step < steps; step++) {
        if (below(3) == 0) changes[below(sizeof changes / sizeof *changes)]();
        note_positions();
        operations[below(sizeof operations / sizeof *operations)]();
        check_positions();
        check_files();
    }
    CHECK(pvfs_queue_destroy(queue) == 0);
    doing = "the end";
    CHECK(succeeded > steps / 2 && failed > steps / 8);
    puts("agree: done");
    return 0;
}
