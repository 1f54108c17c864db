//! Functions with any number of arguments.
//!
//! Such a function cannot be written in Rust. A few instructions put the arguments in a list, as the calling
//! convention has it, and go on with a function that takes a list.

#![allow(unsafe_code)]

use std::ffi::c_char;

/// A `va_list` as the System V convention passes it: to functions that take one, a pointer to this.
#[repr(C)]
struct Place {
    /// Bytes of `registers` that were taken.
    taken: u32,
    taken_floats: u32,
    /// What did not fit into registers.
    stack: *mut Word,
    registers: *mut u8,
}

type Word = *const c_char;

/// A list that was passed.
#[repr(transparent)]
pub struct List(*mut Place);

impl List {
    /// The next argument, which is a pointer.
    ///
    /// # Safety
    ///
    /// There is one.
    pub unsafe fn next(&mut self) -> Word {
        // SAFETY: the list lives as long as the function that it was passed to; the next argument is in the saved
        // registers while there are any, then on the stack.
        unsafe {
            let place = &mut *self.0;
            if place.taken < REGISTERS_BYTES {
                let word = place.registers.add(place.taken as usize).cast::<Word>().read();
                place.taken += 8;
                return word;
            }
            let word = place.stack.read();
            place.stack = place.stack.add(1);
            word
        }
    }

    /// The texts up to a null, and it.
    ///
    /// # Safety
    ///
    /// The arguments are C strings that end in null.
    pub unsafe fn texts(&mut self) -> Vec<Word> {
        let mut texts = Vec::new();
        loop {
            // SAFETY: the caller's promise.
            let text = unsafe { self.next() };
            texts.push(text);
            if text.is_null() {
                return texts;
            }
        }
    }
}

const REGISTERS_BYTES: u32 = 48;

/// A function that lists its arguments and goes on. `$taken`: the bytes of the registers of those before `...`;
/// `$register`: where the list is passed.
macro_rules! listing {
    ($(#[$meta:meta])* $name:ident, $taken:literal, $register:literal, $onward:path) => {
        $(#[$meta])*
        ///
        /// # Safety
        ///
        /// As the C function of this name demands.
        // SAFETY: the list is laid out as the System V convention has it (registers saved in an area of 176
        // bytes, its offsets, the address of what is on the stack); the stack is aligned at the call, and given
        // back; no register that the caller keeps is touched.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "sub rsp, 0xd8",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                concat!("mov dword ptr [rsp], ", $taken),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 0xe0]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $register, ", rsp"),
                "call {onward}",
                "add rsp, 0xd8",
                "ret",
                onward = sym $onward,
            )
        }
    };
}
pub(crate) use listing;
