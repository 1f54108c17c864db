/* SPDX-License-Identifier: Apache-2.0
 *
 * MPIR_Datatype_iscontig says yes only for types that are a run of bytes, and says it for nearly all of those. (It misses some
 * with empty parts, which MPICH counts into the true extent, and arrays of elements that fit together by chance.)
 *
 * Random types are made by every constructor of MPI, and beside each the list of its bytes in the order of its type map, by the
 * definition in the standard (MPI-4.0, 5.1). The list says what is right; only for the extent, which an implementation may pad,
 * MPI is believed. Arguments: a seed and a number of types.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/contig.h"

#define BYTES_MAX 4096

struct model {
    MPI_Datatype type;
    int count;             /* bytes */
    long bytes[BYTES_MAX]; /* displacements, in the order of the type map */
    long extent;
};

static unsigned long state;
static int below(int limit) { /* 0 <= x < limit */
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (int)((state >> 33) % (unsigned long)limit);
}

static struct model *measured(struct model *m) {
    MPI_Aint lower, extent;
    MPI_Type_get_extent(m->type, &lower, &extent);
    m->extent = extent;
    return m;
}

/* Appends `length` elements of the old type at a displacement in bytes. 0: it would be too long. */
static int place(struct model *m, const struct model *old, int length, long displacement) {
    for (int element = 0; element < length; element++) {
        if (m->count + old->count > BYTES_MAX) return 0;
        for (int i = 0; i < old->count; i++) m->bytes[m->count++] = displacement + element * old->extent + old->bytes[i];
    }
    return 1;
}

static struct model *make(int depth);

static struct model *named(void) {
    static const struct { int code, size; } sizes[] = {{0, 1}, {1, 2}, {2, 4}, {3, 8}};
    struct model *m = calloc(1, sizeof *m);
    int which = below(5);
    if (which == 4) { /* a gap of two bytes within */
        struct { short a; int b; } pair;
        m->type = MPI_SHORT_INT;
        for (int i = 0; i < 2; i++) m->bytes[m->count++] = i;
        for (int i = 0; i < 4; i++) m->bytes[m->count++] = (char *)&pair.b - (char *)&pair + i;
        return measured(m);
    }
    MPI_Datatype types[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    m->type = types[which];
    for (int i = 0; i < sizes[which].size; i++) m->bytes[m->count++] = i;
    return measured(m);
}

static void forget(struct model *m) {
    int integers, addresses, types, combiner;
    MPI_Type_get_envelope(m->type, &integers, &addresses, &types, &combiner);
    if (combiner != MPI_COMBINER_NAMED) MPI_Type_free(&m->type);
    free(m);
}

/* The subarray and the darray are described by what they keep of an array of elements, in C or Fortran order. */
static int array_part(struct model *m, const struct model *old) {
    int dimensions = 1 + below(3), sizes[3], subsizes[3], starts[3], order = below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    long total = 1;
    for (int d = 0; d < dimensions; d++) {
        sizes[d] = 1 + below(4);
        subsizes[d] = below(2) ? sizes[d] : 1 + below(sizes[d]);
        starts[d] = below(sizes[d] - subsizes[d] + 1);
        total *= sizes[d];
    }
    for (long cell = 0; cell < total; cell++) {
        long rest = cell;
        int inside = 1;
        for (int i = 0; i < dimensions; i++) { /* the fastest dimension first */
            int d = order == MPI_ORDER_C ? dimensions - 1 - i : i;
            int index = (int)(rest % sizes[d]);
            rest /= sizes[d];
            inside &= index >= starts[d] && index < starts[d] + subsizes[d];
        }
        if (inside && !place(m, old, 1, cell * old->extent)) return 0;
    }
    MPI_Type_create_subarray(dimensions, sizes, subsizes, starts, order, old->type, &m->type);
    return 1;
}

static struct model *derived(int depth) {
    struct model *m = calloc(1, sizeof *m), *old[3] = {make(depth - 1), make(depth - 1), make(depth - 1)};
    int ok = 1, count = below(4), length = below(4), stride = below(6) - 1;
    int lengths[3], displacements[3];
    MPI_Aint bytes[3];
    MPI_Datatype types[3];
    /* Displacements that fit together are rare among random ones, so half of them follow one another. */
    long next = below(3), next_bytes = below(9);
    int closely = below(2);
    for (int i = 0; i < 3; i++) {
        lengths[i] = below(3);
        displacements[i] = closely ? (int)next : below(8);
        bytes[i] = closely ? next_bytes : below(40);
        next += lengths[i];
        next_bytes += lengths[i] * old[0]->extent;
        types[i] = old[i]->type;
    }
    count = count > 3 ? 3 : count;
    switch (below(11)) {
    case 0:
        ok = place(m, old[0], count, 0);
        MPI_Type_contiguous(count, old[0]->type, &m->type);
        break;
    case 1:
        if (below(2)) stride = length;
        for (int i = 0; ok && i < count; i++) ok = place(m, old[0], length, i * stride * old[0]->extent);
        MPI_Type_vector(count, length, stride, old[0]->type, &m->type);
        break;
    case 2: {
        MPI_Aint step = below(2) ? length * old[0]->extent : below(40);
        for (int i = 0; ok && i < count; i++) ok = place(m, old[0], length, i * (long)step);
        MPI_Type_create_hvector(count, length, step, old[0]->type, &m->type);
        break;
    }
    case 3:
        for (int i = 0; ok && i < count; i++) ok = place(m, old[0], lengths[i], displacements[i] * old[0]->extent);
        MPI_Type_indexed(count, lengths, displacements, old[0]->type, &m->type);
        break;
    case 4:
        for (int i = 0; ok && i < count; i++) ok = place(m, old[0], lengths[i], bytes[i]);
        MPI_Type_create_hindexed(count, lengths, bytes, old[0]->type, &m->type);
        break;
    case 5:
        for (int i = 0; ok && i < count; i++) ok = place(m, old[0], length, displacements[i] * old[0]->extent);
        MPI_Type_create_indexed_block(count, length, displacements, old[0]->type, &m->type);
        break;
    case 6:
        for (int i = 0; ok && i < count; i++) ok = place(m, old[0], length, bytes[i]);
        MPI_Type_create_hindexed_block(count, length, bytes, old[0]->type, &m->type);
        break;
    case 7:
        if (closely) {
            long at = below(5);
            for (int i = 0; i < 3; i++) {
                bytes[i] = at - (old[i]->count ? old[i]->bytes[0] : 0);
                at += lengths[i] * old[i]->count;
            }
        }
        for (int i = 0; ok && i < count; i++) ok = place(m, old[i], lengths[i], bytes[i]);
        MPI_Type_create_struct(count, lengths, bytes, types, &m->type);
        break;
    case 8: {
        long lower = below(4) - 1, extent = below(2) ? old[0]->count : below(30);
        ok = place(m, old[0], 1, 0);
        MPI_Type_create_resized(old[0]->type, lower, extent, &m->type);
        break;
    }
    case 9:
        ok = place(m, old[0], 1, 0);
        MPI_Type_dup(old[0]->type, &m->type);
        break;
    default:
        ok = array_part(m, old[0]);
    }
    for (int i = 0; i < 3; i++) forget(old[i]);
    if (ok) return measured(m);
    if (m->type != MPI_DATATYPE_NULL && m->type != 0) MPI_Type_free(&m->type);
    free(m);
    return named();
}

static struct model *make(int depth) {
    return depth == 0 || below(4) == 0 ? named() : derived(depth);
}

static int truly_contiguous(const struct model *m) {
    for (int i = 1; i < m->count; i++)
        if (m->bytes[i] != m->bytes[i - 1] + 1) return 0;
    return m->count == 0 || (m->bytes[0] == 0 && m->extent == m->count);
}

int main(int argc, char **argv) {
    unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 20000, contiguous = 0, composed = 0, missed = 0;
    MPI_Init(&argc, &argv);
    for (int round = 0; round < rounds; round++) {
        state = seed + (unsigned long)round * 2654435761ul;
        struct model *m = make(1 + round % 4);
        int integers, addresses, types, combiner, size, says, right = truly_contiguous(m);
        MPI_Type_size(m->type, &size);
        MPI_Type_get_envelope(m->type, &integers, &addresses, &types, &combiner);
        if (size != m->count) {
            printf("the model of type %d has %d bytes and not %d: replay with %lu 1\n", round, m->count, size, seed);
            return 1;
        }
        MPIR_Datatype_iscontig(m->type, &says);
        if (says && !right) {
            printf("type %d, combiner %d, of %d bytes and extent %ld is not contiguous; replay with seed %lu\n", round, combiner,
                   size, m->extent, seed);
            return 1;
        }
        missed += right && !says;
        contiguous += right && m->count > 0 && combiner != MPI_COMBINER_NAMED;
        composed += combiner != MPI_COMBINER_NAMED;
        forget(m);
    }
    MPI_Finalize();
    printf("%d types, %d of the %d composed ones contiguous, %d missed\n", rounds, contiguous, composed, missed);
    /* A test that meets one kind only proves nothing. */
    return contiguous > rounds / 50 && composed - contiguous > rounds / 50 && missed <= contiguous / 100 ? 0 : 1;
}
