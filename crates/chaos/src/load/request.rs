//! A request of a business: an id, a lane, and a payload that no other request has.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_devchain::revert_call;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::note::{Note, Purpose, now};
use crate::world::World;
use crate::world::lane::Chain;

/// Who is paid. Few, because anvil's blocks cost time for every account there is.
const PAYEES: u64 = 48;

/// Code that reverts.
const REVERTING: &str = "0x60006000fd";

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) body: Value,
}

/// A value that no other payload has.
pub(crate) fn value(world: &World) -> u64 {
    world.value_next.fetch_add(1, Ordering::Relaxed)
}

/// Who is paid this value.
pub(crate) fn payee(value: u64) -> String {
    format!("0x{:040x}", 0xabc_0000 + value % PAYEES)
}

fn payload(chain: Chain, purpose: Purpose, value: u64, dice: &mut Dice) -> Value {
    let amount = value.to_string();
    match (purpose, chain) {
        (Purpose::Transfer | Purpose::Expiring, Chain::Anvil | Chain::Dev) => {
            let mut payload = json!({ "to": payee(value), "value": amount });
            // Without it the node asks the chain, which costs both something.
            if dice.chance(95) {
                payload["gas"] = json!("21000");
            }
            payload
        }
        // A contract that fails to be made: one that stood there before would be lost by a restart. The gas
        // is given, because nobody can estimate what is reverted.
        (Purpose::Revert, Chain::Anvil) => {
            json!({ "value": amount, "gas": "100000", "data": REVERTING })
        }
        (Purpose::Revert, Chain::Dev) => json!({
            "to": payee(value), "value": amount, "gas": "100000",
            "data": revert_call("chaos").to_string(),
        }),
    }
}

impl Request {
    /// A new one, noted before anyone can send it.
    pub(crate) fn new(world: &World, id: String, lane: usize, dice: &mut Dice) -> Self {
        let purpose = match dice.below(100) {
            0..2 => Purpose::Revert,
            2..4 => Purpose::Expiring,
            _most => Purpose::Transfer,
        };
        Self::of_purpose(world, id, lane, purpose, dice)
    }

    pub(crate) fn of_purpose(
        world: &World,
        id: String,
        lane: usize,
        purpose: Purpose,
        dice: &mut Dice,
    ) -> Self {
        let value = value(world);
        let of = world.lanes[lane];
        let mut body = json!({
            "signer": of.signer.to_string(),
            "chain": of.chain.name(),
            "requestId": id,
            "payload": payload(of.chain, purpose, value, dice),
        });
        if purpose == Purpose::Expiring {
            body["notAfter"] = json!(soon(dice.millis(1_000, 6_000)));
        }
        if dice.chance(10) {
            body["meta"] = json!({ "order": value });
        }
        world.journal.note(&Note::Asked {
            at: now(),
            request: id.clone(),
            lane,
            value,
            purpose,
        });
        Self { id, body }
    }

    /// The same id with another payload, and that payload's value.
    pub(crate) fn contradicted(&self, world: &World) -> (Value, u64) {
        let value = value(world);
        let mut body = self.body.clone();
        body["payload"] = json!({ "to": payee(value), "value": value.to_string(), "gas": "21000" });
        (body, value)
    }
}

/// A time from now, as RFC 3339 has it.
fn soon(after: Duration) -> String {
    let at = Timestamp::now().checked_add(after);
    at.expect("seconds from now is a time").to_string()
}
