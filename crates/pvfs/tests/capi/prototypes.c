/* The HEC extensions have the types of the paper that proposed them, in C and in C++: every call of that paper compiles, and
 * a pointer to openg and openfh is one to functions of exactly these types. Nothing is called.
 */
#include <pvfs.h>
#include <stdio.h>

static int (*const opens_for_a_group)(const char *pathname, void *handle, size_t *handle_len, int flags, int mode) = openg;
static int (*const opens_a_handle)(void *handle, size_t handle_len) = openfh;

static void lists(int fd, struct dirent_plus *plus, struct dirent_plus_lite *few, unsigned int count) {
    int (*const all)(int, struct dirent_plus *, unsigned int) = getdents_plus;
    int (*const some)(int, unsigned long, struct dirent_plus_lite *, unsigned int) = getdents_plus_lite;
    if (all(fd, plus, count) == 0) some(fd, S_SLITE_SIZET | S_SLITE_CTIME, few, count);
}

/* These take what they only read as const, which the paper leaves open; its calls are calls of them. */
static void states(char *pathname, int fd, struct stat_lite *slbuf) {
    slbuf->st_litemask = S_SLITE_ATIME;
    int said = statlite(pathname, slbuf) + lstatlite(pathname, slbuf) + fstatlite(fd, slbuf);
    if (said == 0 && SLITE_ATIME(slbuf->st_litemask)) puts("exact");
}

static void moves(int fd, const struct iovec *iov, size_t iov_count, struct xtvec *xtv, size_t xtv_count) {
    ssize_t moved = readx(fd, iov, iov_count, xtv, xtv_count);
    if (moved >= 0) moved = writex(fd, iov, iov_count, xtv, xtv_count);
    (void)moved;
}

int main(int argc, char **argv) {
    if (argc > 1) { /* never */
        opens_for_a_group(argv[1], argv[1], (size_t *)0, O_RDONLY, 0);
        opens_a_handle(argv[1], 0);
        lists(0, (struct dirent_plus *)0, (struct dirent_plus_lite *)0, 0);
        states(argv[1], 0, (struct stat_lite *)0);
        moves(0, (const struct iovec *)0, 0, (struct xtvec *)0, 0);
    }
    puts("prototypes: done");
    return 0;
}
