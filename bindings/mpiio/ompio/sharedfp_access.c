/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes at the shared file pointer: they find out where they go, and are then like those at an explicit offset.
 */
#include "pvfs_ompio.h"

#include "ompi/request/request.h"

typedef OMPI_MPI_OFFSET_TYPE Offset;
typedef struct ompi_datatype_t Datatype;

static int64_t bytes_of(int count, Datatype *datatype) {
    size_t size;
    opal_datatype_type_size(&datatype->super, &size);
    return (int64_t)count * (int64_t)size;
}

/* An offset in bytes as OMPIO takes it. */
static Offset in_etypes(const ompio_file_t *file, int64_t bytes) { return bytes / (int64_t)file->f_etype_size; }

/* For one rank. */
static int next(ompio_file_t *file, int count, Datatype *datatype, Offset *offset) {
    Offset before;
    int result = pvfs_ompio_advance(file, bytes_of(count, datatype), &before);
    if (result == OMPI_SUCCESS) *offset = in_etypes(file, before);
    return result;
}

/* For all, in the order of ranks: the last one knows the sum, moves the pointer by it, and tells where it was. */
static int next_in_order(ompio_file_t *file, int count, Datatype *datatype, Offset *offset) {
    ompi_communicator_t *comm = file->f_comm;
    Offset mine = bytes_of(count, datatype), through_me = mine, told[2] = {OMPI_SUCCESS, 0};
    int last = file->f_size - 1;
    int result = OMPI_SUCCESS;
    if (last > 0)
        result = comm->c_coll->coll_scan(&mine, &through_me, 1, OMPI_OFFSET_DATATYPE, MPI_SUM, comm,
                                         comm->c_coll->coll_scan_module);
    if (result != OMPI_SUCCESS) return result;
    if (file->f_rank == last) told[0] = pvfs_ompio_advance(file, through_me, &told[1]);
    if (last > 0)
        result = comm->c_coll->coll_bcast(told, 2, OMPI_OFFSET_DATATYPE, last, comm, comm->c_coll->coll_bcast_module);
    if (result != OMPI_SUCCESS) return result;
    *offset = in_etypes(file, told[1] + through_me - mine);
    return (int)told[0];
}

static int read_shared(ompio_file_t *file, void *buffer, int count, Datatype *datatype, ompi_status_public_t *status) {
    Offset offset;
    int result = next(file, count, datatype, &offset);
    return result != OMPI_SUCCESS ? result : mca_common_ompio_file_read_at(file, offset, buffer, count, datatype, status);
}

static int write_shared(ompio_file_t *file, const void *buffer, int count, Datatype *datatype,
                        ompi_status_public_t *status) {
    Offset offset;
    int result = next(file, count, datatype, &offset);
    return result != OMPI_SUCCESS ? result : mca_common_ompio_file_write_at(file, offset, buffer, count, datatype, status);
}

static int iread_shared(ompio_file_t *file, void *buffer, int count, Datatype *datatype, ompi_request_t **request) {
    Offset offset;
    int result = next(file, count, datatype, &offset);
    return result != OMPI_SUCCESS ? result : mca_common_ompio_file_iread_at(file, offset, buffer, count, datatype, request);
}

static int iwrite_shared(ompio_file_t *file, const void *buffer, int count, Datatype *datatype,
                         ompi_request_t **request) {
    Offset offset;
    int result = next(file, count, datatype, &offset);
    return result != OMPI_SUCCESS ? result
                                  : mca_common_ompio_file_iwrite_at(file, offset, buffer, count, datatype, request);
}

static int read_ordered(ompio_file_t *file, void *buffer, int count, Datatype *datatype, ompi_status_public_t *status) {
    Offset offset;
    int result = next_in_order(file, count, datatype, &offset);
    return result != OMPI_SUCCESS ? result
                                  : mca_common_ompio_file_read_at_all(file, offset, buffer, count, datatype, status);
}

static int write_ordered(ompio_file_t *file, const void *buffer, int count, Datatype *datatype,
                         ompi_status_public_t *status) {
    Offset offset;
    int result = next_in_order(file, count, datatype, &offset);
    return result != OMPI_SUCCESS ? result
                                  : mca_common_ompio_file_write_at_all(file, offset, buffer, count, datatype, status);
}

/* A file may have one split operation at a time (MPI 4.1, 14.4.5). */
static int read_begin(ompio_file_t *file, void *buffer, int count, Datatype *datatype) {
    if (file->f_split_coll_in_use) return MPI_ERR_REQUEST;
    Offset offset;
    int result = next_in_order(file, count, datatype, &offset);
    if (result != OMPI_SUCCESS) return result;
    result = mca_common_ompio_file_iread_at_all(file, offset, buffer, count, datatype, &file->f_split_coll_req);
    file->f_split_coll_in_use = result == OMPI_SUCCESS;
    return result;
}

static int write_begin(ompio_file_t *file, const void *buffer, int count, Datatype *datatype) {
    if (file->f_split_coll_in_use) return MPI_ERR_REQUEST;
    Offset offset;
    int result = next_in_order(file, count, datatype, &offset);
    if (result != OMPI_SUCCESS) return result;
    result = mca_common_ompio_file_iwrite_at_all(file, offset, buffer, count, datatype, &file->f_split_coll_req);
    file->f_split_coll_in_use = result == OMPI_SUCCESS;
    return result;
}

static int end(ompio_file_t *file, ompi_status_public_t *status) {
    if (!file->f_split_coll_in_use) return MPI_ERR_REQUEST;
    file->f_split_coll_in_use = false;
    return ompi_request_wait(&file->f_split_coll_req, status);
}

static int read_end(ompio_file_t *file, void *buffer, ompi_status_public_t *status) {
    (void)buffer;
    return end(file, status);
}

static int write_end(ompio_file_t *file, const void *buffer, ompi_status_public_t *status) {
    (void)buffer;
    return end(file, status);
}

static int nothing(ompio_file_t *file) {
    (void)file;
    return OMPI_SUCCESS;
}

mca_sharedfp_base_module_1_0_0_t pvfs_ompio_sharedfp = {
    .sharedfp_module_init = nothing,
    .sharedfp_module_finalize = nothing,
    .sharedfp_seek = pvfs_ompio_seek,
    .sharedfp_get_position = pvfs_ompio_get_position,
    .sharedfp_read = read_shared,
    .sharedfp_read_ordered = read_ordered,
    .sharedfp_read_ordered_begin = read_begin,
    .sharedfp_read_ordered_end = read_end,
    .sharedfp_iread = iread_shared,
    .sharedfp_write = write_shared,
    .sharedfp_write_ordered = write_ordered,
    .sharedfp_write_ordered_begin = write_begin,
    .sharedfp_write_ordered_end = write_end,
    .sharedfp_iwrite = iwrite_shared,
    .sharedfp_file_open = pvfs_ompio_pointer_open,
    .sharedfp_file_close = pvfs_ompio_pointer_close,
};
