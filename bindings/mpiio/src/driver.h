/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's own declarations: what it keeps of an open file, and what its files offer one another.
 *
 *   resolve.c   whose a name is               open.c     one open for all ranks, close, delete
 *   hints.c     striping in and out           contiguous.c, strided.c   blocking reads and writes
 *   cursor.c    a datatype as pieces          pieces.c   pieces as vectors of readx and writex
 *   queue.c     reads and writes on the way   control.c  size, space, flush, locks, atomic mode
 *   shared.c    the pointer that ranks share  driver.c   the table ROMIO calls all of it by
 */
#ifndef PVFS_DRIVER_H
#define PVFS_DRIVER_H

#include "adio.h"
#include "pvfs.h"

/* Counts in ROMIO's table: int in MPICH 4.0, MPI_Aint in later ones. The Makefile looks. */
#ifndef ROMIO_COUNT
#define ROMIO_COUNT int
#endif
typedef ROMIO_COUNT romio_count;

/* The number by which ROMIO would tell file systems apart; none of its own. */
#define PVFS_FILE_SYSTEM 19

extern ADIOI_Fns pvfs_operations;

/* How this process came by its descriptor, which is the same for all ranks of a file. */
enum pvfs_opened {
    PVFS_ALONE,    /* the only rank: an ordinary open */
    PVFS_BY_GROUP, /* one rank's openg, openfh everywhere */
    PVFS_BY_NAME   /* every rank opened the name, because no more group opens were to be had */
};

/* fd->fs_ptr */
struct pvfs_file {
    enum pvfs_opened opened;
    int flags;        /* as given to open, without those that create */
    ino_t ino;        /* what the name was, should it be opened again */
    int layout_known; /* from now on the striping hints tell what is, not what is wished */
    /* The rank that opened for the group keeps what ends it. */
    unsigned char *handle;
    size_t handle_len;
    /* The shared file pointer of a file with one rank; and whether this rank has used it since it was last at zero. */
    ADIO_Offset shared_pointer;
    int shared_used;
};

static inline struct pvfs_file *pvfs_file_of(ADIO_File fd) {
    return fd->fs_ptr;
}

/* The code for an error number: its class, and "doing name: reason". */
int pvfs_mpi_error(const char *doing, const char *name, int error);

/* The path of a name after ROMIO has taken the prefix off, in a buffer of PATH_MAX. 0, or an error number. */
int pvfs_path(const char *name, char *path);

/* open.c */
void pvfs_open_collectively(ADIO_File fd, int rank, int access_mode, int *code);
void pvfs_open_alone(ADIO_File fd, int *code);
void pvfs_close_file(ADIO_File fd, int *code);
void pvfs_delete(const char *name, int *code);
/* Opens the name once more where the group's open has ended under a program that was idle for long. 0, or an error number. */
int pvfs_reopen(ADIO_File fd);

/* hints.c */
void pvfs_set_info(ADIO_File fd, MPI_Info users_info, int *code);
/* What the hints wish for a new file; 0 where they wish nothing. */
int pvfs_layout_wished(ADIO_File fd, struct pvfs_layout *layout);
struct pvfs_striping {
    int factor, unit, first;
    char distribution[PVFS_DISTRIBUTION_MAX];
};
void pvfs_tell_layout(ADIO_File fd, const struct pvfs_striping *striping);

/* contiguous.c, strided.c */
void pvfs_read_contig(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                      ADIO_Status *status, int *code);
void pvfs_write_contig(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                       ADIO_Status *status, int *code);
void pvfs_read_strided(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                       ADIO_Status *status, int *code);
void pvfs_write_strided(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                        ADIO_Status *status, int *code);
void pvfs_read_collective(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                          ADIO_Status *status, int *code);
void pvfs_write_collective(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                           ADIO_Status *status, int *code);

/* queue.c */
void pvfs_iread_contig(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                       ADIO_Request *request, int *code);
void pvfs_iwrite_contig(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                        ADIO_Request *request, int *code);
void pvfs_iread_strided(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                        ADIO_Request *request, int *code);
void pvfs_iwrite_strided(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                         ADIO_Request *request, int *code);

/* control.c */
void pvfs_control(ADIO_File fd, int flag, ADIO_Fcntl_t *argument, int *code);
void pvfs_flush_file(ADIO_File fd, int *code);
void pvfs_resize(ADIO_File fd, ADIO_Offset size, int *code);
int pvfs_feature(ADIO_File fd, int flag);
int pvfs_set_lock(ADIO_File fd, int command, int type, ADIO_Offset offset, int whence, ADIO_Offset length);

#endif
