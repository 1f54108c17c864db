//! syscall(2): programs that name a call by its number, as Node.js does where an older C library lacks the function.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_long};

use pvfs_posix::c::answer::fail;
use pvfs_wire::Errno;

use super::copy::{copy_file_range, sendfile, splice};
use super::data::*;
use super::descriptors::{close, close_range, dup, dup2, dup3};
use super::directories::getdents64;
use super::execute::{_exit, execve, execveat};
use super::fcntl::{fcntl, flock, ioctl};
use super::limits::{prlimit64, setrlimit};
use super::mapping::mmap_by_number;
use super::names::*;
use super::open::{creat, open, openat};
use super::sockets::{bind, connect, recvmmsg, recvmsg};
use super::space::{fstatfs, statfs};
use super::stat::*;
use super::times::{futimens, futimesat, utime, utimensat, utimes};
use super::working::{chdir, fchdir, getcwd};
use super::xattrs::*;
use crate::real::kernel;

/// Numbers with the functions that do the same, whose arguments are these words.
macro_rules! numbered {
    ([$($word:ident),*] $($number:ident => $call:expr,)*) => {
        /// A bit for each number that stands here.
        static KNOWN: [u64; NUMBERS_MAX / 64] = {
            let mut known = [0; NUMBERS_MAX / 64];
            $(known[libc::$number as usize / 64] |= 1 << (libc::$number % 64);)*
            known
        };

        /// # Safety
        ///
        /// As the call of this number demands.
        unsafe extern "C" fn known(number: c_long, $($word: usize),*) -> c_long {
            // SAFETY: the functions demand of their arguments what the calls do.
            unsafe {
                match number {
                    $(libc::$number => $call as c_long,)*
                    _ => fail(Errno::ENOSYS),
                }
            }
        }
    };
}

numbered! {
    [a, b, c, d, e, f]
    SYS_access => access(a as _, b as _),
    SYS_bind => bind(a as _, b as _, c as _),
    SYS_chdir => chdir(a as _),
    SYS_chmod => chmod(a as _, b as _),
    SYS_chown => chown(a as _, b as _, c as _),
    SYS_close => close(a as _),
    SYS_close_range => close_range(a as _, b as _, c as _),
    SYS_connect => connect(a as _, b as _, c as _),
    SYS_copy_file_range => copy_file_range(a as _, b as _, c as _, d as _, e, f as _),
    SYS_creat => creat(a as _, b as _),
    SYS_dup => dup(a as _),
    SYS_dup2 => dup2(a as _, b as _),
    SYS_dup3 => dup3(a as _, b as _, c as _),
    SYS_execve => execve(a as _, b as _, c as _),
    SYS_execveat => execveat(a as _, b as _, c as _, d as _, e as _),
    SYS_exit_group => exit(a as _),
    SYS_faccessat => faccessat(a as _, b as _, c as _, 0),
    SYS_faccessat2 => faccessat(a as _, b as _, c as _, d as _),
    SYS_fadvise64 => as_a_call(posix_fadvise(a as _, b as _, c as _, d as _)),
    SYS_fallocate => fallocate(a as _, b as _, c as _, d as _),
    SYS_fchdir => fchdir(a as _),
    SYS_fchmod => fchmod(a as _, b as _),
    SYS_fchmodat => fchmodat(a as _, b as _, c as _, 0),
    SYS_fchown => fchown(a as _, b as _, c as _),
    SYS_fchownat => fchownat(a as _, b as _, c as _, d as _, e as _),
    SYS_fcntl => fcntl(a as _, b as _, c as _),
    SYS_fdatasync => fdatasync(a as _),
    SYS_fgetxattr => fgetxattr(a as _, b as _, c as _, d),
    SYS_flistxattr => flistxattr(a as _, b as _, c),
    SYS_flock => flock(a as _, b as _),
    SYS_fremovexattr => fremovexattr(a as _, b as _),
    SYS_fsetxattr => fsetxattr(a as _, b as _, c as _, d, e as _),
    SYS_fstat => fstat(a as _, b as _),
    SYS_fstatfs => fstatfs(a as _, b as _),
    SYS_fsync => fsync(a as _),
    SYS_ftruncate => ftruncate(a as _, b as _),
    SYS_futimesat => futimesat(a as _, b as _, c as _),
    SYS_getcwd => working_directory(a as _, b),
    SYS_getdents64 => getdents64(a as _, b as _, c),
    SYS_getxattr => getxattr(a as _, b as _, c as _, d),
    SYS_ioctl => ioctl(a as _, b as _, c as _),
    SYS_lchown => lchown(a as _, b as _, c as _),
    SYS_lgetxattr => lgetxattr(a as _, b as _, c as _, d),
    SYS_link => link(a as _, b as _),
    SYS_linkat => linkat(a as _, b as _, c as _, d as _, e as _),
    SYS_listxattr => listxattr(a as _, b as _, c),
    SYS_llistxattr => llistxattr(a as _, b as _, c),
    SYS_lremovexattr => lremovexattr(a as _, b as _),
    SYS_lseek => lseek(a as _, b as _, c as _),
    SYS_lsetxattr => lsetxattr(a as _, b as _, c as _, d, e as _),
    SYS_lstat => lstat(a as _, b as _),
    SYS_mkdir => mkdir(a as _, b as _),
    SYS_mkdirat => mkdirat(a as _, b as _, c as _),
    SYS_mknod => mknod(a as _, b as _, c as _),
    SYS_mknodat => mknodat(a as _, b as _, c as _, d as _),
    SYS_mmap => mmap_by_number(a as _, b, c as _, d as _, e as _, f as _),
    SYS_newfstatat => fstatat(a as _, b as _, c as _, d as _),
    SYS_open => open(a as _, b as _, c as _),
    SYS_openat => openat(a as _, b as _, c as _, d as _),
    SYS_openat2 => open_how(a as _, b as _, c as _, d),
    SYS_pread64 => pread(a as _, b as _, c, d as _),
    // What follows the offset is its upper half where words have 32 bits.
    SYS_preadv => preadv(a as _, b as _, c as _, d as _),
    SYS_preadv2 => preadv2(a as _, b as _, c as _, d as _, f as _),
    SYS_prlimit64 => prlimit64(a as _, b as _, c as _, d as _),
    SYS_pwrite64 => pwrite(a as _, b as _, c, d as _),
    SYS_pwritev => pwritev(a as _, b as _, c as _, d as _),
    SYS_pwritev2 => pwritev2(a as _, b as _, c as _, d as _, f as _),
    SYS_read => read(a as _, b as _, c),
    SYS_readahead => readahead(a as _, b as _, c),
    SYS_readlink => readlink(a as _, b as _, c),
    SYS_readlinkat => readlinkat(a as _, b as _, c as _, d),
    SYS_readv => readv(a as _, b as _, c as _),
    SYS_recvmmsg => recvmmsg(a as _, b as _, c as _, d as _, e as _),
    SYS_recvmsg => recvmsg(a as _, b as _, c as _),
    SYS_removexattr => removexattr(a as _, b as _),
    SYS_rename => rename(a as _, b as _),
    SYS_renameat => renameat(a as _, b as _, c as _, d as _),
    SYS_renameat2 => renameat2(a as _, b as _, c as _, d as _, e as _),
    SYS_rmdir => rmdir(a as _),
    SYS_sendfile => sendfile(a as _, b as _, c as _, d),
    SYS_setrlimit => setrlimit(a as _, b as _),
    SYS_setxattr => setxattr(a as _, b as _, c as _, d, e as _),
    SYS_splice => splice(a as _, b as _, c as _, d as _, e, f as _),
    SYS_stat => stat(a as _, b as _),
    SYS_statfs => statfs(a as _, b as _),
    SYS_statx => statx(a as _, b as _, c as _, d as _, e as _),
    SYS_symlink => symlink(a as _, b as _),
    SYS_symlinkat => symlinkat(a as _, b as _, c as _),
    SYS_sync_file_range => sync_file_range(a as _, b as _, c as _, d as _),
    SYS_syncfs => syncfs(a as _),
    SYS_truncate => truncate(a as _, b as _),
    SYS_umask => umask(a as _),
    SYS_unlink => unlink(a as _),
    SYS_unlinkat => unlinkat(a as _, b as _, c as _),
    SYS_utime => utime(a as _, b as _),
    SYS_utimensat => times_at(a as _, b as _, c as _, d as _),
    SYS_utimes => utimes(a as _, b as _),
    SYS_write => write(a as _, b as _, c),
    SYS_writev => writev(a as _, b as _, c as _),
}

/// syscall(2)
///
/// # Safety
///
/// As the call of this number demands.
// SAFETY: a number that is known goes on with all registers and the stack as they are, so that `known` has the same
// arguments; any other does what the C library does.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        "cmp rdi, {numbers_max}",
        "jae 2f",
        "lea rax, [rip + {table}]",
        "bt [rax], rdi",
        "jc 3f",
        "2:",
        "jmp {kernel}",
        "3:",
        "jmp {known}",
        numbers_max = const NUMBERS_MAX,
        table = sym KNOWN,
        kernel = sym kernel,
        known = sym known,
    )
}

/// What returns an error number, as a system call has it.
fn as_a_call(error: c_int) -> c_int {
    if error == 0 { 0 } else { fail(Errno(error.unsigned_abs())) }
}

/// # Safety
///
/// As exit_group demands.
unsafe fn exit(status: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { _exit(status) };
    0
}

/// The call tells how long the path is, with the zero behind it.
///
/// # Safety
///
/// There is room for so many bytes.
unsafe fn working_directory(to: *mut c_char, size: usize) -> c_long {
    // SAFETY: the caller's promise; what was given is a C string.
    unsafe {
        if to.is_null() {
            return fail(Errno::EFAULT);
        }
        if getcwd(to, size).is_null() { -1 } else { libc::strlen(to) as c_long + 1 }
    }
}

/// openat2(2). The kernel says of a path that is not to leave a directory where it leads; it is not asked for our paths.
///
/// # Safety
///
/// `path` and `how` are as openat2 demands.
unsafe fn open_how(
    dir: c_int,
    path: *const c_char,
    how: *const libc::open_how,
    size: usize,
) -> c_long {
    // SAFETY: the caller's promise; it is looked at only if it is as long as it was first.
    unsafe {
        let is_plain = !how.is_null() && size == size_of::<libc::open_how>() && (*how).resolve == 0;
        if !is_plain {
            return kernel(libc::SYS_openat2, dir as _, path as _, how as _, size, 0, 0);
        }
        openat(dir, path, (*how).flags as c_int, (*how).mode as _).into()
    }
}

/// Without a path the call means the descriptor.
///
/// # Safety
///
/// As utimensat demands.
unsafe fn times_at(
    dir: c_int,
    path: *const c_char,
    times: *const libc::timespec,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if path.is_null() { futimens(dir, times) } else { utimensat(dir, path, times, flags) }
    }
}

/// Numbers are below this.
const NUMBERS_MAX: usize = 512;
