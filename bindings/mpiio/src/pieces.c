/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of memory and of a file as the vectors of readx and writex.
 */
#include <errno.h>
#include <stdlib.h>

#include "pieces.h"

static int more_room(void **vector, size_t *room, size_t entry) {
    size_t wanted = *room ? *room * 2 : 64;
    void *larger = realloc(*vector, wanted * entry);
    if (!larger) return ENOMEM;
    *vector = larger;
    *room = wanted;
    return 0;
}

static int add_memory(struct pieces *pieces, char *at, size_t len) {
    struct iovec *last = pieces->memory_count ? &pieces->memory[pieces->memory_count - 1] : NULL;
    if (last && (char *)last->iov_base + last->iov_len == at) {
        last->iov_len += len;
        return 0;
    }
    if (pieces->memory_count == pieces->memory_room &&
        more_room((void **)&pieces->memory, &pieces->memory_room, sizeof *pieces->memory))
        return ENOMEM;
    pieces->memory[pieces->memory_count++] = (struct iovec){at, len};
    return 0;
}

static int add_file(struct pieces *pieces, ADIO_Offset at, size_t len) {
    struct xtvec *last = pieces->file_count ? &pieces->file[pieces->file_count - 1] : NULL;
    if (last && last->xtv_off + (int64_t)last->xtv_len == at) {
        last->xtv_len += len;
        return 0;
    }
    if (pieces->file_count == pieces->file_room && more_room((void **)&pieces->file, &pieces->file_room, sizeof *pieces->file))
        return ENOMEM;
    pieces->file[pieces->file_count++] = (struct xtvec){at, len};
    return 0;
}

int pieces_take(struct pieces *pieces, struct cursor *memory, struct cursor *file, ADIO_Offset bytes) {
    pieces->memory_count = pieces->file_count = 0;
    pieces->bytes = 0;
    while (pieces->bytes < bytes && pieces->memory_count < PIECES_MAX && pieces->file_count < PIECES_MAX) {
        ADIO_Offset len = MPL_MIN(cursor_run(memory), cursor_run(file));
        len = MPL_MIN(len, bytes - pieces->bytes);
        if (add_memory(pieces, (char *)(intptr_t)cursor_at(memory), (size_t)len) ||
            add_file(pieces, cursor_at(file), (size_t)len))
            return ENOMEM;
        cursor_advance(memory, len);
        cursor_advance(file, len);
        pieces->bytes += len;
    }
    return 0;
}

void pieces_free(struct pieces *pieces) {
    free(pieces->memory);
    free(pieces->file);
}
