//! A node starts, and the commit that gave it its incarnation is lost in a failover. It goes on under that incarnation, and
//! no later start may get the same one.

use anyhow::Result;
use fencepost_app::ports::{Beat, Store};
use fencepost_domain::ids::NodeId;
use fencepost_postgres::Failover;
use fencepost_store_tests::bench::url;
use fencepost_store_tests::builders::txs;

use super::post::{LONG, TERMS, settings};
use super::town::{Node, Town, fail_over, town};

#[tokio::test]
async fn a_node_whose_start_was_lost_lives_on_and_keeps_its_incarnation() -> Result<()> {
    let Town {
        primary,
        standby,
        database,
        a,
        b,
    } = town(TERMS, Failover::Witness).await?;
    let one = a.lead(1).await?;
    one.accept(txs([1])).await;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    let late = Node::start(&database, "late", TERMS, Failover::Witness).await?;
    // A node that was started again: the server remembers the start before.
    let again = Node::join(&database, primary.addr()?, "b", TERMS).await?;
    assert_eq!(again.holder.incarnation.get(), 2);
    let promoted = fail_over(&primary, standby, &[&a, &b, &late, &again]).await?;

    // Before either of them has met the new server, another start under the same name.
    let url_there = promoted.url(database.name());
    let other = fencepost_postgres::PostgresStore::open(fencepost_postgres::Settings {
        failover: Failover::Witness,
        ..settings("other", url_there, LONG)
    })
    .await?;
    let third = other.join(&NodeId::new("b")?, &url("b")).await?;
    assert!(third > again.holder.incarnation, "{third:?}");

    late.vouch().await?;
    let beat = late.store.beat(&late.holder, &[]).await?;
    assert!(matches!(beat, Beat::Alive(_)), "{beat:?}");
    let next = other.join(&late.holder.node, &url("late")).await?;
    assert!(next > late.holder.incarnation);
    let beat = again.store.beat(&again.holder, &[]).await?;
    assert_eq!(beat, Beat::Ghost(third), "the later start stands");
    Ok(())
}
