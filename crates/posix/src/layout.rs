//! How files lie on the iods: of a file what is so, of a directory what it gives to new files.

use std::os::fd::RawFd;

use pvfs_client::{User, block_on};
use pvfs_wire::Errno;
use pvfs_wire::attr::{FileKind, Placement, Striping};
use pvfs_wire::ops::{Target, XattrFlags};

use crate::errno::Reach;
use crate::paths::At;
use crate::process::Process;
use crate::runtime::Apart;

/// What is known of a layout.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Layout {
    /// Where a file's data lie.
    File(Placement),
    /// What a directory wishes for new files.
    Directory(Striping),
}

impl Process {
    /// The layout of a file or a directory.
    pub fn layout(&self, at: At, path: &[u8]) -> Reach<Layout> {
        self.reach(at, path, true, |user, spot| block_on(layout_of(user, spot.target(), true)))
    }

    /// The like, by a descriptor.
    pub fn layout_open(&self, fd: RawFd) -> Reach<Layout> {
        let description = self.description(fd)?;
        if description.record.is_file() {
            return self.placement(fd).map(Layout::File);
        }
        let target = Target::object(description.record.handle);
        Ok(block_on(layout_of(&self.user()?, target, false))?)
    }

    /// What a directory gives to new files from now on; all of it, as wished or by default.
    pub fn set_layout(&self, at: At, path: &[u8], wishes: &Striping) -> Reach<()> {
        let before = match self.layout(at, path)? {
            Layout::File(_) => return Err(Errno::ENOTDIR.into()),
            Layout::Directory(before) => before,
        };
        self.reach(at, path, true, |user, spot| {
            block_on(async {
                let target = spot.target();
                // Old and new parameters need not fit together, so none of the old stays meanwhile.
                put(user, &target, &Striping::default()).await?;
                let done = put(user, &target, wishes).await;
                if done.is_err() {
                    put(user, &target, &Striping::default()).await?;
                    put(user, &target, &before).await?;
                }
                done
            })
        })
    }

    /// How many iods the file system has.
    pub fn iod_count(&self) -> Reach<u32> {
        Ok(self.user()?.filesystem().iods().len() as u32)
    }
}

async fn layout_of(
    user: &User<Apart>,
    target: Target,
    follow: bool,
) -> pvfs_client::Result<Layout> {
    let (attr, placement) = user.stat_layout(target.clone(), follow).await?;
    match (attr.kind, placement) {
        (FileKind::Regular, Some(placement)) => Ok(Layout::File(placement)),
        (FileKind::Directory, _) => {
            let dist = parameter(user, &target, follow, "dist").await?;
            let number = async |name| -> pvfs_client::Result<Option<u64>> {
                let text = parameter(user, &target, follow, name).await?;
                Ok(text.and_then(|text| text.parse().ok()))
            };
            let (base, pcount, ssize) =
                (number("base").await?, number("pcount").await?, number("ssize").await?);
            let small = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
            Ok(Layout::Directory(Striping {
                base: small(base),
                pcount: small(pcount),
                ssize,
                dist,
            }))
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

async fn parameter(
    user: &User<Apart>,
    target: &Target,
    follow: bool,
    name: &str,
) -> pvfs_client::Result<Option<String>> {
    match user.get_xattr(target.clone(), follow, xattr(name).as_bytes()).await {
        Ok(value) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
        Err(error) if error.errno() == Errno::ENODATA => Ok(None),
        Err(error) => Err(error),
    }
}

async fn put(user: &User<Apart>, target: &Target, wishes: &Striping) -> pvfs_client::Result<()> {
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    let values = [
        ("dist", wishes.dist.clone()),
        ("ssize", text(wishes.ssize)),
        ("pcount", text(wishes.pcount.map(u64::from))),
        ("base", text(wishes.base.map(u64::from))),
    ];
    for (name, value) in values {
        let value = value.unwrap_or_else(|| DEFAULT.into());
        let name = xattr(name);
        user.set_xattr(target.clone(), true, name.as_bytes(), value.as_bytes(), XattrFlags::NONE)
            .await?;
    }
    Ok(())
}

fn xattr(name: &str) -> String {
    format!("user.pvfs.{name}")
}

/// As in PVFS 1.
const DEFAULT: &str = "-1";
