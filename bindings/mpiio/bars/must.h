/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of MPI that fails ends the job, and says why.
 */
#ifndef MUST_H
#define MUST_H

#include <mpi.h>
#include <stdio.h>

static void must(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "%s: %s\n", what, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

#endif
