// Attributes by mask, names with attributes, layouts, from C++.
//
//   lite DIRECTORY      below the prefix
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <pvfs.h>
#include <string>
#include <vector>

static void check(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

int main(int argc, char **argv) {
    check(argc == 2, "which directory?");
    const std::string directory = std::string(argv[1]) + "/lite";
    check(pvfs_mkdir(directory.c_str(), 0755) == 0, "mkdir");

    // New files of the directory get strips of 1 KiB on two iods.
    struct pvfs_layout layout = {};
    layout.base = -1;
    layout.pcount = 2;
    layout.ssize = 1024;
    check(pvfs_setlayout(directory.c_str(), &layout) == 0, "pvfs_setlayout");
    struct pvfs_layout seen = {};
    check(pvfs_getlayout(directory.c_str(), &seen) == 0, "pvfs_getlayout of a directory");
    check(seen.base == -1 && seen.pcount == 2 && seen.ssize == 1024 && seen.iod_count == 0, "its layout");

    std::map<std::string, int64_t> sizes;
    for (int number = 0; number < 500; number++) {
        const std::string name = "file with a name of some length, number " + std::to_string(number);
        const std::string path = directory + "/" + name;
        int fd = pvfs_open(path.c_str(), O_CREAT | O_WRONLY, 0644);
        check(fd >= 0, "open");
        if (number == 0) {
            check(pvfs_fgetlayout(fd, &seen) == 0 && seen.iod_count == 2 && seen.ssize == 1024, "pvfs_fgetlayout");
            check(std::string(seen.distribution).find("simple_stripe") == 0, "its distribution");
        }
        check(pvfs_ftruncate(fd, number * 10) == 0 && pvfs_close(fd) == 0, "ftruncate");
        sizes[name] = number * 10;
    }

    // One that is chosen for a single file: what was seen can be asked for.
    const std::string chosen = directory + "/chosen";
    struct pvfs_layout wish = seen;
    int fd = pvfs_open_layout(chosen.c_str(), O_CREAT | O_RDWR, 0644, &wish);
    check(fd >= 0 && pvfs_fgetlayout(fd, &seen) == 0, "pvfs_open_layout");
    check(std::memcmp(seen.iods, wish.iods, sizeof seen.iods) == 0 && seen.ssize == wish.ssize, "as wished");
    check(pvfs_write(fd, "0123456789", 10) == 10, "write");

    // Somebody writes it: who does not ask for the size does not pay for it, who asks is told.
    struct stat_lite lite = {};
    check(statlite(chosen.c_str(), &lite) == 0 && S_ISREG(lite.st_mode) && lite.st_nlink == 1, "statlite of nothing");
    lite.st_litemask = S_SLITE_ALL;
    check(fstatlite(fd, &lite) == 0 && lite.st_litemask == S_SLITE_ALL && lite.st_size == 10, "fstatlite");
    lite.st_litemask = S_SLITE_SIZET;
    check(lstatlite(chosen.c_str(), &lite) == 0 && SLITE_SIZET(lite.st_litemask) && lite.st_size == 10, "lstatlite");
    check(pvfs_close(fd) == 0 && pvfs_unlink(chosen.c_str()) == 0, "close");

    // All names with attributes, a few kilobytes at a time.
    fd = pvfs_open(directory.c_str(), O_RDONLY | O_DIRECTORY);
    check(fd >= 0, "open of the directory");
    std::vector<char> room(20000);
    auto *full = reinterpret_cast<struct dirent_plus *>(room.data());
    std::map<std::string, int64_t> found;
    for (int bytes; (bytes = getdents_plus(fd, full, room.size())) != 0;) {
        check(bytes > 0, "getdents_plus");
        for (int at = 0; at < bytes;) {
            auto *entry = reinterpret_cast<struct dirent_plus *>(room.data() + at);
            check(entry->d_stat_err == 0 && entry->d_ino == entry->d_stat.st_ino, "an entry");
            found[entry->d_name] = entry->d_stat.st_size;
            at += entry->d_reclen;
        }
    }
    check(found == sizes, "every name and its size, once");

    // The like without sizes.
    check(pvfs_lseek(fd, 0, SEEK_SET) == 0, "from the beginning again");
    auto *few = reinterpret_cast<struct dirent_plus_lite *>(room.data());
    size_t names = 0;
    for (int bytes; (bytes = getdents_plus_lite(fd, 0, few, room.size())) != 0;) {
        check(bytes > 0, "getdents_plus_lite");
        for (int at = 0; at < bytes; names++) {
            auto *entry = reinterpret_cast<struct dirent_plus_lite *>(room.data() + at);
            check(sizes.count(entry->d_name) == 1 && S_ISREG(entry->d_stat_lite.st_mode), "a name");
            at += entry->d_reclen;
        }
    }
    check(names == sizes.size(), "every name");
    check(getdents_plus(fd, full, 100) == 0, "at the end there is room for what is left");
    check(pvfs_lseek(fd, 0, SEEK_SET) == 0, "lseek");
    check(getdents_plus(fd, full, 100) == -1 && errno == EINVAL, "not one entry fits");
    check(pvfs_close(fd) == 0, "close");
    for (const auto &file : sizes) check(pvfs_unlink((directory + "/" + file.first).c_str()) == 0, "unlink");
    check(pvfs_rmdir(directory.c_str()) == 0, "rmdir");
    std::puts("lite: done");
    return 0;
}
