//! What clients are promised for their requests.

use std::collections::{BTreeMap, BTreeSet};

use super::{Promise, count};
use crate::demo::facts::{Answer, Created, Facts, Stored, is_final};

/// What a node answers to an id that is used for something else.
const CONFLICT: u16 = 409;

/// The answers that say that a request is accepted.
fn accepted(facts: &Facts) -> impl Iterator<Item = (&Answer, &Created)> {
    let answers = facts.answers.iter();
    answers.filter_map(|answer| Some((answer, answer.created.as_ref()?)))
}

/// Accepted is stored: what a client was answered is there, once.
pub(super) fn stored(facts: &Facts) -> Promise {
    let by_id: BTreeMap<&str, &Stored> = facts
        .stored
        .iter()
        .map(|stored| (stored.tx_id.as_str(), stored))
        .collect();
    let is_there = |answer: &Answer, created: &Created| {
        let request = &facts.requests[answer.request];
        by_id.get(created.tx_id.as_str()).is_some_and(|stored| {
            stored.request_id.as_deref() == Some(&request.id)
                && stored.signer.to_lowercase() == request.payload.signer
        })
    };
    let numbers: BTreeSet<usize> = accepted(facts).map(|(answer, _)| answer.request).collect();
    let lost: BTreeSet<usize> = accepted(facts)
        .filter(|(answer, created)| !is_there(answer, created))
        .map(|(answer, _)| answer.request)
        .collect();
    let (asked, accepted) = (facts.requests.len(), numbers.len());
    let (stored, lost) = (facts.stored.len(), lost.len());
    Promise {
        name: "stored",
        promise: "What is accepted is stored, once",
        counted: format!("{accepted} of {asked} accepted, {stored} stored, {lost} lost"),
        kept: accepted == asked && stored == asked && by_id.len() == stored && lost == 0,
    }
}

/// Every transaction ends, and readers are told so exactly once.
pub(super) fn ended_once(facts: &Facts) -> Promise {
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    for row in facts.feed_again.iter().filter(|row| is_final(&row.state)) {
        *told.entry(&row.tx_id).or_default() += 1;
    }
    let times = |stored: &Stored| told.get(stored.tx_id.as_str()).copied().unwrap_or(0);
    let open = count(&facts.stored, |it| !is_final(&it.state));
    let untold = count(&facts.stored, |it| times(it) == 0);
    let again = count(&facts.stored, |it| times(it) > 1);
    let ended = facts.stored.len() - open;
    let strange = told.len() + untold != facts.stored.len();
    Promise {
        name: "ended_once",
        promise: "Each one ends, and its end is told once",
        counted: format!("{ended} ended, {open} open, {untold} untold, {again} told twice"),
        kept: ended == facts.requests.len() && open + untold + again == 0 && !strange,
    }
}

/// A repeated request is the same transaction and takes no nonce; an id used for something else is refused.
pub(super) fn duplicates(facts: &Facts) -> Promise {
    let mut by_request: BTreeMap<usize, Vec<(&Answer, &Created)>> = BTreeMap::new();
    for (answer, created) in accepted(facts) {
        by_request
            .entry(answer.request)
            .or_default()
            .push((answer, created));
    }
    let differ = |answers: &&Vec<(&Answer, &Created)>| {
        let ids: BTreeSet<&str> = answers.iter().map(|(_, it)| it.tx_id.as_str()).collect();
        let nonces: BTreeSet<u64> = answers.iter().filter_map(|(_, it)| it.nonce).collect();
        let new = count(answers.iter(), |(answer, _)| answer.status == 202);
        ids.len() > 1 || nonces.len() > 1 || new > 1
    };
    let differ = count(by_request.values(), differ);
    let once = facts.requests.len() - count(by_request.values(), |answers| answers.len() > 1);
    let used: u64 = facts.signers.iter().map(|signer| signer.next_nonce).sum();
    let (asked, answers) = (facts.requests.len(), facts.answers.len());
    let misused = facts.misuses.len();
    let refused = count(&facts.misuses, |status| **status == CONFLICT);
    Promise {
        name: "duplicates",
        promise: "Repeating a request costs nothing",
        counted: format!(
            "{answers} answers to {asked} requests, {used} nonces used, {differ} answers differ; \
             {refused} of {misused} misused ids refused"
        ),
        kept: once == 0
            && differ == 0
            && u64::try_from(asked) == Ok(used)
            && misused > 0
            && refused == misused,
    }
}
