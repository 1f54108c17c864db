/* SPDX-License-Identifier: Apache-2.0
 *
 * A place in memory or in a file that a datatype describes, moving from one piece of data to the next.
 */
#ifndef PVFS_CURSOR_H
#define PVFS_CURSOR_H

#include "driver.h"

/* A datatype laid end to end from `base` on: tile after tile, each with the blocks of the flattened type. */
struct cursor {
    ADIO_Offset base;
    const ADIOI_Flatlist_node *flat; /* NULL: no gaps, one block without an end */
    ADIO_Offset extent;
    ADIO_Offset tile;
    MPI_Count block;
    ADIO_Offset within; /* bytes of the block that are behind */
};

/* At the beginning of a buffer of elements. The type must have data in it. */
struct cursor cursor_in_memory(const void *buffer, MPI_Datatype datatype);
/* At an offset in etypes of the view, or (pointer ADIO_INDIVIDUAL) at the file pointer. */
struct cursor cursor_in_file(ADIO_File fd, int pointer, ADIO_Offset offset);

/* Where it is, and how many bytes lie there end to end: at least one. */
ADIO_Offset cursor_at(const struct cursor *cursor);
ADIO_Offset cursor_run(const struct cursor *cursor);
/* Over bytes of data, as many as one likes. Afterwards it stands at data again. */
void cursor_advance(struct cursor *cursor, ADIO_Offset bytes);

#endif
