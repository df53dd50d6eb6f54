//! Files that a running node reads again: on SIGHUP at once, and without it when their contents have
//! changed. What cannot be used changes nothing: the node goes on with what it has, and logs one error.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_http::Access;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use crate::failure::Failure;

/// How often files are looked at. A change is used when two looks in a row have found it: a file that is being
/// written may be sound and not whole. Shorter reads more for nothing; longer keeps a revoked key valid for longer.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// No file of ours is larger: 10,000 keys are about 2 MiB.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// What files hold, in their order, or why one of them cannot be read.
type Contents = Result<Vec<Vec<u8>>, String>;

/// Puts new contents to use and says what they are, or what is wrong with them.
type Apply = Box<dyn Fn(&[Vec<u8>]) -> Result<String, String> + Send>;

/// Files that are used together.
pub(crate) struct Reloaded {
    /// The configuration's name of them.
    key: &'static str,
    files: Vec<PathBuf>,
    apply: Apply,
    /// What was last applied or refused.
    used: u64,
    /// What the last look found, if it differs.
    found: Option<u64>,
}

impl Reloaded {
    /// Files whose present contents are in use.
    fn new(key: &'static str, files: Vec<PathBuf>, apply: Apply) -> Self {
        let used = fingerprint(&contents(&files));
        Self {
            key,
            files,
            apply,
            used,
            found: None,
        }
    }

    /// The API keys.
    pub(crate) fn keys(file: PathBuf, access: Access) -> Self {
        warn_of_expired(&access);
        let apply = move |contents: &[Vec<u8>]| {
            let text = contents.iter().flatten().copied().collect();
            let text = String::from_utf8(text).map_err(|_| "is not UTF-8 text".to_owned())?;
            let count = access.reload(&text).map_err(|bad| {
                let all: Vec<String> = bad.iter().map(ToString::to_string).collect();
                all.join("; ")
            })?;
            warn_of_expired(&access);
            Ok(format!("{count} keys"))
        };
        Self::new("auth.keys_file", vec![file], Box::new(apply))
    }

    /// Looks once. `at_once` uses whatever is there, changed or not.
    fn look(&mut self, at_once: bool) {
        let contents = contents(&self.files);
        let now = fingerprint(&contents);
        let is_settled = self.found.replace(now) == Some(now);
        if !at_once && (now == self.used || !is_settled) {
            return;
        }
        self.used = now;
        let (key, files) = (self.key, &self.files);
        match contents.and_then(|contents| (self.apply)(&contents)) {
            Ok(found) => tracing::info!(key, ?files, found, "reloaded"),
            Err(why) => tracing::error!(
                key,
                ?files,
                why,
                "the changed file cannot be used: the node goes on with what it read before"
            ),
        }
    }
}

/// Keeps files up to date until it is dropped. Without any, SIGHUP ends the process as usual.
pub(crate) fn start(mut all: Vec<Reloaded>) -> Result<JoinSet<()>, Failure> {
    let mut task = JoinSet::new();
    if all.is_empty() {
        return Ok(task);
    }
    let unheard = |error| Failure::new("no signals", error);
    let mut hangup = signal(SignalKind::hangup()).map_err(unheard)?;
    task.spawn(async move {
        loop {
            let at_once = tokio::select! {
                signalled = hangup.recv() => signalled.is_some(),
                () = sleep(LOOK_INTERVAL) => false,
            };
            // A file system can hang; the threads that renew leases must not.
            let looked = spawn_blocking(move || {
                all.iter_mut().for_each(|each| each.look(at_once));
                all
            });
            match looked.await {
                Ok(back) => all = back,
                Err(error) => {
                    tracing::error!(%error, "files are reloaded no more; restart the node");
                    return;
                }
            }
        }
    });
    Ok(task)
}

fn warn_of_expired(access: &Access) {
    for name in access.expired(Timestamp::now()) {
        tracing::warn!(
            name,
            "an API key in auth.keys_file has expired and is refused"
        );
    }
}

fn contents(files: &[PathBuf]) -> Contents {
    let read = |file: &PathBuf| {
        let mut bytes = Vec::new();
        let opened = File::open(file).map(|file| file.take(FILE_BYTES_MAX));
        let read = opened.and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        Ok(bytes)
    };
    files.iter().map(read).collect()
}

/// Tells contents apart without keeping them: they may hold secrets.
fn fingerprint(contents: &Contents) -> u64 {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_change_is_used_once_when_it_has_settled_or_was_asked_for() -> std::io::Result<()> {
        let place = tempfile::tempdir()?;
        let file = place.path().join("file");
        std::fs::write(&file, "a")?;
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let apply = {
            let seen = Arc::clone(&seen);
            move |contents: &[Vec<u8>]| {
                let text = String::from_utf8_lossy(&contents[0]).into_owned();
                seen.lock().unwrap().push(text.clone());
                Ok(text)
            }
        };
        let mut reloaded = Reloaded::new("key", vec![file.clone()], Box::new(apply));
        let mut look = |at_once| {
            reloaded.look(at_once);
            std::mem::take(&mut *seen.lock().unwrap())
        };
        assert_eq!(look(false), [""; 0], "nothing has changed");
        std::fs::write(&file, "half")?;
        assert_eq!(look(false), [""; 0], "it may not be whole");
        std::fs::write(&file, "whole")?;
        assert_eq!(look(false), [""; 0]);
        assert_eq!(look(false), ["whole"]);
        assert_eq!(look(false), [""; 0], "once");
        assert_eq!(look(true), ["whole"], "asked for");
        std::fs::remove_file(&file)?;
        assert_eq!(look(false), [""; 0]);
        assert_eq!(look(false), [""; 0], "unreadable: nothing is applied");
        std::fs::write(&file, "back")?;
        assert_eq!(look(false), [""; 0]);
        assert_eq!(look(false), ["back"]);
        Ok(())
    }
}
