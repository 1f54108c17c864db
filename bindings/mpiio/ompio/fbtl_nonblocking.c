/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI_File_iread and its kin: operations of one queue for the whole process, which Open MPI attends to from its progress engine. No
 * thread. In atomic mode, and where no queue can be had, the transfer is done before the call returns, which MPI allows.
 */
#include "pvfs_ompio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What an operation on its way needs; it hangs on the request. */
struct under_way {
    pvfs_ticket ticket; /* 0: it is done */
    ssize_t bytes;
    bool failed;
};

/* Made by the first operation. OMPIO calls these functions one at a time. */
static pvfs_queue *queue;

void pvfs_ompio_queue_end(void) {
    if (queue != NULL) pvfs_queue_destroy(queue);
    queue = NULL;
}

static pvfs_ticket submit(const ompio_file_t *file, const struct pvfs_ompio_access *access, bool writes) {
    int fd = file->fd;
    if (access->region_count == 1 && access->memory_count == 1) {
        void *memory = access->memory[0].iov_base;
        int64_t offset = access->regions[0].xtv_off;
        return writes ? pvfs_submit_write(queue, fd, memory, access->bytes, offset, NULL)
                      : pvfs_submit_read(queue, fd, memory, access->bytes, offset, NULL);
    }
    return writes ? pvfs_submit_writex(queue, fd, access->memory, access->memory_count, access->regions,
                                       access->region_count, NULL)
                  : pvfs_submit_readx(queue, fd, access->memory, access->memory_count, access->regions,
                                      access->region_count, NULL);
}

/* The operation's ticket, or 0 where it must be done without the queue. */
static pvfs_ticket begin(const ompio_file_t *file, bool writes) {
    struct pvfs_ompio_access access;
    if (file->f_atomicity || pvfs_ompio_access(file, &access) != 0) return 0;
    pvfs_ticket ticket = 0;
    if (access.bytes > 0) {
        if (queue == NULL) queue = pvfs_queue_create();
        if (queue != NULL) ticket = submit(file, &access, writes);
        if (ticket != 0) pvfs_flush(queue);
    }
    pvfs_ompio_access_free(&access);
    return ticket;
}

static ssize_t start(ompio_file_t *file, ompi_request_t *request, bool writes) {
    mca_ompio_request_t *ours = (mca_ompio_request_t *)request;
    struct under_way *under_way = calloc(1, sizeof *under_way);
    if (under_way == NULL) return OMPI_ERR_OUT_OF_RESOURCE;
    under_way->ticket = begin(file, writes);
    if (under_way->ticket == 0) {
        under_way->bytes = writes ? pvfs_ompio_pwritev(file) : pvfs_ompio_preadv(file);
        under_way->failed = under_way->bytes < 0;
    }
    ours->req_data = under_way;
    ours->req_progress_fn = pvfs_ompio_progress;
    ours->req_free_fn = pvfs_ompio_request_free;
    return OMPI_SUCCESS;
}

ssize_t pvfs_ompio_ipreadv(ompio_file_t *file, ompi_request_t *request) { return start(file, request, false); }

ssize_t pvfs_ompio_ipwritev(ompio_file_t *file, ompi_request_t *request) { return start(file, request, true); }

/* Whether the request is done; its status then says how. */
bool pvfs_ompio_progress(mca_ompio_request_t *request) {
    struct under_way *under_way = request->req_data;
    if (under_way->ticket != 0) {
        struct pvfs_event event;
        int ended = pvfs_test(queue, under_way->ticket, &event);
        if (ended == 0) return false;
        under_way->failed = ended < 0 || event.result < 0;
        under_way->bytes = under_way->failed ? 0 : event.result;
        under_way->ticket = 0;
        if (under_way->failed)
            opal_output(1, "pvfs: a nonblocking transfer failed: %s", strerror(ended < 0 ? EINVAL : event.error));
    }
    request->req_ompi.req_status.MPI_ERROR = under_way->failed ? MPI_ERR_IO : OMPI_SUCCESS;
    request->req_ompi.req_status._ucount = under_way->failed ? 0 : (size_t)under_way->bytes;
    return true;
}

/* OMPIO may free a request only when it is done, so there is nothing to cancel. */
void pvfs_ompio_request_free(mca_ompio_request_t *request) {
    free(request->req_data);
    request->req_data = NULL;
}
