//! A standby takes the primary's place under load, with three nodes as real processes. The last leader of a lane lets it go
//! on where nothing is missing; where something is, exactly that lane is held.

use std::time::Duration;

use anyhow::Result;
use fencepost_testkit::postgres::{Cluster, Options, Standby, Stop};
use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::wait;
use serde_json::Value;
use tokio::time::Instant;

use super::fleet::{Fleet, Member, request, signer};
use super::load::Load;

/// From the end of the promotion to the next nonce of every lane of which nothing is missing. Nodes find the server within a
/// connection's time, report once a second, and lanes are led again at the next bid.
const NEXT_NONCE: Duration = Duration::from_secs(30);

async fn paused(node: &Member, n: u8) -> Result<Value> {
    let answer = node.get(&format!("/api/v1/signers/{}", signer(n))).await?;
    Ok(answer.body["paused"].clone())
}

/// The primary dies as in a power cut; the clock runs from the end of the promotion.
async fn promote(primary: &Cluster, standby: Standby, proxy: &Proxy) -> Result<(Cluster, Instant)> {
    primary.stop(Stop::Immediate).await?;
    let promoted = standby.promote().await?;
    let at = Instant::now();
    proxy.retarget(promoted.addr()?);
    proxy.cut();
    Ok((promoted, at))
}

/// The next request that gets a nonce.
async fn next_nonce(node: &Member, n: u8, name: &str) -> Result<i64> {
    wait::until("a nonce is given", || async {
        let answer = node.post(&request(n, Some(name))).await?;
        Ok(answer.body["nonce"].as_i64())
    })
    .await
}

/// A primary that acknowledges nothing before its standby has it.
async fn synchronous() -> Result<(Cluster, Standby)> {
    let primary = Cluster::start(Options::default()).await?;
    let standby = primary.standby().await?;
    let admin = primary.admin().await?;
    admin
        .batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        .await?;
    admin.batch_execute("SELECT pg_reload_conf()").await?;
    wait::until("the standby is synchronous", || async {
        let sql = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";
        Ok((!admin.query(sql, &[]).await?.is_empty()).then_some(()))
    })
    .await?;
    Ok((primary, standby))
}

/// Goal: nothing is lost, so every lane goes on by itself, within a bound, whichever node it asks. Method: clients post for
/// four lanes through three nodes, which know both servers by one URL; followers bid with each request.
#[tokio::test]
async fn behind_a_synchronous_standby_all_go_on_by_themselves() -> Result<()> {
    let (primary, standby) = synchronous().await?;
    let database = primary.create_database().await?;
    let ports = [primary.addr()?.port(), standby.addr()?.port()];
    let url = format!(
        "postgres://fencepost@127.0.0.1:{},127.0.0.1:{}/{}?target_session_attrs=read-write",
        ports[0],
        ports[1],
        database.name()
    );
    let fleet = Fleet::new(url)?;
    let nodes = fleet.three().await?;
    let urls = [0, 1, 2].map(|n| nodes[n].url.as_str());
    let load = Load::over(&fleet, &urls, 8, &[1, 2, 3, 4]);
    load.goes_on(200).await?;
    primary.stop(Stop::Immediate).await?;
    let _promoted = standby.promote().await?;
    let at = Instant::now();
    for n in 1..=4 {
        next_nonce(&nodes[usize::from(n) % 3], n, "again").await?;
        println!(
            "from promotion to the next nonce of lane {n}: {:?}",
            at.elapsed()
        );
    }
    assert!(at.elapsed() < NEXT_NONCE, "{:?}", at.elapsed());
    load.goes_on(50).await?;
    let seen = load.stop().await?;
    assert_eq!(seen.changed, [""; 0]);
    let mut stored = 0;
    for n in 1..=4 {
        assert_eq!(paused(&nodes[0], n).await?, Value::Null, "signer {n}");
        let count = fleet.nonces(n).await?.len();
        fleet.all_allocated(n, count).await?;
        stored += count;
    }
    assert!(
        stored >= seen.acked.len() + 4,
        "{stored} of {}",
        seen.acked.len()
    );
    let named = "SELECT count(*) FROM managed_tx WHERE request_id LIKE 'client-%'";
    assert_eq!(
        fleet.number(named).await?,
        i64::try_from(seen.acked.len())?,
        "each that was acknowledged, once"
    );
    assert_eq!(fleet.number("SELECT epoch FROM feed_head").await?, 1);
    for node in &nodes {
        assert!(!node.has_logged("failover_loss"));
    }
    Ok(())
}

/// Goal: two lanes are written to until the primary dies, and the standby lacks their newest commits; the two others have
/// lost nothing. Method: as above, with the clients going on through the promotion.
#[tokio::test]
async fn behind_an_asynchronous_standby_exactly_what_lost_something_is_held() -> Result<()> {
    let primary = Cluster::start(Options::default()).await?;
    let standby = primary.standby().await?;
    let database = primary.create_database().await?;
    let proxy = Proxy::start(primary.addr()?).await?;
    let fleet = Fleet::new(database.url_through(proxy.addr()))?;
    let nodes = fleet.three().await?;
    for n in [3, 4] {
        assert_eq!(next_nonce(&nodes[usize::from(n) - 2], n, "kept").await?, 0);
    }
    let urls = [0, 1, 2].map(|n| nodes[n].url.as_str());
    let load = Load::over(&fleet, &urls, 4, &[1, 2]);
    load.goes_on(50).await?;
    standby.wait_caught_up().await?;
    standby.stop_receiving().await?;
    load.goes_on(100).await?;
    let (_promoted, at) = promote(&primary, standby, &proxy).await?;
    for n in [3, 4] {
        assert_eq!(next_nonce(&nodes[0], n, "next").await?, 1);
    }
    println!(
        "from promotion to the next nonce of both whole lanes: {:?}",
        at.elapsed()
    );
    assert!(at.elapsed() < NEXT_NONCE, "{:?}", at.elapsed());
    for n in [1, 2] {
        let lost = wait::until("the loss is logged", || async {
            let signer = signer(n);
            let logged = |node: &Member| node.has_lost(&signer);
            Ok(nodes.iter().any(logged).then_some(()))
        });
        lost.await?;
        assert_eq!(paused(&nodes[0], n).await?, "FAILOVER", "signer {n}");
        let refused = nodes[0].post(&request(n, None)).await?;
        assert_eq!(refused.body["code"], "signer_paused", "{refused:?}");
    }
    drop(load);
    let held = "SELECT count(*) FROM signer_lease WHERE held AND next_nonce > 0";
    assert_eq!(fleet.number(held).await?, 2);
    for n in [3, 4] {
        assert_eq!(paused(&nodes[1], n).await?, Value::Null, "signer {n}");
    }
    Ok(())
}
