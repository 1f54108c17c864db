/* SPDX-License-Identifier: Apache-2.0
 *
 * Error handlers of files.
 *
 * The MPI library keeps them inside its own files and knows nothing of ours, so the calls that create, set, get and call them
 * are ours too. A handler is still made by the library, so that it is a number like any other; what function stands behind it,
 * and who still holds it, is noted here: the program from create and from each get until it frees it, a file while it is set.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "adio.h"
#include "adio_extern.h"
#include "driver.h"

enum language { IN_C, IN_FORTRAN };

struct handler {
    MPI_Errhandler handle;
    MPI_File_errhandler_function *function;
    enum language language;
    int holders;
    struct handler *next;
};

/* Programs make a handful. */
static struct handler *handlers;
static pthread_mutex_t handlers_lock = PTHREAD_MUTEX_INITIALIZER;

static struct handler *find(MPI_Errhandler handle) {
    struct handler *found = handlers;
    while (found && found->handle != handle) found = found->next;
    return found;
}

static void hold(MPI_Errhandler handle) {
    pthread_mutex_lock(&handlers_lock);
    struct handler *entry = find(handle);
    if (entry) entry->holders++;
    pthread_mutex_unlock(&handlers_lock);
}

/* Whether others still hold it. Those of communicators and the predefined ones are not noted, and nobody's here. */
static int let_go(MPI_Errhandler handle) {
    pthread_mutex_lock(&handlers_lock);
    struct handler **at = &handlers;
    while (*at && (*at)->handle != handle) at = &(*at)->next;
    struct handler *entry = *at;
    int held = entry && --entry->holders > 0;
    if (entry && !held) {
        *at = entry->next;
        free(entry);
    }
    pthread_mutex_unlock(&handlers_lock);
    return held;
}

/* A routine of the MPI library behind this one. */
static void *next_routine(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

int PMPI_File_create_errhandler(MPI_File_errhandler_function *function, MPI_Errhandler *errhandler) {
    int (*create)(MPI_File_errhandler_function *, MPI_Errhandler *) = next_routine("PMPI_File_create_errhandler");
    int code = create ? create(function, errhandler) : MPI_ERR_INTERN;
    if (code != MPI_SUCCESS) return code;
    pthread_mutex_lock(&handlers_lock);
    struct handler *entry = calloc(1, sizeof *entry);
    if (entry) {
        *entry = (struct handler){*errhandler, function, IN_C, 1, handlers};
        handlers = entry;
    }
    pthread_mutex_unlock(&handlers_lock);
    return entry ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* MPICH's Fortran binding creates a handler as C does and then says that its function takes Fortran's arguments. */
void MPII_Errhandler_set_fc(MPI_Errhandler errhandler) {
    void (*set)(MPI_Errhandler) = next_routine("MPII_Errhandler_set_fc");
    if (set) set(errhandler);
    pthread_mutex_lock(&handlers_lock);
    struct handler *entry = find(errhandler);
    if (entry) entry->language = IN_FORTRAN;
    pthread_mutex_unlock(&handlers_lock);
}

static int is_file(MPI_File fh) {
    return fh == MPI_FILE_NULL || fh->cookie == ADIOI_FILE_COOKIE;
}

static int free_errhandler(MPI_Errhandler *errhandler) {
    int (*free_it)(MPI_Errhandler *) = next_routine("PMPI_Errhandler_free");
    if (let_go(*errhandler)) {
        *errhandler = MPI_ERRHANDLER_NULL;
        return MPI_SUCCESS;
    }
    return free_it ? free_it(errhandler) : MPI_ERR_INTERN;
}

int PMPI_Errhandler_free(MPI_Errhandler *errhandler) {
    return free_errhandler(errhandler);
}

static int is_predefined(MPI_Errhandler errhandler) {
    pthread_mutex_lock(&handlers_lock);
    int known = find(errhandler) != NULL;
    pthread_mutex_unlock(&handlers_lock);
    return !known;
}

int PMPI_File_set_errhandler(MPI_File fh, MPI_Errhandler errhandler) {
    if (!is_file(fh)) return MPI_ERR_FILE;
    MPI_Errhandler *place = fh == MPI_FILE_NULL ? &ADIOI_DFLT_ERR_HANDLER : &fh->err_handler, before = *place;
    hold(errhandler);
    *place = errhandler;
    if (!is_predefined(before)) free_errhandler(&before);
    return MPI_SUCCESS;
}

int PMPI_File_get_errhandler(MPI_File fh, MPI_Errhandler *errhandler) {
    if (!is_file(fh)) return MPI_ERR_FILE;
    *errhandler = fh == MPI_FILE_NULL ? ADIOI_DFLT_ERR_HANDLER : fh->err_handler;
    hold(*errhandler);
    return MPI_SUCCESS;
}

/* A file handle in Fortran is an integer. */
typedef void (*fortran_handler)(MPI_Fint *fh, MPI_Fint *code);

/* The code to return: a handler may have changed it. */
static int call(MPI_File fh, int code) {
    MPI_Errhandler errhandler = fh == MPI_FILE_NULL ? ADIOI_DFLT_ERR_HANDLER : fh->err_handler;
    if (errhandler == MPI_ERRORS_RETURN || errhandler == MPI_ERRHANDLER_NULL) return code;
    pthread_mutex_lock(&handlers_lock);
    struct handler *entry = find(errhandler), known = {0};
    if (entry) known = *entry;
    pthread_mutex_unlock(&handlers_lock);
    if (known.function && known.language == IN_FORTRAN) {
        MPI_Fint handle = MPIO_File_c2f(fh), fortran_code = code;
        ((fortran_handler)(void (*)(void))known.function)(&handle, &fortran_code);
        code = fortran_code;
    } else if (known.function) {
        known.function(&fh, &code);
    } else { /* MPI_ERRORS_ARE_FATAL, MPI_ERRORS_ABORT */
        char text[MPI_MAX_ERROR_STRING];
        int length;
        PMPI_Error_string(code, text, &length);
        fprintf(stderr, "MPI-IO: %s: %s\n", fh == MPI_FILE_NULL ? "no file" : fh->filename, text);
        PMPI_Abort(fh == MPI_FILE_NULL ? MPI_COMM_WORLD : fh->comm, code);
    }
    return code;
}

int PMPI_File_call_errhandler(MPI_File fh, int code) {
    if (!is_file(fh)) return MPI_ERR_FILE;
    call(fh, code);
    return MPI_SUCCESS;
}

int MPIO_Err_return_file(MPI_File fh, int code) {
    return call(is_file(fh) ? fh : MPI_FILE_NULL, code);
}

int MPI_File_create_errhandler(MPI_File_errhandler_function *, MPI_Errhandler *)
    __attribute__((weak, alias("PMPI_File_create_errhandler")));
int MPI_File_set_errhandler(MPI_File, MPI_Errhandler) __attribute__((weak, alias("PMPI_File_set_errhandler")));
int MPI_File_get_errhandler(MPI_File, MPI_Errhandler *) __attribute__((weak, alias("PMPI_File_get_errhandler")));
int MPI_File_call_errhandler(MPI_File, int) __attribute__((weak, alias("PMPI_File_call_errhandler")));
/* ROMIO's headers turn some names into those of the profiling interface. */
#undef MPI_Errhandler_free
int MPI_Errhandler_free(MPI_Errhandler *) __attribute__((weak, alias("PMPI_Errhandler_free")));
