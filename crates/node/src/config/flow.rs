//! `[lease]`, `[writer]`, `[queue]`, `[nonce]`, `[routing]`: the flow of requests through a node.
//! The defaults are the application's own.

use std::time::Duration;

use fencepost_app::ports::{CountMode, Terms, WRITE_LIMIT_MAX};
use fencepost_app::settings::{NotLeader, Settings};

use super::section::Section;
use super::value::Text;

/// Shorter leases are lost to the pauses of a busy machine, longer ones stop a lane for hours.
const LEASE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_hours(1));
/// Each worker may have a statement under way; more of them than this only wait for connections.
const WORKERS_MAX: usize = 1_024;
/// What waits is in memory.
const WAITING_MAX: usize = 1_000_000;
/// What waits in a lane is in the store.
const QUEUE_MAX: usize = 100_000_000;
/// Clients do not wait longer for any answer than 35 s, of which the queue needs its part.
const DEADLINE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(30));

/// Reads the five sections.
pub(super) fn read(from: &mut Section<'_>) -> Settings {
    let usual = Settings::default();
    let (lease, renew_interval) = from.section("lease", |from| lease(from, &usual));
    let (workers, batch_max, worker_queue_max) = from.section("writer", |from| {
        (
            from.count("workers", usual.workers, 1..=WORKERS_MAX),
            from.count("batch_max", usual.batch_max, 1..=WRITE_LIMIT_MAX),
            from.count("queue_max", usual.worker_queue_max, 1..=WAITING_MAX),
        )
    });
    let lane_queue_max = from.section("queue", |from| {
        from.count("max", usual.lane_queue_max, 1..=QUEUE_MAX)
    });
    let nonce = from.section("nonce", |from| nonce(from, &usual));
    let (not_leader, forward_deadline) = from.section("routing", |from| {
        let words = [
            ("forward", NotLeader::Forward),
            ("reject", NotLeader::Reject),
        ];
        let deadline = from.duration("deadline", usual.forward_deadline, DEADLINE.0..=DEADLINE.1);
        (from.choice("not_leader", &words), deadline)
    });
    Settings {
        lease,
        renew_interval,
        workers,
        batch_max,
        worker_queue_max,
        lane_queue_max,
        not_leader,
        forward_deadline,
        chain_query: nonce.chain_query,
        state_timeout: nonce.state_timeout,
        max_jump: nonce.max_jump,
        ..usual
    }
}

fn lease(from: &mut Section<'_>, usual: &Settings) -> (Terms, Duration) {
    let duration = from.duration("duration", usual.lease.duration, LEASE.0..=LEASE.1);
    // Whoever only shortens the lease means the renewals too.
    let often = usual.renew_interval.min(duration * 3 / 10);
    let renew = from.duration("renew_interval", often, Duration::from_millis(1)..=LEASE.1);
    let skew = from.duration(
        "clock_skew_allowance",
        usual.lease.skew,
        Duration::ZERO..=LEASE.1,
    );
    let sound = from.is_sound("lease.duration") && from.is_sound("lease.renew_interval");
    if sound && renew >= duration / 2 {
        let (renew, duration) = (renew.show(), duration.show());
        let why = format!("{renew} must be below half of lease.duration ({duration})");
        from.refuse("renew_interval", why);
    }
    (Terms { duration, skew }, renew)
}

struct Nonce {
    chain_query: Option<CountMode>,
    state_timeout: Duration,
    max_jump: u64,
}

fn nonce(from: &mut Section<'_>, usual: &Settings) -> Nonce {
    let asked = from.flag("chain_query", usual.chain_query.is_some());
    let mode = from.choice(
        "mode",
        &[
            ("pending", CountMode::Pending),
            ("latest", CountMode::Latest),
        ],
    );
    let most = Duration::from_hours(24);
    Nonce {
        chain_query: asked.then_some(mode),
        state_timeout: from.duration("state_timeout", usual.state_timeout, Duration::ZERO..=most),
        max_jump: from.number("max_jump", usual.max_jump, 0..=1_000_000),
    }
}
