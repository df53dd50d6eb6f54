//! What the chain itself shows of nonces and payloads.

use std::collections::BTreeMap;

use super::Promise;
use crate::demo::facts::Facts;
use crate::demo::request::Payload;

/// Each signer's nonces are 0, 1, 2 … on the chain, as many as there were requests.
pub(super) fn contiguous(facts: &Facts) -> Promise {
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for request in &facts.requests {
        *wanted.entry(&request.payload.signer).or_default() += 1;
    }
    let mut used: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for tx in &facts.mined {
        *used.entry((&tx.payload.signer, tx.nonce)).or_default() += 1;
    }
    let is_wanted = |signer: &str, nonce: u64| wanted.get(signer).is_some_and(|n| nonce < *n);
    let again = used.values().filter(|times| **times > 1).count();
    let more = used
        .keys()
        .filter(|(signer, nonce)| !is_wanted(signer, *nonce));
    let more = more.count();
    let skipped: usize = wanted
        .iter()
        .map(|(signer, n)| {
            (0..*n)
                .filter(|nonce| !used.contains_key(&(*signer, *nonce)))
                .count()
        })
        .sum();
    let (signers, nonces) = (wanted.len(), used.len());
    Promise {
        name: "nonces",
        promise: "No nonce is used twice, none is skipped",
        counted: format!(
            "{nonces} nonces of {signers} signers on the chain, {again} used twice, \
             {skipped} skipped, {more} too many"
        ),
        kept: again + skipped + more == 0 && signers > 0,
    }
}

/// Each payload is on the chain exactly once, and nothing else is.
pub(super) fn executed_once(facts: &Facts) -> Promise {
    let mut executed: BTreeMap<&Payload, usize> = BTreeMap::new();
    for request in &facts.requests {
        executed.insert(&request.payload, 0);
    }
    let mut foreign = 0;
    for tx in &facts.mined {
        match executed.get_mut(&tx.payload) {
            Some(times) => *times += 1,
            None => foreign += 1,
        }
    }
    let exactly = |wanted: usize| executed.values().filter(|times| **times == wanted).count();
    let (never, once) = (exactly(0), exactly(1));
    let more = executed.len() - never - once;
    Promise {
        name: "executed_once",
        promise: "Nothing is executed twice",
        counted: format!(
            "{once} payloads executed once, {more} more often, {never} never, {foreign} foreign"
        ),
        kept: once == facts.requests.len() && foreign == 0,
    }
}
