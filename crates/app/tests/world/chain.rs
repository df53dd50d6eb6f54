//! A chain that says how far accounts are, as it is told to, and nothing else.

use std::sync::Mutex;

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

#[derive(Default)]
pub(crate) struct Told {
    pub(crate) count: Mutex<Option<ChainCount>>,
    /// What is said of the pools, where that is something else.
    pub(crate) pending: Mutex<Option<ChainCount>>,
    pub(crate) asked: Mutex<u32>,
}

impl Told {
    pub(crate) fn say(&self, highest: u64, unanimous: bool) {
        *self.count.lock().unwrap() = counted(highest, unanimous);
    }
}

/// A count that all endpoints give, or that the others do not: they say 0.
pub(crate) fn counted(highest: u64, unanimous: bool) -> Option<ChainCount> {
    let highest = Nonce::new(highest).unwrap();
    let lowest = if unanimous { highest } else { Nonce::ZERO };
    Some(ChainCount { lowest, highest })
}

fn silent<T>() -> Result<T, ChainUnavailable> {
    Err(ChainUnavailable("nobody answers".into()))
}

#[async_trait]
impl Chain for Told {
    fn health(&self) -> Vec<ChainHealth> {
        vec![]
    }

    fn is_usable(&self, _: ChainId) -> bool {
        false
    }

    async fn count(&self, _: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable> {
        *self.asked.lock().unwrap() += 1;
        let pending = *self.pending.lock().unwrap();
        if let Some(pending) = pending.filter(|_| mode == CountMode::Pending) {
            return Ok(pending);
        }
        let said = *self.count.lock().unwrap();
        said.map_or_else(silent, Ok)
    }

    async fn consumer(&self, _: Lane, _: Nonce) -> Result<Option<Consumer>, ChainUnavailable> {
        Ok(None)
    }

    async fn is_of(&self, _: Lane, _: Nonce, _: B256) -> Result<Option<bool>, ChainUnavailable> {
        silent()
    }

    async fn balance(&self, _: Lane) -> Result<U256, ChainUnavailable> {
        Ok(U256::ZERO)
    }

    async fn quote(&self, _: ChainId) -> Result<Quote, ChainUnavailable> {
        silent()
    }

    async fn estimate(&self, _: Lane, _: &Payload) -> Result<Estimate, ChainUnavailable> {
        silent()
    }

    async fn send(&self, _: ChainId, raws: &[Bytes]) -> Vec<Reply> {
        raws.iter().map(|_| Reply::together([])).collect()
    }

    async fn tip(&self, _: ChainId) -> Result<Tip, ChainUnavailable> {
        silent()
    }

    async fn blocks(
        &self,
        _: ChainId,
        _: Source,
        _: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, ChainUnavailable> {
        silent()
    }

    async fn receipts_in(
        &self,
        _: ChainId,
        _: Source,
        _: Block,
        _: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        silent()
    }

    async fn receipts(
        &self,
        _: ChainId,
        _: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        silent()
    }

    async fn witnesses(
        &self,
        _: ChainId,
        _: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, ChainUnavailable> {
        silent()
    }
}
