/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose a name is: "pvfs:NAME", and plain paths that are ours, go to the driver; all others where they went before.
 *
 * A program often opens one file by MPI-IO and by open(2), with one name. So a plain path below a mount or the prefix of PVFS
 * needs no "pvfs:" in front.
 */
#include <errno.h>
#include <limits.h>
#include <strings.h>

#include "driver.h"

void __real_ADIO_ResolveFileType(MPI_Comm comm, const char *name, int *type, ADIOI_Fns **operations, int *code);

/* Ranks may see different mounts; they must not take different drivers. So the first one decides, and where the file system
 * cannot be reached from another node, that rank's open says so. */
static int is_ours(MPI_Comm comm, const char *name) {
    int rank, ours = 0;
    if (strncasecmp(name, "pvfs:", 5) == 0) return 1;
    if (strchr(name, ':')) return 0; /* the prefix of another file system, as ROMIO has it */
    PMPI_Comm_rank(comm, &rank);
    if (rank == 0) ours = pvfs_is_ours(name) == 1;
    PMPI_Bcast(&ours, 1, MPI_INT, 0, comm);
    return ours;
}

void __wrap_ADIO_ResolveFileType(MPI_Comm comm, const char *name, int *type, ADIOI_Fns **operations, int *code) {
    if (!name || getenv("ROMIO_FSTYPE_FORCE") || !is_ours(comm, name)) {
        __real_ADIO_ResolveFileType(comm, name, type, operations, code);
        return;
    }
    *type = PVFS_FILE_SYSTEM;
    *operations = &pvfs_operations;
    *code = MPI_SUCCESS;
}

int pvfs_path(const char *name, char *path) {
    int length;
    if (name[0] != '/' || pvfs_is_ours(name))
        length = snprintf(path, PATH_MAX, "%s", name);
    else /* "pvfs:/a" is /a of the file system, wherever that appears */
        length = snprintf(path, PATH_MAX, "%s%s", pvfs_prefix(), name);
    return length < PATH_MAX ? 0 : ENAMETOOLONG;
}
