/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints: how a new file shall lie on the iods, and how an open one does.
 *
 * striping_factor, striping_unit and start_iodevice are MPI's own names; pvfs_distribution takes what `pvfs stripe get` prints.
 * They count when a file is created. Once it is open they tell what is so, and ROMIO aligns the parts of a file that it gives
 * to different ranks in collective calls to the striping unit.
 */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "hint_fns.h"

static void set_number(MPI_Info info, const char *key, long long value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    ADIOI_Info_set(info, key, text);
}

static void show(ADIO_File fd) {
    if (fd->hints->striping_factor > 0) set_number(fd->info, "striping_factor", fd->hints->striping_factor);
    if (fd->hints->striping_unit > 0) set_number(fd->info, "striping_unit", fd->hints->striping_unit);
    if (fd->hints->start_iodevice >= 0) set_number(fd->info, "start_iodevice", fd->hints->start_iodevice);
}

/* ROMIO's own reading of the hints knows striping_unit alone. */
static void read_wishes(ADIO_File fd, MPI_Info users_info, int *code) {
    static char myself[] = "PVFS_SetInfo";
    char text[PVFS_DISTRIBUTION_MAX];
    int is_set = 0;
    fd->hints->striping_factor = fd->hints->start_iodevice = -1;
    if (users_info == MPI_INFO_NULL) return;
    ADIOI_Info_check_and_install_int(fd, users_info, "striping_factor", &fd->hints->striping_factor, myself, code);
    ADIOI_Info_check_and_install_int(fd, users_info, "start_iodevice", &fd->hints->start_iodevice, myself, code);
    ADIOI_Info_get(users_info, "pvfs_distribution", sizeof text - 1, text, &is_set);
    if (is_set) ADIOI_Info_set(fd->info, "pvfs_distribution", text);
}

void pvfs_set_info(ADIO_File fd, MPI_Info users_info, int *code) {
    struct pvfs_file *file = pvfs_file_of(fd);
    int first = !fd->hints->initialized, unit = fd->hints->striping_unit;
    ADIOI_GEN_SetInfo(fd, users_info, code);
    if (first) {
        read_wishes(fd, users_info, code);
    } else if (file && file->layout_known) {
        fd->hints->striping_unit = unit; /* a file that exists is not striped anew */
        show(fd);
    }
}

int pvfs_layout_wished(ADIO_File fd, struct pvfs_layout *layout) {
    const ADIOI_Hints *hints = fd->hints;
    int named = 0;
    memset(layout, 0, sizeof *layout);
    layout->base = hints->start_iodevice >= 0 ? hints->start_iodevice : -1;
    layout->pcount = hints->striping_factor > 0 ? hints->striping_factor : -1;
    layout->ssize = hints->striping_unit > 0 ? hints->striping_unit : 0;
    ADIOI_Info_get(fd->info, "pvfs_distribution", sizeof layout->distribution - 1, layout->distribution, &named);
    return named || layout->base >= 0 || layout->pcount > 0 || layout->ssize > 0;
}

void pvfs_tell_layout(ADIO_File fd, const struct pvfs_striping *striping) {
    fd->hints->striping_factor = striping->factor;
    fd->hints->striping_unit = striping->unit > 0 ? striping->unit : 0;
    fd->hints->start_iodevice = striping->first;
    if (striping->distribution[0]) ADIOI_Info_set(fd->info, "pvfs_distribution", striping->distribution);
    show(fd);
}
