/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PVFS_CONTIG_H
#define PVFS_CONTIG_H

#include <mpi.h>

/* ROMIO calls it by this name. *flag is 1 where any number of elements is one run of bytes from displacement 0 on, in the
 * order of the type map. */
void MPIR_Datatype_iscontig(MPI_Datatype datatype, int *flag);

#endif
