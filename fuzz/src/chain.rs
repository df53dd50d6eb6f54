//! A chain of which only the counts are known: enough for operators and holders to be heard, and
//! nothing that moves by itself between two inputs.

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

/// Every account has sent nothing, and all endpoints agree about it.
pub struct Counting;

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

    async fn count(&self, _: Lane, _: CountMode) -> Result<ChainCount, ChainUnavailable> {
        Ok(ChainCount {
            highest: Nonce::new(0).expect("zero is a nonce"),
            unanimous: true,
        })
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
        assert!(raws.is_empty(), "nobody here can sign, yet bytes are sent");
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
