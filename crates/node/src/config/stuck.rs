//! `[stuck]`: when the head of a lane counts as stuck, and who decides what is done about it.

use std::time::Duration;

use fencepost_app::ports::Action;
use fencepost_app::recovery::rules::Rule;
use fencepost_app::settings::StuckAfter;
use fencepost_domain::state::Why;

use super::chain::BUMP_PERCENT;
use super::endpoint::Endpoint;
use super::section::Section;
use super::value::{Text, Wei};

const SECOND: Duration = Duration::from_secs(1);
/// A lane that may stand still for longer is a mistake in units.
const AGE_MAX: Duration = Duration::from_hours(30 * 24);
/// More sends, rounds or waiting transactions than this are a mistake in the number.
const COUNT_MAX: u64 = 1_000_000;
/// The answer is about a lane that stands still: one that takes longer is none.
const TIMEOUT: (Duration, Duration) = (Duration::from_millis(10), Duration::from_mins(1));

/// When, and who decides.
pub(crate) struct Stuck {
    pub(super) after: StuckAfter,
    /// Decisions may bring their own transaction.
    pub(super) allow_other_payload: bool,
    pub(super) policy: Wanted,
}

/// Who decides, before the secret of the one who is asked was looked for.
pub(crate) enum Wanted {
    /// Nobody.
    Noop,
    /// The first rule that fits.
    Rules(Vec<Rule>),
    /// Whoever answers there.
    Http(Asked),
}

/// Who is asked.
pub(crate) struct Asked {
    pub(super) url: String,
    pub(super) timeout: Duration,
    /// The variable that holds the secret with which questions are signed.
    pub(super) secret_env: Option<String>,
    /// Answers must be signed with it too.
    pub(super) signed_answers: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Noop,
    Rules,
    Http,
}

/// Reads the section.
pub(super) fn read(from: &mut Section<'_>, usual: StuckAfter) -> Stuck {
    let after = after(from, usual);
    let words = [
        ("noop", Word::Noop),
        ("rules", Word::Rules),
        ("http", Word::Http),
    ];
    let word = from.choice("policy", &words);
    let allow_other_payload = from.flag("allow_other_payload", false);
    let rules = from.each("rule", rule);
    let asked = from.section("http", asked);
    if word == Word::Rules && rules.is_empty() && from.is_sound("stuck.rule") {
        let why = "at least one [[stuck.rule]] is needed for policy = \"rules\"";
        from.refuse("rule", why);
    }
    if word == Word::Http && asked.is_none() && from.is_sound("stuck.http.url") {
        from.refuse("http.url", "is needed for policy = \"http\"");
    }
    if word != Word::Rules && !rules.is_empty() {
        from.warn("rule", "is not looked at: stuck.policy is not \"rules\"");
    }
    if word != Word::Http && asked.is_some() {
        from.warn("http.url", "is not asked: stuck.policy is not \"http\"");
    }
    let policy = match (word, asked) {
        (Word::Noop, _) | (Word::Http, None) => Wanted::Noop,
        (Word::Rules, _) => Wanted::Rules(rules),
        (Word::Http, Some(asked)) => Wanted::Http(asked),
    };
    if allow_other_payload && word != Word::Http {
        let why = "changes nothing: only decisions of policy = \"http\" bring a payload";
        from.warn("allow_other_payload", why);
    }
    Stuck {
        after,
        allow_other_payload,
        policy,
    }
}

fn after(from: &mut Section<'_>, usual: StuckAfter) -> StuckAfter {
    let age = from.duration("after", usual.age, SECOND..=AGE_MAX);
    let attempts = from.number("max_attempts", usual.attempts.into(), 1..=COUNT_MAX);
    let backlog = from.number("max_backlog", usual.backlog, 0..=COUNT_MAX);
    // Whoever only shortens `after` means this too.
    let soon = usual.backlog_age.min(age);
    let backlog_age = from.duration("backlog_after", soon, SECOND..=AGE_MAX);
    let sound = from.is_sound("stuck.after") && from.is_sound("stuck.backlog_after");
    if sound && backlog_age > age {
        let (backlog_age, age) = (backlog_age.show(), age.show());
        let why = format!("{backlog_age} must be at most stuck.after ({age})");
        from.refuse("backlog_after", why);
    }
    StuckAfter {
        age,
        attempts: narrow(attempts),
        backlog,
        backlog_age,
    }
}

/// One `[[stuck.rule]]`.
fn rule(from: &mut Section<'_>) -> Rule {
    let reasons: Vec<Why> = from.list("reasons");
    let errors = texts(from, "errors");
    let errors_not = texts(from, "errors_not");
    // A threshold of 0 would always be passed, and one that is passed is enough.
    let after = from.optional_duration("after", SECOND..=AGE_MAX);
    let attempts_min = from.optional_number("attempts_min", 1..=COUNT_MAX);
    let backlog_min = from.optional_number("backlog_min", 1..=COUNT_MAX);
    let words = [
        ("noop", None),
        ("resubmit", Some(Action::Resubmit)),
        ("replace", Some(Action::Replace)),
        ("cancel", Some(Action::Cancel)),
        ("placeholder", Some(Action::Placeholder)),
    ];
    // A rule that says nothing would keep all later ones from being looked at.
    let action = from.needed_choice("action", &words);
    let bump_percent = from.optional_number("bump_percent", BUMP_PERCENT.0..=BUMP_PERCENT.1);
    let max_fee: Option<Wei> = from.optional("max_fee_per_gas");
    let rounds = from.optional_number("rounds", 1..=COUNT_MAX);
    if max_fee == Some(Wei(0)) {
        from.refuse("max_fee_per_gas", "must be above 0: nothing could be paid");
    }
    if matches!(action, None | Some(Action::Resubmit)) {
        let given = [
            ("bump_percent", bump_percent.is_some()),
            ("max_fee_per_gas", max_fee.is_some()),
        ];
        for (name, _) in given.into_iter().filter(|(_, given)| *given) {
            let why = "belongs to an action that signs: replace, cancel or placeholder";
            from.refuse(name, why);
        }
    }
    Rule {
        reasons,
        errors,
        errors_not,
        after,
        attempts_min: attempts_min.map(narrow),
        backlog_min,
        action,
        bump_percent: bump_percent.map(narrow),
        max_fee: max_fee.map(|fee| fee.0),
        rounds_max: rounds.map(narrow),
    }
}

/// Parts of errors.
fn texts(from: &mut Section<'_>, name: &'static str) -> Vec<String> {
    let texts: Vec<String> = from.list(name);
    for (place, _) in texts.iter().enumerate().filter(|(_, text)| text.is_empty()) {
        from.refuse(
            &format!("{name}[{place}]"),
            "is empty, and that is in every error",
        );
    }
    texts
}

/// `[stuck.http]`, where it says whom to ask.
fn asked(from: &mut Section<'_>) -> Option<Asked> {
    let url: Option<Endpoint> = from.optional("url");
    let timeout = from.duration("timeout", 5 * SECOND, TIMEOUT.0..=TIMEOUT.1);
    let secret_env = from.text("secret_env", String::new());
    let signed_answers = from.flag("signed_answers", false);
    if signed_answers && secret_env.is_empty() {
        let why =
            "needs stuck.http.secret_env, which holds the secret that answers are signed with";
        from.refuse("signed_answers", why);
    }
    let url = url?;
    if let Err(why) = url.speaks(&["http", "https"]) {
        from.refuse("url", why);
    } else if url.speaks(&["https"]).is_err() && !url.is_loopback() && !signed_answers {
        let why = "anyone between the machines can answer in its place: use https://, or signed_answers = true";
        from.warn("url", why);
    }
    Some(Asked {
        url: url.url().to_owned(),
        timeout,
        secret_env: (!secret_env.is_empty()).then_some(secret_env),
        signed_answers,
    })
}

/// What is within [`COUNT_MAX`] fits.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
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
