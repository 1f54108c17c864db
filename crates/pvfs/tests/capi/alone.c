/* A group handle in a file: made by one process, used by another, perhaps while no server is there.
 *
 *   alone open PATH HANDLE   |   alone use PATH HANDLE
 */
#include <errno.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char handle[PVFS_GROUP_HANDLE_MAX];

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    size_t length = sizeof handle;
    FILE *file = fopen(argv[3], strcmp(argv[1], "open") ? "rb" : "wb");
    if (!file) return 3;
    if (!strcmp(argv[1], "open")) {
        int fd = pvfs_open(argv[2], O_CREAT | O_WRONLY, 0600);
        if (fd < 0 || pvfs_write(fd, "content", 7) != 7 || pvfs_close(fd)) return 4;
        if (openg(argv[2], handle, &length, O_RDWR, 0)) return 5;
        return fwrite(handle, 1, length, file) != length || fclose(file);
    }
    length = fread(handle, 1, sizeof handle, file);
    int fd = openfh(handle, length);
    if (fd < 0) return 6;
    puts("alone: openfh");
    /* A partition is this process's own affair, too; with one the position begins anew. */
    struct fpart part = {.offset = 1, .gsize = 2, .stride = 3}, seen, all = {0};
    if (pvfs_lseek(fd, 5, SEEK_SET) != 5 || pvfs_ioctl(fd, SETPART, &part)) return 7;
    if (pvfs_lseek(fd, 0, SEEK_CUR) || pvfs_ioctl(fd, GETPART, &seen) || memcmp(&seen, &part, sizeof part)) return 8;
    if (pvfs_ioctl(fd, SETPART, &all)) return 9;
    puts("alone: partition");
    char content[20] = "";
    if (pvfs_read(fd, content, 19) < 0) strcpy(content, strerror(errno));
    printf("alone: %s\n", content);
    return pvfs_close(fd);
}
