//! Clients that wait for a point are answered by the moves themselves where this node makes them.

use std::time::Duration;

use fencepost_domain::point::Point;
use tokio::time::Instant;

use super::faults::{hold, watch};
use super::life::{Life, transfer};
use super::nodes::accepted;

/// Below the first look of the poller at a lane that this node leads.
const AT_ONCE: Duration = Duration::from_millis(200);

#[tokio::test(start_paused = true)]
async fn a_move_of_this_node_answers_those_who_wait_before_any_poll() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.send(&node, lane, 1).await;
    for (n, point) in [(2, Point::Signed), (3, Point::Submitted)] {
        let tx = transfer(n);
        let waiting = node.node.wait_for(point, [tx.tx]);
        let stored = accepted(node.ask(lane, tx).await);
        assert!(!stored.state.has_reached(point));
        let began = Instant::now();
        let until = began + Duration::from_secs(10);
        let told = waiting.reach(vec![Box::new(stored)], until).await;
        assert!(told[0].state.has_reached(point), "{:?}", told[0].state);
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
}

/// The completer writes the end, and wakes too.
#[tokio::test(start_paused = true)]
async fn the_end_is_told_at_once_as_well() {
    let life = Life::new(1, 1).await;
    let node = life.world.node("a").await;
    let tx = transfer(1);
    let waiting = node.node.wait_for(Point::Final, [tx.tx]);
    let stored = accepted(node.ask(life.lanes[0], tx).await);
    let id = stored.tx;
    let until = Instant::now() + Duration::from_secs(30);
    let ended = async {
        life.world
            .until("it has ended", async || {
                life.world.record(id).await.state.is_final()
            })
            .await;
        Instant::now()
    };
    let waited = async {
        let told = waiting.reach(vec![Box::new(stored)], until).await;
        (told, Instant::now())
    };
    let (ended, (told, answered)) = tokio::join!(ended, waited);
    assert!(told[0].state.is_final(), "{:?}", told[0].state);
    let late = answered.saturating_duration_since(ended);
    assert!(late < AT_ONCE, "{late:?}");
}

/// The leader dies between the nonce and the signature. A client that waits at another node for the signature is
/// answered by what the next leader signs, or, if its time is over before that, with the transaction as it stands.
#[tokio::test(start_paused = true)]
async fn a_wait_for_the_signature_outlasts_the_leader() {
    for (wait, is_signed) in [(30, true), (3, false)] {
        let mut life = Life::new(1, 1).await;
        let lane = life.lanes[0];
        let script = watch(&mut life.world);
        let leader = life.world.node("a").await;
        life.world.seen = None;
        let other = life.world.node("b").await;
        life.send(&leader, lane, 1).await;
        life.until_ended().await;
        // The bytes are signed and never stored.
        hold(&script, "apply");
        let tx = transfer(2);
        let waiting = other.node.wait_for(Point::Signed, [tx.tx]);
        let stored = accepted(other.ask(lane, tx).await);
        let nonce = stored.state.nonce();
        assert!(nonce.is_some() && !stored.state.has_reached(Point::Signed));
        let signing = async || script.holds_one();
        life.world.until("it is being signed", signing).await;
        leader.kill();
        let began = Instant::now();
        let limit = Duration::from_secs(wait);
        let told = waiting.reach(vec![Box::new(stored)], began + limit).await;
        assert_eq!(told[0].state.has_reached(Point::Signed), is_signed);
        assert_eq!(told[0].state.hash().is_some(), is_signed);
        assert_eq!(told[0].state.nonce(), nonce, "it keeps its nonce");
        let late = began.elapsed().saturating_sub(limit);
        assert!(late < Duration::from_secs(1), "{late:?} late");
        life.until_ended().await;
        life.check().await;
    }
}
