//! Who may enter the pool.

use alloy_primitives::{Bytes, U256};
use fencepost_devchain::{Config, Devchain, PoolLimits, Rejection};
use serde_json::json;

use crate::world::*;

fn limited(pool: PoolLimits) -> Devchain {
    Devchain::new(Config { pool, ..config() })
}

#[test]
fn what_is_wrong_in_itself_is_refused_and_changes_nothing() {
    let mut chain = Devchain::new(Config {
        gas_limit: 1_000_000,
        tx_gas_max: 2_000_000,
        ..config()
    });
    let good = tx(0, 0);
    let mut tampered = good.raw().to_vec();
    *tampered.last_mut().unwrap() ^= 1;
    // A changed signature may still recover to someone, who then has no money.
    let mut check = |raw: Bytes, allowed: &[Rejection]| {
        let refused = send_raw(&mut chain, raw).unwrap_err();
        assert!(
            allowed.contains(&refused),
            "{refused:?} is none of {allowed:?}"
        );
        assert_eq!(chain.pooled(MAIN).unwrap(), []);
    };
    check(Bytes::new(), &[Rejection::Malformed]);
    check(Bytes::from_static(&[0xc0]), &[Rejection::Malformed]);
    check(Bytes::from_static(&[2, 0xc0]), &[Rejection::Malformed]);
    check(good.raw().slice(..80), &[Rejection::Malformed]);
    check(
        [&good.raw()[..], &[0]].concat().into(),
        &[Rejection::Malformed],
    );
    check(
        Bytes::from_static(&[3, 1, 2]),
        &[Rejection::TypeUnsupported],
    );
    check(Bytes::from_static(&[4]), &[Rejection::TypeUnsupported]);
    check(good.legacy(None), &[Rejection::Unprotected]);
    check(good.legacy(Some(1)), &[Rejection::WrongChain]);
    let elsewhere = Made {
        chain_id: 5,
        ..good.clone()
    };
    check(elsewhere.raw(), &[Rejection::WrongChain]);
    check(elsewhere.listed(), &[Rejection::WrongChain]);
    check(
        tampered.into(),
        &[Rejection::NoFunds, Rejection::BadSignature],
    );
    check(good.clone().paying(5, 6).raw(), &[Rejection::TipAboveCap]);
    check(good.clone().gas(20_999).raw(), &[Rejection::IntrinsicGas]);
    check(
        good.clone().gas(1_000_001).raw(),
        &[Rejection::GasAboveBlock],
    );
    check(good.clone().gas(2_000_001).raw(), &[Rejection::GasAboveCap]);
    let long = good.clone().input(vec![0; 128 * 1024]).gas(1_000_000);
    check(long.raw(), &[Rejection::Oversized]);
    let floor = good.clone().input(vec![1; 1_000]).gas(21_000 + 40_000 - 1);
    check(floor.raw(), &[Rejection::IntrinsicGas]);
}

#[test]
fn a_signature_with_a_high_s_is_refused() {
    use alloy_consensus::{SignableTransaction, TxEnvelope};
    use alloy_eips::eip2718::Encodable2718;
    use alloy_signer::SignerSync;
    let unsigned = tx(0, 0).unsigned();
    let low = key(0).sign_hash_sync(&unsigned.signature_hash()).unwrap();
    let order = alloy_consensus::crypto::SECP256K1N_HALF * U256::from(2) + U256::from(1);
    let high = alloy_primitives::Signature::new(low.r(), order - low.s(), !low.v());
    let raw = TxEnvelope::from(unsigned.into_signed(high)).encoded_2718();
    assert_eq!(
        send_raw(&mut chain(), raw.into()),
        Err(Rejection::BadSignature)
    );
}

#[test]
fn a_used_nonce_is_refused_and_a_gap_waits() {
    let mut chain = limited(PoolLimits {
        gap_max: 5,
        ..PoolLimits::default()
    });
    send(&mut chain, &tx(0, 0)).unwrap();
    mine(&mut chain);
    assert_eq!(
        send(&mut chain, &tx(0, 0)),
        Err(Rejection::NonceTooLow),
        "mined bytes"
    );
    let other = tx(0, 0).value(U256::from(2));
    assert_eq!(send(&mut chain, &other), Err(Rejection::NonceTooLow));
    let error = fail(
        &mut chain,
        MAIN,
        "eth_sendRawTransaction",
        json!([other.raw()]),
    );
    assert_eq!(error["message"], "nonce too low: next nonce 1, tx nonce 0");

    send(&mut chain, &tx(0, 3)).unwrap();
    send(&mut chain, &tx(0, 1)).unwrap();
    let pending = json!([key(0).address(), "pending"]);
    assert_eq!(
        ask(&mut chain, MAIN, "eth_getTransactionCount", pending.clone()),
        "0x2"
    );
    mine(&mut chain);
    assert_eq!(
        chain.pooled_of(key(0).address()),
        1,
        "the gap keeps 3 waiting"
    );
    send(&mut chain, &tx(0, 2)).unwrap();
    assert_eq!(
        ask(&mut chain, MAIN, "eth_getTransactionCount", pending),
        "0x4"
    );
    mine(&mut chain);
    assert_eq!(chain.state().nonce(&key(0).address()), 4);
    send(&mut chain, &tx(0, 9)).unwrap();
    assert_eq!(send(&mut chain, &tx(0, 10)), Err(Rejection::NonceTooHigh));
}

#[test]
fn an_account_pays_for_all_that_it_has_in_the_pool() {
    let mut chain = chain();
    let most = |nonce| tx(0, nonce).value(ether(40));
    send(&mut chain, &most(0)).unwrap();
    send(&mut chain, &most(1)).unwrap();
    assert_eq!(send(&mut chain, &most(2)), Err(Rejection::NoFunds));
    // A replacement is held against what the replaced one no longer costs.
    let replacement = most(1).value(ether(59)).paying(gwei(20), gwei(2));
    send(&mut chain, &replacement).unwrap();
    assert_eq!(
        send(&mut chain, &tx(0, 2).value(ether(1))),
        Err(Rejection::NoFunds)
    );
    send(&mut chain, &tx(1, 0).value(ether(99))).unwrap();
    assert_eq!(
        send(&mut chain, &tx(9, 0)),
        Err(Rejection::NoFunds),
        "of nothing"
    );
}

#[test]
fn a_replacement_pays_a_tenth_more_of_both_fees() {
    let check = |fee, tip, expected: Result<(), Rejection>| {
        let mut chain = chain();
        let old = tx(0, 0).paying(gwei(10), gwei(2));
        send(&mut chain, &old).unwrap();
        let new = tx(0, 0).paying(fee, tip).value(U256::from(2));
        assert_eq!(send(&mut chain, &new).map(|_| ()), expected, "{fee} {tip}");
        let holds = if expected.is_ok() { new } else { old };
        assert_eq!(chain.pooled(MAIN).unwrap()[0].hash, holds.hash());
        assert_eq!(chain.pooled(MAIN).unwrap().len(), 1);
        mine(&mut chain);
        assert_eq!(chain.mined_of(key(0).address())[0].hash, holds.hash());
    };
    let low = Err(Rejection::ReplacementUnderpriced);
    check(gwei(11), gwei(2) + gwei(2) / 10, Ok(()));
    check(gwei(11) - 1, gwei(3), low);
    check(gwei(20), gwei(2) + gwei(2) / 10 - 1, low);
    check(gwei(10), gwei(2), low);
    check(gwei(20), gwei(2), low);
    check(gwei(100), gwei(50), Ok(()));
}

#[test]
fn the_same_bytes_are_known_until_they_are_replaced() {
    let mut chain = chain();
    send(&mut chain, &tx(0, 0)).unwrap();
    assert_eq!(send(&mut chain, &tx(0, 0)), Err(Rejection::AlreadyKnown));
    send(&mut chain, &tx(0, 0).paying(gwei(20), gwei(2))).unwrap();
    assert_eq!(
        send(&mut chain, &tx(0, 0)),
        Err(Rejection::ReplacementUnderpriced)
    );
}

#[test]
fn a_pool_takes_so_many_of_one_account() {
    let mut chain = limited(PoolLimits {
        account_max: 2,
        ..PoolLimits::default()
    });
    send(&mut chain, &tx(0, 0)).unwrap();
    send(&mut chain, &tx(0, 1)).unwrap();
    assert_eq!(send(&mut chain, &tx(0, 2)), Err(Rejection::AccountLimit));
    send(&mut chain, &tx(0, 1).paying(gwei(20), gwei(2))).unwrap();
    send(&mut chain, &tx(1, 0)).unwrap();
    mine(&mut chain);
    send(&mut chain, &tx(0, 2)).unwrap();
    assert_eq!(chain.pooled_max_of(key(0).address()), 2);
    let nonces: Vec<u64> = chain
        .sends_of(key(0).address())
        .iter()
        .map(|one| one.nonce)
        .collect();
    assert_eq!(
        nonces,
        [0, 1, 1, 2],
        "what was accepted, in order of arrival"
    );
}

#[test]
fn a_full_pool_takes_only_what_pays_more_than_its_cheapest() {
    let mut chain = limited(PoolLimits {
        total_max: 2,
        ..PoolLimits::default()
    });
    let cheap = tx(0, 0).paying(gwei(5), gwei(1));
    send(&mut chain, &cheap).unwrap();
    send(&mut chain, &tx(1, 0)).unwrap();
    let same = tx(2, 0).paying(gwei(5), gwei(1));
    assert_eq!(send(&mut chain, &same), Err(Rejection::Underpriced));
    let gap = tx(2, 1).paying(gwei(50), gwei(1));
    assert_eq!(send(&mut chain, &gap), Err(Rejection::PoolFull));
    let dear = tx(2, 0).paying(gwei(6), gwei(1));
    send(&mut chain, &dear).unwrap();
    assert_eq!(chain.pooled(MAIN).unwrap().len(), 2);
    assert!(
        !chain
            .pooled(MAIN)
            .unwrap()
            .iter()
            .any(|one| one.hash == cheap.hash())
    );
}

#[test]
fn a_pool_may_ask_for_a_tip() {
    let mut chain = limited(PoolLimits {
        tip_min: gwei(2),
        ..PoolLimits::default()
    });
    assert_eq!(send(&mut chain, &tx(0, 0)), Err(Rejection::BelowMinimum));
    send(&mut chain, &tx(0, 0).paying(gwei(10), gwei(2))).unwrap();
}
