//! What commands answer goes to stdout, through here.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Writes a text and ends its last line. A reader that has gone away, such as `head`, has heard what
/// it wanted: the process ends well.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(out, "{text}{end}").and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.map_err(|error| Failure::new("stdout cannot be written", error)),
    }
}
