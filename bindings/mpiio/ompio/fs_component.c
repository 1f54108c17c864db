/* SPDX-License-Identifier: Apache-2.0
 *
 * The component fs/pvfs as Open MPI sees it.
 */
#include "pvfs_ompio.h"

static int priority = 50; /* above ufs (10), which takes every file */

static int register_parameters(void);
static int init_query(bool progress_threads, bool mpi_threads);
static struct mca_fs_base_module_1_0_0_t *file_query(ompio_file_t *file, int *wanted);
static int file_unquery(ompio_file_t *file);
static int module_init(ompio_file_t *file);
static int module_finalize(ompio_file_t *file);

OPAL_MODULE_DECLSPEC extern mca_fs_base_component_2_0_0_t mca_fs_pvfs_component;
mca_fs_base_component_2_0_0_t mca_fs_pvfs_component = {
    .fsm_version =
        {
            MCA_FS_BASE_VERSION_2_0_0,
            .mca_component_name = "pvfs",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_register_component_params = register_parameters,
        },
    .fsm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .fsm_init_query = init_query,
    .fsm_file_query = file_query,
    .fsm_file_unquery = file_unquery,
};

static mca_fs_base_module_1_0_0_t module = {
    .fs_module_init = module_init,
    .fs_module_finalize = module_finalize,
    .fs_file_open = pvfs_ompio_open,
    .fs_file_close = pvfs_ompio_close,
    .fs_file_delete = pvfs_ompio_delete,
    .fs_file_set_size = pvfs_ompio_set_size,
    .fs_file_get_size = pvfs_ompio_get_size,
    .fs_file_sync = pvfs_ompio_sync,
};

static int register_parameters(void) {
    (void)mca_base_component_var_register(&mca_fs_pvfs_component.fsm_version, "priority",
                                          "Priority of the fs pvfs component for files of PVFS", MCA_BASE_VAR_TYPE_INT,
                                          NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY, &priority);
    return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads) {
    (void)progress_threads, (void)mpi_threads;
    return OMPI_SUCCESS;
}

/* Every rank is asked, and all must say the same; nodes may see different mounts. So rank 0 decides, and where the file system
 * cannot be reached from another node, the open says so. */
static struct mca_fs_base_module_1_0_0_t *file_query(ompio_file_t *file, int *wanted) {
    int ours = pvfs_ompio_is_ours(file->f_filename);
    ompi_communicator_t *comm = file->f_comm;
    /* To delete a file OMPIO asks without a communicator. */
    if (comm != NULL && comm != MPI_COMM_NULL && file->f_size > 1 &&
        comm->c_coll->coll_bcast(&ours, 1, MPI_INT, OMPIO_ROOT, comm, comm->c_coll->coll_bcast_module) != OMPI_SUCCESS)
        return NULL;
    if (!ours) return NULL;
    *wanted = priority;
    return &module;
}

static int file_unquery(ompio_file_t *file) {
    (void)file;
    return OMPI_SUCCESS;
}

/* OMPIO has a number for the second PVFS; none of the components that look for it is in the same installation as this one
 * and has a higher priority, so it can stand for us. */
static int module_init(ompio_file_t *file) {
    file->f_fstype = PVFS2;
    file->fd = -1;
    file->f_fs_ptr = NULL;
    return OMPI_SUCCESS;
}

static int module_finalize(ompio_file_t *file) {
    (void)file;
    return OMPI_SUCCESS;
}
