//! The promises, each held against what is known. Every one of them can be broken by facts: see the tests.

mod requests;
mod nonces;
mod agreement;
mod trouble;
#[cfg(test)]
mod tests;

use serde::Serialize;

use super::facts::Facts;

/// A promise, and whether it was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Promise {
    /// A short name that does not change.
    pub(super) name: &'static str,
    /// What is promised.
    pub(super) promise: &'static str,
    /// What was counted.
    pub(super) counted: String,
    /// Whether it was kept.
    pub(super) kept: bool,
}

/// All of them, in the order in which they are told. Where nothing was asked, nothing was kept.
pub(super) fn judge(facts: &Facts) -> Vec<Promise> {
    let mut promises = vec![
        requests::stored(facts),
        requests::ended_once(facts),
        requests::duplicates(facts),
        nonces::contiguous(facts),
        nonces::executed_once(facts),
        agreement::chain_and_api(facts),
        agreement::write_ahead(facts),
        agreement::feed(facts),
        agreement::failures(facts),
        trouble::reorg(facts),
        trouble::crash(facts),
    ];
    for promise in &mut promises {
        promise.kept &= !facts.requests.is_empty();
    }
    promises
}

/// How many of them are so.
fn count<T>(items: impl IntoIterator<Item = T>, so: impl Fn(&T) -> bool) -> usize {
    items.into_iter().filter(so).count()
}
