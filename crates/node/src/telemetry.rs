//! Logs. JSON lines on stderr, or text for people where stderr is a terminal; stdout belongs to what
//! commands answer.

mod folding;

use std::fmt;
use std::io::IsTerminal;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;

use fencepost_domain::ids::NodeId;
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, format};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::failure::Failure;
use folding::Folding;

/// Libraries that would trace the whole URL of a WebSocket endpoint, with the keys in it. No filter turns that on.
const SECRET_TRACES: [&str; 1] = ["tungstenite::handshake::client"];
/// The exit code after a panic.
const PANICKED: i32 = 4;

/// Starts to log what the filter lets through, such as `info` or `info,fencepost_app=debug`.
pub(crate) fn start(filter: &str) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| Failure::Usage(format!("--log {filter:?} is no filter: {error}")))?;
    let filter = SECRET_TRACES.iter().fold(filter, |filter, target| {
        filter.add_directive(format!("{target}=off").parse().expect("a directive"))
    });
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        // It would complain on stderr that stderr is gone, and that panics: a node outlives its log.
        .log_internal_errors(false);
    let folding = Folding::default();
    let base = tracing_subscriber::registry()
        .with(filter)
        .with(folding.clone());
    let failed =
        |error: &dyn fmt::Display| Failure::new("logs cannot be started", error.to_string());
    let started = if std::io::stderr().is_terminal() {
        base.with(log.with_target(false)).try_init()
    } else {
        let lines = format().json().flatten_event(true);
        base.with(log.json().event_format(Named(lines))).try_init()
    };
    started.map_err(|error| failed(&error))?;
    folding.start().map_err(|error| failed(&error))?;
    let _ = FOLDING.set(folding);
    Ok(())
}

static FOLDING: OnceLock<Folding> = OnceLock::new();

/// Before the process ends: the warnings of the last minute that were only counted.
pub(crate) fn end() {
    if let Some(folding) = FOLDING.get() {
        folding.report();
    }
}

/// The node's id as JSON, once its configuration is read.
static NODE_ID: OnceLock<String> = OnceLock::new();

/// From now on every line names the node.
pub(crate) fn name(node: &NodeId) {
    let _ = NODE_ID.set(serde_json::Value::from(node.as_str()).to_string());
}

/// JSON lines that all have `node_id`: crates that do not know which node they are part of log too. It is `-` until
/// the configuration is read.
struct Named<F>(F);

impl<S, N, F> FormatEvent<S, N> for Named<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().fields().field("node_id").is_some() {
            return self.0.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        match line.trim_end().strip_suffix('}') {
            Some(open) => {
                let node_id = NODE_ID.get().map_or("\"-\"", String::as_str);
                writeln!(writer, "{open},\"node_id\":{node_id}}}")
            }
            None => writer.write_str(&line),
        }
    }
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
