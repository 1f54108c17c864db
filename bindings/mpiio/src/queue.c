/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes on the way: MPI's requests over the library's queue.
 *
 * A request is a generalized one that MPICH polls and waits for itself (MPIX_Grequest). One queue serves the process, since an
 * operation moves on only while somebody is inside its queue, and whoever waits for one should move all.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "pieces.h"

#include "mpiu_greq.h"

static pvfs_queue *queue;
static MPIX_Grequest_class request_class;
static int class_is_made;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

/* One MPI request: one operation of the queue or, where the vectors are very long, several. */
struct transfer {
    MPI_Request request;
    const char *doing;
    char *name;
    size_t count, room, ended;
    pvfs_ticket *tickets; /* those that have ended are 0 */
    ADIO_Offset bytes;
    int error;
};

static void take(struct transfer *transfer, size_t which, const struct pvfs_event *event) {
    transfer->tickets[which] = 0;
    transfer->ended++;
    if (event->result >= 0)
        transfer->bytes += event->result;
    else if (!transfer->error)
        transfer->error = event->error;
    if (transfer->ended == transfer->count) PMPI_Grequest_complete(transfer->request);
}

/* -1 is no event: the queue does not know the ticket, and never will. */
static void take_lost(struct transfer *transfer, size_t which) {
    struct pvfs_event event = {.result = -1, .error = errno ? errno : EIO};
    take(transfer, which, &event);
}

static int poll_transfer(void *state, MPI_Status *status) {
    struct transfer *transfer = state;
    struct pvfs_event event;
    (void)status;
    for (size_t i = 0; i < transfer->count; i++) {
        if (!transfer->tickets[i]) continue;
        int ended = pvfs_test(queue, transfer->tickets[i], &event);
        if (ended > 0) take(transfer, i, &event);
        if (ended < 0) take_lost(transfer, i);
    }
    return MPI_SUCCESS;
}

static int wait_transfers(int count, void **states, double timeout, MPI_Status *status) {
    double end = PMPI_Wtime() + timeout;
    struct pvfs_event event;
    (void)status;
    for (int s = 0; s < count; s++) {
        struct transfer *transfer = states[s];
        for (size_t i = 0; i < transfer->count; i++) {
            if (!transfer->tickets[i]) continue;
            double left = end - PMPI_Wtime();
            int patience_ms = timeout > 0 ? (left > 0 ? (int)(left * 1000) : 0) : -1;
            int ended = pvfs_wait(queue, transfer->tickets[i], &event, patience_ms);
            if (ended > 0) take(transfer, i, &event);
            if (ended < 0) take_lost(transfer, i);
            if (ended == 0) return MPI_SUCCESS;
        }
    }
    return MPI_SUCCESS;
}

static int query_transfer(void *state, MPI_Status *status) {
    struct transfer *transfer = state;
    PMPI_Status_set_elements_x(status, MPI_BYTE, transfer->bytes);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return pvfs_mpi_error(transfer->doing, transfer->name, transfer->error);
}

static int free_transfer(void *state) {
    struct transfer *transfer = state;
    free(transfer->tickets);
    free(transfer->name);
    free(transfer);
    return MPI_SUCCESS;
}

/* MPI allows not to cancel. */
static int cancel_transfer(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

static int begin(void) {
    pthread_mutex_lock(&start_lock);
    if (!queue) queue = pvfs_queue_create();
    int error = queue ? 0 : errno;
    if (!class_is_made && !error)
        class_is_made = PMPIX_Grequest_class_create(query_transfer, free_transfer, cancel_transfer, poll_transfer, wait_transfers,
                                                    &request_class) == MPI_SUCCESS;
    pthread_mutex_unlock(&start_lock);
    return error ? error : class_is_made ? 0 : ENOSYS;
}

static int add(struct transfer *transfer, pvfs_ticket ticket) {
    if (!ticket) return errno;
    transfer->tickets[transfer->count++] = ticket;
    return 0;
}

static int room_for_one(struct transfer *transfer) {
    if (transfer->count < transfer->room) return 0;
    size_t wanted = transfer->room * 2 + 1;
    pvfs_ticket *larger = realloc(transfer->tickets, wanted * sizeof *larger);
    if (!larger) return ENOMEM;
    transfer->tickets = larger;
    transfer->room = wanted;
    return 0;
}

static int submit(struct transfer *transfer, ADIO_File fd, struct cursor memory, struct cursor *file, ADIO_Offset bytes,
                  int is_write) {
    struct pieces pieces = {0};
    int error = 0;
    for (ADIO_Offset done = 0; done < bytes && !error; done += pieces.bytes) {
        if ((error = room_for_one(transfer))) break;
        if ((error = pieces_take(&pieces, &memory, file, bytes - done))) break;
        error = add(transfer, is_write ? pvfs_submit_writex(queue, fd->fd_sys, pieces.memory, pieces.memory_count, pieces.file,
                                                            pieces.file_count, NULL)
                                       : pvfs_submit_readx(queue, fd->fd_sys, pieces.memory, pieces.memory_count, pieces.file,
                                                           pieces.file_count, NULL));
    }
    pieces_free(&pieces);
    return error;
}

/* What was submitted before an error still moves the program's memory: it must end before the program has its memory back. */
static void give_up(struct transfer *transfer) {
    for (size_t i = 0; i < transfer->count; i++) pvfs_cancel(queue, transfer->tickets[i]);
}

static void start(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset, int contiguous,
                  int is_write, ADIO_Request *request, int *code) {
    MPI_Count element, viewed;
    PMPI_Type_size_x(datatype, &element);
    PMPI_Type_size_x(fd->filetype, &viewed);
    ADIO_Offset bytes = contiguous || viewed > 0 ? (ADIO_Offset)element * count : 0;
    struct transfer *transfer = calloc(1, sizeof *transfer);
    int error = transfer ? begin() : ENOMEM;
    if (!error && bytes > 0) {
        /* ROMIO gives contiguous accesses in bytes of the file. */
        struct cursor file = contiguous ? (struct cursor){.base = pointer == ADIO_INDIVIDUAL ? fd->fp_ind : offset}
                                        : cursor_in_file(fd, pointer, offset);
        struct cursor memory = contiguous ? (struct cursor){.base = (ADIO_Offset)(intptr_t)buffer}
                                          : cursor_in_memory(buffer, datatype);
        error = submit(transfer, fd, memory, &file, bytes, is_write);
        if (error) give_up(transfer);
        if (!error && pointer == ADIO_INDIVIDUAL) fd->fp_ind = cursor_at(&file);
    }
    *code = pvfs_mpi_error(is_write ? "writing" : "reading", fd->filename, error);
    if (error) {
        if (transfer) free_transfer(transfer);
        return;
    }
    if (is_write) fd->dirty_write = 1;
    transfer->doing = is_write ? "writing" : "reading";
    transfer->name = strdup(fd->filename);
    PMPIX_Grequest_class_allocate(request_class, transfer, request);
    transfer->request = *request;
    if (transfer->count == 0)
        PMPI_Grequest_complete(transfer->request);
    else
        pvfs_flush(queue); /* on its way, while the program computes */
}

/* Atomic mode takes a lock around each access, which nothing can do for one that is on the way. */
static void blocking(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset, int is_write,
                     ADIO_Request *request, int *code) {
    ADIO_Status status;
    MPI_Count bytes = 0;
    if (is_write)
        pvfs_write_strided(fd, buffer, count, datatype, pointer, offset, &status, code);
    else
        pvfs_read_strided(fd, buffer, count, datatype, pointer, offset, &status, code);
    if (*code == MPI_SUCCESS) PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    MPIO_Completed_request_create(&fd, bytes, code, request);
}

void pvfs_iread_contig(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                       ADIO_Request *request, int *code) {
    if (fd->atomicity)
        ADIOI_FAKE_IreadContig(fd, buffer, count, datatype, pointer, offset, request, code);
    else
        start(fd, buffer, count, datatype, pointer, offset, 1, 0, request, code);
}

void pvfs_iwrite_contig(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                        ADIO_Request *request, int *code) {
    if (fd->atomicity)
        ADIOI_FAKE_IwriteContig(fd, buffer, count, datatype, pointer, offset, request, code);
    else
        start(fd, (void *)buffer, count, datatype, pointer, offset, 1, 1, request, code);
}

void pvfs_iread_strided(ADIO_File fd, void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                        ADIO_Request *request, int *code) {
    if (fd->atomicity)
        blocking(fd, buffer, count, datatype, pointer, offset, 0, request, code);
    else
        start(fd, buffer, count, datatype, pointer, offset, 0, 0, request, code);
}

void pvfs_iwrite_strided(ADIO_File fd, const void *buffer, romio_count count, MPI_Datatype datatype, int pointer, ADIO_Offset offset,
                         ADIO_Request *request, int *code) {
    if (fd->atomicity)
        blocking(fd, (void *)buffer, count, datatype, pointer, offset, 1, request, code);
    else
        start(fd, (void *)buffer, count, datatype, pointer, offset, 0, 1, request, code);
}
