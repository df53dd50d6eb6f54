//! The same steering from another process.

use fencepost_devchain::Answer;
use serde_json::{Value, json};

use crate::world::*;

#[test]
fn blocks_and_money_are_made_by_call() {
    let mut chain = chain();
    ask(&mut chain, MAIN, "evm_mine", json!([1_900_000_000]));
    assert_eq!(chain.head().header.timestamp, 1_900_000_000);
    ask(&mut chain, MAIN, "anvil_mine", json!(["0x3", "0xa"]));
    assert_eq!(
        (chain.head().number(), chain.head().header.timestamp),
        (4, 1_900_000_021)
    );
    chain.set_time(2_000_000_000);
    ask(&mut chain, MAIN, "dev_mine", json!([]));
    assert_eq!(chain.head().header.timestamp, 2_000_000_000);
    fail(&mut chain, MAIN, "anvil_mine", json!(["0xffffff"]));
    ask(
        &mut chain,
        MAIN,
        "dev_setBalance",
        json!([key(7).address(), "0x64"]),
    );
    assert_eq!(
        ask(
            &mut chain,
            MAIN,
            "eth_getBalance",
            json!([key(7).address()])
        ),
        "0x64"
    );
    ask(&mut chain, MAIN, "dev_setBaseFee", json!(["0x7"]));
    ask(&mut chain, MAIN, "evm_mine", json!([]));
    assert_eq!(chain.head().base_fee(), 7);
}

#[test]
fn reorgs_and_switches_are_made_by_call() {
    let mut chain = chain();
    let hash = send(&mut chain, &tx(0, 0)).unwrap();
    mine(&mut chain);
    let old = chain.head().hash;
    let plan =
        json!([{ "depth": 1, "extra": 2, "txs": "keep", "only": { hash.to_string(): "drop" } }]);
    let told = ask(&mut chain, MAIN, "dev_reorg", plan);
    assert_eq!(
        (&told["left"], &told["entered"], &told["number"]),
        (&json!(0), &json!(1), &json!(3))
    );
    assert_eq!(chain.state().nonce(&key(0).address()), 0);
    let told = ask(&mut chain, MAIN, "dev_switch", json!([0]));
    assert_eq!(told["hash"], json!(old));
    let branches = ask(&mut chain, MAIN, "dev_branches", json!([]));
    assert_eq!(branches[0]["canonical"], true);
    assert_eq!(branches[1]["number"], 3);
    assert_eq!(
        fail(&mut chain, MAIN, "dev_reorg", json!([{ "depth": 9 }]))["code"],
        -32000
    );
    assert_eq!(
        fail(&mut chain, MAIN, "dev_reorg", json!([{ "dept": 1 }]))["code"],
        -32602
    );
    fail(&mut chain, MAIN, "dev_switch", json!([77]));
}

#[test]
fn faults_are_made_and_cleared_by_call() {
    let mut chain = chain();
    let kinds = json!([
        { "late": 20 }, { "hang": "before" }, { "disconnect": "after" },
        { "http": { "status": 502, "body": "bad" } }, "refuseBatches", "forget",
        { "refuse": { "kind": "nonceTooLow", "when": "after" } },
        { "error": { "code": -1, "message": "no" } }, "null", { "stale": 2 }, { "pruned": 2 }, { "count": 5 },
        { "chainId": 1 },
    ]);
    for kind in kinds.as_array().unwrap() {
        ask(
            &mut chain,
            MAIN,
            "dev_fault",
            json!([{ "endpoint": "other", "kind": kind }]),
        );
    }
    ask(&mut chain, MAIN, "eth_chainId", json!([]));
    assert_eq!(
        ask(
            &mut chain,
            MAIN,
            "dev_clear",
            json!([{ "endpoint": "other" }])
        ),
        13
    );

    let fault = json!([{ "kind": "null", "methods": ["eth_chainId"], "times": 1 }]);
    let id = ask(&mut chain, OTHER, "dev_fault", fault.clone());
    assert_eq!(
        ask(&mut chain, OTHER, "eth_chainId", json!([])),
        Value::Null
    );
    assert_eq!(
        ask(&mut chain, OTHER, "dev_clear", json!([{ "id": id }])),
        0,
        "used up"
    );
    for bad in [
        json!([{ "kind": "nonsense" }]),
        json!([{ "kind": "null", "tims": 1 }]),
        json!([]),
    ] {
        assert_eq!(fail(&mut chain, MAIN, "dev_fault", bad)["code"], -32602);
    }
    let unknown = json!([{ "kind": "null", "endpoint": "nowhere" }]);
    assert_eq!(fail(&mut chain, MAIN, "dev_fault", unknown)["code"], -32602);
}

#[test]
fn views_dialects_and_pools_are_changed_by_call() {
    let mut chain = chain();
    mine(&mut chain);
    ask(
        &mut chain,
        MAIN,
        "dev_view",
        json!([{ "endpoint": "other", "lag": 1 }]),
    );
    assert_eq!(ask(&mut chain, OTHER, "eth_blockNumber", json!([])), "0x0");
    ask(
        &mut chain,
        MAIN,
        "dev_view",
        json!([{ "endpoint": "other" }]),
    );
    assert_eq!(ask(&mut chain, OTHER, "eth_blockNumber", json!([])), "0x1");
    fail(&mut chain, MAIN, "dev_view", json!([{ "branch": 5 }]));
    ask(&mut chain, MAIN, "dev_dialect", json!(["nethermind"]));
    let version = ask(&mut chain, MAIN, "web3_clientVersion", json!([]));
    assert!(version.as_str().unwrap().starts_with("Nethermind/"));
    for nonce in 0..3 {
        send(&mut chain, &tx(0, nonce)).unwrap();
    }
    assert_eq!(
        ask(&mut chain, MAIN, "dev_drop", json!([tx(0, 2).hash()])),
        1
    );
    let sends = ask(&mut chain, MAIN, "dev_sends", json!([key(0).address()]));
    assert_eq!(
        (&sends["pooled"], &sends["pooledMax"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(sends["sends"][1]["nonce"], 1);
    mine(&mut chain);
    let mined = ask(&mut chain, MAIN, "dev_mined", json!([key(0).address()]));
    assert_eq!(mined[1]["hash"], json!(tx(0, 1).hash()));
    assert_eq!(ask(&mut chain, MAIN, "dev_drop", json!([])), 0);
    let stats = ask(&mut chain, OTHER, "dev_stats", json!([]));
    assert_eq!(
        stats,
        json!({ "requests": 2, "calls": { "eth_blockNumber": 2 } })
    );
}

#[test]
fn steering_in_a_batch_with_others_works_too() {
    let mut chain = chain();
    let calls = [
        request("evm_mine", &json!([])),
        request("eth_blockNumber", &json!([])),
    ];
    let outcome = chain.handle(MAIN, &format!("[{}]", calls.join(",")));
    let Answer::Reply { body, .. } = outcome.answer else {
        panic!("{outcome:?}");
    };
    let answers: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answers[1]["result"], "0x1");
}
