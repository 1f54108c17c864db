//! A command's connection to the file system, and how its failures become sentences and exit codes.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fmt::{self, Display};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pvfs_client::credentials::{Identity, Issuer};
use pvfs_client::{Blocking, Error, Filesystem, Options, User, block_on};
use pvfs_config::Cluster;
use pvfs_net::call::CallError;
use pvfs_wire::attr::Attr;
use pvfs_wire::ops::Target;
use pvfs_wire::token::SessionRights;
use pvfs_wire::{Errno, Handle};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::place::{Inside, Mount, Place, mounts};

/// The file system, as the user who runs the command sees it.
pub struct Connected {
    /// The cluster it lives on.
    pub cluster: Cluster,
    /// The user.
    pub user: User<Blocking>,
}

impl Connected {
    /// Gets ready; contacts nobody yet. `config` is the cluster file that a mount named.
    pub fn new(context: &Context, config: Option<&Path>) -> Result<Self, Failure> {
        let cluster = context.cluster_of(config)?;
        let options = Options::of(&cluster).named("pvfs");
        Self::with(cluster, options)
    }

    /// The like, with other options than the cluster file's.
    pub fn with(cluster: Cluster, options: Options) -> Result<Self, Failure> {
        Self::with_rights(cluster, options, SessionRights::NONE)
    }

    /// The like, with rights beyond a user's where this process may give them: where it may read the cluster key.
    pub fn with_rights(
        cluster: Cluster,
        options: Options,
        rights: SessionRights,
    ) -> Result<Self, Failure> {
        let principal = Issuer::of(&cluster)
            .and_then(|issuer| issuer.principal(Identity::of_process(), rights))
            .map_err(|error| failure("cannot get a session", &error))?;
        let filesystem = Filesystem::new(Blocking, &cluster, options)
            .map_err(|error| failure("cannot use the file system", &error))?;
        Ok(Self { cluster, user: User::new(filesystem, principal) })
    }

    /// The root directory.
    pub fn root(&self) -> Result<Handle, Failure> {
        block_on(self.user.root()).map_err(|error| failure("cannot reach the file system", &error))
    }

    /// The object of a path from the root.
    pub fn target(&self, path: &Path) -> Result<Target, Failure> {
        let relative = path.strip_prefix("/").unwrap_or(path);
        Ok(Target::below(self.root()?, relative.as_os_str().as_bytes()))
    }
}

/// Connections to the clusters that the paths of one command line mean; mostly one.
pub struct Connections<'a> {
    context: &'a Context,
    mounts: Vec<Mount>,
    working: PathBuf,
    made: RefCell<Vec<(Option<PathBuf>, Arc<Connected>)>>,
}

/// A path inside of the file system, with the connection to it.
#[derive(Clone)]
pub struct Inner {
    /// The connection.
    pub on: Arc<Connected>,
    /// The path, from the root, beginning with a slash.
    pub path: PathBuf,
}

/// A path of a command line with all it takes to use it.
#[derive(Clone)]
pub enum Location {
    /// Of this machine.
    Local(PathBuf),
    /// Inside of the file system.
    Inside(Inner),
}

impl<'a> Connections<'a> {
    /// For the paths of one command.
    pub fn new(context: &'a Context) -> Self {
        let working = std::env::current_dir().unwrap_or_else(|_| "/".into());
        Self { context, mounts: mounts(), working, made: RefCell::default() }
    }

    /// What a path means.
    pub fn locate(&self, text: &OsStr) -> Result<Location, Failure> {
        match Place::of(text, &self.working, &self.mounts) {
            Place::Local(path) => Ok(Location::Local(path)),
            Place::Inside(inside) => Ok(Location::Inside(self.inner(inside)?)),
        }
    }

    /// What a path means where only the file system makes sense.
    pub fn inside(&self, text: &OsStr) -> Result<Inner, Failure> {
        self.inner(Place::of(text, &self.working, &self.mounts).into_inside())
    }

    fn inner(&self, inside: Inside) -> Result<Inner, Failure> {
        let known = self.made.borrow().iter().find(|(config, _)| *config == inside.config).cloned();
        if let Some((_, on)) = known {
            return Ok(Inner { on, path: inside.path });
        }
        let on = Arc::new(Connected::new(self.context, inside.config.as_deref())?);
        self.made.borrow_mut().push((inside.config, on.clone()));
        Ok(Inner { on, path: inside.path })
    }
}

impl Inner {
    /// The object.
    pub fn target(&self) -> Result<Target, Failure> {
        self.on.target(&self.path)
    }

    /// The user.
    pub fn user(&self) -> &User<Blocking> {
        &self.on.user
    }

    /// Its attributes; a symlink's own unless `follow`.
    pub fn stat(&self, follow: bool) -> Result<Attr, Failure> {
        self.done("look at", block_on(self.user().stat(self.target()?, follow)))
    }

    /// The directory it is in; none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        Some(Self { on: self.on.clone(), path: self.path.parent()?.to_owned() })
    }

    /// A name below this directory.
    #[must_use]
    pub fn child(&self, name: &OsStr) -> Self {
        Self { on: self.on.clone(), path: self.path.join(name) }
    }

    /// The last component; nothing for the root.
    pub fn name(&self) -> Option<&OsStr> {
        self.path.file_name()
    }

    /// Whether another place is the same or lies below, by their paths alone. One file system may have been named
    /// through several mounts.
    pub fn holds(&self, other: &Self) -> bool {
        let id = |inner: &Self| inner.on.cluster.filesystem().id;
        id(self) == id(other) && other.path.starts_with(&self.path)
    }

    /// The path as JSON can have it: what is no UTF-8 is replaced.
    pub fn text(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Turns an operation's failure into a sentence: `cannot look at pvfs:/a: no such file or directory`.
    pub fn done<T>(&self, doing: &str, outcome: pvfs_client::Result<T>) -> Result<T, Failure> {
        outcome.map_err(|error| failure(format!("cannot {doing} {self}"), &error))
    }
}

impl Location {
    /// A name below this directory.
    #[must_use]
    pub fn child(&self, name: &OsStr) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.join(name)),
            Self::Inside(inner) => Self::Inside(inner.child(name)),
        }
    }

    /// Whether another place is the same or lies below, by their paths alone.
    pub fn holds(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local(own), Self::Local(other)) => other.starts_with(own),
            (Self::Inside(own), Self::Inside(other)) => own.holds(other),
            _ => false,
        }
    }

    /// The last component; nothing for `/`, `.` and `..`.
    pub fn name(&self) -> Option<&OsStr> {
        match self {
            Self::Local(path) => path.file_name(),
            Self::Inside(inner) => inner.name(),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Inside(inner) => write!(f, "{inner}"),
        }
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pvfs:{}", self.path.display())
    }
}

/// Runs `each` over many paths: those that fail are named, the others are done, and the exit code says so.
pub fn for_each<T>(
    context: &Context,
    items: impl IntoIterator<Item = T>,
    mut each: impl FnMut(T) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut count, mut failures) = (0, Vec::new());
    for item in items {
        count += 1;
        failures.extend(each(item).err());
    }
    if count == 1 {
        return failures.pop().map_or(Ok(()), Err);
    }
    failures.iter().for_each(|failure| context.warn(failure));
    match failures.len() {
        0 => Ok(()),
        failed if failed == count => Err(Failure::told(failures[0].exit())),
        _ => Err(Failure::told(Exit::Partial)),
    }
}

/// A failure: what could not be done, why, and the exit code that tells scripts.
pub fn failure(doing: impl Display, error: &Error) -> Failure {
    Failure::new(exit_of(error), format!("{doing}: {error}"))
}

/// The exit code that tells scripts of a failed operation.
pub fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Setup(_) => Exit::Usage,
        Error::NoSession(_) => Exit::Denied,
        Error::Call(CallError::Timeout { .. } | CallError::Unreachable { .. }) => Exit::Unreachable,
        Error::Call(CallError::Refused { .. } | CallError::Untrusted { .. }) => Exit::Denied,
        Error::Call(CallError::Status(Errno::EACCES | Errno::EPERM)) => Exit::Denied,
        Error::Call(CallError::Status(_)) => Exit::Failed,
    }
}
