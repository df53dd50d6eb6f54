//! What the demo's clients ask for. No two payloads are the same, so that the chain itself can be asked
//! how often each was executed.

use fencepost_devchain::revert_call;
use fencepost_domain::Address;
use serde_json::{Value, json};

/// More than a call that reverts here needs. It must be given: what reverts cannot be estimated.
const REVERT_GAS: u64 = 100_000;
/// At most so many are reverted by the chain, and one in twenty-five. A node asks for the reasons of a few
/// in one block, not of any number.
const REVERTS_MAX: usize = 8;
/// The selector of `mint(uint256)`. Nothing is behind it: on the built-in chain every call succeeds.
const MINT: &str = "a0712d68";

/// What is executed, for whom. Two are the same only where a request was executed twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Payload {
    pub(super) signer: String,
    pub(super) to: String,
    pub(super) value: u128,
    pub(super) data: String,
}

/// One request of a client.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// The client's own name for it.
    pub(super) id: String,
    pub(super) payload: Payload,
    gas: Option<u64>,
    /// Why the chain will revert it, where it will.
    pub(super) reverts: Option<String>,
}

impl Request {
    /// So many of them, over all signers in turn.
    pub(super) fn all(count: usize, signers: &[Address]) -> Vec<Request> {
        let every = count.div_ceil(REVERTS_MAX).max(25);
        let reverts = |number: usize| number % every == 7;
        let numbers = 0..count;
        let requests = numbers.map(|number| Request::numbered(number, reverts(number), signers));
        requests.collect()
    }

    fn numbered(number: usize, reverts: bool, signers: &[Address]) -> Request {
        let signer = lower(signers[number % signers.len()]);
        let to = format!("0x{:040x}", 0xfe9c_e905 + number % 7);
        let at = |value: usize, data: String| Payload {
            signer,
            to,
            value: u128::try_from(value).unwrap_or_default(),
            data,
        };
        let reverts = reverts.then(|| format!("sold out: order {number} comes too late"));
        let payload = match &reverts {
            Some(reason) => at(0, revert_call(reason).to_string()),
            None if number % 3 == 2 => at(0, format!("0x{MINT}{number:064x}")),
            None => at(1_000 + number, "0x".to_owned()),
        };
        Request {
            id: format!("order-{number}"),
            payload,
            gas: reverts.as_ref().map(|_| REVERT_GAS),
            reverts,
        }
    }

    /// As it is posted.
    pub(super) fn body(&self) -> Value {
        let Payload {
            signer,
            to,
            value,
            data,
        } = &self.payload;
        let mut payload = json!({ "to": to, "value": value.to_string(), "data": data });
        if let Some(gas) = self.gas {
            payload["gas"] = json!(gas.to_string());
        }
        json!({ "signer": signer, "requestId": self.id, "payload": payload })
    }

    /// The same id for something else, which must be refused.
    pub(super) fn misused(&self) -> Value {
        let mut body = self.body();
        body["payload"]["value"] = json!((self.payload.value + 1_000_000).to_string());
        body
    }
}

/// An address as addresses are compared here.
pub(super) fn lower(address: Address) -> String {
    address.to_string().to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_requests_have_the_same_id_or_payload() {
        let signers = [Address::repeat_byte(1), Address::repeat_byte(2)];
        let requests = Request::all(2_000, &signers);
        let ids: BTreeSet<_> = requests.iter().map(|request| &request.id).collect();
        let payloads: BTreeSet<_> = requests.iter().map(|request| &request.payload).collect();
        assert_eq!((ids.len(), payloads.len()), (2_000, 2_000));
        assert!(requests.iter().all(|it| it.body() != it.misused()));
    }
    #[test]
    fn a_few_are_reverted_however_many_there_are() {
        let reverted = |count: usize| {
            let requests = Request::all(count, &[Address::repeat_byte(1)]);
            requests.iter().filter(|it| it.reverts.is_some()).count()
        };
        assert_eq!([20, 200, 2_000].map(reverted), [1, 8, 8]);
    }
}
