//! `fencepost tx remedy` and `tx remedies`, asked of a node.

use serde_json::Value;

use super::audit::Told;
use super::table::{Column, page};
use super::{Client, given};
use crate::cli::tx::{Remedies, Remedy};
use crate::failure::Failure;

const IN_LIST: &[Column] = &[
    ("remedyId", "remedyId"),
    ("round", "round"),
    ("action", "action"),
    ("state", "state"),
    ("result", "result"),
    ("by", "by"),
    ("reason", "reason"),
    ("maxFeePerGas", "fees.maxFeePerGas"),
    ("maxPriorityFeePerGas", "fees.maxPriorityFeePerGas"),
    ("gasPrice", "fees.gasPrice"),
    ("severity", "severity"),
    ("then", "then"),
    ("node", "node"),
    ("token", "token"),
    ("askedAt", "askedAt"),
    ("closedAt", "closedAt"),
    ("audit", "audit"),
];

/// Asks for a remedy; the answer is the transaction.
pub(super) async fn ask(client: &Client, remedy: Remedy) -> Result<String, Failure> {
    let tx_id = remedy.tx_id.clone();
    let path = ["tx", &tx_id, "remedy"];
    client.post(&path, &body(remedy)?).await
}

fn body(remedy: Remedy) -> Result<Value, Failure> {
    let text = |text: Option<String>| text.map(Value::String);
    let fees = given([
        ("gasPrice", text(remedy.gas_price)),
        ("maxFeePerGas", text(remedy.max_fee_per_gas)),
        (
            "maxPriorityFeePerGas",
            text(remedy.max_priority_fee_per_gas),
        ),
    ]);
    let told = Told::of(remedy.why)?;
    let has_fees = fees.as_object().is_some_and(|fees| !fees.is_empty());
    Ok(given([
        ("action", Some(remedy.action.to_uppercase().into())),
        ("reason", Some(told.reason)),
        ("fees", has_fees.then_some(fees)),
        ("audit", told.audit),
    ]))
}

/// Shows what was done about a transaction.
pub(super) async fn list(client: &Client, remedies: &Remedies) -> Result<(), Failure> {
    let path = ["tx", &remedies.tx_id, "remedies"];
    let answer = client.get(&path, &[]).await?;
    client.show(&answer, |found| page(IN_LIST, "remedies", found))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::cli::tx::TxCommand;
    use crate::cli::{Cli, Command};

    fn asked(line: &str) -> Value {
        let line = format!("fencepost tx remedy 7 --reason slow {line}");
        let Ok(Cli {
            command: Command::Tx(TxCommand::Remedy(remedy)),
        }) = Cli::try_parse_from(line.split(' '))
        else {
            panic!("{line}");
        };
        body(*remedy).ok().unwrap()
    }

    #[test]
    fn a_request_has_what_was_typed_and_nothing_else() {
        let check = |line: &str, expected: Value| assert_eq!(asked(line), expected, "{line}");
        check(
            "--action replace",
            json!({"action": "REPLACE", "reason": "slow"}),
        );
        check(
            "--action REPLACE --max-fee-per-gas 9 --max-priority-fee-per-gas 2",
            json!({"action": "REPLACE", "reason": "slow",
                "fees": {"maxFeePerGas": "9", "maxPriorityFeePerGas": "2"}}),
        );
        check(
            "--action Cancel --gas-price 0x9 --ticket OPS-7",
            json!({"action": "CANCEL", "reason": "slow", "fees": {"gasPrice": "0x9"},
                "audit": {"ticket": "OPS-7"}}),
        );
    }
}
