/* SPDX-License-Identifier: Apache-2.0
 *
 * A place in memory or in a file that a datatype describes.
 *
 *   base      tile 0             tile 1             tile 2
 *    |  ..####..##.....  ..####..##.....  ..####..##.....      each of extent bytes
 *          block 0, 1
 */
#include "cursor.h"

/* Markers of bounds are blocks without bytes: nobody wants to stand there. */
static void skip_empty(struct cursor *cursor) {
    if (!cursor->flat) return;
    while (cursor->flat->blocklens[cursor->block] == cursor->within) {
        cursor->within = 0;
        if (++cursor->block == cursor->flat->count) cursor->block = 0, cursor->tile++;
    }
}

ADIO_Offset cursor_at(const struct cursor *cursor) {
    ADIO_Offset start = cursor->flat ? cursor->flat->indices[cursor->block] : 0;
    return cursor->base + cursor->tile * cursor->extent + start + cursor->within;
}

ADIO_Offset cursor_run(const struct cursor *cursor) {
    return cursor->flat ? cursor->flat->blocklens[cursor->block] - cursor->within : LLONG_MAX;
}

void cursor_advance(struct cursor *cursor, ADIO_Offset bytes) {
    while (bytes > 0) {
        ADIO_Offset step = MPL_MIN(bytes, cursor_run(cursor));
        cursor->within += step;
        bytes -= step;
        skip_empty(cursor);
    }
}

static struct cursor start(ADIO_Offset base, MPI_Datatype datatype) {
    struct cursor cursor = {.base = base};
    MPI_Aint lower, extent;
    int contiguous;
    ADIOI_Datatype_iscontig(datatype, &contiguous);
    if (contiguous) return cursor;
    PMPI_Type_get_extent(datatype, &lower, &extent);
    cursor.extent = extent;
    cursor.flat = ADIOI_Flatten_and_find(datatype);
    skip_empty(&cursor);
    return cursor;
}

struct cursor cursor_in_memory(const void *buffer, MPI_Datatype datatype) {
    return start((ADIO_Offset)(intptr_t)buffer, datatype);
}

/* To the first data at or behind a byte of the file. */
static void seek_byte(struct cursor *cursor, ADIO_Offset at) {
    const ADIOI_Flatlist_node *flat = cursor->flat;
    if (!flat) {
        cursor->within = at - cursor->base;
        return;
    }
    ADIO_Offset end = flat->indices[flat->count - 1] + flat->blocklens[flat->count - 1];
    ADIO_Offset tiles_behind = cursor->extent > 0 ? (at - cursor->base - end) / cursor->extent : 0;
    if (tiles_behind > 1) cursor->tile = tiles_behind - 1; /* whole tiles at once, the last ones block by block */
    while (cursor_at(cursor) + cursor_run(cursor) <= at) {
        cursor->within = flat->blocklens[cursor->block];
        skip_empty(cursor);
    }
    if (cursor_at(cursor) < at) cursor->within = at - cursor_at(cursor);
}

struct cursor cursor_in_file(ADIO_File fd, int pointer, ADIO_Offset offset) {
    struct cursor cursor = start(fd->disp, fd->filetype);
    if (pointer == ADIO_INDIVIDUAL) {
        seek_byte(&cursor, fd->fp_ind);
        return cursor;
    }
    ADIO_Offset bytes = offset * fd->etype_size;
    if (cursor.flat) {
        MPI_Count size;
        PMPI_Type_size_x(fd->filetype, &size);
        cursor.tile += bytes / size;
        bytes %= size;
    }
    cursor_advance(&cursor, bytes);
    return cursor;
}
