//! Goal: published confirmations are one chain, whatever is replaced and whoever leads. Method: blocks are
//! replaced above, at and below a transaction's, and after each pass both the list that readers are given and the
//! one that its events alone give are held against the chain.

use std::time::Duration;

use fencepost_app::ports::{Record, Store};
use fencepost_devchain::{EndpointId, Fate, Order, Plan, View};
use fencepost_domain::B256;
use fencepost_domain::event::Kind;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::LaneSeq;

use super::life::{Life, seconds};
use super::nodes::Member;

const NEW_FORK: &str = "fencepost_confirmations_new_fork_total";

/// A world that publishes, with a transaction in a block, nothing on top of it and nobody mining.
async fn mined(endpoints: usize, finality: Rule) -> (Life, Member, Record) {
    let mut life = Life::new(endpoints, 1).await;
    life.world.settings.publish_confirmations = true;
    life.world.main.finality = finality;
    let node = life.world.node("a").await;
    life.rest();
    life.mine(20);
    seconds(2).await;
    let row = life.send(&node, life.lanes[0], 1).await.remove(0);
    life.until_state(&row, "TRACKING/BROADCAST").await;
    life.mine(1);
    life.until_state(&row, "TRACKING/MINED").await;
    (life, node, row)
}

fn plan(depth: u64, txs: Fate) -> Plan {
    Plan {
        depth,
        extra: 1,
        txs,
        ..Plan::default()
    }
}

/// The list that the events alone give, by the rule that readers are told. Each block must be the next one.
async fn replayed(life: &Life, row: &Record) -> Vec<(u64, B256)> {
    let zero = LaneSeq::default();
    let events = life.world.store.history(row.tx, zero, 1_000).await.unwrap();
    let mut list: Vec<(u64, B256)> = Vec::new();
    let mut own = None;
    for stored in events {
        let event = stored.event;
        if event.kind == Kind::Receipt {
            own = event.block.map(|block| (block.number.get(), block.hash));
            list.clear();
        }
        if event.new_fork {
            list.clear();
        }
        for (block, parent) in event.confirmations.iter().flat_map(|each| each.blocks()) {
            let below = list.last().copied().or(own).unwrap();
            assert_eq!((block.number.get() - 1, parent), below, "{list:?}");
            list.push((block.number.get(), block.hash));
        }
    }
    list
}

/// What is on top of the transaction on the chain that counts, as many as are published.
async fn canonical(life: &Life, row: &Record, most: usize) -> Vec<(u64, B256)> {
    let at = life.world.record(row.tx).await.state.inclusion();
    let Some(at) = at else {
        return vec![];
    };
    let chain = life.chain.lock();
    let above = chain.blocks_above(at.block.number.get());
    let above = above.map(|block| (block.number(), block.hash));
    above.take(most).collect()
}

/// Readers and those who replay the events have the blocks that count, as many as there are.
async fn check(life: &Life, node: &Member, row: &Record, most: usize, place: &str) {
    seconds(3).await;
    let expected = canonical(life, row, most).await;
    assert_eq!(replayed(life, row).await, expected, "{place}");
    let list = node.node.confirmations(row.tx).await.unwrap();
    let shown = list
        .iter()
        .map(|each| (each.block.number.get(), each.block.hash));
    assert_eq!(shown.collect::<Vec<_>>(), expected, "{place}");
}

/// Two forks in one list: the blocks that were replaced stayed in it, and nobody was told.
#[tokio::test(start_paused = true)]
async fn blocks_that_are_replaced_above_a_transaction_replace_the_list() {
    for depth in 1..=4 {
        let (life, node, row) = mined(1, Rule::Confirmations(9)).await;
        life.mine(4);
        check(&life, &node, &row, 9, "before").await;
        assert_eq!(node.meter(NEW_FORK), 0);
        life.chain.lock().reorg(&plan(depth, Fate::Keep)).unwrap();
        check(&life, &node, &row, 9, &format!("depth {depth}")).await;
        assert_eq!(node.meter(NEW_FORK), 1, "depth {depth}");
        // Twice in a row, now with one more that was told.
        life.chain.lock().reorg(&plan(depth, Fate::Keep)).unwrap();
        check(&life, &node, &row, 9, &format!("depth {depth}, again")).await;
        assert_eq!(node.meter(NEW_FORK), 2, "depth {depth}");
        life.mine(2);
        check(&life, &node, &row, 9, "and on").await;
        assert_eq!(node.meter(NEW_FORK), 2, "what is added is no fork");
        life.mine(9);
        life.until_state(&row, "CONFIRMED").await;
        check(&life, &node, &row, 9, "at its end").await;
    }
}

#[tokio::test(start_paused = true)]
async fn blocks_that_are_replaced_at_or_below_a_transaction_clear_the_list() {
    let fates = [Fate::Keep, Fate::Later(1), Fate::Pool, Fate::Drop];
    for fate in fates {
        for below in 0..=2 {
            let place = format!("{fate:?}, {below} below");
            let (mut life, node, row) = mined(1, Rule::Confirmations(9)).await;
            life.mine(3);
            check(&life, &node, &row, 9, "before").await;
            let other = Plan {
                order: Order::Reversed,
                ..plan(4 + below, fate)
            };
            life.chain.lock().reorg(&other).unwrap();
            check(&life, &node, &row, 9, &place).await;
            assert!(node.meter(NEW_FORK) >= 1, "{place}");
            life.chain.lock().reorg(&other).unwrap();
            check(&life, &node, &row, 9, &format!("{place}, again")).await;
            life.work();
            life.until_ended().await;
            check(&life, &node, &row, 9, &format!("{place}, at its end")).await;
            assert_eq!(replayed(&life, &row).await.len(), 9, "{place}");
        }
    }
}

/// The follower sees only what is left after both: the first fork, or the chain before it, may be what was told.
#[tokio::test(start_paused = true)]
async fn two_forks_within_one_look_leave_the_last_one_in_the_list() {
    for (first, second) in [(1, 1), (1, 3), (3, 1), (2, 4), (4, 5), (5, 4), (6, 6)] {
        let place = format!("depths {first} and {second}");
        let (life, node, row) = mined(1, Rule::Confirmations(9)).await;
        life.mine(4);
        check(&life, &node, &row, 9, "before").await;
        {
            let mut chain = life.chain.lock();
            chain.reorg(&plan(first, Fate::Keep)).unwrap();
            chain.reorg(&plan(second, Fate::Keep)).unwrap();
        }
        check(&life, &node, &row, 9, &place).await;
        assert_eq!(node.meter(NEW_FORK), 1, "{place}");
        // And back to what was told before: nothing was replaced for those who read.
        let told = replayed(&life, &row).await;
        {
            let mut chain = life.chain.lock();
            let left = chain.reorg(&plan(first, Fate::Keep)).unwrap().left;
            chain.switch_to(left).unwrap();
        }
        check(&life, &node, &row, 9, &format!("{place}, and back")).await;
        assert_eq!(replayed(&life, &row).await, told, "{place}");
        assert_eq!(node.meter(NEW_FORK), 1, "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_back_and_forth_is_told_each_time() {
    let (life, node, row) = mined(1, Rule::Confirmations(30)).await;
    life.mine(3);
    check(&life, &node, &row, 30, "before").await;
    for turn in 0..3 {
        let left = life.chain.lock().reorg(&plan(2, Fate::Keep)).unwrap().left;
        check(&life, &node, &row, 30, &format!("away {turn}")).await;
        life.chain.lock().switch_to(left).unwrap();
        life.mine(2);
        check(&life, &node, &row, 30, &format!("back {turn}")).await;
    }
    assert_eq!(node.meter(NEW_FORK), 6);
}

/// What came while nobody led is not missing, and what was replaced then is replaced.
#[tokio::test(start_paused = true)]
async fn blocks_between_two_leaders_are_told_by_the_next() {
    for (missed, depth) in [(3, None), (1, Some(2)), (3, Some(5)), (12, None)] {
        let place = format!("{missed} blocks, fork {depth:?}");
        let (life, node, row) = mined(1, Rule::Confirmations(10)).await;
        life.mine(2);
        check(&life, &node, &row, 10, "before").await;
        node.kill();
        life.mine(missed);
        if let Some(depth) = depth {
            life.chain.lock().reorg(&plan(depth, Fate::Keep)).unwrap();
        }
        let next = life.world.node("b").await;
        seconds(20).await;
        check(&life, &next, &row, 10, &place).await;
        life.mine(1);
        check(&life, &next, &row, 10, &format!("{place}, and one more")).await;
        life.mine(10);
        life.until_state(&row, "CONFIRMED").await;
        check(&life, &next, &row, 10, &format!("{place}, at its end")).await;
        assert_eq!(replayed(&life, &row).await.len(), 10, "{place}");
    }
}

/// Its block is far below all that the next leader keeps when it is looked at again.
#[tokio::test(start_paused = true)]
async fn a_list_is_whole_after_a_long_absence() {
    for rule in [Rule::Confirmations(10), Rule::Finalized] {
        let most = usize::try_from(rule.published()).unwrap();
        let (life, node, row) = mined(1, rule).await;
        life.mine(2);
        check(&life, &node, &row, most, "before").await;
        node.kill();
        life.mine(1_500);
        let next = life.world.node("b").await;
        life.until_state(&row, "CONFIRMED").await;
        check(&life, &next, &row, most, "at its end").await;
        assert_eq!(replayed(&life, &row).await.len(), most);
    }
}

/// The endpoint that is read from is behind, or on the branch that was left, and then it is not.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_behind_or_elsewhere_splices_nothing() {
    let (life, node, row) = mined(2, Rule::Confirmations(9)).await;
    life.mine(4);
    check(&life, &node, &row, 9, "before").await;
    for endpoint in [0, 1] {
        let place = format!("endpoint {endpoint}");
        let behind = View {
            branch: None,
            lag: 3,
        };
        let set = |view| {
            let mut chain = life.chain.lock();
            chain.set_view(EndpointId(endpoint), view).unwrap();
        };
        set(behind);
        seconds(5).await;
        replayed(&life, &row).await;
        life.mine(1);
        seconds(5).await;
        replayed(&life, &row).await;
        set(View::default());
        check(&life, &node, &row, 9, &format!("{place} caught up")).await;
        let left = life.chain.lock().reorg(&plan(2, Fate::Keep)).unwrap().left;
        set(View {
            branch: Some(left),
            lag: 0,
        });
        seconds(5).await;
        replayed(&life, &row).await;
        set(View::default());
        check(&life, &node, &row, 9, &format!("{place} came back")).await;
    }
}

/// Switched on in the middle of a transaction's life, switched off, and on again after a fork.
#[tokio::test(start_paused = true)]
async fn a_list_begins_whole_when_publishing_is_switched_on() {
    let (mut life, mut node, row) = mined(1, Rule::Confirmations(20)).await;
    for (publish, depth) in [(false, 2), (true, 2), (false, 3), (true, 4)] {
        node.kill();
        life.world.settings.publish_confirmations = publish;
        node = life.world.node("b").await;
        seconds(20).await;
        life.mine(3);
        seconds(2).await;
        life.chain.lock().reorg(&plan(depth, Fate::Keep)).unwrap();
        if publish {
            check(&life, &node, &row, 20, &format!("depth {depth}")).await;
        }
    }
}

/// The exception that the configuration, the architecture and the API state: the list of a final transaction stays, unless its own
/// block is replaced.
#[tokio::test(start_paused = true)]
async fn nothing_is_published_of_what_has_ended() {
    let (life, node, row) = mined(1, Rule::Confirmations(3)).await;
    life.mine(3);
    life.until_state(&row, "CONFIRMED").await;
    let before = replayed(&life, &row).await;
    assert_eq!(before, canonical(&life, &row, 3).await);
    life.chain.lock().reorg(&plan(2, Fate::Keep)).unwrap();
    life.mine(5);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(replayed(&life, &row).await, before);
    assert_eq!(node.meter(NEW_FORK), 0);
    // But a fork below it undoes the end, and the list with it.
    life.chain.lock().reorg(&plan(12, Fate::Drop)).unwrap();
    life.until_state(&row, "STUCK/REORG_AFTER_FINAL").await;
    assert_eq!(replayed(&life, &row).await, []);
    assert_eq!(node.node.confirmations(row.tx).await.unwrap(), []);
}
