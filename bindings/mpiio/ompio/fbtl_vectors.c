/* SPDX-License-Identifier: Apache-2.0
 *
 * An access as OMPIO has prepared it, one entry for each piece that is contiguous both in memory and in the file, as a list of
 * memory and a list of regions. Neighbours are joined, so that a buffer without holes is one piece of memory however
 * scattered the file is, and the other way round.
 */
#include "pvfs_ompio.h"

#include <stdint.h>
#include <stdlib.h>

static void add_memory(struct pvfs_ompio_access *access, void *address, size_t bytes) {
    struct iovec *last = access->memory_count > 0 ? &access->memory[access->memory_count - 1] : NULL;
    if (last != NULL && (char *)last->iov_base + last->iov_len == address)
        last->iov_len += bytes;
    else
        access->memory[access->memory_count++] = (struct iovec){address, bytes};
}

static void add_region(struct pvfs_ompio_access *access, int64_t offset, size_t bytes) {
    struct xtvec *last = access->region_count > 0 ? &access->regions[access->region_count - 1] : NULL;
    if (last != NULL && last->xtv_off + (int64_t)last->xtv_len == offset)
        last->xtv_len += bytes;
    else
        access->regions[access->region_count++] = (struct xtvec){offset, bytes};
}

int pvfs_ompio_access(const ompio_file_t *file, struct pvfs_ompio_access *access) {
    int entries = file->f_num_of_io_entries;
    *access = (struct pvfs_ompio_access){0};
    if (entries <= 0 || file->f_io_array == NULL) return 0;
    access->memory = malloc((size_t)entries * sizeof *access->memory);
    access->regions = malloc((size_t)entries * sizeof *access->regions);
    if (access->memory == NULL || access->regions == NULL) {
        pvfs_ompio_access_free(access);
        return -1;
    }
    for (int at = 0; at < entries; at++) {
        const mca_common_ompio_io_array_t *entry = &file->f_io_array[at];
        int64_t offset = (int64_t)(intptr_t)entry->offset;
        if (entry->length == 0) continue;
        add_memory(access, entry->memory_address, entry->length);
        add_region(access, offset, entry->length);
        int64_t end = offset + (int64_t)entry->length;
        if (access->bytes == 0 || offset < access->first) access->first = offset;
        if (end > access->end) access->end = end;
        access->bytes += entry->length;
    }
    return 0;
}

void pvfs_ompio_access_free(struct pvfs_ompio_access *access) {
    free(access->memory);
    free(access->regions);
    *access = (struct pvfs_ompio_access){0};
}
