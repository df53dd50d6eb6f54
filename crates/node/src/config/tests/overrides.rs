//! The environment stands above the file.

use super::super::Config;
use super::super::environment::Environment;
use super::super::problem::Problems;
use super::LEAST;

fn parse<const N: usize>(variables: [(&str, &str); N]) -> Result<Config, Problems> {
    let text = format!("lease.duration = '20s'\n{LEAST}");
    Config::parse(&text, &Environment::of(variables))
}

fn mistakes<const N: usize>(variables: [(&str, &str); N]) -> Vec<String> {
    let Problems(problems) = parse(variables).err().expect("a mistake");
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn any_kind_of_value_can_be_set() {
    let config = parse([
        ("FENCEPOST__LEASE__DURATION", "5s"),
        ("FENCEPOST__WRITER__WORKERS", "3"),
        ("FENCEPOST__NONCE__CHAIN_QUERY", "false"),
        ("FENCEPOST__NODE__ID", "seven"),
        ("FENCEPOST__CHAIN__0__FEES__MAX_FEE_PER_GAS", "60gwei"),
        ("FENCEPOST_URL", "not one of ours"),
        ("PATH", "/bin"),
    ]);
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.settings.lease.duration.as_secs(), 5);
    assert_eq!(config.settings.renew_interval.as_millis(), 1_500);
    assert_eq!(config.settings.workers, 3);
    assert_eq!(config.settings.chain_query, None);
    assert_eq!(config.node.id.as_str(), "seven");
    assert_eq!(config.chains[0].ceilings.max_fee, 60_000_000_000);
}

#[test]
fn a_mistake_in_the_environment_names_its_variable() {
    let unknown = "sets no key there is; `fencepost config print` shows all keys";
    assert_eq!(
        mistakes([
            ("FENCEPOST__LEASE__DURATION", "soon"),
            ("FENCEPOST__WRITER__WORKERS", "many"),
            ("FENCEPOST__LEASE__DURATOIN", "5s"),
            ("FENCEPOST__CHAIN__1__NAME", "side"),
            ("FENCEPOST__CHAIN__0__RPC", "http://a"),
        ]),
        [
            "lease.duration: \"soon\" is no duration such as \"10s\" or \"1m 30s\": expected number \
             at 0 (from FENCEPOST__LEASE__DURATION)"
                .to_owned(),
            "writer.workers: \"many\" is no whole number (from FENCEPOST__WRITER__WORKERS)".to_owned(),
            "chain[0].rpc: is a list, and a list is set in the file only (from \
             FENCEPOST__CHAIN__0__RPC)"
                .to_owned(),
            format!("FENCEPOST__CHAIN__1__NAME: {unknown}"),
            format!("FENCEPOST__LEASE__DURATOIN: {unknown}"),
        ],
    );
}
