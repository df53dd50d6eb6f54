//! Goal: a block that no endpoint can give delays only what is in it. Method: the blocks on top of one transaction
//! cannot be read, while those on top of a later one can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use fencepost_app::ports::{
    BlockBody, Chain, ChainHealth, ChainUnavailable, Consumer, CountMode, Estimate, Receipt,
    Source, Tip,
};
use fencepost_domain::fee::Quote;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, Height, Lane, Nonce};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::rejection::Reply;
use fencepost_domain::request::Payload;
use fencepost_domain::state::Block;
use fencepost_domain::{B256, Bytes, U256};

use super::life::{Life, seconds};

/// A chain of which one block cannot be read. Everything else is as it is.
struct Unreadable {
    sound: Arc<dyn Chain>,
    /// 0 where all can be read.
    height: AtomicU64,
}

#[async_trait]
impl Chain for Unreadable {
    fn health(&self) -> Vec<ChainHealth> {
        self.sound.health()
    }

    fn is_usable(&self, chain: ChainId) -> bool {
        self.sound.is_usable(chain)
    }

    async fn count(&self, lane: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable> {
        self.sound.count(lane, mode).await
    }

    async fn consumer(&self, of: Lane, at: Nonce) -> Result<Option<Consumer>, ChainUnavailable> {
        self.sound.consumer(of, at).await
    }

    async fn is_of(
        &self,
        of: Lane,
        at: Nonce,
        hash: B256,
    ) -> Result<Option<bool>, ChainUnavailable> {
        self.sound.is_of(of, at, hash).await
    }

    async fn balance(&self, lane: Lane) -> Result<U256, ChainUnavailable> {
        self.sound.balance(lane).await
    }

    async fn quote(&self, chain: ChainId) -> Result<Quote, ChainUnavailable> {
        self.sound.quote(chain).await
    }

    async fn estimate(&self, lane: Lane, what: &Payload) -> Result<Estimate, ChainUnavailable> {
        self.sound.estimate(lane, what).await
    }

    async fn send(&self, chain: ChainId, raws: &[Bytes]) -> Vec<Reply> {
        self.sound.send(chain, raws).await
    }

    async fn tip(&self, chain: ChainId) -> Result<Tip, ChainUnavailable> {
        self.sound.tip(chain).await
    }

    async fn blocks(
        &self,
        chain: ChainId,
        source: Source,
        heights: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, ChainUnavailable> {
        let bad = self.height.load(Ordering::Relaxed);
        if bad > 0 && heights.iter().any(|height| height.get() == bad) {
            return Err(ChainUnavailable("this block is damaged".into()));
        }
        self.sound.blocks(chain, source, heights).await
    }

    async fn receipts_in(
        &self,
        chain: ChainId,
        source: Source,
        block: Block,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        self.sound.receipts_in(chain, source, block, hashes).await
    }

    async fn receipts(
        &self,
        chain: ChainId,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        self.sound.receipts(chain, hashes).await
    }

    async fn witnesses(
        &self,
        chain: ChainId,
        heights: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, ChainUnavailable> {
        self.sound.witnesses(chain, heights).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_block_that_cannot_be_read_delays_only_what_is_in_it() {
    let mut life = Life::new(1, 3).await;
    life.world.settings.publish_confirmations = true;
    life.world.main.finality = Rule::Confirmations(10);
    let node = life.world.node("a").await;
    life.rest();
    life.mine(20);
    seconds(2).await;
    let mut rows = Vec::new();
    for lane in life.lanes.clone() {
        let row = life.send(&node, lane, 1).await.remove(0);
        life.until_state(&row, "TRACKING/BROADCAST").await;
        life.mine(1);
        life.until_state(&row, "TRACKING/MINED").await;
        rows.push(row);
    }
    node.kill();
    life.mine(1_500);
    let first = life.world.record(rows[0].tx).await.state.inclusion();
    let unreadable = Arc::new(Unreadable {
        sound: life.world.chain.clone().unwrap(),
        height: AtomicU64::new(first.unwrap().block.number.get()),
    });
    life.world.chain = Some(Arc::clone(&unreadable) as Arc<dyn Chain>);
    let _next = life.world.node("b").await;
    life.until_state(&rows[1], "CONFIRMED").await;
    life.until_state(&rows[2], "CONFIRMED").await;
    assert_eq!(life.words(&rows[0]).await, "TRACKING/MINED");
    unreadable.height.store(0, Ordering::Relaxed);
    life.until_state(&rows[0], "CONFIRMED").await;
}
