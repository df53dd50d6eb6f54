//! Each fault, alone: what is answered, what is done all the same, and when it is over.

use std::time::Duration;

use alloy_primitives::B256;
use fencepost_devchain::{
    Answer, Devchain, Dialect, EndpointId, Fault, FaultKind, Rejection, When,
};
use serde_json::{Value, json};

use crate::world::*;

const SEND: &str = "eth_sendRawTransaction";

fn with(fault: Fault) -> Devchain {
    let mut chain = chain();
    chain.add_fault(MAIN, fault).unwrap();
    chain
}

fn sent(chain: &mut Devchain, at: EndpointId, tx: &Made) -> (Answer, Duration) {
    let outcome = chain.handle(at, &request(SEND, &json!([tx.raw()])));
    (outcome.answer, outcome.delay)
}

fn holds(chain: &Devchain) -> Vec<B256> {
    chain
        .pooled(MAIN)
        .unwrap()
        .iter()
        .map(|one| one.hash)
        .collect()
}

#[test]
fn a_late_answer_is_done_at_once_and_told_later() {
    let late = Duration::from_millis(700);
    let mut chain = with(Fault::late(late).on(SEND).times(1));
    let (answer, delay) = sent(&mut chain, MAIN, &tx(0, 0));
    assert!(matches!(answer, Answer::Reply { status: 200, .. }));
    assert_eq!(delay, late);
    assert_eq!(holds(&chain), [tx(0, 0).hash()]);
    assert_eq!(
        sent(&mut chain, MAIN, &tx(0, 1)).1,
        Duration::ZERO,
        "only once"
    );
}

#[test]
fn a_request_can_hang_before_or_after_it_is_done() {
    let mut chain = with(Fault::new(FaultKind::Hang(When::Before)).times(1));
    assert_eq!(sent(&mut chain, MAIN, &tx(0, 0)).0, Answer::Hang);
    assert_eq!(holds(&chain), [] as [B256; 0]);
    let mut chain = with(Fault::new(FaultKind::Hang(When::After)).times(1));
    assert_eq!(sent(&mut chain, MAIN, &tx(0, 0)).0, Answer::Hang);
    assert_eq!(holds(&chain), [tx(0, 0).hash()]);
    let (other, _) = sent(&mut chain, OTHER, &tx(0, 1));
    assert!(
        matches!(other, Answer::Reply { .. }),
        "faults are of one endpoint"
    );
}

#[test]
fn a_connection_can_be_cut_before_or_after_the_request_is_done() {
    for (when, held) in [(When::Before, 0), (When::After, 1)] {
        let mut chain = with(Fault::new(FaultKind::Disconnect(when)));
        assert_eq!(sent(&mut chain, MAIN, &tx(0, 0)).0, Answer::Disconnect);
        assert_eq!(holds(&chain).len(), held);
    }
}

#[test]
fn a_gateway_can_answer_instead() {
    for (status, body) in [
        (429, "slow down"),
        (502, "<html>Bad Gateway</html>"),
        (200, "{{{"),
    ] {
        let body = body.to_owned();
        let answer = Answer::Reply {
            status,
            body: body.clone(),
        };
        let when = When::Before;
        let mut chain = with(Fault::new(FaultKind::Http { status, body, when }));
        assert_eq!(sent(&mut chain, MAIN, &tx(0, 0)).0, answer);
        assert_eq!(holds(&chain), [] as [B256; 0]);
        // Garbage that is asked for by no readable call gets the same.
        assert_eq!(chain.handle(MAIN, "garbage").answer, answer);
    }
}

#[test]
fn a_hash_can_be_told_and_forgotten() {
    let mut chain = with(Fault::new(FaultKind::Forget).times(1));
    let told = ask(&mut chain, MAIN, SEND, json!([tx(0, 0).raw()]));
    assert_eq!(told, json!(tx(0, 0).hash()));
    assert_eq!(holds(&chain), [] as [B256; 0]);
    ask(&mut chain, MAIN, SEND, json!([tx(0, 0).raw()]));
    assert_eq!(holds(&chain), [tx(0, 0).hash()]);
}

#[test]
fn a_send_is_refused_in_the_words_of_the_dialect() {
    let refuse = |kind, when| Fault::new(FaultKind::Refuse { kind, when });
    let mut chain = with(refuse(Rejection::PoolFull, When::Before));
    let error = fail(&mut chain, MAIN, SEND, json!([tx(0, 0).raw()]));
    assert_eq!(
        error,
        json!({ "code": -32000, "message": "txpool is full" })
    );
    chain.set_dialect(MAIN, Dialect::Erigon).unwrap();
    let error = fail(&mut chain, MAIN, SEND, json!([tx(0, 0).raw()]));
    assert_eq!(error["message"], "INTERNAL_ERROR: pending sub-pool is full");
    let version = ask(&mut chain, MAIN, "web3_clientVersion", json!([]));
    assert!(version.as_str().unwrap().starts_with("erigon/"));
    chain.set_dialect(MAIN, Dialect::Besu).unwrap();
    let told = ask(&mut chain, MAIN, SEND, json!([tx(0, 0).raw()]));
    assert_eq!(
        told,
        json!(tx(0, 0).hash()),
        "dropped, and told as accepted"
    );
    assert_eq!(holds(&chain), [] as [B256; 0]);

    let mut chain = with(refuse(Rejection::NonceTooLow, When::After));
    fail(&mut chain, MAIN, SEND, json!([tx(0, 0).raw()]));
    assert_eq!(holds(&chain), [tx(0, 0).hash()], "refused in words only");
}

#[test]
fn any_method_can_fail_with_any_error() {
    let fault = Fault::new(FaultKind::Error {
        code: -32002,
        message: "request timed out".to_owned(),
        when: When::Before,
    });
    let mut chain = with(fault.on("eth_blockNumber").every(2));
    let mut said = Vec::new();
    for _ in 0..4 {
        let answer = answer(&mut chain, MAIN, "eth_blockNumber", json!([]));
        said.push(answer["error"]["code"].clone());
    }
    assert_eq!(
        said,
        [Value::Null, json!(-32002), Value::Null, json!(-32002)]
    );
    ask(&mut chain, MAIN, "eth_chainId", json!([]));
}

#[test]
fn receipts_can_be_missing_for_some_or_all() {
    let mut chain = chain();
    let hashes = [tx(0, 0), tx(0, 1)].map(|tx| send(&mut chain, &tx).unwrap());
    mine(&mut chain);
    let receipts = |chain: &mut Devchain| {
        hashes.map(|hash| ask(chain, MAIN, "eth_getTransactionReceipt", json!([hash])).is_null())
    };
    chain
        .add_fault(MAIN, Fault::new(FaultKind::Null).times(2))
        .unwrap();
    assert_eq!(receipts(&mut chain), [true, true]);
    assert_eq!(receipts(&mut chain), [false, false]);
    let one = Fault::new(FaultKind::Null).about(hashes[1]);
    let id = chain.add_fault(MAIN, one).unwrap();
    assert_eq!(receipts(&mut chain), [false, true]);
    assert_eq!(receipts(&mut chain), [false, true], "until it is cleared");
    assert_eq!(chain.clear_faults(MAIN, Some(id)), Ok(1));
    assert_eq!(receipts(&mut chain), [false, false]);
}

#[test]
fn a_head_can_go_back_for_some_calls() {
    let mut chain = chain();
    for _ in 0..5 {
        mine(&mut chain);
    }
    let fault = Fault::new(FaultKind::Stale(3))
        .on("eth_blockNumber")
        .times(1);
    chain.add_fault(MAIN, fault).unwrap();
    let numbers = [(); 2].map(|()| ask(&mut chain, MAIN, "eth_blockNumber", json!([])));
    assert_eq!(numbers, [json!("0x2"), json!("0x5")]);
    chain
        .add_fault(MAIN, Fault::new(FaultKind::Stale(100)))
        .unwrap();
    let block = ask(
        &mut chain,
        MAIN,
        "eth_getBlockByNumber",
        json!(["latest", false]),
    );
    assert_eq!(block["number"], "0x0");
}

#[test]
fn counts_and_chain_ids_can_be_absurd() {
    let mut chain = with(Fault::new(FaultKind::Count(9_999_999)));
    let count = json!([key(0).address(), "latest"]);
    assert_eq!(
        ask(&mut chain, MAIN, "eth_getTransactionCount", count),
        "0x98967f"
    );
    assert_eq!(ask(&mut chain, MAIN, "eth_blockNumber", json!([])), "0x0");
    let mut chain = with(Fault::new(FaultKind::ChainId(5)));
    assert_eq!(ask(&mut chain, MAIN, "eth_chainId", json!([])), "0x5");
    assert_eq!(ask(&mut chain, MAIN, "net_version", json!([])), "5");
    assert_eq!(ask(&mut chain, OTHER, "net_version", json!([])), "31337");
}

#[test]
fn batches_can_be_refused_as_a_whole() {
    let mut chain = with(Fault::new(FaultKind::RefuseBatches));
    let one = request("eth_chainId", &json!([]));
    let outcome = chain.handle(MAIN, &format!("[{one}]"));
    let Answer::Reply { body, .. } = outcome.answer else {
        panic!("{outcome:?}");
    };
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["error"]["code"], -32600);
    ask(&mut chain, MAIN, "eth_chainId", json!([]));
}

#[test]
fn a_fault_about_one_transaction_finds_its_bytes_in_a_batch() {
    let mut chain = with(Fault::new(FaultKind::Hang(When::After)).about(tx(0, 1).hash()));
    let body = |nonces: &[u64]| {
        let calls = nonces
            .iter()
            .map(|nonce| request(SEND, &json!([tx(0, *nonce).raw()])));
        format!("[{}]", calls.collect::<Vec<_>>().join(","))
    };
    assert!(matches!(
        chain.handle(MAIN, &body(&[0])).answer,
        Answer::Reply { .. }
    ));
    assert_eq!(chain.handle(MAIN, &body(&[1, 2])).answer, Answer::Hang);
    assert_eq!(holds(&chain).len(), 3);
}

#[test]
fn transactions_can_be_dropped_from_the_pool() {
    let mut chain = chain();
    for nonce in 0..3 {
        send(&mut chain, &tx(0, nonce)).unwrap();
    }
    assert_eq!(chain.drop_tx(MAIN, tx(0, 1).hash()), Ok(true));
    assert_eq!(chain.drop_tx(MAIN, tx(0, 1).hash()), Ok(false));
    assert_eq!(holds(&chain), [tx(0, 0).hash(), tx(0, 2).hash()]);
    assert_eq!(chain.drop_all(MAIN), Ok(2));
    assert_eq!(holds(&chain), [] as [B256; 0]);
    send(&mut chain, &tx(0, 0).value(ether(99))).unwrap();
}

#[test]
fn control_is_never_struck_and_never_counted() {
    let mut chain = with(Fault::new(FaultKind::Hang(When::Before)));
    assert_eq!(ask(&mut chain, MAIN, "dev_clear", json!([])), 1);
    ask(&mut chain, MAIN, "eth_chainId", json!([]));
    let body = format!("[{0},{0}]", request("eth_nonsense", &json!([])));
    chain.handle(MAIN, &body);
    let stats = chain.stats(MAIN).unwrap();
    assert_eq!(stats.requests, 2);
    let calls: Vec<_> = stats.calls.iter().collect();
    assert_eq!(calls, [(&"eth_chainId", &1), (&"unknown", &2)]);
}

/// Every block's count and balance, as far back as the endpoint has them.
#[test]
fn states_can_be_pruned_and_the_blocks_stay() {
    let words = |dialect| match dialect {
        Dialect::Geth => "missing trie node 0x",
        Dialect::Reth => "state at block #",
        Dialect::Erigon => "old data not available due to pruning",
        Dialect::Nethermind => "No state available for block ",
        Dialect::Besu => "World state unavailable",
        Dialect::Anvil => "historical state 0x",
    };
    for dialect in fencepost_devchain::DIALECTS {
        let mut chain = with(Fault::new(FaultKind::Pruned(2)));
        chain.set_dialect(MAIN, dialect).unwrap();
        for nonce in 0..5 {
            send(&mut chain, &tx(0, nonce)).unwrap();
            mine(&mut chain);
        }
        let methods = ["eth_getTransactionCount", "eth_getBalance", "eth_getCode"];
        for method in methods {
            for at in 0..3 {
                let params = json!([key(0).address(), format!("{at:#x}")]);
                let error = fail(&mut chain, MAIN, method, params.clone());
                let message = error["message"].as_str().unwrap();
                assert!(message.starts_with(words(dialect)), "{message}");
                ask(&mut chain, OTHER, method, params);
            }
        }
        let count = |chain: &mut Devchain, at: Value| {
            let params = json!([key(0).address(), at]);
            ask(chain, MAIN, "eth_getTransactionCount", params)
        };
        for at in 3..=5 {
            let hex = format!("{at:#x}");
            assert_eq!(count(&mut chain, json!(hex)), json!(hex));
        }
        assert_eq!(count(&mut chain, json!("latest")), "0x5");
        assert_eq!(count(&mut chain, json!("pending")), "0x5");
        let first = ask(
            &mut chain,
            MAIN,
            "eth_getBlockByNumber",
            json!(["0x1", true]),
        );
        let sent = &first["transactions"][0];
        let expected = (json!(key(0).address()), json!(tx(0, 0).hash()));
        assert_eq!((&sent["from"], &sent["hash"]), (&expected.0, &expected.1));
        assert_eq!(sent["nonce"], "0x0");
    }
}
