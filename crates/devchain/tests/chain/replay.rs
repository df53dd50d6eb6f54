//! Whatever is sent, mined, reorganised and switched: the state is what the canonical blocks alone make,
//! and nothing waits that was mined.

use std::collections::BTreeMap;

use alloy_primitives::Address;
use fencepost_devchain::{BranchId, Config, Devchain, Fate, Order, Plan};
use proptest::prelude::*;
use serde_json::json;

use crate::world::*;

#[derive(Debug, Clone)]
enum Step {
    Send {
        by: u8,
        nonce: u64,
        tip: u64,
    },
    Mine,
    Reorg {
        depth: u64,
        extra: u64,
        txs: Fate,
        order: Order,
        odd: Fate,
    },
    Switch(u64),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::Keep),
        (0..3_u64).prop_map(Fate::Later),
        Just(Fate::Pool),
        Just(Fate::Drop),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let order = prop_oneof![Just(Order::Same), Just(Order::Reversed)];
    prop_oneof![
        6 => (0..3_u8, 0..8_u64, 1..4_u64).prop_map(|(by, nonce, tip)| Step::Send { by, nonce, tip }),
        3 => Just(Step::Mine),
        1 => (1..4_u64, 0..2_u64, fate(), order, fate())
            .prop_map(|(depth, extra, txs, order, odd)| Step::Reorg { depth, extra, txs, order, odd }),
        1 => (0..4_u64).prop_map(Step::Switch),
    ]
}

fn run(chain: &mut Devchain, step: &Step) {
    match step {
        Step::Send { by, nonce, tip } => {
            // Refused or not, the rules hold afterwards.
            let made = tx(*by, *nonce)
                .value(ether(1))
                .paying(gwei(10 * tip), gwei(*tip));
            let _refused_or_not = send(chain, &made);
        }
        Step::Mine => mine(chain),
        Step::Reorg {
            depth,
            extra,
            txs,
            order,
            odd,
        } => {
            let hashes = chain.head().txs.iter().map(|mined| mined.tx.hash);
            let only: BTreeMap<_, _> = hashes.step_by(2).map(|hash| (hash, *odd)).collect();
            let (depth, extra, txs, order) = (*depth, *extra, *txs, *order);
            drop(chain.reorg(&Plan {
                depth,
                extra,
                txs,
                only,
                order,
                ..Plan::default()
            }));
        }
        Step::Switch(branch) => drop(chain.switch_to(BranchId(*branch))),
    }
}

/// Sends the mined bytes of each canonical block to a chain that never saw anything else.
fn replay(chain: &mut Devchain) -> Devchain {
    let mut straight = Devchain::new(small());
    for number in 1..=chain.head().number() {
        let params = json!([format!("{number:#x}"), true]);
        let block = ask(chain, MAIN, "eth_getBlockByNumber", params);
        for told in block["transactions"].as_array().unwrap() {
            let hash = told["hash"].as_str().unwrap().parse().unwrap();
            let raw = chain.raw_of(&hash).unwrap();
            straight.send(MAIN, raw).unwrap();
            // One at a time: the order in the block is what is replayed, not that of a pool.
            mine(&mut straight);
        }
    }
    straight
}

fn small() -> Config {
    Config {
        // Two transactions fill a block, so that reorgs also have to spill.
        gas_limit: 50_000,
        ..config()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_is_what_the_canonical_blocks_make(steps in prop::collection::vec(step(), 1..60)) {
        let mut chain = Devchain::new(small());
        for step in &steps {
            run(&mut chain, step);
            for waits in chain.pooled(MAIN).unwrap() {
                prop_assert!(waits.nonce >= chain.state().nonce(&waits.sender));
            }
        }
        let straight = replay(&mut chain);
        prop_assert_eq!(accounts(chain.state()), accounts(straight.state()));
        let senders: Vec<Address> = (0..3).map(|n| key(n).address()).collect();
        for sender in senders {
            let nonces: Vec<u64> = chain.mined_of(sender).iter().map(|one| one.nonce).collect();
            let expected: Vec<u64> = (0..chain.state().nonce(&sender)).collect();
            prop_assert_eq!(nonces, expected);
        }
    }
}
