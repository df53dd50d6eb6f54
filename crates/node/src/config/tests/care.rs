//! What a configuration says about stuck transactions and lent nonces, as the application gets it.

use std::time::Duration;

use fencepost_app::ports::Action;
use fencepost_app::recovery::rules::Rule;
use fencepost_app::settings::{Lending, OnExpiry, Retention, Settings, StuckAfter};
use fencepost_domain::state::Why;

use super::super::environment::Environment;
use super::super::problem::Problems;
use super::super::serving::StuckPolicy;
use super::super::{Config, Serving};
use super::{LEAST, mistakes, parse};

fn config(text: &str) -> Config {
    parse(&format!("{text}\n{LEAST}")).unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

fn serving(text: &str, environment: &Environment) -> Result<Serving, Vec<String>> {
    let text = format!("nonce.chain_query = false\n{text}\n{LEAST}");
    match Config::parse_to_serve(&text, environment) {
        Ok((_, serving)) => Ok(serving),
        Err(Problems(problems)) => Err(problems.iter().map(ToString::to_string).collect()),
    }
}

fn rules(text: &str) -> Vec<Rule> {
    let served = serving(text, &Environment::default());
    match served
        .unwrap_or_else(|problems| panic!("{problems:?}"))
        .policy
    {
        StuckPolicy::Rules(rules) => rules,
        StuckPolicy::Noop | StuckPolicy::Http { .. } => panic!("rules"),
    }
}

/// The mistakes of the least configuration with this added.
fn check(text: &str, expected: &[&str]) {
    assert_eq!(mistakes(&format!("{text}\n{LEAST}")), expected, "{text}");
}

#[test]
fn what_is_left_out_is_the_applications_own() {
    let (settings, usual) = (config("").settings, Settings::default());
    assert_eq!(settings.stuck, usual.stuck);
    assert_eq!(settings.lending, usual.lending);
    assert_eq!(settings.retention, None, "everything is kept");
    assert_eq!(config("").chains[0].bump_percent, 12);
}

#[test]
fn what_has_ended_is_kept_as_long_as_is_said() {
    let config =
        config("[retention]\nkeep = '90days'\nrequest_ids = '7days'\nbatch = 50\ninterval = '1s'");
    let day = Duration::from_hours(24);
    let retention = Retention {
        keep: day * 90,
        request_ids: day * 7,
        batch: 50,
        interval: Duration::from_secs(1),
    };
    assert_eq!(config.settings.retention, Some(retention));
}

#[test]
fn every_threshold_reaches_the_application() {
    let config = config(
        "[stuck]\nafter = '3m'\nmax_attempts = 4\nmax_backlog = 50\nbacklog_after = '20s'
         [reservation]\nttl = '7s'\ngrace = '8s'\non_expiry = 'hold'\nused_after = '9s'",
    );
    let stuck = StuckAfter {
        age: Duration::from_secs(180),
        attempts: 4,
        backlog: 50,
        backlog_age: Duration::from_secs(20),
    };
    assert_eq!(config.settings.stuck, stuck);
    let lending = Lending {
        ttl: Duration::from_secs(7),
        grace: Duration::from_secs(8),
        on_expiry: OnExpiry::Hold,
        used_after: Duration::from_secs(9),
    };
    assert_eq!(config.settings.lending, lending);
    let chain = parse(&format!("{LEAST}fees.bump_percent = 30"));
    let chain = chain.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(chain.chains[0].bump_percent, 30);
}

#[test]
fn whoever_shortens_the_time_until_stuck_shortens_it_for_a_backlog_too() {
    let settings = config("stuck.after = '30s'").settings;
    assert_eq!(settings.stuck.backlog_age, Duration::from_secs(30));
}

#[test]
fn rules_are_kept_in_their_order_with_every_key() {
    let rules = rules(
        "[stuck]\npolicy = 'rules'
         [[stuck.rule]]
         reasons = ['NO_RECEIPT', 'REFUSED']
         errors = ['underpriced', 'fee']
         errors_not = ['funds']
         after = '15m'
         attempts_min = 5
         backlog_min = 100
         action = 'replace'
         bump_percent = 25
         max_fee_per_gas = '80gwei'
         rounds = 3
         [[stuck.rule]]
         reasons = ['GAP']
         action = 'placeholder'
         [[stuck.rule]]
         action = 'noop'",
    );
    let first = Rule {
        reasons: vec![Why::NoReceipt, Why::Refused],
        errors: vec!["underpriced".to_owned(), "fee".to_owned()],
        errors_not: vec!["funds".to_owned()],
        after: Some(Duration::from_secs(900)),
        attempts_min: Some(5),
        backlog_min: Some(100),
        action: Some(Action::Replace),
        bump_percent: Some(25),
        max_fee: Some(80_000_000_000),
        rounds_max: Some(3),
    };
    let second = Rule {
        reasons: vec![Why::Gap],
        action: Some(Action::Placeholder),
        ..Rule::default()
    };
    assert_eq!(rules, [first, second, Rule::default()]);
}

#[test]
fn every_word_of_an_action_is_that_action() {
    let check = |word: &str, action: Option<Action>| {
        let rules = rules(&format!(
            "stuck.policy = 'rules'\nstuck.rule = [{{ action = '{word}' }}]"
        ));
        assert_eq!(rules[0].action, action, "{word}");
    };
    check("noop", None);
    check("resubmit", Some(Action::Resubmit));
    check("replace", Some(Action::Replace));
    check("cancel", Some(Action::Cancel));
    check("placeholder", Some(Action::Placeholder));
}

#[test]
fn rules_decide_only_where_the_policy_says_so() {
    let text = "stuck.rule = [{ action = 'cancel' }]\nstuck.http.url = 'http://127.0.0.1:1'";
    let served = serving(text, &Environment::default());
    assert!(matches!(
        served.ok().map(|it| it.policy),
        Some(StuckPolicy::Noop)
    ));
    let warned = |text: &str| {
        let warnings = config(text).warnings;
        let paths = warnings.into_iter().map(|warning| warning.path);
        paths.filter(|path| path != "signer").collect::<Vec<_>>()
    };
    assert_eq!(warned(text), ["stuck.rule", "stuck.http.url"]);
    assert_eq!(
        warned("stuck.policy = 'rules'\nstuck.rule = [{ action = 'noop' }]"),
        [""; 0]
    );
    let asks = |url: &str| warned(&format!("stuck.policy = 'http'\nstuck.http.url = '{url}'"));
    assert_eq!(asks("http://localhost:1/a"), [""; 0]);
    assert_eq!(asks("https://policy.example"), [""; 0]);
    assert_eq!(asks("http://policy.example"), ["stuck.http.url"]);
}

#[test]
fn whoever_is_asked_is_known_with_the_secret_that_shows_who_asks() {
    let text = "[stuck]\npolicy = 'http'\n[stuck.http]\nurl = 'http://127.0.0.1:9/a?b=c'
         timeout = '2s'\nsecret_env = 'POLICY'";
    let check = |value: Option<&str>, expected: &[&str]| {
        let environment = value.map_or_else(Environment::default, |value| {
            Environment::of([("POLICY", value)])
        });
        let problems = serving(text, &environment).err().unwrap_or_default();
        assert_eq!(problems, expected);
    };
    check(
        None,
        &["stuck.http.secret_env: the variable POLICY is not set"],
    );
    check(
        Some("hush"),
        &["stuck.http.secret_env: the variable POLICY holds a secret of less than 16 bytes"],
    );
    let environment = Environment::of([("POLICY", "sixteen bytes or more")]);
    let Ok(served) = serving(text, &environment) else {
        panic!("it is good");
    };
    let StuckPolicy::Http {
        url,
        timeout,
        secret,
    } = served.policy
    else {
        panic!("http");
    };
    let expected = ("http://127.0.0.1:9/a?b=c", Duration::from_secs(2), true);
    assert_eq!((url.as_str(), timeout, secret.is_some()), expected);
    assert!(secret.is_some_and(|secret| !secret.signed_answers));
    let Ok(served) = serving(&format!("{text}\nsigned_answers = true"), &environment) else {
        panic!("it is good");
    };
    let StuckPolicy::Http { secret, .. } = served.policy else {
        panic!("http");
    };
    assert!(secret.is_some_and(|secret| secret.signed_answers));
}

#[test]
fn answers_are_signed_with_a_secret() {
    let why = "stuck.http.signed_answers: needs stuck.http.secret_env, which holds the secret that answers are signed with";
    check(
        "stuck.policy = 'http'\nstuck.http.url = 'http://127.0.0.1:9'\nstuck.http.signed_answers = true",
        &[why],
    );
}

/// A secret that nobody uses is not missed.
#[test]
fn the_secret_is_looked_for_only_where_someone_is_asked() {
    let text = "stuck.http.secret_env = 'POLICY'";
    assert!(serving(text, &Environment::default()).is_ok());
}

#[test]
fn policies_need_what_they_ask() {
    check(
        "stuck.policy = 'rules'",
        &["stuck.rule: at least one [[stuck.rule]] is needed for policy = \"rules\""],
    );
    check(
        "stuck.policy = 'http'",
        &["stuck.http.url: is needed for policy = \"http\""],
    );
    check(
        "stuck.rule = [{ reasons = ['LATE'], action = 'wait' }]",
        &[
            "stuck.rule[0].reasons[0]: \"LATE\" must be one of NO_RECEIPT, REFUSED, NONCE_TAKEN, \
             GAP, NO_FUNDS, SIGNER_ERROR, REORG_AFTER_FINAL, TAMPERED",
            "stuck.rule[0].action: \"wait\" must be one of \"noop\", \"resubmit\", \"replace\", \
             \"cancel\", \"placeholder\"",
        ],
    );
    check(
        "stuck.policy = 'rules'\nstuck.rule = 'all'",
        &["stuck.rule: must be written as [[stuck.rule]]"],
    );
    check(
        "stuck.policy = 'http'\nstuck.http.url = 'ftp://a'",
        &["stuck.http.url: ftp://a must begin with http:// or https://"],
    );
}

/// All that is wrong with a rule is told with its place; what would make it fit always is wrong.
#[test]
fn rules_have_their_bounds() {
    check(
        "[[stuck.rule]]\naction = 'noop'\n[[stuck.rule]]\nerrors = ['', 'x']\nerrors_not = ['']\nafter = '0s'
         attempts_min = 0\nbacklog_min = 0\naction = 'replace'\nbump_percent = 9
         max_fee_per_gas = 0\nrounds = 0\nonce = true",
        &[
            "stuck.rule[1].errors[0]: is empty, and that is in every error",
            "stuck.rule[1].errors_not[0]: is empty, and that is in every error",
            "stuck.rule[1].after: 0s must be 1s to 30days",
            "stuck.rule[1].attempts_min: 0 must be 1 to 1000000",
            "stuck.rule[1].backlog_min: 0 must be 1 to 1000000",
            "stuck.rule[1].bump_percent: 9 must be 10 to 1000",
            "stuck.rule[1].rounds: 0 must be 1 to 1000000",
            "stuck.rule[1].max_fee_per_gas: must be above 0: nothing could be paid",
            "stuck.rule[1].once: is no key there is; here are: reasons, errors, errors_not, after, \
             attempts_min, backlog_min, action, bump_percent, max_fee_per_gas, rounds",
        ],
    );
    check(
        "stuck.rule = [{ action = 'resubmit', bump_percent = 12 }, { action = 'noop', max_fee_per_gas = '1gwei' }]",
        &[
            "stuck.rule[0].bump_percent: belongs to an action that signs: replace, cancel or placeholder",
            "stuck.rule[1].max_fee_per_gas: belongs to an action that signs: replace, cancel or placeholder",
        ],
    );
}

#[test]
fn care_has_its_bounds() {
    check(
        "stuck.max_attempts = 0",
        &["stuck.max_attempts: 0 must be 1 to 1000000"],
    );
    check(
        "stuck.max_backlog = -1",
        &["stuck.max_backlog: -1 must be 0 to 1000000"],
    );
    check(
        "stuck.after = '1m'\nstuck.backlog_after = '61s'",
        &["stuck.backlog_after: 1m 1s must be at most stuck.after (1m)"],
    );
    check(
        "stuck.http.timeout = '2m'",
        &["stuck.http.timeout: 2m must be 10ms to 1m"],
    );
    check(
        "retention.keep = '59m'\nretention.batch = 1001",
        &[
            "retention.batch: 1001 must be 1 to 1000",
            "retention.keep: 59m must be 0s, which keeps everything, or at least 1h",
        ],
    );
    check(
        "reservation.on_expiry = 'keep'",
        &["reservation.on_expiry: \"keep\" must be one of \"recycle\", \"hold\""],
    );
    assert_eq!(
        mistakes(&format!("{LEAST}fees.bump_percent = 1001")),
        ["chain[0].fees.bump_percent: 1001 must be 10 to 1000"]
    );
}

/// A rule that says nothing of what is to be done keeps all later ones from being looked at.
#[test]
fn a_rule_says_what_is_to_be_done() {
    let text = "stuck.policy = 'rules'
         stuck.rule = [{ reasons = ['NO_RECEIPT'], after = '5m' }, { action = 'replace' }]";
    let told = mistakes(&format!("{text}\n{LEAST}"));
    assert!(
        told.iter()
            .any(|line| line.starts_with("stuck.rule[0].action")),
        "{told:?}"
    );
}
