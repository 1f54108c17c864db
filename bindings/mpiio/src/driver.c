/* SPDX-License-Identifier: Apache-2.0
 *
 * The table by which ROMIO calls the driver.
 */
#include "driver.h"

ADIOI_Fns pvfs_operations = {
    .ADIOI_xxx_Open = pvfs_open_alone,
    .ADIOI_xxx_OpenColl = pvfs_open_collectively,
    .ADIOI_xxx_ReadContig = pvfs_read_contig,
    .ADIOI_xxx_WriteContig = pvfs_write_contig,
    .ADIOI_xxx_ReadStridedColl = pvfs_read_collective,
    .ADIOI_xxx_WriteStridedColl = pvfs_write_collective,
    .ADIOI_xxx_SeekIndividual = ADIOI_GEN_SeekIndividual,
    .ADIOI_xxx_Fcntl = pvfs_control,
    .ADIOI_xxx_SetInfo = pvfs_set_info,
    .ADIOI_xxx_ReadStrided = pvfs_read_strided,
    .ADIOI_xxx_WriteStrided = pvfs_write_strided,
    .ADIOI_xxx_Close = pvfs_close_file,
    .ADIOI_xxx_IreadContig = pvfs_iread_contig,
    .ADIOI_xxx_IwriteContig = pvfs_iwrite_contig,
    .ADIOI_xxx_ReadDone = ADIOI_GEN_IODone,
    .ADIOI_xxx_WriteDone = ADIOI_GEN_IODone,
    .ADIOI_xxx_ReadComplete = ADIOI_GEN_IOComplete,
    .ADIOI_xxx_WriteComplete = ADIOI_GEN_IOComplete,
    .ADIOI_xxx_IreadStrided = pvfs_iread_strided,
    .ADIOI_xxx_IwriteStrided = pvfs_iwrite_strided,
    .ADIOI_xxx_Flush = pvfs_flush_file,
    .ADIOI_xxx_Resize = pvfs_resize,
    .ADIOI_xxx_Delete = pvfs_delete,
    .ADIOI_xxx_Feature = pvfs_feature,
    .fsname = "PVFS: striped files, by libpvfs",
    .ADIOI_xxx_IreadStridedColl = ADIOI_GEN_IreadStridedColl,
    .ADIOI_xxx_IwriteStridedColl = ADIOI_GEN_IwriteStridedColl,
    .ADIOI_xxx_SetLock = pvfs_set_lock,
};
