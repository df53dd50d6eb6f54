//! Whether the API, the feed and the chain tell the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{Promise, count};
use crate::demo::facts::{Completion, Facts, Mined, Stored};

/// Where a transaction ends, by whether the chain executed it.
fn end_of(mined: &Mined) -> (&'static str, Option<&'static str>) {
    if mined.is_success {
        ("CONFIRMED", None)
    } else {
        ("FAILED_FINAL", Some("REVERTED"))
    }
}

/// Hash, nonce, payload, block and status of each transaction are those on the chain.
pub(super) fn chain_and_api(facts: &Facts) -> Promise {
    let by_hash: BTreeMap<&str, &Mined> = facts
        .mined
        .iter()
        .map(|tx| (tx.hash.as_str(), tx))
        .collect();
    let payloads: BTreeMap<&str, _> = facts
        .requests
        .iter()
        .map(|it| (it.id.as_str(), &it.payload))
        .collect();
    let same = |stored: &&Stored| {
        let mined = stored.tx_hash.as_deref().and_then(|hash| by_hash.get(hash));
        let payload = stored.request_id.as_deref().and_then(|id| payloads.get(id));
        mined.is_some_and(|mined| {
            payload == Some(&&mined.payload)
                && stored.signer.to_lowercase() == mined.payload.signer
                && stored.nonce == Some(mined.nonce)
                && stored.block_number == Some(mined.block_number)
                && stored.block_hash.as_deref() == Some(&mined.block_hash)
                && (stored.state.as_str(), stored.sub_state.as_deref()) == end_of(mined)
        })
    };
    let compared = facts.stored.len();
    let differ = compared - count(&facts.stored, same);
    let mined = facts.mined.len();
    Promise {
        name: "chain_and_api",
        promise: "The API tells what the chain holds",
        counted: format!(
            "{compared} hashes, nonces, blocks and statuses compared with {mined} on the chain, {differ} differ"
        ),
        kept: differ == 0 && mined == compared && compared == facts.requests.len(),
    }
}

/// Whatever was sent is known: it was stored before.
pub(super) fn write_ahead(facts: &Facts) -> Promise {
    let ids: BTreeSet<&str> = facts.stored.iter().map(|it| it.tx_id.as_str()).collect();
    let is_known = |hash: &str| {
        facts
            .known
            .get(hash)
            .is_some_and(|id| ids.contains(id.as_str()))
    };
    let mined: BTreeSet<&str> = facts.mined.iter().map(|tx| tx.hash.as_str()).collect();
    let mut seen: BTreeSet<&str> = facts.sent.iter().map(String::as_str).collect();
    seen.extend(&mined);
    let unknown = count(&seen, |hash| !is_known(hash));
    let (mined, seen) = (mined.len(), seen.len());
    Promise {
        name: "write_ahead",
        promise: "It is stored before it is sent",
        counted: format!(
            "{seen} hashes seen by the chain, {mined} in blocks, {unknown} unknown to the API"
        ),
        kept: unknown == 0 && mined == facts.requests.len(),
    }
}

/// The feed is numbered 1, 2, 3 …, what was read once stays as it was, and it ends with what is.
pub(super) fn feed(facts: &Facts) -> Promise {
    let rows = &facts.feed_again;
    let holes = (1..).zip(rows).filter(|(seq, row)| *seq != row.seq).count();
    let length = rows.len().max(facts.feed.len());
    let changed = count(0..length, |at| facts.feed.get(*at) != rows.get(*at));
    let last: BTreeMap<&str, &Completion> =
        rows.iter().map(|row| (row.tx_id.as_str(), row)).collect();
    let is_last = |stored: &&Stored| {
        last.get(stored.tx_id.as_str()).is_some_and(|row| {
            row.state == stored.state
                && row.sub_state == stored.sub_state
                && row.nonce == stored.nonce
                && row.tx_hash == stored.tx_hash
                && row.block_number == stored.block_number
        })
    };
    let wrong = facts.stored.len() - count(&facts.stored, is_last);
    let corrections = count(rows, |row| row.corrects.is_some());
    let rows = rows.len();
    Promise {
        name: "feed",
        promise: "The feed has no holes and never changes",
        counted: format!(
            "{rows} rows read as they came and again: {holes} holes, {changed} changed, \
             {corrections} corrected, {wrong} not as it ended"
        ),
        kept: holes + changed + corrections + wrong == 0 && rows >= facts.requests.len(),
    }
}

/// What the chain reverts is told as failed, with the reason, and nothing else is.
pub(super) fn failures(facts: &Facts) -> Promise {
    let by_request: BTreeMap<&str, &Stored> = facts
        .stored
        .iter()
        .filter_map(|it| Some((it.request_id.as_deref()?, it)))
        .collect();
    let reverting = facts
        .requests
        .iter()
        .filter_map(|it| Some((it, it.reverts.as_ref()?)));
    let reverting: Vec<_> = reverting.collect();
    let told = count(&reverting, |(request, reason)| {
        by_request.get(request.id.as_str()).is_some_and(|stored| {
            (stored.state.as_str(), stored.sub_state.as_deref())
                == ("FAILED_FINAL", Some("REVERTED"))
                && stored
                    .last_error
                    .as_ref()
                    .is_some_and(|it| it.contains(reason.as_str()))
        })
    });
    let failed = count(&facts.stored, |it| it.state == "FAILED_FINAL");
    let expected = reverting.len();
    Promise {
        name: "failures",
        promise: "What fails is told, with the reason",
        counted: format!(
            "{expected} reverted on purpose, {told} told with the reason, {failed} failed in all"
        ),
        kept: expected > 0 && told == expected && failed == expected,
    }
}
