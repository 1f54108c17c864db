//! POSIX asynchronous I/O (aio(7)). The C library carries it out with threads of its own, which would see the descriptor that stands
//! for a file of ours and not the file. On our files an operation is done before the call that begins it returns; POSIX
//! leaves open how soon that is. MPI-IO libraries use it for their nonblocking calls.
//!
//! The outcome is left where the C library's own aio_error, aio_return, aio_suspend and aio_cancel look for it.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::{align_of, offset_of, size_of};
use std::thread;

use libc::{
    LIO_NOP, LIO_NOWAIT, LIO_READ, LIO_WRITE, aiocb, off_t, pthread_attr_t, sigevent, sigval,
    ssize_t,
};
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::data::positive;
use pvfs_posix::c::memory::{bytes, room};
use pvfs_posix::c::route::at_descriptor;
use pvfs_posix::numbers::OURS;
use pvfs_posix::{Process, Reach, Stop};
use pvfs_wire::Errno;

use crate::interpose;

/// `struct aiocb` as the C library has it, whose inner fields the crate libc does not show.
#[repr(C)]
struct Control {
    descriptor: c_int,
    operation: c_int,
    priority: c_int,
    memory: *mut c_void,
    bytes: usize,
    event: sigevent,
    next: *mut Control,
    absolute_priority: c_int,
    policy: c_int,
    error: c_int,
    returned: ssize_t,
    offset: off_t,
    reserved: [u8; 32],
}

const _: () = assert!(
    size_of::<Control>() == size_of::<aiocb>()
        && align_of::<Control>() == align_of::<aiocb>()
        && offset_of!(Control, memory) == offset_of!(aiocb, aio_buf)
        && offset_of!(Control, event) == offset_of!(aiocb, aio_sigevent)
        && offset_of!(Control, offset) == offset_of!(aiocb, aio_offset)
);

/// What is asked for.
#[derive(Clone, Copy)]
enum Operation {
    Read,
    Write,
    Sync,
}

interpose! {
    /// aio_read(3)
    fn aio_read(control: *mut aiocb) -> c_int as real {
        begin(control, Operation::Read, || real(control))
    }
    /// aio_read(3)
    fn aio_read64(control: *mut aiocb) -> c_int as real {
        begin(control, Operation::Read, || real(control))
    }
    /// aio_write(3)
    fn aio_write(control: *mut aiocb) -> c_int as real {
        begin(control, Operation::Write, || real(control))
    }
    /// aio_write(3)
    fn aio_write64(control: *mut aiocb) -> c_int as real {
        begin(control, Operation::Write, || real(control))
    }
    /// aio_fsync(3)
    fn aio_fsync(how: c_int, control: *mut aiocb) -> c_int as real {
        begin(control, Operation::Sync, || real(how, control))
    }
    /// aio_fsync(3)
    fn aio_fsync64(how: c_int, control: *mut aiocb) -> c_int as real {
        begin(control, Operation::Sync, || real(how, control))
    }
    /// lio_listio(3)
    fn lio_listio(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int as real {
        listed((mode, list, count, event), |list, count| real(mode, list, count, event))
    }
    /// lio_listio(3)
    fn lio_listio64(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent) -> c_int as real {
        listed((mode, list, count, event), |list, count| real(mode, list, count, event))
    }
}

/// Carries out an operation on a file of ours, or leaves it to the C library.
///
/// # Safety
///
/// The control block, its memory and its event are what aio_read(3) demands.
unsafe fn begin(control: *mut aiocb, operation: Operation, real: impl FnOnce() -> c_int) -> c_int {
    if control.is_null() {
        return real();
    }
    // SAFETY: not null, so the caller's promise.
    let fd = unsafe { (*control).aio_fildes };
    at_descriptor(fd, real, |process| {
        // SAFETY: the two types have one layout (asserted above); nobody else uses the block while this call begins an
        // operation with it.
        let control = unsafe { &mut *control.cast::<Control>() };
        // SAFETY: the caller's promise.
        unsafe { carry_out(process, control, operation)? };
        // SAFETY: as above.
        unsafe { tell(&control.event) }?;
        Ok(0)
    })
}

/// # Safety
///
/// The block's memory is as long as it says, and nobody else's meanwhile.
unsafe fn carry_out(process: &Process, control: &mut Control, operation: Operation) -> Reach<()> {
    let (fd, memory, count) = (control.descriptor, control.memory, control.bytes);
    let moved = positive(control.offset).map_err(Stop::from).and_then(|offset| match operation {
        // SAFETY: the caller's promise.
        Operation::Read => process.read_at(fd, offset, unsafe { room(memory, count) }),
        // SAFETY: the caller's promise.
        Operation::Write => process.write_at(fd, offset, unsafe { bytes(memory, count) }),
        Operation::Sync => process.sync(fd).map(|()| 0),
    });
    (control.error, control.returned) = match moved {
        Ok(count) => (0, count as ssize_t),
        Err(Stop::Errno(errno)) => (errno.0 as c_int, -1),
        Err(stop) => return Err(stop),
    };
    Ok(())
}

type List = (c_int, *const *mut aiocb, c_int, *mut sigevent);

/// Carries out what is ours of a list, and hands on the rest.
///
/// # Safety
///
/// The list is what lio_listio(3) demands.
unsafe fn listed(
    (mode, list, count, event): List,
    real: impl FnOnce(*const *mut aiocb, c_int) -> c_int,
) -> c_int {
    let length = usize::try_from(count).unwrap_or(0);
    if length == 0 || list.is_null() {
        return real(list, count);
    }
    // SAFETY: the caller's promise.
    let blocks = unsafe { std::slice::from_raw_parts(list, length) };
    // SAFETY: the caller's promise, for those that are not null.
    let ours = |block: &*mut aiocb| !block.is_null() && OURS.has(unsafe { (**block).aio_fildes });
    if !blocks.iter().any(ours) {
        return real(list, count);
    }
    let others: Vec<*mut aiocb> = blocks.iter().copied().filter(|block| !ours(block)).collect();
    let mut failed = false;
    for &block in blocks.iter().filter(|block| ours(block)) {
        // SAFETY: it is not null, and the caller's promise.
        let operation = match unsafe { (*block).aio_lio_opcode } {
            LIO_NOP => continue,
            LIO_READ => Operation::Read,
            LIO_WRITE => Operation::Write,
            _ => return fail(Errno::EINVAL),
        };
        // SAFETY: the caller's promise.
        let begun = unsafe { begin(block, operation, || fail(Errno::EBADF)) };
        // SAFETY: as above.
        failed |= begun != 0 || unsafe { (*block.cast::<Control>()).error } != 0;
    }
    if others.iter().any(|block| !block.is_null()) {
        let begun = real(others.as_ptr(), others.len() as c_int);
        if begun != 0 {
            return begun;
        }
    } else if mode == LIO_NOWAIT && !event.is_null() {
        // SAFETY: not null, so the caller's promise.
        match unsafe { tell(&*event) } {
            Ok(()) => {}
            Err(_) => return fail(Errno::EAGAIN),
        }
    }
    if failed && mode != LIO_NOWAIT { fail(Errno::EIO) } else { 0 }
}

/// `struct sigevent` where a function is to be called.
#[repr(C)]
struct Call {
    value: sigval,
    signal: c_int,
    how: c_int,
    function: Option<extern "C" fn(sigval)>,
    attributes: *mut pthread_attr_t,
}

const _: () = assert!(
    size_of::<Call>() <= size_of::<sigevent>()
        && offset_of!(Call, function) == offset_of!(sigevent, sigev_notify_thread_id)
);

/// A value that a program asks to be given back; what it points to is the program's affair.
struct Given(sigval);

// SAFETY: it is handed over and never looked into.
unsafe impl Send for Given {}

impl Given {
    fn to(self, function: extern "C" fn(sigval)) {
        function(self.0);
    }
}

/// Tells the program that an operation is done, in the way it asked for.
///
/// # Safety
///
/// The event is what sigevent(7) demands.
unsafe fn tell(event: &sigevent) -> Reach<()> {
    match event.sigev_notify {
        libc::SIGEV_SIGNAL => {
            // SAFETY: a signal to this process, which has asked for it; number 0 is none.
            unsafe { libc::sigqueue(libc::getpid(), event.sigev_signo, event.sigev_value) };
        }
        libc::SIGEV_THREAD => {
            // SAFETY: this is what such an event looks like (asserted above).
            let call = unsafe { &*std::ptr::from_ref(event).cast::<Call>() };
            if let Some(function) = call.function {
                let given = Given(call.value);
                let begun = thread::Builder::new().spawn(move || given.to(function));
                begun.map_err(|_| Errno::EAGAIN)?;
            }
        }
        _ => {}
    }
    Ok(())
}
