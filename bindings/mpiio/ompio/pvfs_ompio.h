/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of PVFS for Open MPI's own MPI-IO (OMPIO): what the three components share.
 *
 *   MPI_File_open -> io/ompio -> fs/pvfs    opens, sizes, sync, delete    (fs_*.c)
 *                             -> fbtl/pvfs  moves bytes                   (fbtl_*.c)
 *                             -> sharedfp/pvfs  the shared file pointer   (sharedfp_*.c)
 *
 * OMPIO asks every fs component whether it wants a file, then every fbtl component, then every sharedfp component. Each component is a shared object of its
 * own; names.c and errors.c are linked into both.
 */
#ifndef PVFS_OMPIO_H
#define PVFS_OMPIO_H

#include "ompi_config.h"

#include <limits.h>

#include "mpi.h"
#include "ompi/mca/common/ompio/common_ompio.h"
#include "ompi/mca/common/ompio/common_ompio_request.h"
#include "ompi/mca/fbtl/fbtl.h"
#include "ompi/mca/fs/fs.h"
#include "ompi/mca/sharedfp/sharedfp.h"

#include <pvfs.h>

/* What fs/pvfs keeps for an open file (ompio_file_t.f_fs_ptr); the descriptor itself is ompio_file_t.fd. */
struct pvfs_ompio_file {
    size_t handle_len;              /* of the group open; 0 where the file is open in one process only */
    char handle[PVFS_GROUP_HANDLE_MAX];
};

/* names.c */
int pvfs_ompio_is_ours(const char *name);
/* The path that our calls take for a name that is ours; 0 or an errno. */
int pvfs_ompio_path(const char *name, char path[PATH_MAX]);

/* errors.c */
/* The MPI error class of an errno. */
int pvfs_ompio_error(int number);

/* layout.c */
/* What hints ask for; 1 where they ask for anything, 0 for the defaults, -1 for a value that cannot be. */
int pvfs_ompio_wanted_layout(struct opal_info_t *info, struct pvfs_layout *layout);
/* Tells the job, in the file's hints and in what OMPIO's collective I/O looks at, how the file lies. */
void pvfs_ompio_tell_layout(struct opal_info_t *info, const struct pvfs_layout *layout, ompio_file_t *file);

/* fs_open.c */
int pvfs_ompio_open(struct ompi_communicator_t *comm, const char *name, int amode, struct opal_info_t *info,
                    ompio_file_t *file);
int pvfs_ompio_close(ompio_file_t *file);

/* fs_file.c */
int pvfs_ompio_delete(char *name, struct opal_info_t *info);
int pvfs_ompio_set_size(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE size);
int pvfs_ompio_get_size(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE *size);
int pvfs_ompio_sync(ompio_file_t *file);

/* fbtl_vectors.c */
/* The access that OMPIO has prepared in f_io_array, as our calls take it. */
struct pvfs_ompio_access {
    struct iovec *memory;
    struct xtvec *regions;
    size_t memory_count, region_count;
    size_t bytes;
    int64_t first, end; /* of the file: all regions are within */
};
/* 0, or -1 where there is no memory. */
int pvfs_ompio_access(const ompio_file_t *file, struct pvfs_ompio_access *access);
void pvfs_ompio_access_free(struct pvfs_ompio_access *access);

/* fbtl_blocking.c */
ssize_t pvfs_ompio_preadv(ompio_file_t *file);
ssize_t pvfs_ompio_pwritev(ompio_file_t *file);

/* fbtl_nonblocking.c */
ssize_t pvfs_ompio_ipreadv(ompio_file_t *file, ompi_request_t *request);
ssize_t pvfs_ompio_ipwritev(ompio_file_t *file, ompi_request_t *request);
bool pvfs_ompio_progress(mca_ompio_request_t *request);
void pvfs_ompio_request_free(mca_ompio_request_t *request);
/* Ends the queue, when Open MPI closes the component. */
void pvfs_ompio_queue_end(void);

/* What sharedfp/pvfs keeps for an open file (ompio_file_t.f_sharedfp_data). */
struct pvfs_ompio_pointer {
    int64_t alone; /* the pointer of a file that only this process has open */
};

/* sharedfp_pointer.c */
int pvfs_ompio_pointer_open(struct ompi_communicator_t *comm, const char *name, int amode, struct opal_info_t *info,
                            ompio_file_t *file);
int pvfs_ompio_pointer_close(ompio_file_t *file);
/* Moves the pointer by so many bytes, and tells where it was. */
int pvfs_ompio_advance(ompio_file_t *file, int64_t bytes, OMPI_MPI_OFFSET_TYPE *before);
int pvfs_ompio_get_position(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE *place);
int pvfs_ompio_seek(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE offset, int whence);

/* sharedfp_access.c */
extern mca_sharedfp_base_module_1_0_0_t pvfs_ompio_sharedfp;

#endif
