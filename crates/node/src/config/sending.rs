//! `[submit]`, `[resubmit]`, `[confirmations]`, `[reservation]`, `[retention]`: signing, sending and
//! following, lending nonces, and how long what has ended is kept. The defaults are the application's own.

use std::time::Duration;

use fencepost_app::ports::READ_LIMIT_MAX;
use fencepost_app::ports::check::WAIT_MAX;
use fencepost_app::settings::{Lending, OnExpiry, Retention, Settings};

use super::section::Section;
use super::value::Text;

const SECOND: Duration = Duration::from_secs(1);
/// Shorter, and batches follow each other without a rest.
const SHORTEST: Duration = Duration::from_millis(10);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
/// Both times together are one age that the store compares with.
const KEEP_MAX: Duration = Duration::from_hours(5 * 365 * 24);
/// Nodes keep no more of one sender in their pools.
const WINDOW_MAX: usize = 4_096;

/// Reads the first three.
pub(super) fn read(from: &mut Section<'_>, settings: &mut Settings) {
    from.section("submit", |from| {
        settings.window = from.count("window", settings.window, 1..=WINDOW_MAX);
        settings.preflight = from.flag("preflight", settings.preflight);
    });
    settings.resubmit_interval = from.section("resubmit", |from| {
        let enabled = from.flag("enabled", true);
        let interval = from.duration("interval", MINUTE, SECOND..=WAIT_MAX);
        enabled.then_some(interval)
    });
    from.section("confirmations", |from| {
        let usual = settings.stale_receipt_timeout;
        settings.stale_receipt_timeout =
            from.duration("stale_receipt_timeout", usual, SECOND..=WAIT_MAX);
        let usual = settings.receipt_workers;
        settings.receipt_workers = from.count("receipt_workers", usual, 1..=1_000);
        let usual = settings.publish_confirmations;
        settings.publish_confirmations = from.flag("publish", usual);
    });
}

/// `[reservation]`.
pub(super) fn lending(from: &mut Section<'_>, usual: Lending) -> Lending {
    let words = [("recycle", OnExpiry::Recycle), ("hold", OnExpiry::Hold)];
    Lending {
        ttl: from.duration("ttl", usual.ttl, SECOND..=WAIT_MAX),
        grace: from.duration("grace", usual.grace, Duration::ZERO..=WAIT_MAX),
        on_expiry: from.choice("on_expiry", &words),
        used_after: from.duration("used_after", usual.used_after, SECOND..=WAIT_MAX),
    }
}

/// `[retention]`. The least time is for clients that repeat a request, and for readers of what has just ended.
pub(super) fn retention(from: &mut Section<'_>) -> Option<Retention> {
    let keep = from.duration("keep", Duration::ZERO, Duration::ZERO..=KEEP_MAX);
    let month = Duration::from_hours(30 * 24);
    let retention = Retention {
        keep,
        request_ids: from.duration("request_ids", month, Duration::ZERO..=KEEP_MAX),
        batch: from.count("batch", 500, 1..=READ_LIMIT_MAX),
        interval: from.duration("interval", Duration::from_millis(250), SHORTEST..=HOUR),
    };
    if keep > Duration::ZERO && keep < HOUR {
        let why = format!(
            "{} must be 0s, which keeps everything, or at least 1h",
            keep.show()
        );
        from.refuse("keep", why);
    }
    (keep > Duration::ZERO).then_some(retention)
}
