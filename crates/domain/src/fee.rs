//! Which fees are signed: what the client said, filled up from what the chain asks for, never above
//! our own ceilings.

use crate::attempt::SignedFees;
use crate::request::{Ceilings, Fees};

/// What a chain asks for now, in wei per gas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// The next block's base fee; none on a chain without EIP-1559.
    pub base_fee: Option<u128>,
    /// The tip that lately got transactions into blocks; on a chain without EIP-1559, the price.
    pub tip: u128,
}

/// How many times the base fee our cap covers: a base fee grows by an eighth a block, so it is good
/// for about six full blocks.
const BASE_FEE_COVER: u128 = 2;

/// The fees to sign. Ceilings win: a transaction then waits for the chain to become cheaper, which is
/// better than paying any price, and better than being given up.
#[must_use]
pub fn choose(asked: Fees, quote: Quote, ceilings: Ceilings) -> SignedFees {
    match asked {
        Fees::Legacy { gas_price } => legacy(gas_price),
        Fees::Ours => match quote.base_fee {
            None => legacy(quote.tip.min(ceilings.max_fee)),
            Some(base) => dynamic(None, None, base, quote, ceilings),
        },
        Fees::Dynamic {
            max_fee,
            max_priority_fee,
        } => {
            let base = quote.base_fee.unwrap_or(0);
            dynamic(max_fee, max_priority_fee, base, quote, ceilings)
        }
    }
}

const fn legacy(price: u128) -> SignedFees {
    SignedFees {
        max_fee: price,
        max_priority_fee: None,
    }
}

fn dynamic(
    max_fee: Option<u128>,
    tip: Option<u128>,
    base: u128,
    quote: Quote,
    ceilings: Ceilings,
) -> SignedFees {
    let chosen_tip = tip.unwrap_or_else(|| quote.tip.min(ceilings.max_priority_fee));
    let max_fee = max_fee.unwrap_or_else(|| {
        base.saturating_mul(BASE_FEE_COVER)
            .saturating_add(chosen_tip)
            .min(ceilings.max_fee)
    });
    SignedFees {
        max_fee,
        max_priority_fee: Some(chosen_tip.min(max_fee)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CEILINGS: Ceilings = Ceilings {
        max_fee: 500,
        max_priority_fee: 50,
    };

    #[test]
    fn what_is_missing_is_filled_and_nothing_is_above_the_ceilings() {
        let check = |asked, base_fee, tip, max_fee, max_priority_fee| {
            let fees = choose(asked, Quote { base_fee, tip }, CEILINGS);
            let expected = SignedFees {
                max_fee,
                max_priority_fee,
            };
            assert_eq!(fees, expected, "{asked:?} {base_fee:?} {tip}");
        };
        let given = |max_fee, max_priority_fee| Fees::Dynamic {
            max_fee,
            max_priority_fee,
        };
        check(Fees::Ours, Some(100), 3, 203, Some(3));
        check(Fees::Ours, Some(100), 80, 250, Some(50));
        check(Fees::Ours, Some(400), 3, 500, Some(3));
        check(Fees::Ours, Some(u128::MAX), 3, 500, Some(3));
        check(Fees::Ours, None, 7, 7, None);
        check(Fees::Ours, None, 7_000, 500, None);
        check(Fees::Legacy { gas_price: 9 }, Some(100), 3, 9, None);
        check(given(Some(120), None), Some(100), 3, 120, Some(3));
        check(given(Some(2), None), Some(100), 3, 2, Some(2));
        check(given(None, Some(9)), Some(100), 3, 209, Some(9));
        check(given(Some(30), Some(9)), None, 3, 30, Some(9));
    }
}
