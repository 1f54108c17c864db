/* SPDX-License-Identifier: Apache-2.0
 *
 * What ROMIO expects of the MPI library it is usually built inside of, said with nothing but public MPI.
 *
 * ROMIO's sources include a private header of MPICH by this name. This one takes its place, so that the same objects run over
 * any MPI library with MPICH's binary interface.
 */
#ifndef PVFS_MPIR_EXT_H
#define PVFS_MPIR_EXT_H

#include <assert.h>

#define MPIR_Ext_assert assert

/* Nothing to set up: what needs it does so at first use. */
#define MPIR_Ext_init() ((void)0)

/* MPICH holds one lock during all of ROMIO and gives it up while it waits for messages. From outside that cannot be done, and a
 * lock that is kept while waiting for another rank is a deadlock as soon as two threads use two files. So there is none: what
 * threads share inside ROMIO is guarded one by one (src/threads.c). */
#define MPIR_Ext_cs_enter() ((void)0)
#define MPIR_Ext_cs_exit() ((void)0)

/* No public call tells whether a type is committed; using one that is not is an error of the program in any case. */
#define MPIR_Ext_datatype_iscommitted(datatype) ((void)(datatype), MPI_SUCCESS)

#endif
