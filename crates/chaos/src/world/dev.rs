//! The chain whose endpoints lie: a devchain in this process, with two endpoints that share a pool.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use fencepost_devchain::{
    Config, Devchain, EndpointConfig, EndpointId, Fault, Plan, Server, ServerConfig, Shared,
};
use fencepost_domain::{Address, Bytes, U256};
use fencepost_testkit::proxy::Proxy;

use super::lane::Chain;
use super::rpc::Rpc;

pub(crate) const BLOCK: Duration = Duration::from_millis(700);
/// Those that nodes know.
pub(crate) const ENDPOINTS: usize = 2;

/// Below the highest fee that nodes sign, above what they sign while nothing happens.
const SURGE_WEI: u64 = 60_000_000_000;

pub(crate) struct DevChain {
    shared: Shared,
    server: Server,
    /// By node, then by endpoint.
    ways: Vec<[Arc<Proxy>; ENDPOINTS]>,
}

impl DevChain {
    pub(crate) async fn start(accounts: &[Address], nodes: usize) -> Result<Self> {
        let ether = U256::from(10).pow(U256::from(18));
        let rich = |account: &Address| (*account, U256::from(10_000) * ether);
        let shared = Shared::new(Devchain::new(Config {
            chain_id: Chain::Dev.id(),
            accounts: accounts.iter().map(rich).collect(),
            endpoints: ["first", "second", "witness"]
                .map(EndpointConfig::new)
                .into(),
            ..Config::default()
        }));
        let config = ServerConfig {
            block_interval: Some(BLOCK),
            ..ServerConfig::default()
        };
        let server = Server::start(shared.clone(), config).await?;
        let mut ways = Vec::new();
        for _ in 0..nodes {
            let first = Proxy::start_forgetful(server.address()).await?;
            let second = Proxy::start_forgetful(server.address()).await?;
            ways.push([Arc::new(first), Arc::new(second)]);
        }
        Ok(Self {
            shared,
            server,
            ways,
        })
    }

    pub(crate) fn way(&self, node: usize, endpoint: usize) -> &Arc<Proxy> {
        &self.ways[node][endpoint]
    }

    /// Where a node finds its endpoints.
    pub(crate) fn urls(&self, node: usize) -> Vec<String> {
        let url = |n: usize| format!("http://{}/{n}", self.ways[node][n].addr());
        (0..ENDPOINTS).map(url).collect()
    }

    /// An endpoint that no node knows and that never lies.
    pub(crate) fn rpc(&self) -> Result<Rpc> {
        Rpc::new(&self.server.url(EndpointId(ENDPOINTS)))
    }

    pub(crate) fn send(&self, raw: Bytes) -> Result<()> {
        let sent = self.shared.lock().send(EndpointId(0), raw);
        sent.map(drop)
            .map_err(|error| anyhow!("the dev chain did not take it: {error:?}"))
    }

    pub(crate) fn reorg(&self, plan: &Plan) -> Result<()> {
        Ok(self.shared.lock().reorg(plan).map(drop)?)
    }

    /// Forgets all that waits to be mined, as a node does that is restarted.
    pub(crate) fn forget_pool(&self) -> Result<()> {
        Ok(self.shared.lock().drop_all(EndpointId(0)).map(drop)?)
    }

    /// A block costs so much for a while that what was signed before is in none.
    pub(crate) async fn surge(&self, lasting: Duration) -> Result<()> {
        self.shared.lock().set_base_fee(Some(SURGE_WEI));
        tokio::time::sleep(lasting).await;
        self.shared.lock().set_base_fee(None);
        Ok(())
    }

    /// Lies for a while.
    pub(crate) async fn lie(
        &self,
        endpoint: usize,
        faults: Vec<Fault>,
        lasting: Duration,
    ) -> Result<()> {
        let endpoint = EndpointId(endpoint);
        let mut ids = Vec::new();
        for fault in faults {
            ids.push(self.shared.lock().add_fault(endpoint, fault)?);
        }
        tokio::time::sleep(lasting).await;
        for id in ids {
            self.shared.lock().clear_faults(endpoint, Some(id))?;
        }
        Ok(())
    }

    /// All of its endpoints say the truth from now on.
    pub(crate) fn be_honest(&self) -> Result<()> {
        self.shared.lock().set_base_fee(None);
        for endpoint in 0..ENDPOINTS {
            self.shared
                .lock()
                .clear_faults(EndpointId(endpoint), None)?;
        }
        Ok(())
    }
}
