//! All configured chains behind the application's port.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    BlockBody, Chain, ChainHealth, ChainUnavailable, Consumer, CountMode, Estimate, Receipt,
    Source, Tip,
};
use fencepost_domain::fee::Quote;
use fencepost_domain::ids::{ChainId, Height, Lane, Nonce};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::rejection::{Rejection, Reply};
use fencepost_domain::request::Payload;
use fencepost_domain::state::Block;
use fencepost_domain::{B256, Bytes, U256};
use tokio::sync::Notify;

use crate::endpoints::{Endpoints, Unasked};
use crate::heads::{Heads, WsEndpoint};
use crate::http::{BadUrl, HttpTransport};
use crate::meters::Meters;
use crate::transport::Transport;

/// Long enough for a slow provider, short enough that a hanging one costs a pass and not a lease.
const DEADLINE: Duration = Duration::from_secs(5);
/// Most providers take batches of this size; geth takes 1,000.
const BATCH_MAX: usize = 100;
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A chain and its endpoints.
#[derive(Clone)]
pub struct ChainConfig {
    /// Its EIP-155 id. Endpoints that tell another are not used.
    pub id: ChainId,
    /// Its configured name, for logs and metrics.
    pub name: String,
    /// In the order in which they are preferred for reads.
    pub endpoints: Vec<Arc<dyn Transport>>,
    /// Every question ends within this time.
    pub deadline: Duration,
    /// Calls in one JSON-RPC batch, at most.
    pub batch_max: usize,
    /// How often the chain is read; fees are asked for no more often.
    pub poll_interval: Duration,
    /// Where new blocks are announced, if anywhere.
    pub heads: Option<WsEndpoint>,
}

/// An endpoint's text is not usable. The text is not repeated: it may hold a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {position} {why}")]
pub struct BadEndpoint {
    /// Its place in the list, from 0.
    pub position: usize,
    /// What is wrong.
    pub why: BadUrl,
}

impl ChainConfig {
    /// With defaults for all but these.
    #[must_use]
    pub fn new(id: ChainId, name: impl Into<String>, endpoints: Vec<Arc<dyn Transport>>) -> Self {
        Self {
            id,
            name: name.into(),
            endpoints,
            deadline: DEADLINE,
            batch_max: BATCH_MAX,
            poll_interval: POLL_INTERVAL,
            heads: None,
        }
    }

    /// Endpoints that are reached over HTTP.
    pub fn http<S: AsRef<str>>(
        id: ChainId,
        name: impl Into<String>,
        urls: &[S],
    ) -> Result<Self, BadEndpoint> {
        let mut endpoints: Vec<Arc<dyn Transport>> = Vec::new();
        for (position, url) in urls.iter().enumerate() {
            let transport = HttpTransport::new(url.as_ref());
            let bad = |why| BadEndpoint { position, why };
            endpoints.push(Arc::new(transport.map_err(bad)?));
        }
        Ok(Self::new(id, name, endpoints))
    }
}

/// The chains, over JSON-RPC.
pub struct Chains {
    chains: BTreeMap<ChainId, Arc<Endpoints>>,
    /// Of the chains whose new blocks are announced.
    heads: BTreeMap<ChainId, Heads>,
}

impl Chains {
    /// Nothing is asked yet. Of two chains with one id the last counts.
    #[must_use]
    pub fn new(configs: Vec<ChainConfig>, meters: &Meters) -> Self {
        let mut made = Self {
            chains: BTreeMap::new(),
            heads: BTreeMap::new(),
        };
        for mut config in configs {
            let (id, heads) = (config.id, config.heads.take());
            let endpoints = Endpoints::new(config, meters);
            if let Some(endpoint) = heads {
                let (name, meters) = (Arc::clone(&endpoints.name), endpoints.meters.clone());
                made.heads.insert(id, Heads::new(endpoint, name, meters));
            }
            made.chains.insert(id, Arc::new(endpoints));
        }
        made
    }

    fn of(&self, chain: ChainId) -> Result<&Arc<Endpoints>, Unasked> {
        self.chains.get(&chain).ok_or(Unasked::UnknownChain(chain))
    }
}

#[async_trait]
impl Chain for Chains {
    fn health(&self) -> Vec<ChainHealth> {
        self.chains.values().map(|chain| chain.health()).collect()
    }

    fn is_usable(&self, chain: ChainId) -> bool {
        self.of(chain).is_ok_and(|endpoints| endpoints.is_usable())
    }

    async fn count(&self, lane: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable> {
        Ok(self.of(lane.chain)?.count(lane.signer, mode).await?)
    }

    async fn consumer(
        &self,
        lane: Lane,
        nonce: Nonce,
    ) -> Result<Option<Consumer>, ChainUnavailable> {
        Ok(self.of(lane.chain)?.consumer(lane.signer, nonce).await?)
    }

    async fn is_of(
        &self,
        lane: Lane,
        nonce: Nonce,
        hash: B256,
    ) -> Result<Option<bool>, ChainUnavailable> {
        let chain = self.of(lane.chain)?;
        Ok(chain.is_of(lane.signer, nonce, hash).await?)
    }

    async fn balance(&self, lane: Lane) -> Result<U256, ChainUnavailable> {
        Ok(self.of(lane.chain)?.balance(lane.signer).await?)
    }

    async fn quote(&self, chain: ChainId) -> Result<Quote, ChainUnavailable> {
        Ok(self.of(chain)?.quote().await?)
    }

    async fn estimate(&self, lane: Lane, payload: &Payload) -> Result<Estimate, ChainUnavailable> {
        Ok(self.of(lane.chain)?.estimate(lane.signer, payload).await?)
    }

    async fn send(&self, chain: ChainId, raws: &[Bytes]) -> Vec<Reply> {
        match self.of(chain) {
            Ok(endpoints) => endpoints.send(raws).await,
            Err(why) => {
                let reply = Reply::rejected(Rejection::Unrecognised, why.to_string());
                vec![reply; raws.len()]
            }
        }
    }

    async fn tip(&self, chain: ChainId) -> Result<Tip, ChainUnavailable> {
        Ok(self.of(chain)?.tip().await?)
    }

    async fn blocks(
        &self,
        chain: ChainId,
        source: Source,
        heights: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, ChainUnavailable> {
        Ok(self.of(chain)?.blocks(source, heights).await?)
    }

    async fn receipts_in(
        &self,
        chain: ChainId,
        source: Source,
        block: Block,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        let endpoints = self.of(chain)?;
        Ok(endpoints.receipts_in(source, block, hashes).await?)
    }

    async fn receipts(
        &self,
        chain: ChainId,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        Ok(self.of(chain)?.receipts(hashes).await?)
    }

    async fn witnesses(
        &self,
        chain: ChainId,
        heights: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, ChainUnavailable> {
        Ok(self.of(chain)?.witnesses(heights).await?)
    }

    async fn watch_heads(&self, chain: ChainId, announced: &Notify) {
        if let Some(heads) = self.heads.get(&chain) {
            heads.watch(announced).await;
        }
    }
}
