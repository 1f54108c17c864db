//! `pvfs bench mpi`

use super::Wishes;
use crate::bench::mpi::{self, Tools};
use crate::binary::find;
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::mpirun::{Family, Romio};
use std::path::{Path, PathBuf};

/// Measure MPI-IO by our driver
///
/// Contiguous reads and writes next to the client library's own calls; a nested strided pattern, as BTIO has it, next to
/// ROMIO's data sieving on a mount of the same file system (as root, else left out); and how many requests to the
/// manager a collective open of 64 ranks takes, next to one of 2. It takes MPICH or one of its relatives with mpicc, and
/// the driver (make -C bindings/mpiio). Medians of turns. With --json: one array of {name, value, unit, limit, ratio,
/// cpu_s_per_gib}.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// How much is measured, and where.
    #[command(flatten)]
    pub wishes: Wishes,
}

const EXAMPLES: &str = "\
Examples:
  Everything:
    pvfs bench mpi
  Within a minute, for a program:
    pvfs bench mpi --quick --json
  The nested pattern only, often:
    pvfs bench mpi --rows nested --runs 21";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let effort = args.wishes.effort()?;
    let cases = mpi::cases(&effort);
    let names: Vec<String> = cases.iter().map(|case| case.name()).collect();
    if !args.wishes.chosen(&names, context)? {
        return Ok(());
    }
    let tools = tools()?;
    let testbed = args.wishes.testbed(context)?;
    let rows = mpi::measure(&testbed, &effort, &cases, &tools)?;
    args.wishes.report(&rows, context)
}

/// The first MPI with ROMIO in the search path, and our driver for it.
fn tools() -> Result<Tools, Failure> {
    let launchers = LAUNCHERS.iter().filter_map(|(mpirun, mpicc)| Some((find(mpirun)?, *mpicc)));
    let with_romio = |(mpirun, _): &(PathBuf, &str)| Family::of(mpirun) == Family::Hydra;
    let (mpirun, mpicc) = launchers.into_iter().find(with_romio).ok_or_else(|| {
        missing("mpirun of MPICH", "install MPICH (as root: apt-get install mpich libmpich-dev)")
    })?;
    let mpicc = mpirun.with_file_name(mpicc);
    if !mpicc.exists() {
        let advice = "install MPICH's headers (as root: apt-get install libmpich-dev)";
        return Err(missing(&mpicc.display().to_string(), advice));
    }
    let romio = Romio::before(&mpirun)?;
    let library = library_of(&romio.library)?;
    Ok(Tools { mpicc, mpirun, preloads: romio.preloads(), library })
}

/// The client library that a driver finds: beside itself, or where both are installed.
fn library_of(driver: &Path) -> Result<PathBuf, Failure> {
    let beside = driver.parent().unwrap_or(Path::new("/"));
    let places = ["", ".."].map(|place| beside.join(place).join("libpvfs.so"));
    places.into_iter().find(|library| library.exists()).ok_or_else(|| {
        missing(
            &format!("libpvfs.so beside {}", driver.display()),
            "make build, or install it there",
        )
    })
}

fn missing(what: &str, advice: &str) -> Failure {
    Failure::new(Exit::Usage, format!("there is no {what}; {advice}"))
}

/// What starts jobs, and the compiler beside it. Where Open MPI has the plain names, Debian keeps MPICH's under others.
const LAUNCHERS: [(&str, &str); 2] = [("mpirun", "mpicc"), ("mpirun.mpich", "mpicc.mpich")];
