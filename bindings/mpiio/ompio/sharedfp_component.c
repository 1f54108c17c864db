/* SPDX-License-Identifier: Apache-2.0
 *
 * The component sharedfp/pvfs as Open MPI sees it.
 */
#include "pvfs_ompio.h"

#include <string.h>

static int priority = 60; /* above sm (30), which is for one node, and lockedfile (10) */

static int register_parameters(void);
static int init_query(bool progress_threads, bool mpi_threads);
static struct mca_sharedfp_base_module_1_0_0_t *file_query(ompio_file_t *file, int *wanted);
static int file_unquery(ompio_file_t *file);

OPAL_MODULE_DECLSPEC extern mca_sharedfp_base_component_2_0_0_t mca_sharedfp_pvfs_component;
mca_sharedfp_base_component_2_0_0_t mca_sharedfp_pvfs_component = {
    .sharedfpm_version =
        {
            MCA_SHAREDFP_BASE_VERSION_2_0_0,
            .mca_component_name = "pvfs",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_register_component_params = register_parameters,
        },
    .sharedfpm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .sharedfpm_init_query = init_query,
    .sharedfpm_file_query = file_query,
    .sharedfpm_file_unquery = file_unquery,
};

static int register_parameters(void) {
    (void)mca_base_component_var_register(&mca_sharedfp_pvfs_component.sharedfpm_version, "priority",
                                          "Priority of the sharedfp pvfs component for files of PVFS",
                                          MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_9,
                                          MCA_BASE_VAR_SCOPE_READONLY, &priority);
    return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads) {
    (void)progress_threads, (void)mpi_threads;
    return OMPI_SUCCESS;
}

/* The pointer belongs to a group open, which fs/pvfs makes. */
static struct mca_sharedfp_base_module_1_0_0_t *file_query(ompio_file_t *file, int *wanted) {
    if (file->f_fs_component == NULL || strcmp(file->f_fs_component->mca_component_name, "pvfs") != 0) return NULL;
    *wanted = priority;
    return &pvfs_ompio_sharedfp;
}

static int file_unquery(ompio_file_t *file) {
    (void)file;
    return OMPI_SUCCESS;
}
