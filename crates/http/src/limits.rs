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
    /// The largest body of an import, and so the largest export: a thousand nonces with 16 KiB of signed bytes each
    /// fit. Higher costs memory, for the few who may operate.
    pub import_bytes: usize,
    /// How long a body may take to arrive. Too low refuses slow networks, too high lets slow senders
    /// keep connections.
    pub body_timeout: Duration,
    /// How long an answer may take after that. It must be above what the application waits for its
    /// own workers, or clients hear `outcome_unknown` of what would have been known.
    pub request_timeout: Duration,
    /// How long a client may leave an answer unread. Too low cuts slow networks off, too high lets
    /// those that never read keep connections.
    pub write_timeout: Duration,
    /// How long a connection may be idle between two requests. Shorter than that of a load balancer before us, and
    /// it sends requests into connections that we close; longer keeps connections that nobody uses.
    pub idle_timeout: Duration,
    /// Requests per second of each key that has no rate of its own; 0 is no limit.
    pub rate_per_second: u32,
    /// How many refused calls of operators, and of other keys, the audit keeps a minute; 0 keeps none. Too low: the audit
    /// only counts them. Too high: a key can fill the disk with calls that it may not make.
    pub audited_refusals_per_minute: u32,
    /// Requests per second of each address that show no valid key and are no health checks; 0 is no limit.
    pub keyless_per_second: u32,
    /// How many bytes of bodies and answers all requests together may hold; what goes beyond is answered 503. An answer's
    /// making takes more for a moment, see `PAGES_AT_ONCE`.
    pub memory_bytes: usize,
    /// How many connections are served at once. A new one beyond that gets the place of the one that has been idle longest. Too
    /// high: connections take the file descriptors that the store and the chains need.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 256 * 1024,
            batch_bytes: 8 * 1024 * 1024,
            import_bytes: 32 * 1024 * 1024,
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(35),
            write_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(620),
            rate_per_second: 0,
            audited_refusals_per_minute: 60,
            keyless_per_second: 200,
            memory_bytes: 256 * 1024 * 1024,
            connections: 20_000,
        }
    }
}
