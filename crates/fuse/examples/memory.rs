//! Mounts a file system that lives in this process: `cargo run -p pvfs-fuse --example memory DIRECTORY [OPTIONS]`.
//!
//! Unmount it with `pvfs umount DIRECTORY` or `umount DIRECTORY`; the process ends then.

use std::env::args;
use std::path::Path;
use std::process::ExitCode;

use pvfs_fuse::MountOptions;
use pvfs_fuse::memory::mount_memory;

fn main() -> ExitCode {
    let Some(directory) = args().nth(1) else {
        eprintln!("usage: memory DIRECTORY [OPTIONS, such as direct=on,threads=4]");
        return ExitCode::from(2);
    };
    match serve(Path::new(&directory), &args().nth(2).unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(directory: &Path, options: &str) -> Result<(), Box<dyn std::error::Error>> {
    let session = mount_memory(directory, options.parse::<MountOptions>()?)?;
    println!("mounted on {}", session.directory().display());
    Ok(session.join()?)
}
