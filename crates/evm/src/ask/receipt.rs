//! One receipt: read as far as we decide by it, kept as the node gave it.

use std::collections::BTreeMap;

use fencepost_app::ports::Receipt;
use fencepost_domain::ids::Height;
use fencepost_domain::state::{Block, Execution};
use fencepost_domain::{B256, amount};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::revert;
use crate::rpc::value;

/// It is stored beside the transaction and read with it. Longer ones are kept without their logs.
const JSON_BYTES_MAX: usize = 64 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    transaction_hash: &'a str,
    block_hash: &'a str,
    block_number: &'a str,
    status: Option<&'a str>,
    #[serde(borrow)]
    revert_reason: Option<&'a RawValue>,
}

/// Which transaction a receipt is of.
pub(super) fn of(raw: &RawValue) -> Option<B256> {
    let wire: Wire<'_> = value::thing(raw)?;
    amount::word(wire.transaction_hash).ok()
}

/// Reads a receipt of this transaction; another one's, or one without a block, is none.
pub(super) fn read(raw: &RawValue, hash: B256) -> Option<Receipt> {
    let wire: Wire<'_> = value::thing(raw)?;
    if amount::word(wire.transaction_hash) != Ok(hash) {
        return None;
    }
    let execution = match wire.status {
        // Before Byzantium there was none, and what failed had used all its gas.
        None => Execution::Success,
        Some(status) => match value::narrow(status)? {
            0 => Execution::Reverted,
            1 => Execution::Success,
            _ => return None,
        },
    };
    Some(Receipt {
        hash,
        block: Block {
            number: Height::new(value::narrow(wire.block_number)?).ok()?,
            hash: amount::word(wire.block_hash).ok()?,
        },
        execution,
        reason: wire.revert_reason.and_then(reason),
        json: bounded(raw)?,
    })
}

/// Besu gives the returned bytes, others a text.
fn reason(raw: &RawValue) -> Option<String> {
    let words: String = value::thing(raw)?;
    let told = revert::decoded(&words).unwrap_or_else(|| crate::text::cleaned(&words));
    (!told.is_empty() && told != "0x").then_some(told)
}

/// The text as it is, or without its logs when it is too long to keep.
fn bounded(raw: &RawValue) -> Option<String> {
    if raw.get().len() <= JSON_BYTES_MAX {
        return Some(raw.get().to_owned());
    }
    let mut fields: BTreeMap<String, &RawValue> = value::thing(raw)?;
    fields.remove("logs");
    let note: &RawValue = serde_json::from_str(r#""too long to keep""#).ok()?;
    fields.insert("logsOmitted".to_owned(), note);
    fields.retain(|name, value| name.len() + value.get().len() <= JSON_BYTES_MAX / 16);
    let json = serde_json::to_string(&fields).ok()?;
    // Thousands of fields are no receipt.
    (json.len() <= JSON_BYTES_MAX).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: B256 = B256::repeat_byte(0xaa);

    fn json(more: &str) -> Box<RawValue> {
        let block = B256::repeat_byte(0xbb);
        let text = format!(
            r#"{{ "transactionHash":"{HASH}", "blockHash":"{block}","blockNumber":"0x7"{more}}}"#
        );
        RawValue::from_string(text).unwrap()
    }

    #[test]
    fn a_receipt_is_kept_as_it_was_given_and_its_status_is_read() {
        let check = |more: &str, expected: Option<(Execution, Option<&str>)>| {
            let raw = json(more);
            let receipt = read(&raw, HASH);
            let got = receipt.as_ref().map(|r| (r.execution, r.reason.as_deref()));
            assert_eq!(got, expected, "{more}");
            if let Some(receipt) = receipt {
                assert_eq!(receipt.json, raw.get());
                assert_eq!(receipt.block.number.get(), 7);
            }
        };
        check(
            r#","status":"0x1","logs":[]"#,
            Some((Execution::Success, None)),
        );
        check(r#","status":"0x0""#, Some((Execution::Reverted, None)));
        check(r#","root":"0x""#, Some((Execution::Success, None)));
        check(r#","status":null"#, Some((Execution::Success, None)));
        let besu = r#","status":"0x0","revertReason":"0xdeadbeef""#;
        let told = Some("custom error 0xdeadbeef");
        check(besu, Some((Execution::Reverted, told)));
        let text = r#","status":"0x0","revertReason":"paused""#;
        check(text, Some((Execution::Reverted, Some("paused"))));
        let none = r#","status":"0x0","revertReason":"0x""#;
        check(none, Some((Execution::Reverted, None)));
        check(r#","status":"0x2""#, None);
        check(r#","status":1"#, None);
        check(r#","status":"success""#, None);
        assert_eq!(read(&json(""), B256::ZERO), None);
    }

    #[test]
    fn a_receipt_that_is_too_long_loses_its_logs_and_says_so() {
        let logs = format!(
            r#","status":"0x1","logs":["{}"]"#,
            "x".repeat(JSON_BYTES_MAX)
        );
        let receipt = read(&json(&logs), HASH).unwrap();
        assert!(receipt.json.len() < 1_000);
        let kept: serde_json::Value = serde_json::from_str(&receipt.json).unwrap();
        assert_eq!(kept["logsOmitted"], "too long to keep");
        assert_eq!(kept["status"], "0x1");
        let many: String = (0..9_000)
            .map(|n| format!(r#","f{n}":"0123"#) + "\"")
            .collect();
        assert_eq!(read(&json(&many), HASH), None);
    }
}
