//! What a shared library needs, and where it says that this is: [ld.so(8)](https://man7.org/linux/man-pages/man8/ld.so.8.html).

use elf::ElfBytes;
use elf::abi::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use elf::endian::NativeEndian;

/// What the loader would look for.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Needs {
    /// Names of libraries, in their order; those that are paths are looked for by the loader alone.
    pub names: Vec<Vec<u8>>,
    /// The directories where they are looked for before all others: `DT_RPATH`, which counts for what they need in their
    /// turn as well.
    pub rpath: Vec<Vec<u8>>,
    /// The directories after those of `LD_LIBRARY_PATH`: `DT_RUNPATH`. Where there are any, `rpath` is empty.
    pub runpath: Vec<Vec<u8>>,
}

impl Needs {
    /// Of a library in this directory. What is none needs nothing; the loader says what is wrong with it.
    pub fn of(content: &[u8], origin: &[u8]) -> Self {
        Self::read(content, origin).unwrap_or_default()
    }

    /// Where to look, in this order. `rpath`: the own one, and those of what needs this; `listed`: of `LD_LIBRARY_PATH`.
    pub fn places(&self, rpath: &[Vec<u8>], listed: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let rpath = if self.runpath.is_empty() { rpath } else { &[] };
        [rpath, listed, &self.runpath].concat()
    }

    fn read(content: &[u8], origin: &[u8]) -> Option<Self> {
        let file = ElfBytes::<NativeEndian>::minimal_parse(content).ok()?;
        let texts = file.find_common_data().ok()?.dynsyms_strs?;
        let text = |at: u64| texts.get_raw(usize::try_from(at).ok()?).ok();
        let mut needs = Self::default();
        for entry in file.dynamic().ok()?? {
            let list = match entry.d_tag {
                DT_NEEDED => {
                    let name = text(entry.d_val()).filter(|name| !name.contains(&b'/'));
                    needs.names.extend(name.map(<[u8]>::to_vec));
                    continue;
                }
                DT_RPATH => &mut needs.rpath,
                DT_RUNPATH => &mut needs.runpath,
                _ => continue,
            };
            list.extend(directories(text(entry.d_val())?, origin));
        }
        if !needs.runpath.is_empty() {
            needs.rpath.clear();
        }
        Some(needs)
    }
}

/// The directories of a list with colons between them, as far as they are plain or begin with where the library is.
pub fn directories(list: &[u8], origin: &[u8]) -> Vec<Vec<u8>> {
    let of_origin = |directory: &[u8]| {
        let rest =
            [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|it| directory.strip_prefix(*it));
        match rest {
            Some(rest) => [origin, rest].concat(),
            None => directory.to_vec(),
        }
    };
    let known = list.split(|byte| *byte == b':').map(of_origin);
    known.filter(|directory| !directory.is_empty() && !directory.contains(&b'$')).collect()
}
