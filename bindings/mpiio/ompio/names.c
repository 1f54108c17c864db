/* SPDX-License-Identifier: Apache-2.0
 *
 * Which names are ours: those that begin with "pvfs:", and paths below the prefix or a mount of PVFS. OMPIO hands on names as
 * the program wrote them, prefix included.
 */
#include "pvfs_ompio.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

static const char PREFIX[] = "pvfs:";

static const char *after_prefix(const char *name) {
    return strncasecmp(name, PREFIX, sizeof PREFIX - 1) == 0 ? name + sizeof PREFIX - 1 : NULL;
}

int pvfs_ompio_is_ours(const char *name) {
    return name != NULL && (after_prefix(name) != NULL || pvfs_is_ours(name) == 1);
}

int pvfs_ompio_path(const char *name, char path[PATH_MAX]) {
    const char *bare = after_prefix(name), *before = "";
    if (bare == NULL) bare = name;
    /* "pvfs:/a" is /a of the file system, wherever that appears. */
    else if (bare[0] == '/' && pvfs_is_ours(bare) != 1) before = pvfs_prefix();
    int length = snprintf(path, PATH_MAX, "%s%s", before, bare);
    return length < PATH_MAX ? 0 : ENAMETOOLONG;
}
