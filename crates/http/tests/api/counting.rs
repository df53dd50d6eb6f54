//! A chain that only counts, as a test tells it to.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fencepost_app::ports::{
    BlockBody, Chain, ChainHealth, ChainUnavailable, Consumer, CountMode, Estimate, Receipt,
    Source, Tip,
};
use fencepost_domain::fee::Quote;
use fencepost_domain::ids::{ChainId, Height, Lane, Nonce};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::rejection::Reply;
use fencepost_domain::request::Payload;
use fencepost_domain::state::Block;
use fencepost_domain::{B256, Bytes, U256};

/// What is counted of every signer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Says {
    /// In blocks, and with the pools; all endpoints agree about it.
    Counts(u64, u64),
    /// The endpoints do not agree.
    Quarrels,
    /// Nobody answers.
    Nothing,
    /// It never answers.
    Silence,
}

/// The chain.
pub(crate) struct Counting(Mutex<Says>);

impl Counting {
    pub(crate) fn that(says: Says) -> Arc<Self> {
        Arc::new(Self(Mutex::new(says)))
    }

    pub(crate) fn now(&self, says: Says) {
        *self.0.lock().unwrap() = says;
    }
}

fn away<T>() -> Result<T, ChainUnavailable> {
    Err(ChainUnavailable("it only counts".into()))
}

#[async_trait]
impl Chain for Counting {
    fn health(&self) -> Vec<ChainHealth> {
        vec![]
    }

    fn is_usable(&self, _: ChainId) -> bool {
        true
    }

    async fn count(&self, _: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable> {
        let says = *self.0.lock().unwrap();
        let count = |lowest, highest| ChainCount {
            lowest: Nonce::new(lowest).unwrap(),
            highest: Nonce::new(highest).unwrap(),
        };
        match (says, mode) {
            (Says::Counts(latest, _), CountMode::Latest) => Ok(count(latest, latest)),
            (Says::Counts(_, pending), CountMode::Pending) => Ok(count(pending, pending)),
            (Says::Quarrels, _) => Ok(count(5, 7)),
            (Says::Nothing, _) => away(),
            (Says::Silence, _) => std::future::pending().await,
        }
    }

    async fn consumer(&self, _: Lane, _: Nonce) -> Result<Option<Consumer>, ChainUnavailable> {
        away()
    }

    async fn is_of(&self, _: Lane, _: Nonce, _: B256) -> Result<Option<bool>, ChainUnavailable> {
        away()
    }

    async fn balance(&self, _: Lane) -> Result<U256, ChainUnavailable> {
        away()
    }

    async fn quote(&self, _: ChainId) -> Result<Quote, ChainUnavailable> {
        away()
    }

    async fn estimate(&self, _: Lane, _: &Payload) -> Result<Estimate, ChainUnavailable> {
        away()
    }

    async fn send(&self, _: ChainId, raws: &[Bytes]) -> Vec<Reply> {
        assert!(raws.is_empty(), "nobody here has anything to send");
        vec![]
    }

    async fn tip(&self, _: ChainId) -> Result<Tip, ChainUnavailable> {
        away()
    }

    async fn blocks(
        &self,
        _: ChainId,
        _: Source,
        _: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, ChainUnavailable> {
        away()
    }

    async fn receipts_in(
        &self,
        _: ChainId,
        _: Source,
        _: Block,
        _: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        away()
    }

    async fn receipts(
        &self,
        _: ChainId,
        _: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        away()
    }

    async fn witnesses(
        &self,
        _: ChainId,
        _: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, ChainUnavailable> {
        away()
    }
}
