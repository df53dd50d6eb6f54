//! Why a mined transaction was reverted, where its receipt does not say: the call is made again on
//! the state before its block. That is a guess at best, so it costs little and fails quietly.

use std::time::Duration;

use fencepost_app::ports::Receipt;
use fencepost_domain::state::Execution;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::meters::Purpose;
use crate::revert;
use crate::rpc::{Call, quoted, value};

/// How many of one question get a reason: as many as go into one batch.
const REASONS_MAX: usize = 100;
/// A reason is not worth the pass's time.
const TIME_MAX: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Fills in what can be had.
    pub(super) async fn add_reasons(&self, found: &mut [Option<Receipt>], until: Instant) {
        let is_open = |receipt: &&mut Receipt| {
            receipt.execution == Execution::Reverted && receipt.reason.is_none()
        };
        let open = found.iter_mut().flatten().filter(is_open);
        let mut open: Vec<&mut Receipt> = open.take(REASONS_MAX).collect();
        if open.is_empty() {
            return;
        }
        let until = until.min(Instant::now() + TIME_MAX);
        let calls: Vec<_> = open
            .iter()
            .map(|receipt| Call::new("eth_getTransactionByHash", &[&quoted(receipt.hash)]))
            .collect();
        let sent = self.ask_in_passing(Purpose::Reason, &calls, until).await;
        let again = sent.iter().zip(&open).map(|(sent, receipt)| {
            let before = receipt.block.number.get().saturating_sub(1);
            repeat(sent.as_ref().ok()?, before)
        });
        let again: Vec<Option<Call>> = again.collect();
        let calls: Vec<_> = again.iter().flatten().cloned().collect();
        if calls.is_empty() {
            return;
        }
        let answers = self.ask_in_passing(Purpose::Reason, &calls, until).await;
        let asked = open
            .iter_mut()
            .zip(&again)
            .filter(|(_, call)| call.is_some());
        for ((receipt, _), answer) in asked.zip(answers) {
            let fault = answer.err().filter(revert::is_revert);
            receipt.reason = fault.as_ref().and_then(revert::reason);
        }
    }
}

#[derive(Deserialize)]
struct Sent<'a> {
    #[serde(borrow)]
    from: &'a RawValue,
    #[serde(borrow)]
    to: Option<&'a RawValue>,
    #[serde(borrow)]
    gas: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(borrow)]
    input: &'a RawValue,
}

/// The transaction as a call on the state after this block.
fn repeat(sent: &RawValue, block: u64) -> Option<Call> {
    let Sent {
        from,
        to,
        gas,
        value,
        input,
    } = value::thing(sent)?;
    let to = to.map_or("null", RawValue::get);
    let call = format!(r#"{{"from":{from},"to":{to},"gas":{gas},"value":{value},"data":{input}}}"#);
    let block = quoted(format!("{block:#x}"));
    Some(Call::new("eth_call", &[&call, &block]))
}
