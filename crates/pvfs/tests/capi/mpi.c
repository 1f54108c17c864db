/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks write one file together and read what their neighbours wrote; the file is striped as the hints say, which only a driver
 * of ours does. Argument: the name.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 100000

static void must(int right, const char *what) {
    if (right) return;
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    int rank, ranks, told, moved;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    static char out[BLOCK], in[BLOCK];
    MPI_Info hints;
    MPI_File file;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    must(argc > 1, "no name");
    MPI_Info_create(&hints);
    MPI_Info_set(hints, "striping_factor", "2");
    MPI_Info_set(hints, "striping_unit", "8192");
    must(!MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file), "MPI_File_open fails");
    MPI_Info_free(&hints);
    MPI_File_get_info(file, &hints);
    MPI_Info_get(hints, "striping_factor", MPI_MAX_INFO_VAL, value, &told);
    must(told && !strcmp(value, "2"), "the striping is not what the hints say");
    MPI_Info_free(&hints);

    memset(out, 'a' + rank, BLOCK);
    must(!MPI_File_write_at_all(file, (MPI_Offset)rank * BLOCK, out, BLOCK, MPI_BYTE, &status), "MPI_File_write_at_all fails");
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    int neighbour = (rank + 1) % ranks;
    must(!MPI_File_read_at(file, (MPI_Offset)neighbour * BLOCK, in, BLOCK, MPI_BYTE, &status), "MPI_File_read_at fails");
    MPI_Get_count(&status, MPI_BYTE, &moved);
    memset(out, 'a' + neighbour, BLOCK);
    must(moved == BLOCK && !memcmp(in, out, BLOCK), "a neighbour's bytes are not there");
    MPI_File_close(&file);
    if (rank == 0) printf("%d ranks\n", ranks);
    MPI_Finalize();
    return 0;
}
