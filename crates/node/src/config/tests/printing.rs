//! `config print`: what is in effect, and no secret.

use super::{LEAST, parse};

#[test]
fn what_is_printed_reads_back_as_the_same() {
    let text = format!(
        "node.id = 'a'\nlease.duration = '1m'\nstuck.policy = 'rules'\nstuck.max_backlog = 7
         stuck.rule = [{{ reasons = ['GAP'], errors = ['e'], after = '90s', action = 'cancel', rounds = 2 }}]
         stuck.http.secret_env = 'POLICY'\nreservation.on_expiry = 'hold'\n{LEAST}fees.max_fee_per_gas = 1500000000
         fees.max_priority_fee_per_gas = '7'\nrpc = ['http://127.0.0.1:8545']
         [[signer]]\naddress = '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed'\nkey.env = 'A'"
    );
    let printed = parse(&text)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .print();
    let again = parse(&printed)
        .unwrap_or_else(|problems| panic!("{problems}\n{printed}"))
        .print();
    assert_eq!(printed, again);
    for line in [
        "duration = \"1m\"",
        "max_fee_per_gas = \"1.5gwei\"",
        "address = \"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed\"",
        "listen = \"127.0.0.1:8700\"",
        "env = \"A\"",
        "chains = [\"main\"]",
        "max_backlog = 7",
        "reasons = [\"GAP\"]",
        "after = \"1m 30s\"",
        "action = \"cancel\"",
        "rounds = 2",
        "secret_env = \"POLICY\"",
        "on_expiry = \"hold\"",
        "bump_percent = 12",
    ] {
        assert!(printed.contains(line), "{line} in\n{printed}");
    }
}

#[test]
fn secrets_are_not_printed() {
    let text = format!(
        "store.url = 'postgres://me:hush1@db/f?password=hush2'
         stuck.http.url = 'http://a/hush3'\nnode.cluster_secret_env = 'NAME_ONLY'\n{LEAST}
         rpc = ['https://me:hush4@a', 'https://a/v3/hush5', 'https://a?key=hush6']
         ws = 'wss://a/hush7'
         [[signer]]\naddress = '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed'
         key.remote = 'https://hush8@w'"
    );
    let printed = parse(&text)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .print();
    assert!(!printed.contains("hush"), "{printed}");
    for shown in [
        "postgres://me:***@db/f?password=***",
        "https://a/***",
        "NAME_ONLY",
    ] {
        assert!(printed.contains(shown), "{shown} in\n{printed}");
    }
}

/// What the URL says is in effect unless the table says otherwise.
#[test]
fn hosts_and_tls_of_a_store_are_printed_as_they_are_in_effect() {
    let text = format!(
        "store.url = 'postgres://me:hush@a:1,b:2/f?sslmode=verify-full&sslrootcert=/url.pem'
         store.schema = 'mine'\nstore.sslrootcert = '/table.pem'\n{LEAST}"
    );
    let printed = parse(&text)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .print();
    for shown in [
        "postgres://me:***@a:1,b:2/f",
        "schema = \"mine\"",
        "sslmode = \"verify-full\"",
        "sslrootcert = \"/table.pem\"",
    ] {
        assert!(printed.contains(shown), "{shown} in\n{printed}");
    }
    assert!(!printed.contains("hush"), "{printed}");
}
