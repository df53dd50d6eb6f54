//! What asks a node to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Resolves at the next one.
    pub(crate) async fn next(&mut self) {
        let asked = tokio::select! {
            asked = self.terminate.recv() => asked,
            asked = self.interrupt.recv() => asked,
        };
        if asked.is_none() {
            // The runtime has no signals any more: none will come.
            std::future::pending::<()>().await;
        }
    }
}
