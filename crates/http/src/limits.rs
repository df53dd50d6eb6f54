//! What one caller may use up. Everything that waits, waits no longer than something here.

use std::time::Duration;

/// The bounds of the HTTP server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The largest body of a request. Lower than a transaction's 128 KiB in hex: valid requests are
    /// refused. Higher: more memory for each waiting client.
    pub body_bytes: usize,
    /// The largest body of a batch; each request in it is bounded like one that comes alone.
    pub batch_bytes: usize,
    /// How long a body may take to arrive. Too low refuses slow networks, too high lets slow senders
    /// keep connections.
    pub body_timeout: Duration,
    /// How long an answer may take after that. It must be above what the application waits for its
    /// own workers, or clients hear `outcome_unknown` of what would have been known.
    pub request_timeout: Duration,
    /// How long a client may leave an answer unread. Too low cuts slow networks off, too high lets
    /// those that never read keep connections.
    pub write_timeout: Duration,
    /// Requests per second of each key that has no rate of its own; 0 is no limit.
    pub rate_per_second: u32,
    /// How many connections are served at once; more wait to be accepted.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 256 * 1024,
            batch_bytes: 8 * 1024 * 1024,
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(35),
            write_timeout: Duration::from_secs(30),
            rate_per_second: 0,
            connections: 20_000,
        }
    }
}
