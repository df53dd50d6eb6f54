//! Logs. JSON lines on stderr, or text for people where stderr is a terminal; stdout belongs to what
//! commands answer.

use std::io::IsTerminal;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// The exit code after a panic.
const PANICKED: i32 = 4;

/// Starts to log what the filter lets through, such as `info` or `info,fencepost_app=debug`.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| Failure::Usage(format!("--log {filter:?} is no filter: {error}")))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would complain on stderr that stderr is gone, and that panics: a node outlives its log.
        .log_internal_errors(false);
    let started = if std::io::stderr().is_terminal() {
        log.with_target(false).try_init()
    } else {
        log.json().flatten_event(true).try_init()
    };
    started.map_err(|error| Failure::new("logs cannot be started", error))
}

/// Ends the process at the first panic but for those in which a request is answered: in a loop of the
/// node, in a task that settles requests, in a thread of a store. The runtime would keep all others
/// going, and the node would hold leases whose work nobody does, or decide on memory that was left half
/// changed. A dead node is taken over within its lease. Looking at the results of the loops alone would
/// miss the other two. What answers a request changes nothing by itself: its panic is a 500.
pub(crate) fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("no text");
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or_default();
        if fencepost_http::is_answering() {
            tracing::error!(
                code = "panic",
                place,
                thread,
                "a request is not answered: {why}"
            );
            return;
        }
        tracing::error!(code = "panic", place, thread, "the node ends: {why}");
        std::process::exit(PANICKED);
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const ROLE: &str = "FENCEPOST_TEST_PANICS";

    /// Runs itself in another process, which panics in a thread that nobody waits for.
    #[test]
    fn a_panic_in_any_thread_ends_the_process() {
        if std::env::var_os(ROLE).is_some() {
            end_on_panic();
            std::thread::spawn(|| panic!("on purpose"));
            loop {
                std::thread::park();
            }
        }
        let name = std::thread::current()
            .name()
            .map(str::to_owned)
            .expect("a test's name");
        let myself = std::env::current_exe().expect("a path");
        let ended = Command::new(myself)
            .args(["--exact", &name])
            .env(ROLE, "1")
            .output();
        assert_eq!(ended.expect("it ran").status.code(), Some(PANICKED));
    }
}
