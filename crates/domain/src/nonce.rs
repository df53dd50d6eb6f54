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
    /// The greatest count that a reachable endpoint gave.
    pub highest: Nonce,
    /// Whether every reachable endpoint gave that same count.
    pub unanimous: bool,
}

/// What a chain's count means for a lane's cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// The cursor is at or above the chain; it never goes down by itself.
    Keep,
    /// Raise the cursor. On a lane of ours with a history that is a finding to report.
    Raise {
        /// The new cursor.
        to: Nonce,
        /// Someone else seems to use the key.
        finding: bool,
    },
    /// One endpoint says more than others do: report it, change nothing.
    Doubt,
    /// Farther than `max_jump`: pause the lane with `CURSOR_JUMP` and let a person look.
    Jump {
        /// What the chain claims.
        to: Nonce,
    },
}

/// Aligns a cursor with the chain. `has_history` is whether the lane holds transactions of ours:
/// without any, the chain is the only one who knows where the account stands.
#[must_use]
pub fn align(cursor: Nonce, chain: ChainCount, has_history: bool, max_jump: u64) -> Alignment {
    if chain.highest <= cursor {
        return Alignment::Keep;
    }
    if !has_history {
        return Alignment::Raise {
            to: chain.highest,
            finding: false,
        };
    }
    if !chain.unanimous {
        return Alignment::Doubt;
    }
    if chain.highest.get() - cursor.get() > max_jump {
        return Alignment::Jump { to: chain.highest };
    }
    Alignment::Raise {
        to: chain.highest,
        finding: true,
    }
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

    #[test]
    fn the_chain_raises_a_cursor_only_when_it_can_be_believed() {
        let check = |cursor, highest, unanimous, has_history, expected| {
            let chain = ChainCount {
                highest: n(highest),
                unanimous,
            };
            assert_eq!(align(n(cursor), chain, has_history, 1_000), expected);
        };
        check(7, 7, true, true, Alignment::Keep);
        check(7, 3, true, false, Alignment::Keep);
        check(
            0,
            9_999,
            false,
            false,
            Alignment::Raise {
                to: n(9_999),
                finding: false,
            },
        );
        check(
            7,
            8,
            true,
            true,
            Alignment::Raise {
                to: n(8),
                finding: true,
            },
        );
        check(7, 8, false, true, Alignment::Doubt);
        check(
            7,
            1_007,
            true,
            true,
            Alignment::Raise {
                to: n(1_007),
                finding: true,
            },
        );
        check(7, 1_008, true, true, Alignment::Jump { to: n(1_008) });
        check(7, 1_008, false, true, Alignment::Doubt);
    }
}
