/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file is in Fortran, by the names of MPI 5.0: the bindings of newer MPIs (Intel's of 2021.18) call these and not MPI_File_c2f.
 * Without them a program in Fortran would hand our files to its own MPI.
 */
#include <mpi.h>

int MPI_File_toint(MPI_File file);
int PMPI_File_toint(MPI_File file);
MPI_File MPI_File_fromint(int handle);
MPI_File PMPI_File_fromint(int handle);

int PMPI_File_toint(MPI_File file) { return MPI_File_c2f(file); }
int MPI_File_toint(MPI_File file) { return MPI_File_c2f(file); }

MPI_File PMPI_File_fromint(int handle) { return MPI_File_f2c(handle); }
MPI_File MPI_File_fromint(int handle) { return MPI_File_f2c(handle); }
