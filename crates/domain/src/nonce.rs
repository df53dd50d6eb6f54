//! How nonces are chosen: free ones first and lowest first, then the cursor; and when the chain's
//! own count may move that cursor.

use crate::ids::{Nonce, OutOfRange};

/// Which nonces a batch of `n` gets, and where the cursor stands afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// One for each item of the batch, in order.
    pub nonces: Vec<Nonce>,
    /// How many of them, from the front, were free ones.
    pub from_free: usize,
    /// The cursor that the store must compare-and-set from.
    pub expected: Nonce,
    /// The cursor that it sets.
    pub next: Nonce,
}

/// Lays `n` nonces out. The result is fixed before the first try of a write, so that the identical
/// statement can be sent again when its reply is lost.
pub fn plan(free: &[Nonce], cursor: Nonce, n: usize) -> Result<Plan, OutOfRange> {
    let mut nonces: Vec<Nonce> = free.to_vec();
    nonces.sort_unstable();
    nonces.dedup();
    nonces.truncate(n);
    let from_free = nonces.len();
    let mut next = cursor;
    while nonces.len() < n {
        nonces.push(next);
        next = next.plus(1)?;
    }
    Ok(Plan {
        nonces,
        from_free,
        expected: cursor,
        next,
    })
}

/// What several endpoints say an account's transaction count is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainCount {
    /// The least count that a reachable endpoint gave.
    pub lowest: Nonce,
    /// The greatest count that a reachable endpoint gave.
    pub highest: Nonce,
}

impl ChainCount {
    /// Whether every reachable endpoint gave the same count.
    #[must_use]
    pub fn is_unanimous(self) -> bool {
        self.lowest == self.highest
    }
}

/// Where a lane begins that has given no nonce yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// Its first nonce is this one.
    At(Nonce),
    /// Endpoints give different counts. The highest may be a lie and leave a gap, the lowest may be
    /// late and give a nonce twice, so the lane waits until they agree or an operator sets the cursor.
    Disagreed(ChainCount),
    /// The configured first nonce is used on chain already; only an operator knows what was meant.
    Used {
        /// The configured one.
        start: Nonce,
        /// The greatest count of transactions in blocks that an endpoint gave.
        latest: Nonce,
    },
}

/// Where a new lane begins. `start` is the configured first nonce, and `chain` then counts blocks alone;
/// without it the lane begins at the chain's count.
#[must_use]
pub fn begin(start: Option<Nonce>, chain: ChainCount) -> Beginning {
    match start {
        // One endpoint that has seen the nonce used is enough: the others may only be late.
        Some(start) if chain.highest > start => Beginning::Used {
            start,
            latest: chain.highest,
        },
        Some(start) => Beginning::At(start),
        None if chain.is_unanimous() => Beginning::At(chain.highest),
        None => Beginning::Disagreed(chain),
    }
}

/// What a chain's count means for the cursor of a lane that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// The cursor is at or above the chain; it never goes down by itself.
    Keep,
    /// Raise the cursor and report it: someone else seems to use the key.
    Raise {
        /// The new cursor.
        to: Nonce,
    },
    /// One endpoint says more than others do: report it, change nothing.
    Doubt,
    /// Farther than `max_jump`: pause the lane with `CURSOR_JUMP` and let a person look.
    Jump {
        /// What the chain claims.
        to: Nonce,
    },
}

/// Aligns the cursor of a lane that has begun with the chain.
#[must_use]
pub fn align(cursor: Nonce, chain: ChainCount, max_jump: u64) -> Alignment {
    if chain.highest <= cursor {
        return Alignment::Keep;
    }
    if !chain.is_unanimous() {
        return Alignment::Doubt;
    }
    if chain.highest.get() - cursor.get() > max_jump {
        return Alignment::Jump { to: chain.highest };
    }
    Alignment::Raise { to: chain.highest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n(value: u64) -> Nonce {
        Nonce::new(value).unwrap()
    }

    #[test]
    fn free_nonces_go_first_and_lowest_first() {
        let check = |free: &[u64], cursor, count, nonces: &[u64], from_free, next| {
            let free: Vec<_> = free.iter().copied().map(n).collect();
            let plan = plan(&free, n(cursor), count).unwrap();
            let got: Vec<_> = plan.nonces.iter().map(|nonce| nonce.get()).collect();
            assert_eq!(
                (&got[..], plan.from_free, plan.next.get()),
                (nonces, from_free, next)
            );
        };
        check(&[], 5, 3, &[5, 6, 7], 0, 8);
        check(&[4, 2], 5, 3, &[2, 4, 5], 2, 6);
        check(&[4, 2, 2], 5, 1, &[2], 1, 5);
        check(&[4], 5, 0, &[], 0, 5);
    }

    #[test]
    fn a_lane_at_its_end_gives_an_error_and_no_nonce() {
        assert!(plan(&[], Nonce::MAX, 1).is_err());
        assert!(plan(&[], n(Nonce::MAX.get() - 1), 1).is_ok());
        assert!(plan(&[], n(Nonce::MAX.get() - 1), 2).is_err());
        assert!(plan(&[n(3)], Nonce::MAX, 1).is_ok());
    }

    fn count(lowest: u64, highest: u64) -> ChainCount {
        ChainCount {
            lowest: n(lowest),
            highest: n(highest),
        }
    }

    #[test]
    fn the_chain_raises_a_cursor_only_when_it_can_be_believed() {
        let check = |cursor, lowest, highest, expected| {
            assert_eq!(align(n(cursor), count(lowest, highest), 1_000), expected);
        };
        let (raise, jump) = (
            |to| Alignment::Raise { to: n(to) },
            |to| Alignment::Jump { to: n(to) },
        );
        check(7, 7, 7, Alignment::Keep);
        check(7, 3, 7, Alignment::Keep);
        check(7, 8, 8, raise(8));
        check(7, 7, 8, Alignment::Doubt);
        check(7, 1_007, 1_007, raise(1_007));
        check(7, 1_008, 1_008, jump(1_008));
        check(7, 1_007, 1_008, Alignment::Doubt);
    }

    #[test]
    fn a_new_lane_begins_only_where_all_endpoints_agree_or_where_it_was_told_to() {
        let check = |start: Option<u64>, lowest, highest, expected| {
            assert_eq!(begin(start.map(n), count(lowest, highest)), expected);
        };
        check(None, 0, 0, Beginning::At(n(0)));
        check(None, 9_999, 9_999, Beginning::At(n(9_999)));
        check(None, 4, 5, Beginning::Disagreed(count(4, 5)));
        check(Some(7), 7, 7, Beginning::At(n(7)));
        // Above the chain is what a list of open nonces of another service looks like.
        check(Some(7), 3, 5, Beginning::At(n(7)));
        let used = |start, latest| Beginning::Used {
            start: n(start),
            latest: n(latest),
        };
        check(Some(7), 8, 8, used(7, 8));
        check(Some(7), 6, 8, used(7, 8));
    }
}
