//! The command line as it is typed.

use clap::{CommandFactory, Parser};

use super::{Cli, Command};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("fencepost").chain(line.split(' ')))
}

#[test]
fn it_is_well_made() {
    Cli::command().debug_assert();
}

#[test]
fn every_verb_and_argument_has_a_help_text() {
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments() {
            let name = format!("{} {}", command.get_name(), argument.get_id());
            assert!(argument.get_help().is_some(), "{name}");
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}

#[test]
fn every_verb_is_understood() {
    for line in [
        "serve",
        "serve --config a.toml --log debug",
        "migrate -c a.toml",
        "config check",
        "config print --config a.toml",
        "tx send --signer 0x1 --to 0x2 --value 1 --request-id a --meta {} --json",
        "tx send --signer 0x1 --wait signed --wait-seconds 10",
        "tx get 0190-7",
        "tx get 0190-7 --wait final --wait-seconds 30",
        "tx get --request-id a --signer 0x1",
        "tx get --hash 0x3",
        "tx get --nonce 7 --signer 0x1 --chain main",
        "tx list --state QUEUED --limit 5",
        "tx watch 0190-7 --timeout 5m",
        "signers list --url http://a:1 --json",
        "signers show 0x1",
        "signers pause 0x1 --reason audit --chain main",
        "signers pause 0x1 --reason audit --ticket OPS-7",
        "signers resume 0x1 --reason done",
        "signers resume 0x1 --reason done --ticket OPS-7 --audit {\"by\":1}",
        "signers reconcile 0x1 --reason looked --dry-run",
        "signers reconcile 0x1 --reason looked --after-failover --ticket OPS-7 --chain main",
        "signers reconcile --all --after-failover --reason compared --dry-run",
        "signers reconcile --all --after-failover --reason compared --chain main --json",
        "signers placeholder 0x1 --nonce 7 --reason gap",
        "signers cursor 0x1 --next 7 --reason moved",
        "signers import signer.json --dry-run",
        "signers import signer.json --signer 0x1 --chain main --reason moved",
        "signers export 0x1 --out signer.json",
        "signers audit 0x1 --limit 5 --cursor 9",
        "audit export",
        "audit export --after 7 --out audit.jsonl --url http://a:1",
        "tx remedy 0190-7 --action REPLACE --reason slow",
        "tx remedy 0190-7 --action cancel --reason slow --ticket OPS-7 --audit {} --json",
        "tx remedy 0190-7 --action REPLACE --reason slow --gas-price 1",
        "tx remedy 0190-7 --action REPLACE --reason slow --max-fee-per-gas 2 --max-priority-fee-per-gas 1",
        "tx remedies 0190-7",
        "nonces reserve --signer 0x1 --request-id a --ttl 90s --chain main",
        "nonces reserve --signer 0x1 --count 5",
        "nonces submitted 0190-7 --lock-token t --tx-hash 0x3",
        "nonces recycle 0190-7 --lock-token t",
        "nonces extend 0190-7 --lock-token t --ttl 5m",
        "nonces get 0190-7 --json",
        "completions tail --after 7 --follow",
        "version",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for line in [
        "",
        "run",
        "tx get",
        "tx get 0190-7 --hash 0x3",
        "tx get --nonce 7",
        "tx get 0190-7 --wait sent",
        "tx get 0190-7 --wait-seconds 3",
        "tx send --signer 0x1 --wait signed --wait-seconds 31",
        "tx send",
        "tx send --signer 0x1 --gas-price 1 --max-fee-per-gas 1",
        "tx send --signer 0x1 --meta {",
        "tx watch 0190-7 --timeout soon",
        "signers pause 0x1",
        "signers reconcile 0x1",
        "signers placeholder 0x1 --reason gap",
        "signers cursor 0x1 --reason moved",
        "signers cursor 0x1 --next 7",
        "signers import --dry-run",
        "signers placeholder 0x1 --reason gap --nonce -1",
        "tx remedy 0190-7 --action REPLACE",
        "tx remedy 0190-7 --action NOOP --reason slow",
        "tx remedy 0190-7 --action DECIDE --reason slow",
        "tx remedy 0190-7 --reason slow",
        "tx remedy 0190-7 --action REPLACE --reason slow --max-fee-per-gas 2",
        "tx remedy 0190-7 --action REPLACE --reason slow --max-priority-fee-per-gas 2",
        "tx remedy 0190-7 --action CANCEL --reason slow --audit 7",
        "tx remedy 0190-7 --action REPLACE --reason slow --gas-price 1 --max-fee-per-gas 2 --max-priority-fee-per-gas 1",
        "nonces reserve",
        "nonces reserve --signer 0x1 --count 0",
        "nonces reserve --signer 0x1 --ttl 1500ms",
        "nonces reserve --signer 0x1 --ttl 0s",
        "nonces submitted 0190-7 --tx-hash 0x3",
        "nonces submitted 0190-7 --lock-token t",
        "nonces recycle 0190-7",
        "nonces extend 0190-7 --lock-token t",
        "completions tail --after x",
    ] {
        assert_eq!(
            parse(line).err().map(|error| error.exit_code()),
            Some(2),
            "{line}"
        );
    }
}

#[test]
fn a_configuration_is_looked_for_where_one_would_look() {
    let Ok(Cli { command }) = parse("serve --config a.toml") else {
        panic!("it is understood");
    };
    let Command::Serve(what) = command else {
        panic!("it is serve");
    };
    assert_eq!(what.from.config.to_str(), Some("a.toml"));
}
