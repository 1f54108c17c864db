/* SPDX-License-Identifier: Apache-2.0
 *
 * Contiguous MPI-IO next to the native calls below it (paper 000, figure 7): each rank writes and reads its own part of one file
 * in blocks, by MPI_File_write_at and by pvfs_pwrite in turns. Arguments: the name for MPI, the path for the library, MiB for
 * each rank, rounds. Prints the medians of all ranks together and MPI's share of the native bandwidth in percent.
 */
#include <mpi.h>
#include <pvfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK (4 << 20)

enum { WRITE_MPI, WRITE_NATIVE, READ_MPI, READ_NATIVE, WAYS };

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void fail(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void move(int way, MPI_File file, int fd, char *block, long long offset) {
    MPI_Status status;
    int done = 0;
    switch (way) {
    case WRITE_MPI:
        if (MPI_File_write_at(file, offset, block, BLOCK, MPI_BYTE, &status)) fail("MPI_File_write_at");
        break;
    case READ_MPI:
        if (MPI_File_read_at(file, offset, block, BLOCK, MPI_BYTE, &status)) fail("MPI_File_read_at");
        MPI_Get_count(&status, MPI_BYTE, &done);
        if (done != BLOCK) fail("MPI_File_read_at reads less");
        break;
    case WRITE_NATIVE:
        if (pvfs_pwrite(fd, block, BLOCK, offset) != BLOCK) fail("pvfs_pwrite");
        break;
    default:
        if (pvfs_pread(fd, block, BLOCK, offset) != BLOCK) fail("pvfs_pread");
    }
}

int main(int argc, char **argv) {
    int rank, ranks;
    double times[WAYS][99];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int mib = argc > 3 ? atoi(argv[3]) : 64, rounds = argc > 4 ? atoi(argv[4]) : 7, blocks = mib * (1 << 20) / BLOCK;
    if (argc < 3 || blocks < 1 || rounds < 1 || rounds > 99) MPI_Abort(MPI_COMM_WORLD, 2);
    char *block = malloc(BLOCK);
    memset(block, rank + 1, BLOCK);
    MPI_File file;
    if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) fail("MPI_File_open");
    int fd = pvfs_open(argv[2], O_RDWR);
    if (fd < 0) fail("pvfs_open");
    for (int round = -1; round < rounds; round++) /* the first one warms up */
        for (int way = 0; way < WAYS; way++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double from = MPI_Wtime(), own, longest;
            for (int i = 0; i < blocks; i++) move(way, file, fd, block, ((long long)i * ranks + rank) * BLOCK);
            own = MPI_Wtime() - from;
            MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            if (round >= 0) times[way][round] = longest;
        }
    pvfs_close(fd);
    MPI_File_close(&file);
    double rate[WAYS];
    for (int way = 0; way < WAYS; way++) {
        qsort(times[way], (size_t)rounds, sizeof(double), compare);
        rate[way] = (double)mib * ranks / times[way][rounds / 2];
    }
    if (rank == 0) {
        printf("write %.0f of %.0f MiB/s native, %.0f percent\n", rate[WRITE_MPI], rate[WRITE_NATIVE],
               100 * rate[WRITE_MPI] / rate[WRITE_NATIVE]);
        printf("read %.0f of %.0f MiB/s native, %.0f percent\n", rate[READ_MPI], rate[READ_NATIVE],
               100 * rate[READ_MPI] / rate[READ_NATIVE]);
    }
    MPI_Finalize();
    return 0;
}
