//! An old primary that comes back beside the one that took its place, and a store that is not the one of before. In both
//! a node that served from what it finds would have paid requests paid again.

use anyhow::{Context, Result};
use fencepost_testkit::postgres::{Cluster, Database, Options, Standby, Stop, shared};
use fencepost_testkit::wait;
use reqwest::StatusCode;

use super::fleet::{Fleet, Member, request};

/// Both servers by one URL, the old one first.
async fn two_hosts() -> Result<(Cluster, Standby, Database, Fleet)> {
    let primary = Cluster::start(Options::default()).await?;
    let standby = primary.standby().await?;
    let database = primary.create_database().await?;
    let (first, second) = (primary.addr()?.port(), standby.addr()?.port());
    let url = format!(
        "postgres://fencepost@127.0.0.1:{first},127.0.0.1:{second}/{}?target_session_attrs=read-write",
        database.name()
    );
    Ok((primary, standby, database, Fleet::new(url)?))
}

const INVOICES: [&str; 3] = ["invoice-1", "invoice-2", "invoice-3"];

/// Pays the invoices, and returns their transactions.
async fn pay(node: &Member) -> Result<Vec<String>> {
    let mut paid = Vec::new();
    for invoice in INVOICES {
        let answer = wait::until("an invoice is accepted", || async {
            let answer = node.post(&request(1, Some(invoice))).await?;
            Ok(answer.is_accepted().then_some(answer))
        });
        paid.push(answer.await?.tx());
    }
    Ok(paid)
}

/// The primary dies, the standby takes its place, invoices are paid there, and the old primary comes back.
async fn returned(
    primary: &Cluster,
    standby: Standby,
    node: &Member,
) -> Result<(Cluster, Vec<String>)> {
    assert!(node.post(&request(1, Some("before"))).await?.is_accepted());
    standby.wait_caught_up().await?;
    primary.stop(Stop::Immediate).await?;
    let promoted = standby.promote().await?;
    let paid = pay(node).await?;
    primary.start_again().await?;
    Ok((promoted, paid))
}

#[tokio::test]
async fn nodes_that_run_and_nodes_that_start_leave_it_alone() -> Result<()> {
    let (primary, standby, _database, fleet) = two_hosts().await?;
    let (a, b) = (fleet.start("a").await?, fleet.start("b").await?);
    let (_promoted, paid) = returned(&primary, standby, &a).await?;
    for node in [&a, &b] {
        assert_eq!(pay(node).await?, paid, "while it runs");
    }
    a.kill().await?;
    b.kill().await?;
    let a = fleet.start("a").await?;
    assert_eq!(pay(&a).await?, paid, "started again");
    // It has no memory and no living peer but its hosts.
    a.kill().await?;
    let stranger = fleet.start("stranger").await?;
    assert_eq!(pay(&stranger).await?, paid, "started for the first time");
    Ok(())
}

#[tokio::test]
async fn alone_it_is_refused_by_a_node_that_remembers_and_by_one_that_is_told() -> Result<()> {
    let (primary, standby, database, fleet) = two_hosts().await?;
    let a = fleet.start("a").await?;
    let (promoted, paid) = returned(&primary, standby, &a).await?;
    // Only the old primary in its URL, no state of its own, but a peer whose address the old primary has.
    let alone = Fleet::new(database.url())?;
    let refused = alone.refused("b").await?;
    assert!(refused.contains("a stale primary"), "{refused}");
    assert_eq!(pay(&a).await?, paid);
    a.kill().await?;
    promoted.stop(Stop::Immediate).await?;
    let refused = fleet.refused("a").await?;
    assert!(refused.contains("a stale primary"), "{refused}");
    promoted.start_again().await?;
    let a = fleet.start("a").await?;
    assert_eq!(pay(&a).await?, paid);
    Ok(())
}

/// Goal: a schema that appears by accident is not taken for the store. Method: the node is started on another schema of
/// the same database, where everything would be empty.
#[tokio::test]
async fn another_store_needs_to_be_declared() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let a = fleet.start("a").await?;
    let paid = pay(&a).await?;
    a.kill().await?;
    let moved = fleet
        .with("[log]\nwrites_per_second = 0\n")
        .schema("fencepost");
    let refused = moved.refused("a").await?;
    assert!(refused.contains("this is another store"), "{refused}");
    assert!(
        refused.contains("fencepost migrate --new-store"),
        "{refused}"
    );
    let declared = moved.run("a", &["migrate", "--new-store"]).await?;
    assert!(declared.contains("declared to be new"), "{declared}");
    let a = moved.start("a").await?;
    let again = a.post(&request(1, Some(INVOICES[0]))).await?;
    assert_eq!(again.status, StatusCode::ACCEPTED, "{again:?}");
    assert_ne!(again.tx(), paid[0]);
    a.kill().await?;
    // Back to where it came from is another store too.
    let back = moved.schema("public");
    let refused = back.refused("a").await?;
    assert!(refused.contains("this is another store"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_damaged_state_file_is_named() -> Result<()> {
    let database = shared().await?.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let a = fleet.start("a").await?;
    pay(&a).await?;
    a.kill().await?;
    let state = fleet.file("fencepost-a.state.json");
    let text = std::fs::read_to_string(&state).context("the node has kept its state")?;
    std::fs::write(&state, &text[..text.len() / 2])?;
    let refused = fleet.refused("a").await?;
    assert!(
        refused.contains("fencepost-a.state.json cannot be read"),
        "{refused}"
    );
    std::fs::write(&state, text)?;
    fleet.start("a").await?;
    Ok(())
}
