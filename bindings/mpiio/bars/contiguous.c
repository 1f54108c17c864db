/* SPDX-License-Identifier: Apache-2.0
 *
 * Contiguous MPI-IO next to the native calls below it (paper 000, figure 7): each rank writes and reads its own part of one file
 * in blocks, by MPI_File_write_at or by pvfs_pwrite, as it is told. Arguments: the name for MPI, the path for the library, MiB for
 * each rank. Orders: mpi write, mpi read, native write, native read.
 */
#include <errno.h>
#include <mpi.h>
#include <pvfs.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "orders.h"

#define BLOCK (4 << 20)

static char *block;

static void whole(long long moved, const char *what) {
    if (moved == BLOCK) return;
    fprintf(stderr, "%s moves %lld of %d bytes: %s\n", what, moved, BLOCK, moved < 0 ? strerror(errno) : "no error");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void by_mpi(MPI_File file, int writes, long long offset) {
    MPI_Status status;
    int moved = 0;
    if (writes) must(MPI_File_write_at(file, offset, block, BLOCK, MPI_BYTE, &status), "MPI_File_write_at");
    else must(MPI_File_read_at(file, offset, block, BLOCK, MPI_BYTE, &status), "MPI_File_read_at");
    MPI_Get_count(&status, MPI_BYTE, &moved);
    whole(moved, writes ? "MPI_File_write_at" : "MPI_File_read_at");
}

static void natively(int fd, int writes, long long offset) {
    if (writes) whole(pvfs_pwrite(fd, block, BLOCK, offset), "pvfs_pwrite");
    else whole(pvfs_pread(fd, block, BLOCK, offset), "pvfs_pread");
}

int main(int argc, char **argv) {
    int rank, ranks;
    char order[ORDER_BYTES] = "mpi write";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int blocks = argc > 3 ? (int)((long long)atoi(argv[3]) * (1 << 20) / BLOCK) : 0;
    if (blocks < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    block = malloc(BLOCK);
    memset(block, rank + 1, BLOCK);
    MPI_File file;
    must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "opening");
    int fd = pvfs_open(argv[2], O_RDWR);
    if (fd < 0) fprintf(stderr, "pvfs_open of %s: %s\n", argv[2], strerror(errno)), MPI_Abort(MPI_COMM_WORLD, 1);
    /* What is read has been written: the first pass answers nobody's order, and says that all is ready. */
    do {
        int mpi = !strncmp(order, "mpi ", 4), writes = strstr(order, " write") != NULL;
        struct moment from = begin();
        for (int i = 0; i < blocks; i++) {
            long long offset = ((long long)i * ranks + rank) * BLOCK;
            if (!writes) block[0] = block[BLOCK - 1] = 0;
            if (mpi) by_mpi(file, writes, offset);
            else natively(fd, writes, offset);
            if (block[0] != rank + 1 || block[BLOCK - 1] != rank + 1) {
                fprintf(stderr, "rank %d reads other bytes than it wrote\n", rank);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
        answer(from);
    } while (ordered(order));
    pvfs_close(fd);
    MPI_File_close(&file);
    free(block);
    MPI_Finalize();
    return 0;
}
