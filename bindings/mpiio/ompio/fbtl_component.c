/* SPDX-License-Identifier: Apache-2.0
 *
 * The component fbtl/pvfs as Open MPI sees it.
 */
#include "pvfs_ompio.h"

#include <string.h>

static int priority = 60; /* above posix, which says 50 for its own files and 10 for all others */

static int close_component(void);
static int register_parameters(void);
static int init_query(bool progress_threads, bool mpi_threads);
static struct mca_fbtl_base_module_1_0_0_t *file_query(ompio_file_t *file, int *wanted);
static int file_unquery(ompio_file_t *file);
static int nothing(ompio_file_t *file);

OPAL_MODULE_DECLSPEC extern mca_fbtl_base_component_2_0_0_t mca_fbtl_pvfs_component;
mca_fbtl_base_component_2_0_0_t mca_fbtl_pvfs_component = {
    .fbtlm_version =
        {
            MCA_FBTL_BASE_VERSION_2_0_0,
            .mca_component_name = "pvfs",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_close_component = close_component,
            .mca_register_component_params = register_parameters,
        },
    .fbtlm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .fbtlm_init_query = init_query,
    .fbtlm_file_query = file_query,
    .fbtlm_file_unquery = file_unquery,
};

static mca_fbtl_base_module_1_0_0_t module = {
    .fbtl_module_init = nothing,
    .fbtl_module_finalize = nothing,
    .fbtl_preadv = pvfs_ompio_preadv,
    .fbtl_ipreadv = pvfs_ompio_ipreadv,
    .fbtl_pwritev = pvfs_ompio_pwritev,
    .fbtl_ipwritev = pvfs_ompio_ipwritev,
    .fbtl_progress = pvfs_ompio_progress,
    .fbtl_request_free = pvfs_ompio_request_free,
};

static int close_component(void) {
    pvfs_ompio_queue_end();
    return OMPI_SUCCESS;
}

static int register_parameters(void) {
    (void)mca_base_component_var_register(&mca_fbtl_pvfs_component.fbtlm_version, "priority",
                                          "Priority of the fbtl pvfs component for files of PVFS", MCA_BASE_VAR_TYPE_INT,
                                          NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY, &priority);
    return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads) {
    (void)progress_threads, (void)mpi_threads;
    return OMPI_SUCCESS;
}

/* Descriptors of ours are made by fs/pvfs, which has been chosen before, and by nobody else. */
static struct mca_fbtl_base_module_1_0_0_t *file_query(ompio_file_t *file, int *wanted) {
    if (file->f_fs_component == NULL || strcmp(file->f_fs_component->mca_component_name, "pvfs") != 0) return NULL;
    *wanted = priority;
    return &module;
}

static int file_unquery(ompio_file_t *file) {
    (void)file;
    return OMPI_SUCCESS;
}

static int nothing(ompio_file_t *file) {
    (void)file;
    return OMPI_SUCCESS;
}
