/* SPDX-License-Identifier: Apache-2.0
 *
 * Error codes: what ROMIO and the driver report, made into codes of the MPI library that is loaded.
 *
 * A code should carry the class and a sentence. MPICH and what descends from it export the routine that makes such codes; where
 * it is missing the class itself is the code, which every MPI understands and describes in general words.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "adio.h"
#include "driver.h"

extern int MPIR_Err_create_code(int last, int fatal, const char function[], int line, int error_class, const char generic[],
                                const char specific[], ...) __attribute__((weak));

int MPIO_Err_create_code(int last, int fatal, const char function[], int line, int error_class, const char generic[],
                         const char specific[], ...) {
    if (!MPIR_Err_create_code) return error_class;
    /* The routine that takes a va_list is not exported. No message of ROMIO has more than four arguments, each a pointer or an
     * integer; on 64-bit Linux those are passed alike, so as many as there are conversions are handed on as words. */
    void *words[4] = {NULL, NULL, NULL, NULL};
    va_list arguments;
    va_start(arguments, specific);
    int taken = 0;
    for (const char *at = specific; at && *at && taken < 4; at++)
        if (at[0] == '%' && at[1] != '%') words[taken++] = va_arg(arguments, void *);
    va_end(arguments);
    return MPIR_Err_create_code(last, fatal, function, line, error_class, generic, specific, words[0], words[1], words[2],
                                words[3]);
}

int MPIO_Err_return_comm(MPI_Comm comm, int code) {
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}

/* The class that a program would look at for an error number of a file (MPI-4.0, table 14.4). */
static int class_of(int error) {
    switch (error) {
    case EACCES:
    case EPERM: return MPI_ERR_ACCESS;
    case ENOENT: return MPI_ERR_NO_SUCH_FILE;
    case EEXIST: return MPI_ERR_FILE_EXISTS;
    case EISDIR:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG: return MPI_ERR_BAD_FILE;
    case EROFS: return MPI_ERR_READ_ONLY;
    case ENOSPC: return MPI_ERR_NO_SPACE;
    case EDQUOT: return MPI_ERR_QUOTA;
    case ETXTBSY:
    case EBUSY: return MPI_ERR_FILE_IN_USE;
    case EOPNOTSUPP:
    case ENOSYS: return MPI_ERR_UNSUPPORTED_OPERATION;
    case ENOMEM: return MPI_ERR_NO_MEM;
    default: return MPI_ERR_IO;
    }
}

int pvfs_mpi_error(const char *doing, const char *name, int error) {
    char text[PATH_MAX + 256];
    if (error == 0) return MPI_SUCCESS;
    snprintf(text, sizeof text, "%s %s: %s", doing, name ? name : "", strerror(error));
    return MPIO_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, "PVFS", __LINE__, class_of(error), "**io", "**io %s", text);
}
