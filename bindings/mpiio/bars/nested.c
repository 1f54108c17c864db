/* SPDX-License-Identifier: Apache-2.0
 *
 * A BTIO-like pattern (paper 000, table 2): each rank has blocks of a four-dimensional array, nested strided in the file, and
 * writes and reads them independently. Every byte read is compared. Arguments: the name, cells on a side. Orders: write, read.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "orders.h"

#define COMPONENTS 5
#define RANKS_MAX 64

/* As BT's diagonal cells: in each of the `ranks` slabs of z a rank has another block of y and of x. */
static MPI_Datatype pattern(int rank, int ranks, int cells) {
    int sizes[4] = {cells, cells, cells, COMPONENTS}, side = cells / ranks, lengths[RANKS_MAX] = {0};
    MPI_Aint displacements[RANKS_MAX] = {0};
    MPI_Datatype slabs[RANKS_MAX] = {0}, view;
    for (int slab = 0; slab < ranks; slab++) {
        int subsizes[4] = {side, side, side, COMPONENTS};
        int starts[4] = {slab * side, (slab + rank) % ranks * side, (slab + 2 * rank) % ranks * side, 0};
        if (ranks % 2 == 0) starts[2] = (ranks - 1 - (slab + rank) % ranks) * side;
        MPI_Type_create_subarray(4, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &slabs[slab]);
        lengths[slab] = 1, displacements[slab] = 0;
    }
    MPI_Type_create_struct(ranks, lengths, displacements, slabs, &view);
    MPI_Type_commit(&view);
    for (int slab = 0; slab < ranks; slab++) MPI_Type_free(&slabs[slab]);
    return view;
}

int main(int argc, char **argv) {
    int rank, ranks, cells = argc > 2 ? atoi(argv[2]) : 0;
    char order[ORDER_BYTES] = "write";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (cells < 1 || cells % ranks || ranks > RANKS_MAX) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Datatype view = pattern(rank, ranks, cells);
    int values = cells / ranks * cells / ranks * cells * COMPONENTS;
    size_t bytes = sizeof(double) * (size_t)values;
    double *out = malloc(bytes), *in = malloc(bytes);
    for (int i = 0; i < values; i++) out[i] = rank * 1e9 + i;
    MPI_File file;
    must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "opening");
    must(MPI_File_set_view(file, 0, MPI_DOUBLE, view, "native", MPI_INFO_NULL), "setting the view");
    /* What is read has been written: the first pass answers nobody's order, and says that all is ready. */
    do {
        int writes = !strcmp(order, "write");
        memset(in, 0, bytes);
        struct moment from = begin();
        if (writes) must(MPI_File_write_at(file, 0, out, values, MPI_DOUBLE, MPI_STATUS_IGNORE), "writing");
        else must(MPI_File_read_at(file, 0, in, values, MPI_DOUBLE, MPI_STATUS_IGNORE), "reading");
        answer(from);
        if (!writes && memcmp(in, out, bytes)) {
            fprintf(stderr, "rank %d reads other bytes than it wrote\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    } while (ordered(order));
    MPI_File_close(&file);
    MPI_Type_free(&view);
    free(out), free(in);
    MPI_Finalize();
    return 0;
}
