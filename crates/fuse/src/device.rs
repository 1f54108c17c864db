//! The kernel's side of a mount: /dev/fuse, mount(2), and fusermount3 for those who may not call it.
//!
//! Mounts have a type of their own, and only what is ours is unmounted: something else may have been mounted over the
//! same directory meanwhile.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use crate::options::{KernelFlags, MountOptions};

/// Who may use a mount, and who says so.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// All users, not only the one who mounts.
    pub for_all: bool,
    /// The kernel checks permissions by the attributes it has.
    pub kernel_checks: bool,
}

impl Access {
    fn words(self) -> impl Iterator<Item = &'static str> {
        let words = [(self.for_all, ",allow_other"), (self.kernel_checks, ",default_permissions")];
        words.into_iter().filter(|(wanted, _)| *wanted).map(|(_, word)| word)
    }
}

/// Mounts, and returns the connection to the kernel.
pub fn attach(
    directory: &Path,
    kind: &str,
    options: &MountOptions,
    access: Access,
) -> io::Result<OwnedFd> {
    if rustix::process::geteuid().is_root() {
        attach_by_kernel(directory, kind, options, access)
    } else {
        attach_by_helper(directory, kind, options, access)
    }
}

/// Takes the topmost mount off a directory: at once if nobody uses it, else out of sight and then when the
/// last user is gone. `lazy` does not try the former.
pub fn detach(directory: &Path, lazy: bool) -> io::Result<()> {
    let detach = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    let first = if lazy { detach } else { UnmountFlags::NOFOLLOW };
    let outcome = match rustix::mount::unmount(directory, first) {
        Err(rustix::io::Errno::BUSY) => rustix::mount::unmount(directory, detach),
        outcome => outcome,
    };
    match outcome {
        Err(rustix::io::Errno::PERM) => detach_by_helper(directory),
        outcome => Ok(outcome?),
    }
}

/// Gives a mount other flags.
pub fn alter(directory: &Path, options: &MountOptions) -> io::Result<()> {
    let mut flags = mount_flags(options);
    // Saying nothing of access times would leave what was said before.
    flags.set(MountFlags::RELATIME, !options.flags.noatime);
    Ok(rustix::mount::mount_remount(directory, flags, "")?)
}

fn attach_by_kernel(
    directory: &Path,
    kind: &str,
    options: &MountOptions,
    access: Access,
) -> io::Result<OwnedFd> {
    let device: OwnedFd =
        OpenOptions::new().read(true).write(true).open(DEVICE).map_err(no_device)?.into();
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut data = format!("fd={},rootmode=40000,user_id={uid},group_id={gid}", device.as_raw_fd());
    access.words().for_each(|word| data.push_str(word));
    let data = CString::new(data).expect("no zero byte in it");
    rustix::mount::mount(&*options.source, directory, kind, mount_flags(options), Some(&*data))?;
    Ok(device)
}

fn mount_flags(options: &MountOptions) -> MountFlags {
    let KernelFlags { suid, dev, noexec, noatime, sync, dirsync } = options.flags;
    let chosen = [
        (options.read_only, MountFlags::RDONLY),
        (!suid, MountFlags::NOSUID),
        (!dev, MountFlags::NODEV),
        (noexec, MountFlags::NOEXEC),
        (noatime, MountFlags::NOATIME),
        (sync, MountFlags::SYNCHRONOUS),
        (dirsync, MountFlags::DIRSYNC),
    ];
    let wanted = chosen.into_iter().filter(|(wanted, _)| *wanted);
    wanted.fold(MountFlags::empty(), |flags, (_, flag)| flags | flag)
}

/// fusermount3 is setuid root; it mounts and sends the descriptor of /dev/fuse over a socket it inherits.
fn attach_by_helper(
    directory: &Path,
    kind: &str,
    options: &MountOptions,
    access: Access,
) -> io::Result<OwnedFd> {
    let subtype = kind.strip_prefix("fuse.").unwrap_or(kind);
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut words = format!("fsname={source},subtype={subtype}");
    let flags = options.flags;
    let chosen = [
        (options.read_only, ",ro"),
        (flags.noexec, ",noexec"),
        (flags.noatime, ",noatime"),
        (flags.sync, ",sync"),
        (flags.dirsync, ",dirsync"),
    ];
    let flags = chosen.into_iter().filter(|(wanted, _)| *wanted).map(|(_, word)| word);
    access.words().chain(flags).for_each(|word| words.push_str(word));
    // Not close-on-exec, so that the helper has its end.
    let kind = (AddressFamily::UNIX, SocketType::STREAM);
    let (ours, theirs) = rustix::net::socketpair(kind.0, kind.1, SocketFlags::empty(), None)?;
    let mut helper = Command::new(HELPER);
    helper.arg("-o").arg(words).arg("--").arg(directory);
    helper.env("_FUSE_COMMFD", theirs.as_raw_fd().to_string()).stderr(Stdio::piped());
    let running = helper.spawn().map_err(no_helper)?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let ended = running.wait_with_output()?;
    received.ok_or_else(|| {
        let said = String::from_utf8_lossy(&ended.stderr);
        io::Error::other(format!("{HELPER} says: {}", said.trim()))
    })
}

fn receive_descriptor(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut pieces = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

fn detach_by_helper(directory: &Path) -> io::Result<()> {
    let ended = Command::new(HELPER).args(["-u", "-z", "--"]).arg(directory).output();
    let ended = ended.map_err(no_helper)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(io::Error::other(format!("{HELPER} says: {}", said.trim())))
}

fn no_device(error: io::Error) -> io::Error {
    let advice = "is the kernel's fuse module there (modprobe fuse)?";
    io::Error::new(error.kind(), format!("cannot open {DEVICE}: {error}; {advice}"))
}

fn no_helper(error: io::Error) -> io::Error {
    let advice = "install the package fuse3, or mount as root";
    io::Error::new(error.kind(), format!("cannot run {HELPER}: {error}; {advice}"))
}

const DEVICE: &str = "/dev/fuse";

const HELPER: &str = "fusermount3";
