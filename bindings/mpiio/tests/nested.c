/* SPDX-License-Identifier: Apache-2.0
 *
 * A BTIO-like pattern (paper 000, table 2): each rank has blocks of a four-dimensional array, nested strided in the file, and
 * writes and reads them independently. Every byte read is compared. Arguments: the name, cells on a side, rounds.
 * Prints the bandwidth of all ranks together, the median of the rounds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#define COMPONENTS 5

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *times, int count) {
    qsort(times, (size_t)count, sizeof *times, compare);
    return times[count / 2];
}

/* The longest of all ranks' times. */
static double elapsed(double from) {
    double own = MPI_Wtime() - from, longest;
    MPI_Allreduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

int main(int argc, char **argv) {
    int rank, ranks, cells = argc > 2 ? atoi(argv[2]) : 48, rounds = argc > 3 ? atoi(argv[3]) : 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2 || cells % ranks || rounds < 1 || rounds > 99) MPI_Abort(MPI_COMM_WORLD, 2);

    /* As BT's diagonal cells: in each of the `ranks` slabs of z a rank has another block of y and of x. */
    int sizes[4] = {cells, cells, cells, COMPONENTS}, side = cells / ranks;
    int lengths[64], slab_values = side * side * side * COMPONENTS;
    MPI_Aint displacements[64];
    MPI_Datatype slabs[64], view;
    if (ranks > 64) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int slab = 0; slab < ranks; slab++) {
        int subsizes[4] = {side, side, side, COMPONENTS};
        int starts[4] = {slab * side, (slab + rank) % ranks * side, (slab + 2 * rank) % ranks * side, 0};
        if (ranks % 2 == 0) starts[2] = (ranks - 1 - (slab + rank) % ranks) * side;
        MPI_Type_create_subarray(4, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &slabs[slab]);
        lengths[slab] = 1, displacements[slab] = 0;
    }
    MPI_Type_create_struct(ranks, lengths, displacements, slabs, &view);
    MPI_Type_commit(&view);

    int values = slab_values * ranks;
    double *out = malloc(sizeof *out * (size_t)values), *in = malloc(sizeof *in * (size_t)values), writes[99], reads[99];
    for (int i = 0; i < values; i++) out[i] = rank * 1e9 + i;
    MPI_File file;
    must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "opening");
    must(MPI_File_set_view(file, 0, MPI_DOUBLE, view, "native", MPI_INFO_NULL), "setting the view");
    for (int round = 0; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double from = MPI_Wtime();
        must(MPI_File_write_at(file, 0, out, values, MPI_DOUBLE, MPI_STATUS_IGNORE), "writing");
        writes[round] = elapsed(from);
        memset(in, 0, sizeof *in * (size_t)values);
        MPI_Barrier(MPI_COMM_WORLD);
        from = MPI_Wtime();
        must(MPI_File_read_at(file, 0, in, values, MPI_DOUBLE, MPI_STATUS_IGNORE), "reading");
        reads[round] = elapsed(from);
        if (memcmp(in, out, sizeof *in * (size_t)values)) {
            fprintf(stderr, "rank %d reads other bytes than it wrote\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    MPI_File_close(&file);
    for (int slab = 0; slab < ranks; slab++) MPI_Type_free(&slabs[slab]);
    MPI_Type_free(&view);
    double mib = (double)values * ranks * sizeof(double) / 1048576;
    if (rank == 0) printf("write %.1f read %.1f MiB/s\n", mib / median(writes, rounds), mib / median(reads, rounds));
    MPI_Finalize();
    return 0;
}
