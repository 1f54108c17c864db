/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints and layouts: striping_factor, striping_unit and start_iodevice as MPI 4.1 (14.2.8) and ROMIO name them, and
 * pvfs_distribution for everything else that a layout can be.
 */
#include "pvfs_ompio.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opal/util/info.h"

/* The value of a hint that is a number: 1 and the number, 0 where there is no such hint, -1 where it is none. */
static int number_of(struct opal_info_t *info, const char *key, long long least, long long most, long long *number) {
    char text[32];
    int found = 0;
    if (opal_info_get(info, key, sizeof text - 1, text, &found) != OPAL_SUCCESS || !found) return 0;
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *number >= least && *number <= most ? 1 : -1;
}

int pvfs_ompio_wanted_layout(struct opal_info_t *info, struct pvfs_layout *layout) {
    memset(layout, 0, sizeof *layout);
    layout->base = -1;
    layout->pcount = -1;
    if (info == NULL) return 0;
    long long number;
    int wanted = 0, found;
    if ((found = number_of(info, "striping_factor", 1, PVFS_IODS_MAX, &number)) != 0) {
        if (found < 0) return -1;
        layout->pcount = (int32_t)number;
        wanted = 1;
    }
    if ((found = number_of(info, "striping_unit", 1, INT32_MAX, &number)) != 0) {
        if (found < 0) return -1;
        layout->ssize = number;
        wanted = 1;
    }
    if ((found = number_of(info, "start_iodevice", 0, PVFS_IODS_MAX - 1, &number)) != 0) {
        if (found < 0) return -1;
        layout->base = (int32_t)number;
        wanted = 1;
    }
    int given = 0;
    if (opal_info_get(info, "pvfs_distribution", sizeof layout->distribution - 1, layout->distribution, &given) ==
            OPAL_SUCCESS && given)
        wanted = 1;
    return wanted;
}

static void tell(struct opal_info_t *info, const char *key, long long number) {
    char text[32];
    snprintf(text, sizeof text, "%lld", number);
    opal_info_set(info, key, text);
}

void pvfs_ompio_tell_layout(struct opal_info_t *info, const struct pvfs_layout *layout, ompio_file_t *file) {
    /* Collective I/O gives every aggregator whole strips where it knows how long they are. */
    file->f_stripe_size = layout->ssize > 0 ? (size_t)layout->ssize : 0;
    file->f_stripe_count = layout->pcount > 0 ? layout->pcount : 1;
    if (info == NULL) return;
    if (layout->pcount > 0) tell(info, "striping_factor", layout->pcount);
    if (layout->ssize > 0) tell(info, "striping_unit", layout->ssize);
    if (layout->base >= 0) tell(info, "start_iodevice", layout->base);
    if (layout->distribution[0] != '\0') opal_info_set(info, "pvfs_distribution", layout->distribution);
}
