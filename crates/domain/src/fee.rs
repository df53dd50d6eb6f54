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

/// Nodes take bytes instead of others for the same nonce only if they pay so much more.
pub const BUMP_PERCENT_MIN: u32 = 10;

/// The smallest fees that nodes take instead of these: so many percent more on both fields, rounded
/// up, and never less than nodes ask for.
#[must_use]
pub fn least_over(older: SignedFees, percent: u32) -> SignedFees {
    let percent = u128::from(percent.max(BUMP_PERCENT_MIN));
    let more = |fee: u128| {
        let part = fee.saturating_mul(percent).div_ceil(100);
        // A fee of nothing is replaced by any; a bump of nothing would be no bump.
        fee.saturating_add(part.max(1))
    };
    SignedFees {
        max_fee: more(older.max_fee),
        max_priority_fee: older.max_priority_fee.map(more),
    }
}

/// The fees of bytes that are to replace older ones: what the chain asks for now, at least so many
/// percent more than the older ones, and no more than the ceilings. None at the cap: then only sending
/// the same bytes again is left.
#[must_use]
pub fn bump(
    older: SignedFees,
    percent: u32,
    quote: Quote,
    ceilings: Ceilings,
) -> Option<SignedFees> {
    let asked = match older.max_priority_fee {
        None => Fees::Legacy {
            gas_price: quote.base_fee.unwrap_or(0).saturating_add(quote.tip),
        },
        Some(_) => Fees::Dynamic {
            max_fee: None,
            max_priority_fee: None,
        },
    };
    let now = choose(asked, quote, ceilings);
    let wanted = least_over(older, percent);
    let least = least_over(older, BUMP_PERCENT_MIN);
    let raised = SignedFees {
        max_fee: wanted.max_fee.max(now.max_fee).min(ceilings.max_fee),
        max_priority_fee: wanted.max_priority_fee.map(|tip| {
            tip.max(now.max_priority_fee.unwrap_or(0))
                .min(ceilings.max_priority_fee)
        }),
    };
    is_over(raised, least).then_some(raised)
}

/// Whether nodes take these fees where at least those are asked for, and whether they make sense.
#[must_use]
pub fn is_over(fees: SignedFees, least: SignedFees) -> bool {
    match (fees.max_priority_fee, least.max_priority_fee) {
        (None, None) => fees.max_fee >= least.max_fee,
        (Some(tip), Some(least_tip)) => {
            fees.max_fee >= least.max_fee && tip >= least_tip && tip <= fees.max_fee
        }
        // Nodes compare both fields: a price is its own tip. We never change the kind.
        (None, Some(_)) | (Some(_), None) => false,
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

    fn dynamic_of(max_fee: u128, tip: u128) -> SignedFees {
        SignedFees {
            max_fee,
            max_priority_fee: Some(tip),
        }
    }

    #[test]
    fn a_replacement_pays_a_tenth_more_on_both_fields_rounded_up() {
        let check = |older, percent, expected| assert_eq!(least_over(older, percent), expected);
        check(dynamic_of(100, 10), 10, dynamic_of(110, 11));
        check(dynamic_of(101, 11), 10, dynamic_of(112, 13));
        check(dynamic_of(100, 0), 10, dynamic_of(110, 1));
        check(dynamic_of(100, 10), 0, dynamic_of(110, 11));
        check(dynamic_of(100, 10), 12, dynamic_of(112, 12));
        check(legacy(7), 10, legacy(8));
        check(legacy(u128::MAX), 10, legacy(u128::MAX));
    }

    #[test]
    fn a_replacement_pays_what_the_chain_asks_and_never_more_than_the_ceilings() {
        let check = |older, base_fee, tip, expected| {
            let quote = Quote { base_fee, tip };
            assert_eq!(
                bump(older, 12, quote, CEILINGS),
                expected,
                "{older:?} {quote:?}"
            );
        };
        check(dynamic_of(100, 10), Some(10), 1, Some(dynamic_of(112, 12)));
        check(
            dynamic_of(100, 10),
            Some(150),
            20,
            Some(dynamic_of(320, 20)),
        );
        // As much as the ceilings let, if that is a tenth more.
        check(
            dynamic_of(450, 10),
            Some(400),
            20,
            Some(dynamic_of(500, 20)),
        );
        check(dynamic_of(455, 10), Some(400), 20, None);
        check(dynamic_of(100, 46), Some(10), 1, None);
        check(dynamic_of(100, 45), Some(10), 1, Some(dynamic_of(112, 50)));
        check(legacy(100), Some(150), 20, Some(legacy(170)));
        check(legacy(100), None, 20, Some(legacy(112)));
        check(legacy(460), None, 20, None);
    }

    #[test]
    fn fees_of_another_kind_or_a_tip_above_the_cap_replace_nothing() {
        assert!(is_over(dynamic_of(110, 11), dynamic_of(110, 11)));
        assert!(!is_over(dynamic_of(109, 11), dynamic_of(110, 11)));
        assert!(!is_over(dynamic_of(110, 10), dynamic_of(110, 11)));
        assert!(!is_over(dynamic_of(110, 111), dynamic_of(110, 11)));
        assert!(!is_over(legacy(500), dynamic_of(110, 11)));
        assert!(!is_over(dynamic_of(500, 50), legacy(8)));
    }
}
