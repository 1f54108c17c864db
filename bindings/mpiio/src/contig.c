/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a datatype is one run of bytes, in order, with nothing between one element and the next.
 *
 * ROMIO asks MPICH's insides; this answers with public calls. Saying no too often is slow, saying yes wrongly corrupts data: a
 * type may have the size of its extent and yet interleave or reorder bytes. So a type is taken apart until it is proven.
 */
#include <stdlib.h>

#include "contig.h"

/* What is known of a datatype: whether its bytes, in the order of its type map, are start, start + 1, ... start + size - 1. */
struct run {
    int is_run;
    MPI_Count size;
    MPI_Count start;
    MPI_Count extent;
};

/* The pieces a type was made of, as MPI_Type_get_contents gives them. */
struct contents {
    int combiner;
    int types_count;
    int *integers;
    MPI_Aint *addresses;
    MPI_Datatype *types;
};

static struct run run_of(MPI_Datatype datatype);

static struct run not_a_run(void) {
    return (struct run){0, 0, 0, 0};
}

/* Types that have no parts: those with a name, and those that MPI_Type_create_f90_... returns. */
static int is_whole(int combiner) {
    return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
           combiner == MPI_COMBINER_F90_INTEGER;
}

static void release(struct contents *parts) {
    for (int i = 0; i < parts->types_count; i++) {
        int integers, addresses, types, combiner;
        PMPI_Type_get_envelope(parts->types[i], &integers, &addresses, &types, &combiner);
        if (!is_whole(combiner)) PMPI_Type_free(&parts->types[i]);
    }
    free(parts->integers);
    free(parts->addresses);
    free(parts->types);
}

/* 0 where there is no memory for the parts. */
static int take_apart(MPI_Datatype datatype, int integers, int addresses, struct contents *parts) {
    parts->integers = calloc((size_t)integers + 1, sizeof(int));
    parts->addresses = calloc((size_t)addresses + 1, sizeof(MPI_Aint));
    parts->types = calloc((size_t)parts->types_count + 1, sizeof(MPI_Datatype));
    if (!parts->integers || !parts->addresses || !parts->types) {
        parts->types_count = 0;
        release(parts);
        return 0;
    }
    PMPI_Type_get_contents(datatype, integers, addresses, parts->types_count, parts->integers, parts->addresses, parts->types);
    return 1;
}

/* One after another: what was before, and what is to be appended at a displacement. Empty parts leave no trace. */
static struct run append(struct run before, struct run part, MPI_Count displacement) {
    if (!before.is_run || !part.is_run) return not_a_run();
    if (part.size == 0) return before;
    part.start += displacement;
    if (before.size == 0) return part;
    if (part.start != before.start + before.size) return not_a_run();
    before.size += part.size;
    return before;
}

/* count elements of a type, one extent after another. */
static struct run repeat(struct run element, MPI_Count count) {
    if (count == 0 || (element.is_run && element.size == 0)) return (struct run){1, 0, 0, 0};
    if (!element.is_run || (count > 1 && element.extent != element.size)) return not_a_run();
    element.size *= count;
    return element;
}

/* count blocks, block i of `length(i)` elements at `displacement(i)`. The combiners differ only in where these numbers are. */
static struct run blocks(const struct contents *parts, int count) {
    const int *integers = parts->integers;
    struct run whole = {1, 0, 0, 0};
    struct run element = run_of(parts->types[0]);
    for (int i = 0; i < count && whole.is_run; i++) {
        MPI_Count length, displacement;
        switch (parts->combiner) {
        case MPI_COMBINER_VECTOR:
            length = integers[1], displacement = (MPI_Count)i * integers[2] * element.extent;
            break;
        case MPI_COMBINER_HVECTOR:
        case MPI_COMBINER_HVECTOR_INTEGER:
            length = integers[1], displacement = (MPI_Count)i * parts->addresses[0];
            break;
        case MPI_COMBINER_INDEXED:
            length = integers[1 + i], displacement = (MPI_Count)integers[1 + count + i] * element.extent;
            break;
        case MPI_COMBINER_HINDEXED:
        case MPI_COMBINER_HINDEXED_INTEGER:
            length = integers[1 + i], displacement = parts->addresses[i];
            break;
        case MPI_COMBINER_INDEXED_BLOCK:
            length = integers[1], displacement = (MPI_Count)integers[2 + i] * element.extent;
            break;
        case MPI_COMBINER_HINDEXED_BLOCK:
            length = integers[1], displacement = parts->addresses[i];
            break;
        default: /* a struct: every block has its own type */
            element = run_of(parts->types[i]);
            length = integers[1 + i], displacement = parts->addresses[i];
        }
        whole = append(whole, repeat(element, length), displacement);
    }
    return whole;
}

/* A part of an array. Its elements come in ascending order, so it is a run where there are no gaps in it or between elements. */
static struct run part_of_array(MPI_Datatype datatype, MPI_Datatype element_type) {
    MPI_Count size, start, span;
    PMPI_Type_size_x(datatype, &size);
    PMPI_Type_get_true_extent_x(datatype, &start, &span);
    struct run element = run_of(element_type);
    if (size == 0) return (struct run){1, 0, 0, 0};
    if (!element.is_run || size != span || (size > element.size && element.extent != element.size)) return not_a_run();
    return (struct run){1, size, start, 0};
}

static struct run assembled(MPI_Datatype datatype, const struct contents *parts) {
    switch (parts->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return run_of(parts->types[0]);
    case MPI_COMBINER_CONTIGUOUS:
        return repeat(run_of(parts->types[0]), parts->integers[0]);
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_HVECTOR_INTEGER:
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_HINDEXED_INTEGER:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_STRUCT:
    case MPI_COMBINER_STRUCT_INTEGER:
        return parts->integers[0] == 0 ? (struct run){1, 0, 0, 0} : blocks(parts, parts->integers[0]);
    case MPI_COMBINER_SUBARRAY:
    case MPI_COMBINER_DARRAY:
        return part_of_array(datatype, parts->types[0]);
    default:
        return not_a_run(); /* a combiner of a later MPI */
    }
}

static struct run run_of(MPI_Datatype datatype) {
    int integers, addresses, combiner;
    MPI_Count lower;
    struct contents parts;
    struct run whole;
    PMPI_Type_get_envelope(datatype, &integers, &addresses, &parts.types_count, &combiner);
    parts.combiner = combiner;
    if (is_whole(combiner)) {
        MPI_Count span;
        PMPI_Type_size_x(datatype, &whole.size);
        PMPI_Type_get_true_extent_x(datatype, &whole.start, &span);
        whole.is_run = whole.size == span || whole.size == 0; /* MPI_SHORT_INT and the like have a gap inside */
    } else {
        if (!take_apart(datatype, integers, addresses, &parts)) return not_a_run();
        whole = assembled(datatype, &parts);
        release(&parts);
    }
    PMPI_Type_get_extent_x(datatype, &lower, &whole.extent);
    return whole;
}

void MPIR_Datatype_iscontig(MPI_Datatype datatype, int *flag) {
    MPI_Count size, start, span, lower, extent;
    PMPI_Type_size_x(datatype, &size);
    PMPI_Type_get_true_extent_x(datatype, &start, &span);
    PMPI_Type_get_extent_x(datatype, &lower, &extent);
    /* Three numbers settle nearly every type that is not; the others are taken apart. */
    *flag = size == 0 || (start == 0 && size == span && size == extent && run_of(datatype).is_run);
}
