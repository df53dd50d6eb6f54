//! A cluster in which some nodes have no `rpc`: one that is being moved from nonces only to a chain, or in which one
//! node's `rpc` was forgotten. Where any living node is configured with the chain, the chain decides.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{Chain, CountMode, Signer, Store};
use fencepost_domain::B256;

use super::by_clock::{counted, state, until};
use super::chain::Told;
use super::life::Life;
use super::loans::{lend, submitted};
use super::nodes::{Member, World, lane, pass};

/// A node without `rpc` joins a world whose other nodes have it.
async fn without_rpc(world: &mut World, name: &str) -> Member {
    let chain: Option<Arc<dyn Chain>> = world.chain.take();
    let signer: Option<Arc<dyn Signer>> = world.signer.take();
    let query: Option<CountMode> = world.settings.chain_query.take();
    let node = world.node(name).await;
    world.chain = chain;
    world.signer = signer;
    world.settings.chain_query = query;
    node
}

async fn leader(world: &World, life: &Life) -> Option<String> {
    let view = world.store.lane(life.lanes[0]).await.unwrap().unwrap();
    view.leader.map(|leader| leader.node.as_str().to_owned())
}

/// The leader has no chain, another node has: the lane goes there, and everything in it ends.
#[tokio::test(start_paused = true)]
async fn a_leader_without_rpc_leaves_its_lanes_to_a_node_that_has_it() {
    let mut life = Life::new(1, 1).await;
    life.world.settings.lending.grace = Duration::from_secs(5);
    let of = life.lanes[0];
    let a = without_rpc(&mut life.world, "a").await;
    let managed = life.send(&a, of, 1).await.remove(0);
    let used = lend(&a, of, 10).await;
    let unused = lend(&a, of, 10).await;
    let _b = life.world.node("b").await;
    let hash = life.foreign(of, 1).await;
    submitted(&a, of, &used, hash).await;
    life.until_state(&managed, "CONFIRMED").await;
    life.until_state(&used, "USED").await;
    life.until_state(&unused, "RECYCLABLE").await;
    assert_eq!(leader(&life.world, &life).await.as_deref(), Some("b"));
    assert_eq!(counted(&a, "recycled") + counted(&a, "used"), 0);
}

/// The other node's endpoints do not answer. The cluster has a chain all the same: nothing ends by the clock until no
/// living node is configured with it.
#[tokio::test(start_paused = true)]
async fn the_clock_ends_nothing_while_a_living_node_is_configured_with_the_chain() {
    let mut world = World::new();
    world.settings.lending.used_after = Duration::from_secs(20);
    world.chain = Some(Arc::new(Told::default()));
    let b = world.node("b").await;
    let a = without_rpc(&mut world, "a").await;
    pass(Duration::from_secs(5)).await;
    let unused = lend(&a, lane(1), 10).await;
    let used = lend(&a, lane(1), 10).await;
    submitted(&a, lane(1), &used, B256::repeat_byte(7)).await;
    pass(Duration::from_mins(10)).await;
    assert_eq!(state(&world, &unused).await, "RESERVED");
    assert_eq!(state(&world, &used).await, "SUBMITTED");
    b.kill();
    until(&world, &unused, "RECYCLABLE").await;
    until(&world, &used, "USED").await;
}
