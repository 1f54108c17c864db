/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads share inside ROMIO, guarded: the flattened forms kept on datatypes, the table of Fortran handles, its start.
 *
 * None of these waits for another rank, so none of these locks can take part in a deadlock (shim/mpir_ext.h says why there is no
 * lock around everything).
 */
#include <pthread.h>

#include "adio.h"
#include "adio_extern.h"
#include "mpioimpl.h"

static pthread_mutex_t flatten_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* One routine calls the other inside their file, where nothing can come between: each takes the lock once. */
ADIOI_Flatlist_node *__real_ADIOI_Flatten_datatype(MPI_Datatype datatype);
ADIOI_Flatlist_node *__wrap_ADIOI_Flatten_datatype(MPI_Datatype datatype) {
    pthread_mutex_lock(&flatten_lock);
    ADIOI_Flatlist_node *flat = __real_ADIOI_Flatten_datatype(datatype);
    pthread_mutex_unlock(&flatten_lock);
    return flat;
}

ADIOI_Flatlist_node *__real_ADIOI_Flatten_and_find(MPI_Datatype datatype);
ADIOI_Flatlist_node *__wrap_ADIOI_Flatten_and_find(MPI_Datatype datatype) {
    pthread_mutex_lock(&flatten_lock);
    ADIOI_Flatlist_node *flat = __real_ADIOI_Flatten_and_find(datatype);
    pthread_mutex_unlock(&flatten_lock);
    return flat;
}

MPI_Fint __real_MPIO_File_c2f(MPI_File fh);
MPI_Fint __wrap_MPIO_File_c2f(MPI_File fh) {
    pthread_mutex_lock(&table_lock);
    MPI_Fint handle = __real_MPIO_File_c2f(fh);
    pthread_mutex_unlock(&table_lock);
    return handle;
}

void __real_MPIR_MPIOInit(int *code);
void __wrap_MPIR_MPIOInit(int *code) {
    pthread_mutex_lock(&start_lock);
    __real_MPIR_MPIOInit(code);
    pthread_mutex_unlock(&start_lock);
}
