//! How much gas a payload needs, on top of what is pending.

use std::sync::Arc;

use fencepost_app::ports::Estimate;
use fencepost_domain::request::{Fees, Payload};
use fencepost_domain::{Address, gas};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::funds;
use crate::dialect::Dialect;
use crate::endpoint::Endpoint;
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::revert;
use crate::rpc::{Call, Fault, quoted, value};

/// A transfer to an account without code always costs exactly this.
const TRANSFER_GAS: u64 = 21_000;
/// A call's cost changes with the state it meets; a fifth more is what wallets add.
const MARGIN_DIVISOR: u64 = 5;

impl Endpoints {
    pub(crate) async fn estimate(
        &self,
        signer: Address,
        payload: &Payload,
    ) -> Result<Estimate, Unasked> {
        let until = self.until();
        let object = call_object(signer, payload).to_string();
        let answer = self
            .read(until, |endpoint| ask(endpoint, object.clone(), until))
            .await;
        answer.map(|answer| match answer {
            Ok(needed) => limit(needed, payload),
            Err(estimate) => estimate,
        })
    }
}

/// The node's number, or what its error means.
async fn ask(
    endpoint: Arc<Endpoint>,
    object: String,
    until: Instant,
) -> Result<Result<u64, Estimate>, Fault> {
    let call = |tag| Call::new("eth_estimateGas", &[&object, &quoted(tag)]);
    let mut answer = endpoint
        .ask_one(Purpose::Estimate, call("pending"), until)
        .await;
    // Some nodes have no pending block.
    if matches!(answer, Err(Fault::Node { code: -32602, .. })) {
        answer = endpoint
            .ask_one(Purpose::Estimate, call("latest"), until)
            .await;
    }
    match answer {
        Ok(raw) => match value::u64(&raw) {
            Some(needed) => Ok(Ok(needed)),
            None => {
                let fault = Fault::Garbled("no amount of gas");
                endpoint.fails(&fault);
                Err(fault)
            }
        },
        Err(fault) if revert::is_revert(&fault) => {
            Ok(Err(Estimate::Reverted(revert::reason(&fault))))
        }
        Err(fault) => refusal(endpoint.dialect(), fault).map(Err),
    }
}

/// An error about the transaction is an answer; one about the node or the call is none.
fn refusal(dialect: Dialect, fault: Fault) -> Result<Estimate, Fault> {
    // JSON-RPC's own errors, and those that say "not now".
    const NO_ANSWER: [&str; 6] = [
        "header not found",
        "missing trie node",
        "syncing",
        "timed out",
        "timeout",
        "block not found",
    ];
    let Fault::Node { code, message, .. } = &fault else {
        return Err(fault);
    };
    let lower = message.to_ascii_lowercase();
    let is_of_node =
        matches!(*code, -32700..=-32600) || NO_ANSWER.iter().any(|text| lower.contains(text));
    if fault.is_limit() || is_of_node {
        return Err(fault);
    }
    let message = message.clone();
    Ok(if funds::are_short(dialect, *code, &message) {
        Estimate::NoFunds(message)
    } else {
        Estimate::Refused(message)
    })
}

/// With the margin, within what a transaction may have.
fn limit(needed: u64, payload: &Payload) -> Estimate {
    if needed > gas::GAS_MAX {
        return Estimate::Refused(format!(
            "it needs {needed} gas, above the limit of {}",
            gas::GAS_MAX
        ));
    }
    if needed == TRANSFER_GAS {
        return Estimate::Gas(needed);
    }
    let least = gas::least(payload.to().is_none(), payload.data(), payload.access());
    let with_margin = needed.saturating_add(needed / MARGIN_DIVISOR);
    Estimate::Gas(with_margin.max(least).min(gas::GAS_MAX))
}

fn call_object(signer: Address, payload: &Payload) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("from", json!(signer.to_string()));
    if let Some(to) = payload.to() {
        put("to", json!(to.to_string()));
    }
    if let Some(value) = payload.value() {
        put("value", json!(format!("{value:#x}")));
    }
    if let Some(data) = payload.given_data() {
        put("data", json!(data.to_string()));
    }
    if let Some(access) = payload.given_access() {
        let entry = |entry: &fencepost_domain::request::Access| {
            let keys: Vec<_> = entry.keys.iter().map(ToString::to_string).collect();
            json!({"address": entry.address.to_string(), "storageKeys": keys})
        };
        put("accessList", access.iter().map(entry).collect());
    }
    // Given fees are part of the question: the account must be able to pay them.
    let mut fee = |key, wei: Option<u128>| {
        if let Some(wei) = wei {
            put(key, json!(format!("{wei:#x}")));
        }
    };
    match payload.fees() {
        Fees::Ours => {}
        Fees::Legacy { gas_price } => fee("gasPrice", Some(gas_price)),
        Fees::Dynamic {
            max_fee,
            max_priority_fee,
        } => {
            fee("maxFeePerGas", max_fee);
            fee("maxPriorityFeePerGas", max_priority_fee);
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_domain::request::{Ceilings, Draft};

    fn payload(draft: &Draft) -> Payload {
        let ceilings = Ceilings {
            max_fee: u128::MAX,
            max_priority_fee: u128::MAX,
        };
        Payload::parse(draft, ceilings).unwrap()
    }

    fn transfer() -> Draft {
        Draft {
            to: Some("0x00000000000000000000000000000000000000aa".to_owned()),
            ..Draft::default()
        }
    }

    #[test]
    fn a_transfer_gets_exactly_its_gas_and_a_call_a_margin_within_the_cap() {
        let call = Draft {
            data: Some(format!("0x{}", "01".repeat(1_000))),
            ..transfer()
        };
        let check = |draft: &Draft, needed, expected| {
            assert_eq!(limit(needed, &payload(draft)), expected);
        };
        check(&transfer(), 21_000, Estimate::Gas(21_000));
        check(&transfer(), 30_000, Estimate::Gas(36_000));
        check(&call, 100_000, Estimate::Gas(120_000));
        // Never below what every node requires.
        check(&call, 40_000, Estimate::Gas(61_000));
        check(&call, gas::GAS_MAX, Estimate::Gas(gas::GAS_MAX));
        let refused = limit(gas::GAS_MAX + 1, &payload(&call));
        assert!(matches!(refused, Estimate::Refused(_)));
        let refused = limit(u64::MAX, &payload(&call));
        assert!(matches!(refused, Estimate::Refused(_)));
    }

    #[test]
    fn only_what_was_given_is_asked_with() {
        let signer = Address::repeat_byte(1);
        let plain = call_object(signer, &payload(&transfer()));
        assert_eq!(
            plain,
            json!({"from": signer.to_string(), "to": "0x00000000000000000000000000000000000000AA"})
        );
        let key = format!("0x{}", "11".repeat(32));
        let all = Draft {
            value: Some("16".to_owned()),
            data: Some("0x01".to_owned()),
            max_fee_per_gas: Some("255".to_owned()),
            max_priority_fee_per_gas: Some("1".to_owned()),
            access_list: Some(vec![(transfer().to.unwrap(), vec![key.clone()])]),
            ..transfer()
        };
        let all = call_object(signer, &payload(&all));
        assert_eq!(all["value"], "0x10");
        assert_eq!(all["data"], "0x01");
        assert_eq!(all["maxFeePerGas"], "0xff");
        assert_eq!(all["maxPriorityFeePerGas"], "0x1");
        assert_eq!(all["accessList"][0]["storageKeys"][0], key);
    }

    fn told(code: i64, message: &str) -> Result<Estimate, Fault> {
        let fault = Fault::Node {
            code,
            message: message.to_owned(),
            data: None,
        };
        refusal(Dialect::Geth, fault)
    }

    #[test]
    fn an_error_about_the_transaction_says_whether_it_can_be_paid() {
        let funds = "insufficient funds for transfer";
        assert_eq!(told(-32000, funds), Ok(Estimate::NoFunds(funds.to_owned())));
        let gas = "gas required exceeds allowance (16777216)";
        assert_eq!(told(-32000, gas), Ok(Estimate::Refused(gas.to_owned())));
    }

    #[test]
    fn an_error_about_the_node_is_no_answer() {
        for (code, message) in [
            (-32601, "no such method"),
            (-32603, "internal"),
            (-32005, "slow down"),
            (-32000, "header not found"),
        ] {
            assert!(told(code, message).is_err(), "{message}");
        }
        for fault in [Fault::TimedOut, Fault::Limited] {
            assert_eq!(refusal(Dialect::Geth, fault.clone()), Err(fault));
        }
    }
}
