//! `[submit]`, `[resubmit]`, `[confirmations]`, `[stuck]`, `[reservation]`: signing, sending and
//! following, and lending nonces. The values of the last two are checked, and shown by `config print`;
//! nothing uses them yet.

use std::time::Duration;

use fencepost_app::ports::check::WAIT_MAX;
use fencepost_app::settings::Settings;
use fencepost_domain::state::Why;

use super::endpoint::Endpoint;
use super::section::Section;
use super::value::{Text, Wei};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
/// Nodes keep no more of one sender in their pools.
const WINDOW_MAX: usize = 4_096;

/// Reads the five sections.
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
    from.section("stuck", stuck);
    from.section("reservation", |from| {
        from.duration("ttl", MINUTE, SECOND..=WAIT_MAX);
        from.duration("grace", MINUTE, Duration::ZERO..=WAIT_MAX);
        from.choice("on_expiry", &[("recycle", ()), ("hold", ())]);
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Noop,
    Rules,
    Http,
}

fn stuck(from: &mut Section<'_>) {
    from.duration("after", 10 * MINUTE, SECOND..=WAIT_MAX);
    from.number("max_attempts", 10, 1..=1_000_000);
    let words = [
        ("noop", Policy::Noop),
        ("rules", Policy::Rules),
        ("http", Policy::Http),
    ];
    let policy = from.choice("policy", &words);
    let rules = from.each("rule", rule).len();
    let asks = from.section("http", http);
    if policy == Policy::Rules && rules == 0 {
        from.refuse(
            "rule",
            "at least one [[stuck.rule]] is needed for policy = \"rules\"",
        );
    }
    if policy == Policy::Http && !asks && from.is_sound("stuck.http.url") {
        from.refuse("http.url", "is needed for policy = \"http\"");
    }
}

/// The first rule that fits decides.
fn rule(from: &mut Section<'_>) {
    // None is any.
    from.list::<Why>("reasons");
    from.duration("after", Duration::ZERO, Duration::ZERO..=WAIT_MAX);
    from.number("attempts_min", 0, 0..=1_000_000);
    let actions = ["noop", "resubmit", "replace", "cancel", "placeholder"];
    from.choice("action", &actions.map(|action| (action, ())));
    from.optional::<Wei>("max_fee_per_gas");
}

/// Whether it says whom to ask.
fn http(from: &mut Section<'_>) -> bool {
    let url: Option<Endpoint> = from.optional("url");
    from.duration("timeout", 5 * SECOND, Duration::from_millis(10)..=MINUTE);
    if let Some(Err(why)) = url.as_ref().map(|url| url.speaks(&["http", "https"])) {
        from.refuse("url", why);
    }
    url.is_some()
}

impl Text for Why {
    fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = Self::ALL.iter().map(|why| why.word()).collect();
        Self::from_word(text).map_err(|_| format!("{text:?} must be one of {}", words.join(", ")))
    }

    fn show(&self) -> String {
        self.word().to_owned()
    }
}
