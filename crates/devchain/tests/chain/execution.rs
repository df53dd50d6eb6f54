//! What transactions do to accounts.

use alloy_primitives::{U256, keccak256};
use fencepost_devchain::{COINBASE, GWEI, revert_call};
use serde_json::{Value, json};

use crate::world::*;

#[test]
fn a_transfer_moves_value_and_pays_for_itself() {
    let mut chain = chain();
    send(
        &mut chain,
        &tx(0, 0).value(ether(3)).paying(gwei(10), gwei(2)),
    )
    .unwrap();
    mine(&mut chain);
    let gas = U256::from(21_000);
    let state = chain.state();
    assert_eq!(state.balance(&TO), ether(3));
    assert_eq!(state.balance(&COINBASE), gas * U256::from(gwei(2)));
    let paid = gas * U256::from(gwei(3));
    assert_eq!(state.balance(&key(0).address()), ether(97) - paid);
    let receipt = &chain.head().txs[0].receipt;
    assert_eq!((receipt.gas_used, receipt.price), (21_000, gwei(3)));
    assert!(receipt.is_success);
}

#[test]
fn the_fee_cap_bounds_what_is_paid() {
    let mut chain = chain();
    chain.set_base_fee(Some(9 * GWEI));
    send(&mut chain, &tx(0, 0).paying(gwei(10), gwei(5))).unwrap();
    mine(&mut chain);
    assert_eq!(chain.head().txs[0].receipt.price, gwei(10));
}

#[test]
fn a_creation_leaves_a_code_behind() {
    let mut chain = chain();
    send(
        &mut chain,
        &tx(0, 0).create().gas(100_000).input(vec![0x60, 0x80]),
    )
    .unwrap();
    mine(&mut chain);
    let address = key(0).address().create(0);
    let receipt = &chain.head().txs[0].receipt;
    assert_eq!(receipt.contract, Some(address));
    let code = ask(&mut chain, MAIN, "eth_getCode", json!([address, "latest"]));
    assert_eq!(code, json!(keccak256([0x60, 0x80])));
    assert_eq!(
        ask(&mut chain, MAIN, "eth_getCode", json!([TO, "latest"])),
        "0x"
    );
}

#[test]
fn a_call_of_revert_reverts_for_its_reason() {
    let mut chain = chain();
    let input = revert_call("not today");
    let one = tx(0, 0).value(ether(1)).gas(100_000).input(input.clone());
    let hash = send(&mut chain, &one).unwrap();
    mine(&mut chain);
    assert_eq!(chain.state().balance(&TO), U256::ZERO, "the value stays");
    assert_eq!(chain.state().nonce(&key(0).address()), 1);
    let paid = &chain.head().txs[0].receipt;
    let paid = U256::from(paid.gas_used) * U256::from(paid.price);
    let left = chain.state().balance(&key(0).address());
    assert_eq!(left, ether(100) - paid, "only the gas is paid");
    let receipt = ask(&mut chain, MAIN, "eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x0");
    for method in ["eth_call", "eth_estimateGas"] {
        let error = fail(
            &mut chain,
            MAIN,
            method,
            json!([{ "to": TO, "data": input }]),
        );
        assert_eq!(error["code"], 3);
        assert_eq!(error["message"], "execution reverted: not today");
        assert!(error["data"].as_str().unwrap().starts_with("0x08c379a0"));
    }
}

#[test]
fn a_call_with_too_little_gas_uses_it_up_and_fails() {
    let mut chain = chain();
    let call = json!([{ "from": key(0).address(), "to": TO, "input": "0x01020304" }]);
    let needed = ask(&mut chain, MAIN, "eth_estimateGas", call);
    let needed = u64::from_str_radix(&needed.as_str().unwrap()[2..], 16).unwrap();
    let call = |nonce, gas| tx(0, nonce).gas(gas).input(vec![1, 2, 3, 4]);
    send(&mut chain, &call(0, needed)).unwrap();
    send(&mut chain, &call(1, needed - 1)).unwrap();
    send(&mut chain, &call(2, needed + 1)).unwrap();
    mine(&mut chain);
    let went: Vec<_> = (chain.head().txs.iter())
        .map(|mined| (mined.receipt.is_success, mined.receipt.gas_used))
        .collect();
    assert_eq!(went, [(true, needed), (false, needed - 1), (true, needed)]);
}

#[test]
fn an_estimate_says_what_a_sender_cannot_pay() {
    let mut chain = chain();
    let call = json!([{ "from": key(9).address(), "to": TO, "value": "0x1" }]);
    let error = fail(&mut chain, MAIN, "eth_estimateGas", call);
    assert_eq!(error["message"], "insufficient funds for transfer");
}

/// An estimate with a fee is one of what the account can pay, in geth's words.
#[test]
fn an_account_that_cannot_pay_is_told_so_by_an_estimate() {
    let mut chain = chain();
    let (poor, fee) = (key(7).address(), gwei(1));
    let balance = U256::from(30_000) * U256::from(fee);
    chain.set_balance(poor, balance);
    let mut check = |more: Value, expected: Result<&str, &str>| {
        let mut call = json!({ "from": poor, "to": TO });
        let fields = more.as_object().unwrap().clone();
        call.as_object_mut().unwrap().extend(fields);
        let told = answer(&mut chain, MAIN, "eth_estimateGas", json!([call]));
        let told = match told.get("error") {
            Some(error) => Err(error["message"].as_str().unwrap()),
            None => Ok(told["result"].as_str().unwrap()),
        };
        assert_eq!(told, expected, "{more}");
    };
    let hex = |wei: u128| format!("{wei:#x}");
    let all = format!("{balance:#x}");
    check(json!({}), Ok("0x5208"));
    check(json!({ "value": all }), Ok("0x5208"));
    check(json!({ "maxFeePerGas": hex(fee) }), Ok("0x5208"));
    check(json!({ "maxFeePerGas": "0x0", "value": all }), Ok("0x5208"));
    let short = Err("gas required exceeds allowance (15000)");
    check(json!({ "maxFeePerGas": hex(fee * 2) }), short);
    check(json!({ "gasPrice": hex(fee * 2) }), short);
    let none = Err("insufficient funds for transfer");
    check(json!({ "gasPrice": hex(fee), "value": all }), none);
    let part = hex(10_000 * fee);
    let short = Err("gas required exceeds allowance (20000)");
    check(json!({ "gasPrice": hex(fee), "value": part }), short);
}
