//! What `serve` refuses, and what it warns of.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fencepost_app::directory::{InFlightLimit, InFlightUntil, Start};
use fencepost_app::ports::CountMode;
use fencepost_domain::ids::Nonce;

use super::super::Config;
use super::super::environment::Environment;
use super::super::problem::Problems;
use super::{LEAST, parse};

const SIGNER: &str = "[[signer]]\naddress = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'\n";

fn config(text: &str) -> Config {
    parse(&servable(text)).unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

fn servable(text: &str) -> String {
    format!("nonce.chain_query = false\n{text}\n{LEAST}{SIGNER}")
}

fn refused(text: &str, environment: &Environment) -> Vec<String> {
    let Err(Problems(problems)) = Config::parse_to_serve(text, environment) else {
        return Vec::new();
    };
    problems.iter().map(ToString::to_string).collect()
}

fn private(file: &Path, text: &str) {
    std::fs::write(file, text).expect("written");
    mode(file, 0o600);
}

fn mode(file: &Path, mode: u32) {
    std::fs::set_permissions(file, Permissions::from_mode(mode)).expect("changed");
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(
        refused(&servable(text), &Environment::default()),
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
    private(&file, &key);
    let config_of = |file: &str| {
        servable(&format!(
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

/// Every file that holds a secret is refused when others can read it, in one line that says what to do.
#[test]
fn secrets_that_others_can_read_are_refused_unless_that_is_allowed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (keystore, password, keys) = (file("k.json"), file("p"), file("keys.toml"));
    let (store, tls) = (file("store"), file("tls.key"));
    let key = format!(
        "[[key]]\nname = 'a'\nsha256 = '{}'\nscopes = ['read']\n",
        "00".repeat(32)
    );
    private(Path::new(&keys), &key);
    for file in [&keystore, &password, &store, &tls] {
        private(Path::new(file), "secret");
    }
    let text = format!(
        "store = {{ url = 'postgres://db/f', password_file = '{store}', sslcert = 'c', sslkey = '{tls}' }}
         auth.keys_file = '{keys}'\n{LEAST}rpc = ['http://127.0.0.1:1']
         [[signer]]\nkey.keystore = '{keystore}'\nkey.password_file = '{password}'\n"
    );
    let of_secrets = |text: &str| {
        let all = refused(text, &Environment::default());
        let ours = all.into_iter().filter(|why| why.contains("chmod"));
        ours.collect::<Vec<_>>()
    };
    assert_eq!(of_secrets(&text), [""; 0]);
    let files = [
        ("signer[0].key.keystore", &keystore),
        ("signer[0].key.password_file", &password),
        ("auth.keys_file", &keys),
        ("store.password_file", &store),
        ("store.sslkey", &tls),
    ];
    for (key, file) in files {
        mode(Path::new(file), 0o644);
        let why = format!(
            "{key}: {file} can be read or changed by other users (its mode is 0644): run `chmod 600 {file}`, or set \
             node.allow_readable_secrets = true if the file's readers are limited in another way"
        );
        assert_eq!(of_secrets(&text), [why]);
        let allowed = format!("node.allow_readable_secrets = true\n{text}");
        assert_eq!(of_secrets(&allowed), [""; 0], "{key}");
        mode(Path::new(file), 0o600);
    }
}

/// A chain that is asked has endpoints, and what is signed has a key; all that is missing is told.
#[test]
fn endpoints_and_keys_are_there() {
    let keys = "[[signer]]\nkey.env = 'A'\n[[signer]]\nkey.mnemonic_env = 'M'\nkey.count = 3
         [[signer]]\nkey.keystore = '/nowhere/k.json'\nkey.password_file = '/nowhere/p'\n";
    let problems = refused(&format!("{LEAST}{keys}"), &Environment::default());
    let paths: Vec<&str> = problems
        .iter()
        .filter_map(|each| each.split(": ").next())
        .collect();
    let expected = [
        "chain[0].rpc",
        "signer[0].key.env",
        "signer[1].key.mnemonic_env",
        "signer[2].key.keystore",
        "signer[2].key.password_file",
    ];
    assert_eq!(paths, expected, "{problems:?}");
    assert_eq!(problems[1], "signer[0].key.env: the variable A is not set");
}

/// Without endpoints a node only gives nonces: it opens no keys, and addresses are written down.
#[test]
fn a_node_that_only_gives_nonces_needs_addresses() {
    let text = format!("nonce.chain_query = false\n{LEAST}[[signer]]\nkey.env = 'A'\n");
    let problems = refused(&text, &Environment::default());
    assert_eq!(
        problems,
        ["signer[0].address: is needed: without chain[…].rpc no keys are opened, not even key.env"]
    );
}

/// What is wrong with the file and what is missing beside it, in one answer.
#[test]
fn mistakes_and_what_is_missing_are_told_together() {
    let text = format!(
        "writer.workers = 0\nnode.cluster_secret_env = 'OURS'\nnode.listen = '0.0.0.0:1'\n\
         auth.keys_file = '/nowhere/keys.toml'\nnonce.chain_query = true\n{LEAST}\
         [[signer]]\nkey.env = 'A'\n[[signer]]\naddress = '0x12'\n"
    );
    let problems = refused(&text, &Environment::default());
    let paths: Vec<&str> = problems
        .iter()
        .filter_map(|problem| problem.split(": ").next())
        .collect();
    let expected = [
        "writer.workers",
        "signer[1].address",
        "chain[0].rpc",
        "signer[0].key.env",
        "node.cluster_secret_env",
        "auth.keys_file",
    ];
    assert_eq!(paths, expected, "{problems:?}");
}

#[test]
fn the_clusters_secret_is_there_and_not_short() {
    let text = servable("node.cluster_secret_env = 'OURS'");
    let check = |value: Option<&str>, expected: &[&str]| {
        let environment = value.map_or_else(Environment::default, |value| {
            Environment::of([("OURS", value)])
        });
        assert_eq!(refused(&text, &environment), expected);
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
fn the_secrets_of_rows_are_there_and_belong_together() {
    let environment = Environment::of([("LONG", "sixteen bytes or more"), ("SHORT", "hush")]);
    let check = |keys: &str, expected: &[&str]| {
        assert_eq!(refused(&servable(keys), &environment), expected, "{keys}");
    };
    check("store.row_secret_env = 'LONG'", &[]);
    check(
        "store.row_secret_env = 'SHORT'\nstore.row_secret_also_env = 'NONE'",
        &[
            "store.row_secret_env: the variable SHORT holds a secret of less than 16 bytes",
            "store.row_secret_also_env: the variable NONE is not set",
        ],
    );
    check(
        "store.row_secret_also_env = 'LONG'\nstore.row_accept_unsealed = true",
        &[
            "store.row_secret_also_env: needs store.row_secret_env",
            "store.row_accept_unsealed: needs store.row_secret_env",
        ],
    );
}

#[test]
fn a_lane_is_a_signer_on_a_chain_with_its_limit() {
    let text = format!(
        "nonce.chain_query = false\n{LEAST}[[chain]]\nname = 'side'\nid = 5
         {SIGNER}chains = ['main', 'side']\nmax_in_flight = 3\nin_flight_until = 'final'"
    );
    let serving = Config::parse_to_serve(&text, &Environment::default());
    let (_, serving) = serving.unwrap_or_else(|problems| panic!("{problems}"));
    let sender = &serving.senders[0];
    let chains: Vec<_> = sender.chains.iter().map(|chain| chain.get()).collect();
    let limit = InFlightLimit {
        max: 3,
        until: InFlightUntil::Final,
    };
    assert_eq!((chains, sender.max_in_flight), (vec![1, 5], Some(limit)));
    assert!(serving.keys.is_none(), "no endpoint, no key");
}

#[test]
fn a_lane_begins_where_its_signer_says_or_as_the_chain_is_asked() {
    let start = |more: &str, signer: &str| {
        let text = format!("{more}\n{LEAST}rpc = ['http://127.0.0.1:1']\n{SIGNER}{signer}");
        let serving = Config::parse_to_serve(&text, &Environment::default());
        let (_, serving) = serving.unwrap_or_else(|problems| panic!("{problems}"));
        serving.senders[0].start
    };
    let latest = Start::Chain(CountMode::Latest);
    assert_eq!(start("", ""), Start::Unset(CountMode::Pending));
    let unset = Start::Unset(CountMode::Latest);
    assert_eq!(start("nonce.mode = 'latest'", ""), unset);
    assert_eq!(start("", "start = 'latest'"), latest);
    assert_eq!(start("", "start = 17"), Start::At(Nonce::new(17).unwrap()));
    let refused = |signer: &str| {
        let text = format!("nonce.chain_query = false\n{LEAST}{SIGNER}{signer}");
        refused(&text, &Environment::default())
    };
    let why =
        "signer[0].start: cannot be found out with nonce.chain_query = false; give the first nonce";
    assert_eq!(refused("start = 'pending'"), [why]);
    assert_eq!(refused("start = 17"), [""; 0]);
    let wrong = refused("start = 'first'");
    assert!(wrong[0].starts_with("signer[0].start: "), "{wrong:?}");
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
    let told = |more: &str| {
        paths(&format!(
            "{postgres}\nnode.cluster_secret_env = 'S'\n{more}"
        ))
    };
    assert_eq!(told(""), ["node.advertise"], "it listens on loopback");
    for url in ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"] {
        let more = format!("node.advertise = '{url}'");
        assert_eq!(told(&more), ["node.advertise"], "{url}");
    }
    assert_eq!(told("node.advertise = 'http://node-1:8700'"), [""; 0]);
    let none = parse(LEAST).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(none.warnings[0].path, "signer");
}
