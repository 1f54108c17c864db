/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of memory and of a file as the vectors of readx and writex.
 */
#ifndef PVFS_PIECES_H
#define PVFS_PIECES_H

#include "cursor.h"

/* Longer accesses go in several calls, so that the vectors stay small next to what they describe. Each call is still one request
 * to every iod or more. */
#define PIECES_MAX (1 << 17)

struct pieces {
    struct iovec *memory;
    struct xtvec *file;
    size_t memory_count, memory_room, file_count, file_room;
    ADIO_Offset bytes;
};

/* The next pieces from both cursors, up to `bytes` of data, and moves both. Pieces that touch become one. 0, or ENOMEM. */
int pieces_take(struct pieces *pieces, struct cursor *memory, struct cursor *file, ADIO_Offset bytes);
void pieces_free(struct pieces *pieces);

#endif
