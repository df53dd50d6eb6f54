//! The fees of a replacement, as operators and policies name them: within our ceilings, in the style of
//! what they replace, and enough more that nodes take them instead.

use fencepost_domain::amount;
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::request::Ceilings;

use crate::faults::Faults;
use crate::given::{Amount, Given, Slot};
use crate::json::remedy::FeesBody;

/// Nodes take other bytes for a nonce only if both fees are higher by this part of the old ones.
const BUMP_PART: u128 = 10;

/// Where the fees stand.
const FIELD: &str = "fees";
const GAS_PRICE: &str = "fees.gasPrice";
const MAX_FEE: &str = "fees.maxFeePerGas";
const TIP: &str = "fees.maxPriorityFeePerGas";

/// Reads the fees. Without faults there are some.
pub(crate) fn read(body: FeesBody<'_>, faults: &mut Faults) -> Option<SignedFees> {
    faults.extras("fees.", body.extras);
    let is_legacy = body.gas_price.is_filled();
    let is_dynamic = body.max_fee_per_gas.is_filled() || body.max_priority_fee_per_gas.is_filled();
    if !is_legacy && !is_dynamic {
        let why = "must have maxFeePerGas and maxPriorityFeePerGas, or gasPrice";
        faults.add(FIELD, why);
        return None;
    }
    if is_legacy {
        if is_dynamic {
            let why = "cannot stand beside maxFeePerGas or maxPriorityFeePerGas";
            faults.add(GAS_PRICE, why);
        }
        return Some(SignedFees {
            max_fee: wei(GAS_PRICE, body.gas_price, faults)?,
            max_priority_fee: None,
        });
    }
    let max_fee = wei(MAX_FEE, body.max_fee_per_gas, faults);
    let tip = wei(TIP, body.max_priority_fee_per_gas, faults);
    let (max_fee, tip) = max_fee.zip(tip)?;
    if tip > max_fee {
        faults.add(TIP, "is above maxFeePerGas");
    }
    Some(SignedFees {
        max_fee,
        max_priority_fee: Some(tip),
    })
}

fn wei(field: &str, given: Given<Amount<'_>>, faults: &mut Faults) -> Option<u128> {
    let text = faults.required(field, given).map(|text| text.0);
    faults.read(field, text.as_deref(), amount::wei_per_gas)
}

/// Notes fees above our own ceilings.
pub(crate) fn check_ceilings(fees: SignedFees, ceilings: Ceilings, faults: &mut Faults) {
    let mut check = |field, fee: u128, most: u128| {
        if fee > most {
            let why = format_args!("is above the ceiling of {most} wei per gas");
            faults.add(field, why);
        }
    };
    match fees.max_priority_fee {
        None => check(GAS_PRICE, fees.max_fee, ceilings.max_fee),
        Some(tip) => {
            check(MAX_FEE, fees.max_fee, ceilings.max_fee);
            check(TIP, tip, ceilings.max_priority_fee);
        }
    }
}

/// Notes fees that cannot replace those of the newest bytes.
pub(crate) fn check_bump(fees: SignedFees, newest: SignedFees, faults: &mut Faults) {
    let mut check = |field, fee: u128, paid: u128| {
        let least = smallest(paid);
        if fee < least {
            let why = format_args!(
                "must be at least {least}: what it replaces pays {paid}, and nodes want 10 % more"
            );
            faults.add(field, why);
        }
    };
    match (fees.max_priority_fee, newest.max_priority_fee) {
        (None, None) => check(GAS_PRICE, fees.max_fee, newest.max_fee),
        (Some(tip), Some(paid)) => {
            check(MAX_FEE, fees.max_fee, newest.max_fee);
            check(TIP, tip, paid);
        }
        (None, Some(tip)) => {
            let (cap, tip) = (smallest(newest.max_fee), smallest(tip));
            let why = format_args!(
                "cannot replace an EIP-1559 attempt: give maxFeePerGas (at least {cap}) and maxPriorityFeePerGas (at least {tip})"
            );
            faults.add(GAS_PRICE, why);
        }
        (Some(_), None) => {
            let price = smallest(newest.max_fee);
            let why = format_args!(
                "cannot replace an attempt with a legacy price: give gasPrice (at least {price})"
            );
            faults.add(MAX_FEE, why);
        }
    }
}

/// The smallest fee that replaces another: a tenth more, rounded up, and more than nothing.
const fn smallest(paid: u128) -> u128 {
    let more = paid.div_ceil(BUMP_PART);
    paid.saturating_add(if more == 0 { 1 } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn dynamic(max_fee: u128, tip: u128) -> SignedFees {
        SignedFees {
            max_fee,
            max_priority_fee: Some(tip),
        }
    }

    const fn legacy(price: u128) -> SignedFees {
        SignedFees {
            max_fee: price,
            max_priority_fee: None,
        }
    }

    #[test]
    fn the_smallest_bump_is_a_tenth_rounded_up_and_never_nothing() {
        for (paid, least) in [
            (0, 1),
            (1, 2),
            (9, 10),
            (10, 11),
            (11, 13),
            (100, 110),
            (101, 112),
        ] {
            assert_eq!(smallest(paid), least, "{paid}");
        }
        assert_eq!(smallest(u128::MAX), u128::MAX);
    }

    #[test]
    fn a_replacement_is_of_the_same_style_and_pays_a_tenth_more_in_both_fields() {
        let check = |fees, newest, expected: &[&str]| {
            let mut faults = Faults::default();
            check_bump(fees, newest, &mut faults);
            let told = faults.check().err();
            let told = told.as_ref().map(|problem| problem.told().fields());
            assert_eq!(
                told.unwrap_or_default(),
                expected,
                "{fees:?} for {newest:?}"
            );
        };
        check(dynamic(110, 11), dynamic(100, 10), &[]);
        check(dynamic(109, 11), dynamic(100, 10), &[MAX_FEE]);
        check(dynamic(110, 10), dynamic(100, 10), &[TIP]);
        check(dynamic(109, 10), dynamic(100, 10), &[MAX_FEE, TIP]);
        check(legacy(110), legacy(100), &[]);
        check(legacy(109), legacy(100), &[GAS_PRICE]);
        check(legacy(1_000), dynamic(100, 10), &[GAS_PRICE]);
        check(dynamic(1_000, 100), legacy(100), &[MAX_FEE]);
    }
}
