/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a file with all ranks and closes it. Argument: the name.
 */
#include <mpi.h>

#include "must.h"

int main(int argc, char **argv) {
    MPI_File file;
    MPI_Init(&argc, &argv);
    if (argc < 2) MPI_Abort(MPI_COMM_WORLD, 2);
    must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "opening");
    must(MPI_File_close(&file), "closing");
    MPI_Finalize();
    return 0;
}
