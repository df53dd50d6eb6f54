//! Files that hold secrets: who may read them.

use std::path::Path;

use super::problem::Problem;

/// Refuses a file that other users of the machine can read.
pub(super) fn check(key: &str, file: &Path, problems: &mut Vec<Problem>) {
    // A file that cannot be looked at is reported where it is read.
    let Some((mode, owned_by_root)) = mode_of(file) else {
        return;
    };
    if is_private(mode, owned_by_root) {
        return;
    }
    let shown = file.display();
    let mode = mode & 0o777;
    let why = format!(
        "{shown} can be read or changed by other users (its mode is {mode:04o}): run `chmod 600 {shown}`, or set \
         node.allow_readable_secrets = true if the file's readers are limited in another way"
    );
    problems.push(Problem::new(key, why));
}

/// The same of several files, each with its key in the configuration.
pub(super) fn check_all<'a>(
    files: impl Iterator<Item = (&'static str, &'a Path)>,
    problems: &mut Vec<Problem>,
) {
    for (key, file) in files {
        check(key, file, problems);
    }
}

/// The rule of PostgreSQL for its own key files. A file of root may be readable by one group: so Kubernetes
/// (`defaultMode: 0400` with `fsGroup`) and systemd (`LoadCredential`) hand secrets to a user that owns no file.
fn is_private(mode: u32, owned_by_root: bool) -> bool {
    let forbidden = if owned_by_root { 0o037 } else { 0o077 };
    mode & forbidden == 0
}

#[cfg(unix)]
fn mode_of(file: &Path) -> Option<(u32, bool)> {
    use std::os::unix::fs::MetadataExt;
    let about = std::fs::metadata(file).ok()?;
    Some((about.mode(), about.uid() == 0))
}

/// Other systems have no such bits.
#[cfg(not(unix))]
fn mode_of(_: &Path) -> Option<(u32, bool)> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_its_owners_and_roots_may_be_one_groups_to_read() {
        let check = |mode: u32, owned_by_root: bool, expected: bool| {
            let private = is_private(mode, owned_by_root);
            assert_eq!(private, expected, "{mode:04o}, root: {owned_by_root}");
        };
        for mode in [0o100_600, 0o100_400, 0o100_000] {
            check(mode, false, true);
            check(mode, true, true);
        }
        check(0o440, true, true);
        check(0o640, true, true);
        check(0o640, false, false);
        check(0o440, false, false);
        check(0o660, true, false);
        check(0o604, true, false);
        check(0o644, true, false);
        check(0o644, false, false);
        check(0o620, false, false);
        check(0o602, true, false);
    }
}
