/* SPDX-License-Identifier: Apache-2.0
 *
 * How `pvfs bench mpi` drives a job, so that what is compared takes turns: orders, one a line, on the standard input of rank 0,
 * for all ranks; after each a line with what it took.
 */
#ifndef ORDERS_H
#define ORDERS_H

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ORDER_BYTES 64

/* The next order; 0 after the last one. Ranks sleep while they wait: one that looked for messages all the time, as MPI does, would
 * take a processor from the other side of a comparison. */
static int ordered(char order[ORDER_BYTES]) {
    int rank, told = 0;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(order, 0, ORDER_BYTES);
    if (rank == 0 && fgets(order, ORDER_BYTES, stdin)) order[strcspn(order, "\n")] = 0;
    MPI_Ibcast(order, ORDER_BYTES, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &told, MPI_STATUS_IGNORE), !told) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return order[0] != 0;
}

struct moment {
    double time, processor;
};

static struct moment moment(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (struct moment){MPI_Wtime(), (double)used.tv_sec + (double)used.tv_nsec / 1e9};
}

/* All ranks begin at once. */
static struct moment begin(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    return moment();
}

/* Prints the seconds of the rank that took longest, and the processor seconds of all. */
static void answer(struct moment from) {
    struct moment now = moment();
    double own[2] = {now.time - from.time, now.processor - from.processor}, longest, all;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Reduce(&own[0], &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&own[1], &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%.9f %.9f\n", longest, all), fflush(stdout);
}

#endif
