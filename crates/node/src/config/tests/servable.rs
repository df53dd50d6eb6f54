//! What `serve` refuses, and what it warns of.

use super::super::Config;
use super::super::environment::Environment;
use super::super::problem::Problems;
use super::super::serving::Serving;
use super::{LEAST, parse};

const SIGNER: &str = "[[signer]]\naddress = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'\n";

fn config(text: &str) -> Config {
    parse(&format!(
        "nonce.chain_query = false\n{text}\n{LEAST}{SIGNER}"
    ))
    .unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

fn refused(config: &Config, environment: &Environment) -> Vec<String> {
    let Err(Problems(problems)) = Serving::prepare(config, environment) else {
        return Vec::new();
    };
    problems.iter().map(ToString::to_string).collect()
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(
        refused(&config(text), &Environment::default()),
        expected,
        "{text}"
    );
}

#[test]
fn a_loopback_address_needs_no_keys_and_any_other_does() {
    check("", &[]);
    check("node.listen = '[::1]:0'", &[]);
    for listen in ["0.0.0.0:8700", "[::]:8700", "192.0.2.7:1"] {
        let why = format!(
            "auth.keys_file: is needed: node.listen ({listen}) can be reached from other machines, \
             and without keys anyone there could send from every signer"
        );
        check(&format!("node.listen = '{listen}'"), &[&why]);
    }
}

#[test]
fn keys_are_read_from_their_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("keys.toml");
    let hash = "00".repeat(32);
    let key = format!("[[key]]\nname = 'a'\nsha256 = '{hash}'\nscopes = ['read']\n");
    std::fs::write(&file, key).expect("written");
    let config_of = |file: &str| {
        config(&format!(
            "node.listen = '0.0.0.0:0'\nauth.keys_file = '{file}'"
        ))
    };
    let name = file.display().to_string();
    assert_eq!(refused(&config_of(&name), &Environment::default()), [""; 0]);
    std::fs::write(&file, "").expect("written");
    let problems = refused(&config_of(&name), &Environment::default());
    assert!(
        problems[0].starts_with(&format!("auth.keys_file: {name}: key")),
        "{problems:?}"
    );
    let problems = refused(&config_of("/nowhere/keys.toml"), &Environment::default());
    let expected = "auth.keys_file: /nowhere/keys.toml cannot be read: No such file";
    assert!(problems[0].starts_with(expected), "{problems:?}");
}

#[test]
fn this_version_has_limits() {
    let config = parse(&format!(
        "{LEAST}[[signer]]\nkey.env = 'A'\n[[signer]]\nkey.mnemonic_env = 'M'\nkey.count = 3"
    ));
    let config = config.unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        refused(&config, &Environment::default()),
        [
            "nonce.chain_query: this version cannot ask a chain yet; set it to false",
            "signer[0].address: is needed: this version reads no keys and cannot find the address of \
             key.env",
            "signer[1].key.mnemonic_env: this version reads no keys; write each address down as a \
             [[signer]] of its own",
        ],
    );
}

#[test]
fn the_clusters_secret_is_there_and_not_short() {
    let config = config("node.cluster_secret_env = 'OURS'");
    let check = |value: Option<&str>, expected: &[&str]| {
        let environment = value.map_or_else(Environment::default, |value| {
            Environment::of([("OURS", value)])
        });
        assert_eq!(refused(&config, &environment), expected);
    };
    check(
        None,
        &["node.cluster_secret_env: the variable OURS is not set"],
    );
    check(
        Some("hush"),
        &["node.cluster_secret_env: the variable OURS holds a secret of less than 16 bytes"],
    );
    check(Some("sixteen bytes or more"), &[]);
}

#[test]
fn a_lane_is_a_signer_on_a_chain_with_its_limit() {
    let text = format!(
        "nonce.chain_query = false\n{LEAST}[[chain]]\nname = 'side'\nid = 5
         {SIGNER}chains = ['main', 'side']\nmax_in_flight = 3"
    );
    let config = parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
    let serving = Serving::prepare(&config, &Environment::default());
    let lanes = serving
        .unwrap_or_else(|problems| panic!("{problems}"))
        .lanes;
    let chains: Vec<_> = lanes
        .iter()
        .map(|(lane, most)| (lane.chain.get(), *most))
        .collect();
    assert_eq!(chains, [(1, Some(3)), (5, Some(3))]);
}

#[test]
fn several_nodes_are_warned_of_what_they_lack() {
    let paths = |text: &str| -> Vec<String> {
        config(text)
            .warnings
            .iter()
            .map(|warning| warning.path.clone())
            .collect()
    };
    assert_eq!(paths(""), [""; 0]);
    let postgres = "store.url = 'postgres://db/f'";
    assert_eq!(paths(postgres), ["node.cluster_secret_env"]);
    assert_eq!(
        paths(&format!("{postgres}\nrouting.not_leader = 'reject'")),
        [""; 0]
    );
    let open = format!("{postgres}\nnode.cluster_secret_env = 'S'\nnode.listen = '0.0.0.0:1'");
    assert_eq!(paths(&open), ["node.advertise"]);
    let none = parse(LEAST).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(none.warnings[0].path, "signer");
}
