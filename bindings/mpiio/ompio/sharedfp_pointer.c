/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared file pointer: a number that the manager keeps with the group open, in bytes of the file as it is viewed. To move it and
 * learn where it was is one message, from whatever node; there is no hidden file and no lock.
 */
#include "pvfs_ompio.h"

#include <errno.h>
#include <stdlib.h>

/* Of a file that one process has opened for itself nobody else knows the pointer. */
static bool is_alone(const ompio_file_t *file) { return file->f_size == 1; }

static int64_t move_by(ompio_file_t *file, int64_t bytes) {
    struct pvfs_ompio_pointer *pointer = file->f_sharedfp_data;
    if (!is_alone(file)) return pvfs_fetch_and_add(file->fd, bytes);
    int64_t before = pointer->alone;
    pointer->alone += bytes;
    return before;
}

static int64_t move_to(ompio_file_t *file, int64_t place) {
    struct pvfs_ompio_pointer *pointer = file->f_sharedfp_data;
    if (!is_alone(file)) return pvfs_fetch_and_set(file->fd, place);
    int64_t before = pointer->alone;
    pointer->alone = place;
    return before;
}

int pvfs_ompio_advance(ompio_file_t *file, int64_t bytes, OMPI_MPI_OFFSET_TYPE *before) {
    if (file->f_sharedfp_data == NULL) return OMPI_ERROR;
    int64_t place = move_by(file, bytes);
    if (place < 0) return pvfs_ompio_error(errno);
    *before = place;
    return OMPI_SUCCESS;
}

int pvfs_ompio_get_position(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE *place) {
    return pvfs_ompio_advance(file, 0, place);
}

/* On rank 0. */
static int seek_to(ompio_file_t *file, int64_t offset, int whence) {
    OMPI_MPI_OFFSET_TYPE from = 0;
    int result = OMPI_SUCCESS;
    if (whence == MPI_SEEK_CUR) result = pvfs_ompio_get_position(file, &from);
    if (whence == MPI_SEEK_END) result = mca_common_ompio_file_get_size(file, &from);
    if (result != OMPI_SUCCESS) return result;
    if (from + offset < 0) return MPI_ERR_ARG;
    return move_to(file, from + offset) < 0 ? pvfs_ompio_error(errno) : OMPI_SUCCESS;
}

/* Collective, and done for all when it returns to any. */
int pvfs_ompio_seek(ompio_file_t *file, OMPI_MPI_OFFSET_TYPE offset, int whence) {
    if (file->f_sharedfp_data == NULL) return OMPI_ERROR;
    int result = OMPI_SUCCESS;
    if (file->f_rank == OMPIO_ROOT) result = seek_to(file, offset * (int64_t)file->f_etype_size, whence);
    int told = file->f_comm->c_coll->coll_bcast(&result, 1, MPI_INT, OMPIO_ROOT, file->f_comm,
                                                file->f_comm->c_coll->coll_bcast_module);
    return told != OMPI_SUCCESS ? told : result;
}

int pvfs_ompio_pointer_open(struct ompi_communicator_t *comm, const char *name, int amode, struct opal_info_t *info,
                            ompio_file_t *file) {
    (void)comm, (void)name, (void)amode, (void)info;
    file->f_sharedfp_data = calloc(1, sizeof(struct pvfs_ompio_pointer));
    return file->f_sharedfp_data == NULL ? MPI_ERR_NO_MEM : OMPI_SUCCESS;
}

int pvfs_ompio_pointer_close(ompio_file_t *file) {
    free(file->f_sharedfp_data);
    file->f_sharedfp_data = NULL;
    return OMPI_SUCCESS;
}
