//! `[submit]`, `[resubmit]`, `[confirmations]`, `[reservation]`: signing, sending and following, and
//! lending nonces. The defaults are the application's own.

use std::time::Duration;

use fencepost_app::ports::check::WAIT_MAX;
use fencepost_app::settings::{Lending, OnExpiry, Settings};

use super::section::Section;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
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
    }
}
