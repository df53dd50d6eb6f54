//! Endpoints that do not see the same.

use alloy_primitives::U256;
use fencepost_devchain::{
    Config, Devchain, EndpointConfig, Fate, NotThere, Plan, PoolChoice, View,
};
use serde_json::{Value, json};

use crate::world::*;

fn number(chain: &mut Devchain, at: fencepost_devchain::EndpointId) -> Value {
    ask(chain, at, "eth_blockNumber", json!([]))
}

#[test]
fn an_endpoint_can_be_behind() {
    let mut chain = chain();
    let hash = send(&mut chain, &tx(0, 0)).unwrap();
    for _ in 0..10 {
        mine(&mut chain);
    }
    let view = View {
        lag: 10,
        ..View::default()
    };
    chain.set_view(OTHER, view).unwrap();
    assert_eq!(
        (number(&mut chain, MAIN), number(&mut chain, OTHER)),
        (json!("0xa"), json!("0x0"))
    );
    let count = json!([key(0).address(), "latest"]);
    assert_eq!(
        ask(&mut chain, MAIN, "eth_getTransactionCount", count.clone()),
        "0x1"
    );
    assert_eq!(
        ask(&mut chain, OTHER, "eth_getTransactionCount", count),
        "0x0"
    );
    assert_eq!(ask(&mut chain, OTHER, "eth_getBalance", json!([TO])), "0x0");
    assert_eq!(
        ask(
            &mut chain,
            OTHER,
            "eth_getTransactionReceipt",
            json!([hash])
        ),
        Value::Null
    );
    let params = json!(["0x1", false]);
    assert_eq!(
        ask(&mut chain, OTHER, "eth_getBlockByNumber", params),
        Value::Null
    );
    mine(&mut chain);
    assert_ne!(
        ask(
            &mut chain,
            OTHER,
            "eth_getTransactionReceipt",
            json!([hash])
        ),
        Value::Null
    );
}

#[test]
fn an_endpoint_can_stay_on_another_branch_and_even_mine_there() {
    let mut chain = chain();
    for _ in 0..3 {
        mine(&mut chain);
    }
    let reorg = Plan {
        depth: 2,
        extra: 1,
        ..Plan::default()
    };
    let reorg = chain.reorg(&reorg).unwrap();
    let view = View {
        branch: Some(reorg.left),
        lag: 0,
    };
    chain.set_view(OTHER, view).unwrap();
    let hash_at = |chain: &mut Devchain, at, number: &str| {
        let block = ask(chain, at, "eth_getBlockByNumber", json!([number, false]));
        block["hash"].clone()
    };
    assert_eq!(
        hash_at(&mut chain, MAIN, "0x1"),
        hash_at(&mut chain, OTHER, "0x1")
    );
    assert_ne!(
        hash_at(&mut chain, MAIN, "0x2"),
        hash_at(&mut chain, OTHER, "0x2")
    );
    assert_eq!(number(&mut chain, OTHER), "0x3");
    chain.mine_as(OTHER, 0).unwrap();
    chain.mine_as(OTHER, 0).unwrap();
    assert_eq!(
        (number(&mut chain, OTHER), number(&mut chain, MAIN)),
        (json!("0x5"), json!("0x4"))
    );
    let nowhere = View {
        branch: Some(fencepost_devchain::BranchId(9)),
        lag: 0,
    };
    assert!(matches!(
        chain.set_view(OTHER, nowhere),
        Err(NotThere::Branch(_))
    ));
}

#[test]
fn an_own_pool_is_known_to_others_only_by_gossip() {
    let mut endpoints = config().endpoints;
    endpoints[1] = EndpointConfig {
        pool: PoolChoice::Own,
        ..EndpointConfig::new("other")
    };
    let mut chain = Devchain::new(Config {
        endpoints,
        ..config()
    });
    chain.send(OTHER, tx(0, 0).raw()).unwrap();
    send(&mut chain, &tx(1, 0)).unwrap();
    assert_eq!(
        (
            chain.pooled(MAIN).unwrap().len(),
            chain.pooled(OTHER).unwrap().len()
        ),
        (1, 1)
    );
    mine(&mut chain);
    assert_eq!(chain.state().balance(&TO), U256::from(1));
    chain.gossip(OTHER).unwrap();
    mine(&mut chain);
    assert_eq!(chain.state().balance(&TO), U256::from(2));
    assert_eq!(
        chain.pooled(OTHER).unwrap(),
        [],
        "what others mined is taken out"
    );
    chain.send(OTHER, tx(0, 1).raw()).unwrap();
    send(&mut chain, &tx(0, 1)).unwrap();
    chain.mine_as(OTHER, 0).unwrap();
    assert_eq!(chain.state().balance(&TO), U256::from(3));
    assert_eq!(
        chain.pooled(MAIN).unwrap(),
        [],
        "mined from another pool is mined"
    );
}

#[test]
fn safe_and_finalized_follow_the_head() {
    let mut chain = chain();
    for _ in 0..10 {
        mine(&mut chain);
    }
    let number = |chain: &mut Devchain, tag: &str| {
        let block = ask(chain, MAIN, "eth_getBlockByNumber", json!([tag, false]));
        block["number"].clone()
    };
    assert_eq!(number(&mut chain, "latest"), "0xa");
    assert_eq!(number(&mut chain, "safe"), "0x6");
    assert_eq!(number(&mut chain, "finalized"), "0x2");
    assert_eq!(number(&mut chain, "earliest"), "0x0");
    assert_eq!(number(&mut chain, "pending"), "0xb");
    let plan = Plan {
        depth: 10,
        txs: Fate::Drop,
        ..Plan::default()
    };
    chain.reorg(&plan).unwrap();
    assert_eq!(number(&mut chain, "finalized"), "0x2");
}
