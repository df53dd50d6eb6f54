//! What a node does to keep other processes of its machine out of its memory and its files.

use std::path::Path;

use crate::failure::Failure;

/// Before anything secret is read: files that the process creates are its user's alone under
/// any umask of the shell, and no process of the same user reads its memory or environment.
pub(crate) fn protect() {
    imp::own_files_only();
    if let Err(error) = imp::dumpable(false) {
        tracing::warn!(%error, "the process's memory cannot be closed to debuggers");
    }
}

/// Once the configuration is known: core dumps stay off for good, or are given back.
pub(crate) fn settle(allow_core_dumps: bool) -> Result<(), Failure> {
    let done = if allow_core_dumps {
        imp::dumpable(true)
    } else {
        imp::no_core_files()
    };
    done.map_err(|error| Failure::new("node.allow_core_dumps cannot be applied", error))
}

/// A store that was there before keeps the mode that it has: another user may be meant to read it.
pub(crate) fn warn_if_shared(store: &Path) {
    let mode = imp::mode(store).map_or(0, |mode| mode & 0o777);
    if mode & 0o077 != 0 {
        let file = store.display();
        tracing::warn!(
            "the store {file} can be read or changed by other users (its mode is {mode:04o}): run `chmod 600 {file}`"
        );
    }
}

#[cfg(unix)]
mod imp {
    use std::io;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::fs::Mode;
    use rustix::process::{Resource, Rlimit, setrlimit, umask};

    pub(super) fn mode(file: &Path) -> io::Result<u32> {
        Ok(std::fs::metadata(file)?.permissions().mode())
    }

    pub(super) fn own_files_only() {
        umask(Mode::RWXG | Mode::RWXO);
    }

    /// Both limits: a process that is broken into cannot raise them again.
    pub(super) fn no_core_files() -> io::Result<()> {
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        Ok(setrlimit(Resource::Core, none)?)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn dumpable(allowed: bool) -> io::Result<()> {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let behavior = if allowed {
            DumpableBehavior::Dumpable
        } else {
            DumpableBehavior::NotDumpable
        };
        Ok(set_dumpable_behavior(behavior)?)
    }

    /// Other systems have no such switch.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn dumpable(_: bool) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(not(unix))]
mod imp {
    use std::io;
    use std::path::Path;

    /// Other systems have no such bits.
    pub(super) fn mode(_: &Path) -> io::Result<u32> {
        Ok(0)
    }

    pub(super) fn own_files_only() {}

    pub(super) fn no_core_files() -> io::Result<()> {
        Ok(())
    }

    pub(super) fn dumpable(_: bool) -> io::Result<()> {
        Ok(())
    }
}
