/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates a file with all ranks, opens it again with all of them, closes it. Argument: the name. For tests/messages.
 */
#include <mpi.h>
#include <stdio.h>

#include "must.h"

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Init(&argc, &argv);
    if (argc < 2) MPI_Abort(MPI_COMM_WORLD, 2);
    must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "creating");
    must(MPI_File_close(&file), "closing");
    must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &file), "opening");
    must(MPI_File_close(&file), "closing");
    MPI_Finalize();
    return 0;
}
