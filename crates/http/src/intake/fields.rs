//! The fields of one request, each read and checked by itself.

use std::borrow::Cow;

use fencepost_domain::Address;
use fencepost_domain::amount;
use fencepost_domain::ids::RequestId;
use fencepost_domain::request::{Draft, Meta, Payload};
use jiff::Timestamp;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::chains::{Chains, Choice};
use crate::faults::Faults;
use crate::given::{Given, List};
use crate::json::create::{ACCESS_MAX, AccessBody, CreateBody, PayloadBody};

/// A request whose fields are all right.
pub(crate) struct Read<'c> {
    pub(crate) signer: Address,
    pub(crate) chain: Choice<'c>,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) payload: Payload,
    pub(crate) not_after: Option<Timestamp>,
    pub(crate) meta: Option<Meta>,
}

/// Reads everything. Without faults there is a result.
pub(crate) fn read<'c>(
    given: Given<CreateBody<'_>>,
    key: Option<&str>,
    chains: &'c Chains,
    faults: &mut Faults,
) -> Option<Read<'c>> {
    let body = faults.required("body", given)?;
    faults.extras("", body.extras);
    let signer = faults.required("signer", body.signer).map(|text| text.0);
    let signer = faults.read("signer", signer.as_deref(), amount::address);
    let chain = faults.text("chain", body.chain);
    let chain = chains.choose(chain.as_deref(), faults);
    let request_id = faults.text("requestId", body.request_id);
    let request_id = super::named(request_id.as_deref(), key, faults);
    let payload = faults.required("payload", body.payload);
    let payload = payload.and_then(|body| payload_of(body, chain, faults));
    let not_after = faults.text("notAfter", body.not_after);
    let not_after = faults.read("notAfter", not_after.as_deref(), moment);
    let meta = body.meta.and_then(|raw| meta_of(raw, faults));
    Some(Read {
        signer: signer?,
        chain,
        request_id,
        payload: payload?,
        not_after,
        meta,
    })
}

fn payload_of(body: PayloadBody<'_>, chain: Choice<'_>, faults: &mut Faults) -> Option<Payload> {
    faults.extras("payload.", body.extras);
    let mut draft = Draft {
        to: faults.text("payload.to", body.to),
        value: faults.amount("payload.value", body.value),
        data: faults.text("payload.data", body.data),
        gas: faults.amount("payload.gas", body.gas),
        gas_price: faults.amount("payload.gasPrice", body.gas_price),
        max_fee_per_gas: faults.amount("payload.maxFeePerGas", body.max_fee_per_gas),
        max_priority_fee_per_gas: faults.amount(
            "payload.maxPriorityFeePerGas",
            body.max_priority_fee_per_gas,
        ),
        access_list: None,
    };
    let list = faults.given("payload.accessList", body.access_list);
    draft.access_list = list.and_then(|list| access_of(list, faults));
    match Payload::parse(&draft, chain.ceilings()) {
        Ok(payload) => Some(payload),
        Err(wrong) => {
            for fault in wrong {
                faults.add(&format!("payload.{}", fault.field), fault.why);
            }
            None
        }
    }
}

type Entries<'a> = Vec<(Cow<'a, str>, Vec<Cow<'a, str>>)>;

fn access_of<'a>(
    list: List<Given<AccessBody<'a>>, ACCESS_MAX>,
    faults: &mut Faults,
) -> Option<Entries<'a>> {
    if list.is_too_long {
        faults.add("payload.accessList", too_long());
        return None;
    }
    let mut entries = Vec::with_capacity(list.items.len());
    for (at, entry) in list.items.into_iter().enumerate() {
        let place = format!("payload.accessList[{at}]");
        let Some(entry) = faults.required(&place, entry) else {
            continue;
        };
        faults.extras(&format!("{place}."), entry.extras);
        let address = faults.required(&format!("{place}.address"), entry.address);
        let field = format!("{place}.storageKeys");
        let mut keys = Vec::new();
        if let Some(given) = faults.given(&field, entry.storage_keys) {
            if given.is_too_long {
                faults.add(&field, too_long());
            }
            for (n, key) in given.items.into_iter().enumerate() {
                let key = faults.required(&format!("{field}[{n}]"), key);
                keys.extend(key.map(|key| key.0));
            }
        }
        entries.extend(address.map(|address| (address.0, keys)));
    }
    Some(entries)
}

fn too_long() -> String {
    format!("has more than {ACCESS_MAX} elements")
}

/// RFC 3339 as it is written, and nothing of what other standards allow besides. Cut to microseconds,
/// which is what is stored: a client is told the same time now and later.
fn moment(text: &str) -> Result<Timestamp, &'static str> {
    let wrong = "is not a time of RFC 3339, like 2030-01-02T03:04:05Z";
    let bytes = text.as_bytes();
    let dashed = bytes.len() >= 20 && bytes[4] == b'-' && bytes[7] == b'-';
    let timed =
        dashed && matches!(bytes[10], b'T' | b't') && bytes[13] == b':' && bytes[16] == b':';
    let zoned = matches!(
        bytes,
        [.., b'Z' | b'z'] | [.., b'+' | b'-', _, _, b':', _, _]
    );
    let plain = bytes
        .iter()
        .all(|b| b.is_ascii_digit() || b"-+:.TtZz".contains(b));
    if timed && zoned && plain {
        let at: Timestamp = text.parse().map_err(|_| wrong)?;
        Timestamp::from_microsecond(at.as_microsecond()).map_err(|_| wrong)
    } else {
        Err(wrong)
    }
}

/// Bounded in size, and readable for every client that will get it back.
fn meta_of(raw: &RawValue, faults: &mut Faults) -> Option<Meta> {
    let meta = faults.read("meta", Some(raw.get()), |text| Meta::new(text))?;
    let readable = |text: &str| serde_json::from_str::<Value>(text);
    faults.read("meta", Some(raw.get()), readable)?;
    Some(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_to_what_is_stored() {
        let read = moment("2030-01-02T03:04:05.123456789Z").unwrap();
        assert_eq!(read.to_string(), "2030-01-02T03:04:05.123456Z");
    }

    #[test]
    fn times_are_rfc_3339_and_nothing_else() {
        for good in [
            "2030-01-02T03:04:05Z",
            "2030-01-02t03:04:05.123456z",
            "2030-01-02T03:04:05+02:00",
            "2016-12-31T23:59:60Z",
        ] {
            assert!(moment(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "now",
            "2030-01-02",
            "2030-01-02 03:04:05Z",
            "2030-01-02T03:04:05",
            "2030-01-02T03:04:05+0200",
            "2030-01-02T03:04:05Z[UTC]",
            "2030-13-02T03:04:05Z",
            "20300102T030405Z",
            "-002030-01-02T03:04:05Z",
            "２０30-01-02T03:04:05Z",
        ] {
            assert!(moment(bad).is_err(), "{bad}");
        }
    }
}
