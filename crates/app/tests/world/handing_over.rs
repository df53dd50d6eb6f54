//! A lane's export, imported by another installation on the same chain: what the file says must end there as it
//! ends here, whichever of a transaction's attempts is mined.

use fencepost_app::import::{OpenNonce, OpenState};
use fencepost_app::ports::{Action, Audit, PauseChange, PauseReason, Record, Store};
use fencepost_domain::B256;
use fencepost_domain::ids::Nonce;

use super::care::capped;
use super::life::{Life, words};
use super::nodes::{Member, World, accepted};

fn audit() -> Audit {
    Audit {
        by: "ops".to_owned(),
        reason: "moving".to_owned(),
        details: None,
        node: None,
    }
}

async fn pause(world: &World, node: &Member) {
    let seat = node.node.directory().seat(world.lanes[0]).unwrap();
    let pause = PauseChange::Pause(PauseReason::Operator);
    world.store.pause(seat.id, pause, &audit()).await.unwrap();
}

/// A life without blocks, and a payment in the pools.
async fn waiting() -> (Life, Member, Record) {
    let mut life = Life::careful(1).await;
    let node = life.world.node("a").await;
    life.rest();
    let row = accepted(node.ask(life.lanes[0], capped(10)).await);
    life.until_state(&row, "TRACKING/BROADCAST").await;
    (life, node, row)
}

/// Asks for a remedy and waits for its attempt to be in the pools.
async fn remedied(life: &Life, node: &Member, row: &Record, action: Action) {
    node.remedy(row, action).await;
    let is_stored = async || life.kinds(row).await.len() == 2;
    life.world.until("it is stored", is_stored).await;
    let (lane, hash) = (life.lanes[0], life.hash(row, 1).await);
    let is_sent = async || life.sends(lane, hash) > 0;
    life.world.until("it is sent", is_sent).await;
}

async fn exported(life: &Life, node: &Member) -> OpenNonce {
    let told = node.node.export(life.lanes[0]).await.unwrap().unwrap();
    let mut open = told.open.unwrap();
    assert_eq!((open.len(), told.view.next_nonce.get()), (1, 1));
    open.remove(0)
}

/// Another installation, after it has imported what this one exports.
struct There {
    world: World,
    _node: Member,
}

async fn hand_over(life: &Life, node: &Member) -> There {
    pause(&life.world, node).await;
    let open = exported(life, node).await;
    let mut world = World::new();
    world.settings = life.world.settings.clone();
    world.main = life.world.main.clone();
    world.chain.clone_from(&life.world.chain);
    world.signer.clone_from(&life.world.signer);
    world.lanes.clone_from(&life.world.lanes);
    let there = world.node("there").await;
    pause(&world, &there).await;
    let seat = there.node.directory().seat(world.lanes[0]).unwrap();
    let next = Nonce::new(1).unwrap();
    let (open, audit) = ([open], audit());
    let import = there.node.import(seat, next, &open, false, &audit);
    assert_eq!(import.await.unwrap().open.len(), 1);
    There {
        world,
        _node: there,
    }
}

/// Both follow it to its end; the words of the other one for that.
async fn ends(life: &mut Life, there: &There) -> String {
    life.work();
    life.until_ended().await;
    let world = &there.world;
    let row = world.rows(world.lanes[0]).await.remove(0);
    let ended = async || world.record(row.tx).await.state.is_final();
    world.until("it ends there too", ended).await;
    words(&world.record(row.tx).await.state)
}

/// A node still has these bytes and mines them.
fn mine(life: &Life, hash: B256) {
    let mut chain = life.chain.lock();
    let time = chain.head().header.timestamp + 1;
    chain.mine_with(&[hash], time).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_payment_with_one_attempt_is_handed_over_with_its_bytes() {
    let (mut life, node, row) = waiting().await;
    let open = exported(&life, &node).await;
    let attempt = life.attempts(&row).await[0].attempt.clone();
    assert_eq!(open.state, OpenState::Tracking);
    assert_eq!(
        (open.hash, open.raw),
        (Some(attempt.hash), Some(attempt.raw))
    );
    let there = hand_over(&life, &node).await;
    assert_eq!(ends(&mut life, &there).await, "CONFIRMED");
    life.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_payment_in_a_block_is_handed_over_with_its_bytes() {
    let (mut life, node, row) = waiting().await;
    life.mine(1);
    life.until_state(&row, "TRACKING/MINED").await;
    assert_eq!(exported(&life, &node).await.state, OpenState::Tracking);
    let there = hand_over(&life, &node).await;
    assert_eq!(ends(&mut life, &there).await, "CONFIRMED");
}

/// Either attempt can still be mined. The other installation must not call the payment lost when it is the older.
#[tokio::test(start_paused = true)]
async fn a_replaced_payment_is_handed_over_as_a_nonce_that_any_hash_uses() {
    let (mut life, node, row) = waiting().await;
    remedied(&life, &node, &row, Action::Replace).await;
    let open = exported(&life, &node).await;
    assert_eq!((open.state, open.raw), (OpenState::Submitted, None));
    assert_eq!(open.hash, Some(life.hash(&row, 1).await), "the newest");
    let there = hand_over(&life, &node).await;
    mine(&life, life.hash(&row, 0).await);
    assert_eq!(ends(&mut life, &there).await, "USED");
    assert_eq!(life.words(&row).await, "CONFIRMED");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_payment_whose_original_is_in_a_block_is_handed_over_by_that_hash() {
    let (mut life, node, row) = waiting().await;
    remedied(&life, &node, &row, Action::Replace).await;
    let original = life.hash(&row, 0).await;
    mine(&life, original);
    life.until_state(&row, "TRACKING/MINED").await;
    let open = exported(&life, &node).await;
    assert_eq!(
        (open.state, open.hash),
        (OpenState::Submitted, Some(original))
    );
    let there = hand_over(&life, &node).await;
    assert_eq!(ends(&mut life, &there).await, "USED");
    assert_eq!(life.words(&row).await, "CONFIRMED");
}

/// A cancel pays nobody: imported as a payment it would end CONFIRMED under the request id of the payment.
#[tokio::test(start_paused = true)]
async fn a_cancelled_payment_is_not_handed_over_as_one_that_was_made() {
    let (mut life, node, row) = waiting().await;
    remedied(&life, &node, &row, Action::Cancel).await;
    let open = exported(&life, &node).await;
    assert_eq!((open.state, open.raw), (OpenState::Submitted, None));
    let there = hand_over(&life, &node).await;
    assert_eq!(ends(&mut life, &there).await, "USED");
    assert_eq!(life.words(&row).await, "FAILED_FINAL/CANCELLED");
}
