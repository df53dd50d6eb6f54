//! The database is restarted under load.

use anyhow::Result;
use fencepost_testkit::postgres::{Cluster, Options, Stop};
use fencepost_testkit::wait;
use reqwest::StatusCode;

use super::fleet::{Fleet, request};
use super::load::Load;

#[tokio::test]
async fn a_database_that_crashes_under_load_loses_and_doubles_nothing() -> Result<()> {
    let server = Cluster::start(Options::default()).await?;
    let database = server.create_database().await?;
    let fleet = Fleet::new(database.url())?;
    let nodes = fleet.three().await?;
    nodes[0].post(&request(1, Some("first"))).await?;
    let urls = [0, 1, 2].map(|n| nodes[n].url.as_str());
    let load = Load::start(&fleet, &urls, 8);
    for _ in 0..3 {
        load.goes_on(50).await?;
        server.restart_immediate().await?;
    }
    load.goes_on(50).await?;
    server.stop(Stop::Immediate).await?;
    wait::until("the nodes say that they are not ready", || async {
        let answer = nodes[1].get("/readyz").await?;
        Ok((answer.status == StatusCode::SERVICE_UNAVAILABLE).then_some(()))
    })
    .await?;
    assert_eq!(nodes[1].get("/livez").await?.status, StatusCode::OK);
    let refused = nodes[1].post(&request(2, None)).await?;
    assert_eq!(refused.body["code"], "store_unavailable", "{refused:?}");
    server.start_again().await?;
    wait::until("the nodes are ready again", || async {
        let answer = nodes[1].get("/readyz").await?;
        Ok((answer.status == StatusCode::OK).then_some(()))
    })
    .await?;
    load.goes_on(50).await?;
    let seen = load.stop().await?;
    assert_eq!(seen.changed, [""; 0]);
    let acked = seen.acked.len() + 1;
    fleet.all_allocated(1, acked).await?;
    assert_eq!(
        fleet.number("SELECT count(*) FROM managed_tx").await?,
        i64::try_from(acked)?
    );
    Ok(())
}
