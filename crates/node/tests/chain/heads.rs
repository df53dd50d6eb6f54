//! New blocks that anvil announces over WebSocket. Where the chain is polled once an hour, whatever ends within a test was
//! announced; where nobody announces anything, polling does what it always did.

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::{Database, shared};
use fencepost_testkit::proxy::Proxy;
use fencepost_testkit::wait;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::ledger::feed_without_holes;
use super::member::Member;

const CONNECTED: &str = "fencepost_ws_connected{chain=\"main\"} 1";

struct World {
    node: Member,
    signer: Address,
    _fleet: Fleet,
    _database: Database,
}

impl World {
    async fn start(anvil: &Anvil, ws: &str, poll_interval: &str) -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let more = format!(
            "ws = \"{ws}\"\npoll_interval = \"{poll_interval}\"\nfinality.confirmations = 2"
        );
        let fleet = Fleet::new(database.url(), 1)?;
        let fleet = fleet.chain("main", CHAIN_ID, &[anvil.url().to_owned()], &more);
        Ok(Self {
            node: fleet.start("a").await?,
            signer: accounts(1).await?[0],
            _fleet: fleet,
            _database: database,
        })
    }

    /// Sends one transaction, the `count`-th, and waits until it is final.
    async fn confirms(&self, count: usize) -> Result<()> {
        let payee = Address::repeat_byte(0xee).to_string();
        let payload = json!({ "to": payee, "value": "1" });
        let request = json!({ "signer": self.signer.to_string(), "payload": payload });
        let (status, tx) = self.node.post(&request).await?;
        ensure!(status.is_success(), "{tx}");
        let told = feed_without_holes(&self.node, count).await?;
        ensure!(told[count - 1]["state"] == "CONFIRMED", "{told:?}");
        Ok(())
    }

    /// Waits until the node is subscribed, or is not.
    async fn is_connected(&self, expected: bool) -> Result<()> {
        wait::until("its connection changes", || async {
            let connected = self.node.metrics().await?.contains(CONNECTED);
            Ok((connected == expected).then_some(()))
        })
        .await
    }

    /// What the log says of announcements, at this level.
    fn logged(&self, level: &str) -> Vec<Value> {
        let mut entries = self.node.logged(level);
        entries.retain(|entry| entry["message"].to_string().contains("over WebSocket"));
        entries
    }
}

/// Goal: an announced block is looked at at once. Method: the next poll is an hour away. The connection is cut on the way, and made
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn announced_blocks_end_transactions_between_two_polls() -> Result<()> {
    let anvil = Anvil::start(&["--block-time", "1"]).await?;
    let address = anvil.url().strip_prefix("http://").context("its address")?;
    let proxy = Proxy::start(address.parse()?).await?;
    let ws = format!("ws://{}", proxy.addr());
    let mut world = World::start(&anvil, &ws, "1h").await?;
    world.is_connected(true).await?;
    world.confirms(1).await?;
    world.confirms(2).await?;
    proxy.refuse();
    proxy.cut();
    world.is_connected(false).await?;
    proxy.accept();
    world.is_connected(true).await?;
    world.confirms(3).await?;
    ensure!(!world.logged("WARN").is_empty(), "{:#?}", world.node.log());
    world.node.stop()?;
    #[cfg(debug_assertions)]
    ensure!(
        world.node.ended().await?.success(),
        "{:?}",
        world.node.log()
    );
    Ok(())
}

/// Goal: an endpoint that is not there changes nothing but one line of the log.
#[tokio::test(flavor = "multi_thread")]
async fn without_announcements_the_chain_is_polled() -> Result<()> {
    let anvil = Anvil::start(&["--block-time", "1"]).await?;
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let world = World::start(&anvil, &format!("ws://{closed}"), "100ms").await?;
    world.confirms(1).await?;
    world.confirms(2).await?;
    world.is_connected(false).await?;
    let warned = world.logged("WARN");
    ensure!(warned.len() == 1, "{warned:#?}");
    ensure!(warned[0]["chain"] == "main", "{warned:#?}");
    ensure!(world.logged("INFO").is_empty(), "{:#?}", world.node.log());
    Ok(())
}
