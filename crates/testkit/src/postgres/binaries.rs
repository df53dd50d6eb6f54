//! Finds PostgreSQL's programs on this machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Names the directory with PostgreSQL's programs, when it is not where we look.
const CHOSEN: &str = "FENCEPOST_PG_BIN";

/// The oldest major version that Fencepost supports.
const MAJOR_MIN: u32 = 14;

const PROGRAMS: [&str; 4] = ["initdb", "pg_ctl", "postgres", "pg_basebackup"];

/// The directory with the programs of a PostgreSQL that is new enough.
pub(super) fn find() -> Result<PathBuf> {
    if let Some(chosen) = env::var_os(CHOSEN).map(PathBuf::from) {
        ensure!(
            holds_all(&chosen),
            "{CHOSEN}={}: not all of {PROGRAMS:?}",
            chosen.display()
        );
        let major = major(&chosen)?;
        ensure!(
            major >= MAJOR_MIN,
            "{CHOSEN} is version {major}; need {MAJOR_MIN} or newer"
        );
        return Ok(chosen);
    }
    if let Some(packaged) = newest(Path::new("/usr/lib/postgresql")) {
        return Ok(packaged);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let fits = |bin: &PathBuf| holds_all(bin) && major(bin).is_ok_and(|major| major >= MAJOR_MIN);
    match env::split_paths(&path).find(fits) {
        Some(bin) => Ok(bin),
        None => bail!(
            "tests need the programs of PostgreSQL {MAJOR_MIN} or newer ({}). On Debian and Ubuntu: \
             apt-get install postgresql. Elsewhere: put their directory on PATH or in {CHOSEN}",
            PROGRAMS.join(", ")
        ),
    }
}

/// Debian keeps each version in a directory of its own, out of PATH.
fn newest(root: &Path) -> Option<PathBuf> {
    fs::read_dir(root)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let major: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((major, entry.path().join("bin")))
        })
        .filter(|(major, bin)| *major >= MAJOR_MIN && holds_all(bin))
        .max()
        .map(|(_, bin)| bin)
}

fn holds_all(bin: &Path) -> bool {
    PROGRAMS.iter().all(|program| bin.join(program).is_file())
}

fn major(bin: &Path) -> Result<u32> {
    let output = Command::new(bin.join("postgres"))
        .arg("--version")
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    parse_major(&text).with_context(|| format!("cannot read a version out of {text:?}"))
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` and `… 19devel`.
fn parse_major(text: &str) -> Option<u32> {
    let version = text.split_whitespace().nth(2)?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_postgres_says() {
        let check = |text: &str, major: Option<u32>| assert_eq!(parse_major(text), major, "{text}");
        check(
            "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n",
            Some(15),
        );
        check("postgres (PostgreSQL) 19devel\n", Some(19));
        check("postgres (PostgreSQL) 9.6.24\n", Some(9));
        check("postgres\n", None);
        check("", None);
    }

    #[test]
    fn the_newest_complete_version_is_chosen() -> Result<()> {
        let root = env::temp_dir().join(format!("fencepost-versions-{}", std::process::id()));
        for (version, programs) in [("9", 4), ("14", 4), ("16", 4), ("17", 1), ("lost+found", 4)] {
            let bin = root.join(version).join("bin");
            fs::create_dir_all(&bin)?;
            for program in &PROGRAMS[..programs] {
                fs::write(bin.join(program), "")?;
            }
        }
        let found = newest(&root);
        fs::remove_dir_all(&root)?;
        assert_eq!(found, Some(root.join("16/bin")));
        Ok(())
    }
}
