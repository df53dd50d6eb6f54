//! Each mistake has its path and its reason; all of them are told at once.

use super::{LEAST, mistakes};

/// The mistakes of the least configuration with this added.
fn check(text: &str, expected: &[&str]) {
    assert_eq!(mistakes(&format!("{text}\n{LEAST}")), expected, "{text}");
}

/// The same, with this added to its chain.
fn check_chain(text: &str, expected: &[&str]) {
    assert_eq!(mistakes(&format!("{LEAST}\n{text}")), expected, "{text}");
}

const SIGNER: &str = "[[signer]]\naddress = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'\n";

#[test]
fn the_least_configuration_has_none() {
    check("", &[]);
}

#[test]
fn values_have_their_kinds() {
    check("lease = 5", &["lease: must be a table, not integer"]);
    check(
        "lease.duration = 5",
        &["lease.duration: must be text in quotes, not integer"],
    );
    check(
        "lease.duration = '5'",
        &[
            "lease.duration: \"5\" is no duration such as \"10s\" or \"1m 30s\": time unit needed, \
           for example 5sec or 5ms",
        ],
    );
    check(
        "writer.workers = '5'",
        &["writer.workers: must be a whole number, not string"],
    );
    check(
        "nonce.chain_query = 1",
        &["nonce.chain_query: must be true or false, not integer"],
    );
    check(
        "routing.not_leader = 'ask'",
        &["routing.not_leader: \"ask\" must be one of \"forward\", \"reject\""],
    );
    check_chain(
        "rpc = 'http://a'",
        &["chain[0].rpc: must be a list, not string"],
    );
    check_chain(
        "rpc = ['http://a', 7]",
        &["chain[0].rpc[1]: must be text in quotes, not integer"],
    );
    check("signer = 'x'", &["signer: must be written as [[signer]]"]);
}

/// Whoever writes "final" wants one after the other; no limit would be the opposite.
#[test]
fn a_place_that_is_free_when_final_needs_a_limit() {
    check_chain(
        &format!("{SIGNER}in_flight_until = 'final'"),
        &["signer[0].in_flight_until: \"final\" needs max_in_flight of 1 or more: 0 is no limit"],
    );
    check_chain(
        &format!("{SIGNER}max_in_flight = 1\nin_flight_until = 'ended'"),
        &["signer[0].in_flight_until: \"ended\" must be one of \"mined\", \"final\""],
    );
}

#[test]
fn values_have_their_bounds() {
    check(
        "lease.duration = '1ms'",
        &["lease.duration: 1ms must be 100ms to 1h"],
    );
    check(
        "writer.batch_max = 8193",
        &["writer.batch_max: 8193 must be 1 to 8192"],
    );
    check(
        "writer.workers = 0",
        &["writer.workers: 0 must be 1 to 1024"],
    );
    check(
        "writer.queue_max = -1",
        &["writer.queue_max: -1 must be 1 to 1000000"],
    );
    check(
        "routing.deadline = '0s'",
        &["routing.deadline: 0s must be 1ms to 30s"],
    );
    check(
        "store.read_connections = 0",
        &["store.read_connections: 0 must be 1 to 1000"],
    );
    check(
        "node.drain_limit = '1h'",
        &["node.drain_limit: 1h must be 0s to 10m"],
    );
    check(
        "node.idle_timeout = '500ms'",
        &["node.idle_timeout: 500ms must be 1s to 2h"],
    );
    check(
        "node.idle_timeout = '3h'",
        &["node.idle_timeout: 3h must be 1s to 2h"],
    );
    check("submit.window = 0", &["submit.window: 0 must be 1 to 4096"]);
    check_chain(
        "fees.bump_percent = 9",
        &["chain[0].fees.bump_percent: 9 must be 10 to 1000"],
    );
}

#[test]
fn values_are_compared_with_each_other() {
    check(
        "lease.renew_interval = '6s'",
        &["lease.renew_interval: 6s must be below half of lease.duration (10s)"],
    );
    check(
        "lease.renew_interval = '5s'",
        &["lease.renew_interval: 5s must be below half of lease.duration (10s)"],
    );
    check("lease.duration = '1s'", &[]);
    check(
        "store.url = 'postgres://db/f'\nstore.statement_timeout = '5s'",
        &["store.statement_timeout: 5s must be below half of lease.duration (10s)"],
    );
    check("store.statement_timeout = '5s'", &[]);
    check_chain(
        "fees.max_fee_per_gas = '10gwei'",
        &["chain[0].fees.max_priority_fee_per_gas: 50gwei is above max_fee_per_gas (10gwei)"],
    );
    check_chain(
        "fees.max_fee_per_gas = 0",
        &["chain[0].fees.max_fee_per_gas: must be above 0: nothing could be sent"],
    );
}

#[test]
fn a_mistake_is_not_told_twice_in_other_words() {
    // Half of an unreadable duration is not known.
    let problems = mistakes(&format!(
        "lease.duration = 'x'\nlease.renew_interval = '6s'\n{LEAST}"
    ));
    assert_eq!(problems.len(), 1, "{problems:?}");
    // The chain that is meant may be the one that cannot be read.
    let problems =
        mistakes("[[chain]]\nname = 'main'\n[[signer]]\naddress = '0x00'\nchains = ['x']");
    assert_eq!(problems.len(), 2, "{problems:?}");
}

#[test]
fn what_is_not_known_is_refused() {
    check(
        "[leese]\nduration = '1s'",
        &[
            "leese: is no key there is; here are: node, lease, writer, queue, nonce, routing, store, \
           chain, signer, submit, resubmit, confirmations, stuck, reservation, retention, log, auth, api",
        ],
    );
    check(
        "queue.maximum = 1",
        &["queue.maximum: is no key there is; here are: max"],
    );
    check_chain(
        "finality.depth = 1",
        &["chain[0].finality.depth: is no key there is; here are: mode, confirmations"],
    );
}

#[test]
fn nodes_are_named_and_reached() {
    check(
        "node.id = ' a'",
        &["node.id: node.id must be 1 to 128 bytes of printable text without surrounding spaces"],
    );
    check(
        "node.listen = 'localhost'",
        &["node.listen: \"localhost\" is no IP address with a port such as 127.0.0.1:8700"],
    );
    check(
        "node.advertise = 'node-1:8700'",
        &[
            "node.advertise: \"node-1:8700\" must be http:// or https:// with a host, a port and no more",
        ],
    );
    check(
        "node.advertise = 'http://a/b'",
        &[
            "node.advertise: \"http://a/b\" must be http:// or https:// with a host, a port and no more",
        ],
    );
    check("node.advertise = 'https://node-1.example:8700'", &[]);
}

#[test]
fn what_is_said_of_a_server_belongs_together() {
    let check_server = |keys: &str, expected: &[&str]| {
        check(
            &format!("store.url = 'postgres://me@a:1,b:2/f'\n{keys}"),
            expected,
        );
    };
    check_server("", &[]);
    check_server(
        "store.schema = 'Mine; --'",
        &["store.schema: \"Mine; --\" must be a name of a-z, 0-9 and _ that begins with no digit"],
    );
    let modes = "must be one of disable, prefer, require, verify-ca, verify-full, not";
    check_server(
        "store.sslmode = 'allow'",
        &[&format!("store.sslmode: {modes} \"allow\"")],
    );
    check_server(
        "store.sslcert = 'c'",
        &["store.sslkey: is needed beside sslcert"],
    );
    check_server(
        "store.sslkey = 'k'",
        &["store.sslcert: is needed beside sslkey"],
    );
    check_server(
        "store.sslmode = 'verify-ca'",
        &[
            "store.sslrootcert: is needed with sslmode verify-ca: of the system's authorities anyone \
           gets a certificate, so only verify-full can rely on them",
        ],
    );
    check_server("store.sslmode = 'verify-ca'\nstore.sslrootcert = 'r'", &[]);
    check(
        "store.url = 'postgres://me:hush@db/f'\nstore.password_file = 'p'",
        &["store.password_file: store.url holds a password already"],
    );
    check(
        "store.url = 'postgres://me:hush@db/f?sslmode=maybe'",
        &[
            "store.url: has an sslmode that is not one of disable, prefer, require, verify-ca, \
             verify-full",
        ],
    );
}

#[test]
fn stores_are_of_two_kinds() {
    check(
        "store.url = 'mysql://me:word@db'",
        &["store.url: must begin with sqlite:// or postgres://"],
    );
    check(
        "store.url = 'sqlite://'",
        &["store.url: names no file after sqlite://"],
    );
    check(
        "store.url = 'sqlite://:memory:'",
        &["store.url: must be a file: a store in memory forgets nonces"],
    );
}

#[test]
fn chains_are_there_and_distinct() {
    assert_eq!(
        mistakes(SIGNER),
        ["chain: at least one [[chain]] is needed"]
    );
    check_chain(
        "[[chain]]\nname = 'main'\nid = 1",
        &[
            "chain[1].name: \"main\" is used twice",
            "chain[1].id: 1 is used twice",
        ],
    );
    assert_eq!(
        mistakes("[[chain]]\nid = 0"),
        [
            "chain[0].name: is needed",
            "chain[0].id: 0 must be 1 to 9223372036854775807"
        ],
    );
    assert_eq!(
        mistakes("[[chain]]\nname = 'ma in'"),
        [
            "chain[0].id: is needed",
            "chain[0].name: \"ma in\" must be 1 to 64 letters, digits, '-', '_' or '.'",
        ],
    );
    check_chain(
        "rpc = ['ws://a']",
        &["chain[0].rpc[0]: ws://a must begin with http:// or https://"],
    );
    check_chain(
        "ws = 'http://a'",
        &["chain[0].ws: http://a must begin with ws:// or wss://"],
    );
    check_chain(
        "ws = 'ws://a'",
        &["chain[0].ws: needs rpc: it only says when to read from there"],
    );
    check_chain("rpc = ['http://a']\nws = 'ws://a'", &[]);
}

#[test]
fn signers_have_one_address_or_key() {
    check_chain("[[signer]]", &["signer[0].address: is needed"]);
    check_chain(
        "[[signer]]\naddress = '0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'",
        &[
            "signer[0].address: \"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\" has a wrong EIP-55 \
           checksum; the right spelling is 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        ],
    );
    check_chain(
        "[[signer]]\nkey.env = 'A'\nkey.keystore = 'f'",
        &["signer[0].key: one key of each signer: key.env and key.keystore exclude each other"],
    );
    check_chain(
        "[[signer]]\nkey.keystore = 'f'",
        &["signer[0].key.password_file: is needed beside key.keystore"],
    );
    check_chain(
        "[[signer]]\nkey.env = 'A'\nkey.password_file = 'f'\nkey.count = 2",
        &[
            "signer[0].key.password_file: belongs to key.keystore, which is not there",
            "signer[0].key.count: belongs to key.mnemonic_env, which is not there",
        ],
    );
    check_chain(
        "[[signer]]\nkey.remote = 'https://w'",
        &["signer[0].address: is needed"],
    );
    let plain = "signer[0].key.remote: is plain http:// to another host: anyone on the way can read and change what \
                 is to be signed; use https://, or set key.allow_http = true where the network is protected";
    for host in ["signer.example", "10.0.0.7:9000", "[2001:db8::1]"] {
        let remote = format!("{SIGNER}key.remote = 'http://{host}'");
        check_chain(&remote, &[plain]);
        check_chain(&format!("{remote}\nkey.allow_http = true"), &[]);
    }
    check_chain(
        &format!("{SIGNER}key.allow_http = true"),
        &["signer[0].key.allow_http: belongs to key.remote, which is not there"],
    );
    for good in [
        "https://signer.example",
        "http://127.0.0.1:9000",
        "http://localhost",
    ] {
        check_chain(&format!("{SIGNER}key.remote = '{good}'"), &[]);
    }
    check_chain(
        &format!("{SIGNER}key.mnemonic_env = 'M'"),
        &["signer[0].address: cannot stand beside key.mnemonic_env, which makes its own"],
    );
    check_chain(&format!("{SIGNER}key.env = 'A'"), &[]);
}

#[test]
fn signers_are_on_chains_that_exist_and_on_each_once() {
    check_chain(
        &format!("{SIGNER}chains = ['mian']"),
        &["signer[0].chains[0]: \"mian\" is no configured chain; there is: main"],
    );
    check_chain(
        &format!("{SIGNER}{SIGNER}"),
        &["signer[1].chains[0]: 0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed is on \"main\" twice"],
    );
    check_chain(
        &format!("[[chain]]\nname = 'side'\nid = 2\n{SIGNER}"),
        &["signer[0].chains: is needed"],
    );
    check_chain(
        &format!(
            "[[chain]]\nname = 'side'\nid = 2\n{SIGNER}chains = ['side']\n{SIGNER}chains = ['main']"
        ),
        &[],
    );
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = "
        [node]
        listen = 'x'
        [lease]
        duration = 'x'
        speed = 1
        [[chain]]
        name = 'main'
        id = 1
        fees.max_fee_per_gas = '1 ether'
        [[signer]]
        address = '0x12'
        chains = ['main']
        [auth]
        keys_file = 7
    ";
    let paths: Vec<String> = mistakes(text)
        .iter()
        .map(|line| line.split(": ").next().unwrap_or_default().to_owned())
        .collect();
    let expected = [
        "node.listen",
        "lease.duration",
        "lease.speed",
        "chain[0].fees.max_fee_per_gas",
        "signer[0].address",
        "auth.keys_file",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn a_file_that_is_no_toml_says_where_and_repeats_nothing() {
    let problems = mistakes("[node]\nid = 'a'\nsecret = = 'hush'\n");
    let [problem] = problems.as_slice() else {
        panic!("{problems:?}");
    };
    assert!(
        problem.contains("line 3") && !problem.contains("hush"),
        "{problem}"
    );
}
