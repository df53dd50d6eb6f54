//! When a block is final. Only this ends a transaction; a receipt alone does not.

use alloy_primitives::B256;

use crate::confirmation::{DEEP_LIST_MAX, LIST_MAX};
use crate::ids::Height;
use crate::mutant::Mutant;

/// How a chain is configured to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// This many blocks on top of the receipt's; 0 is final on inclusion.
    Confirmations(u64),
    /// The chain's own `safe` head has reached the block.
    Safe,
    /// The chain's own `finalized` head has reached the block.
    Finalized,
}

/// The heads of one endpoint, read in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heads {
    /// The newest block.
    pub latest: Height,
    /// The `safe` one, where the chain has it.
    pub safe: Option<Height>,
    /// The `finalized` one, where the chain has it.
    pub finalized: Option<Height>,
}

impl Rule {
    /// How many blocks on top of a transaction's are published.
    #[must_use]
    pub const fn published(self) -> u64 {
        match self {
            Self::Confirmations(n) if n < DEEP_LIST_MAX => n,
            Self::Confirmations(_) => DEEP_LIST_MAX,
            Self::Safe | Self::Finalized => LIST_MAX,
        }
    }

    /// Whether a block at this height is deep enough.
    #[must_use]
    pub fn is_deep(self, block: Height, heads: Heads) -> bool {
        match self {
            Self::Confirmations(n) => block
                .get()
                .checked_add(n.saturating_sub(u64::from(Mutant::FinalTooEarly.is_on())))
                .is_some_and(|height| height <= heads.latest.get()),
            Self::Safe => heads.safe.is_some_and(|safe| block <= safe),
            Self::Finalized => heads.finalized.is_some_and(|finalized| block <= finalized),
        }
    }
}

/// What the reachable endpoints say about one height.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Every endpoint that has the height has this block, and at least one has it.
    Agreed,
    /// Someone has another block there: wait, count, alert.
    Disputed,
    /// Nobody has the height: nothing is known.
    Unknown,
}

/// Compares the block hashes that endpoints hold at one height (`None`: does not have it yet)
/// with the one that the receipt named.
#[must_use]
pub fn agreement(ours: B256, theirs: impl IntoIterator<Item = Option<B256>>) -> Agreement {
    if Mutant::OneWordIsFinal.is_on() {
        return Agreement::Agreed;
    }
    let mut seen = Agreement::Unknown;
    for hash in theirs.into_iter().flatten() {
        if hash != ours {
            return Agreement::Disputed;
        }
        seen = Agreement::Agreed;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h(value: u64) -> Height {
        Height::new(value).unwrap()
    }

    #[test]
    fn depth_counts_blocks_on_top_of_the_receipts_block() {
        let check = |rule: Rule, block, latest, safe: Option<u64>, fin: Option<u64>, deep| {
            let heads = Heads {
                latest: h(latest),
                safe: safe.map(h),
                finalized: fin.map(h),
            };
            assert_eq!(
                rule.is_deep(h(block), heads),
                deep,
                "{rule:?} {block} {heads:?}"
            );
        };
        check(Rule::Confirmations(0), 5, 5, None, None, true);
        check(Rule::Confirmations(0), 6, 5, None, None, false);
        check(Rule::Confirmations(3), 5, 7, None, None, false);
        check(Rule::Confirmations(3), 5, 8, None, None, true);
        check(Rule::Confirmations(u64::MAX), 5, 8, None, None, false);
        check(Rule::Safe, 5, 100, None, Some(100), false);
        check(Rule::Safe, 5, 100, Some(4), None, false);
        check(Rule::Safe, 5, 100, Some(5), None, true);
        check(Rule::Finalized, 5, 100, Some(100), None, false);
        check(Rule::Finalized, 5, 100, Some(100), Some(5), true);
    }

    #[test]
    fn one_endpoint_with_another_block_is_enough_to_wait() {
        let (a, b) = (B256::repeat_byte(1), B256::repeat_byte(2));
        assert_eq!(agreement(a, []), Agreement::Unknown);
        assert_eq!(agreement(a, [None, None]), Agreement::Unknown);
        assert_eq!(agreement(a, [Some(a), None]), Agreement::Agreed);
        assert_eq!(agreement(a, [Some(a), Some(b)]), Agreement::Disputed);
        assert_eq!(agreement(a, [None, Some(b)]), Agreement::Disputed);
    }
}
