//! A tour of the parallel interfaces: a column of an array, a partition, a group open, a listing with attributes and
//! many reads at once.
//!
//! ```text
//! cargo run -p pvfs-client --example parallel -- /path/to/cluster.toml
//! ```

use std::sync::Arc;

use pvfs_client::credentials::{Identity, Issuer};
use pvfs_client::{
    Blocking, Filesystem, Group, LiteMask, Options, Outcome, Partition, Queue, Region, User, View,
    block_on,
};
use pvfs_config::Cluster;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use pvfs_wire::token::SessionRights;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which cluster file?")?;
    let cluster = Cluster::load(path.as_ref())?;
    let issuer = Issuer::of(&cluster)?;
    let principal = issuer.principal(Identity::of_process(), SessionRights::NONE)?;
    let filesystem = Filesystem::new(Blocking, &cluster, Options::of(&cluster))?;
    tour(&User::new(filesystem, principal))?;
    Ok(())
}

/// Makes an array of 1,000 rows in the root directory, looks at it in every way, and removes it.
pub fn tour(user: &User<Blocking>) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let root = block_on(user.root())?;
    let array = Target::below(root, "array");
    // Row after row of 1,000 elements of 8 bytes; element (row, column) is their sum.
    let content: Vec<u8> = (0..1000u64)
        .flat_map(|row| (0..1000).flat_map(move |column| (row + column).to_le_bytes()))
        .collect();
    block_on(async {
        let flags = OpenFlags::CREATE | OpenFlags::WRITE;
        let file = user.open_regular(array.clone(), flags, 0o600, Striping::default()).await?;
        user.write_at(&file, 0, &content, false).await?;
        user.close(file).await
    })?;

    // One process opens for all; the handle is bytes that the others can be sent.
    let opened = block_on(user.openg(
        array.clone(),
        OpenFlags::READ,
        0,
        Striping::default(),
        Group::default(),
    ))?;
    let file = Arc::new(user.openfh(&opened.handle)?);

    // Column 5: a list of regions, one request to each iod.
    let column: Vec<Region> =
        (0..1000).map(|row| Region { offset: row * 8000 + 40, len: 8 }).collect();
    let mut elements = vec![0; 8000];
    assert_eq!(block_on(user.readx(&file, &mut [&mut elements], &column))?, 8000);
    assert_eq!(element(&elements, 999), 999 + 5);

    // The same as a partition: every 8,000 bytes, 8 bytes. What is read of it lies end to end.
    let partition = Partition { offset: 40, gsize: 8, stride: 8000, ..Partition::default() };
    let view = View::new(partition)?;
    let mut tenth = [0; 8];
    block_on(user.read_view(&file, &view, 10 * 8, &mut tenth))?;
    assert_eq!(element(&tenth, 0), 10 + 5);

    // Sixty-four rows at once, from this thread alone.
    let mut rows = vec![[0; 8000]; 64];
    let mut queue = Queue::new(user)?;
    for (number, row) in rows.iter_mut().enumerate() {
        queue.read(&file, number as u64 * 8000, row);
    }
    while let Some((_, outcome)) = queue.wait_any(None) {
        assert!(matches!(outcome?, Outcome::Bytes(8000)));
    }
    drop(queue);
    assert_eq!(element(&rows[63], 999), 63 + 999);

    // All names with all attributes but sizes: no iod is asked.
    let listing = block_on(user.getdents_plus_lite(root, 0, 1000, LiteMask::NONE))?;
    assert!(listing.entries.iter().any(|entry| *entry.name == *b"array" && entry.attr.is_ok()));

    block_on(user.closeg(&opened.handle))?;
    block_on(user.unlink(array))?;
    Ok(())
}

fn element(bytes: &[u8], number: usize) -> u64 {
    let bytes = bytes[number * 8..][..8].try_into();
    u64::from_le_bytes(bytes.expect("eight bytes"))
}
