//! The ports with a trap around them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, BlockBody, Chain, ChainHealth,
    ChainUnavailable, Claimed, ClaimedRemedies, Consumer, CountMode, CursorMove, CursorMoved,
    Decided, Decision, Enqueued, Estimate, Feed, Held, Holder, Import, Imported, Key, LaneBatch,
    LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView, NewRemedy, NewTx, Orphan,
    PageQuery, PauseChange, Paused, PausedLanes, Pulse, Reach, Receipt, Record, RemedyId, Renewed,
    Retire, Retired, Settle, Settled, Signed, Signer, Source, Store, StoreError, StoredAttempt,
    StoredEvent, Tip, Unsignable, Vouched,
};
use fencepost_domain::attempt::Unsigned;
use fencepost_domain::fee::Quote;
use fencepost_domain::ids::{
    ChainId, FeedSeq, Height, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId,
};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::rejection::Reply;
use fencepost_domain::request::Payload;
use fencepost_domain::state::{Block, Wait};
use fencepost_domain::{Address, B256, Bytes, U256};
use jiff::Timestamp;
use tokio::sync::Notify;

use super::{Effect, Side, Trap};

/// A port, and the trap around it.
pub(super) struct Trapped<P>(pub(super) P, pub(super) Arc<Trap>);

impl<P> Trapped<P> {
    async fn around<A>(&self, effects: &[Effect], call: impl Future<Output = A>) -> A {
        for effect in effects {
            self.1.reach(Side::Before, *effect);
        }
        let answer = call.await;
        for effect in effects {
            self.1.reach(Side::After, *effect);
        }
        answer
    }
}

/// What moves do, as far as there are traps for it.
fn effects(batches: &[LaneMoves]) -> Vec<Effect> {
    let moves = || batches.iter().flat_map(|batch| &batch.moves);
    let mut effects = Vec::new();
    if moves().any(|step| step.attempt.is_some()) {
        effects.push(Effect::Store);
    }
    if moves().any(|step| step.sent.is_some()) {
        effects.push(Effect::Outcome);
    }
    if moves().any(|step| step.receipt.is_some()) {
        effects.push(Effect::Receipt);
    }
    effects
}

#[async_trait]
impl Signer for Trapped<Arc<dyn Signer>> {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        self.around(&[Effect::Sign], self.0.sign(account, tx)).await
    }
}

#[async_trait]
impl Chain for Trapped<Arc<dyn Chain>> {
    async fn send(&self, chain: ChainId, raws: &[Bytes]) -> Vec<Reply> {
        self.around(&[Effect::Send], self.0.send(chain, raws)).await
    }

    fn health(&self) -> Vec<ChainHealth> {
        self.0.health()
    }

    fn is_usable(&self, chain: ChainId) -> bool {
        self.0.is_usable(chain)
    }

    async fn count(&self, lane: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable> {
        self.0.count(lane, mode).await
    }

    async fn consumer(
        &self,
        lane: Lane,
        nonce: Nonce,
    ) -> Result<Option<Consumer>, ChainUnavailable> {
        self.0.consumer(lane, nonce).await
    }

    async fn is_of(
        &self,
        lane: Lane,
        nonce: Nonce,
        hash: B256,
    ) -> Result<Option<bool>, ChainUnavailable> {
        self.0.is_of(lane, nonce, hash).await
    }

    async fn balance(&self, lane: Lane) -> Result<U256, ChainUnavailable> {
        self.0.balance(lane).await
    }

    async fn quote(&self, chain: ChainId) -> Result<Quote, ChainUnavailable> {
        self.0.quote(chain).await
    }

    async fn estimate(&self, lane: Lane, payload: &Payload) -> Result<Estimate, ChainUnavailable> {
        self.0.estimate(lane, payload).await
    }

    async fn tip(&self, chain: ChainId) -> Result<Tip, ChainUnavailable> {
        self.0.tip(chain).await
    }

    async fn watch_heads(&self, chain: ChainId, announced: &Notify) {
        self.0.watch_heads(chain, announced).await;
    }

    async fn blocks(
        &self,
        chain: ChainId,
        source: Source,
        heights: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, ChainUnavailable> {
        self.0.blocks(chain, source, heights).await
    }

    async fn receipts_in(
        &self,
        chain: ChainId,
        source: Source,
        block: Block,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        self.0.receipts_in(chain, source, block, hashes).await
    }

    async fn receipts(
        &self,
        chain: ChainId,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        self.0.receipts(chain, hashes).await
    }

    async fn witnesses(
        &self,
        chain: ChainId,
        heights: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, ChainUnavailable> {
        self.0.witnesses(chain, heights).await
    }
}

/// Passes everything through, past the effects that are named.
macro_rules! trapped {
    ($(fn $op:ident($($name:ident: $kind:ty),*) -> $answer:ty $(as $effects:expr)?;)*) => {
        #[async_trait]
        impl Store for Trapped<Arc<dyn Store>> {
            $(async fn $op(&self, $($name: $kind),*) -> Result<$answer, StoreError> {
                let effects: Vec<Effect> = <[Vec<Effect>]>::concat(&[$($effects)?]);
                self.around(&effects, self.0.$op($($name),*)).await
            })*
        }
    };
}

trapped! {
    fn create(holder: &Holder, batches: &[LaneBatch]) -> Vec<LaneCreated> as vec![Effect::Allocate];
    fn promote(holder: &Holder, promotions: &[LanePromotion]) -> Vec<LaneCreated> as vec![Effect::Allocate];
    fn apply(holder: &Holder, batches: &[LaneMoves]) -> Vec<LaneMoved> as effects(batches);
    fn complete(holder: &Holder, batches: &[LaneMoves]) -> Vec<LaneMoved> as vec![Effect::Final];
    fn ping() -> Pulse;
    fn now() -> Timestamp;
    fn join(node: &NodeId, url: &str) -> Incarnation;
    fn beat(holder: &Holder, chains: &[Reach]) -> Beat;
    fn open_lanes(lanes: &[Lane]) -> Vec<LaneId>;
    fn acquire(holder: &Holder, url: &str, bids: &[Bid]) -> Vec<Acquired>;
    fn renew(holder: &Holder, held: &[Held]) -> Vec<Renewed>;
    fn release(holder: &Holder, held: &[Held]) -> Vec<LaneId>;
    fn orphans(after: Option<LaneId>, limit: usize) -> Vec<Orphan>;
    fn unwatched(within: Duration, after: Option<LaneId>, limit: usize) -> Vec<Orphan>;
    fn lane(lane: Lane) -> Option<LaneView>;
    fn lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneView>;
    fn backlog(after: Option<TxId>, limit: usize) -> Vec<Backlog>;
    fn paused_lanes() -> Vec<PausedLanes>;
    fn pause(lane: LaneId, change: PauseChange, audit: &Audit) -> Paused;
    fn vouch(holder: &Holder) -> Vouched;
    fn move_cursor(lane: LaneId, to: &CursorMove, audit: &Audit) -> CursorMoved;
    fn import(lane: LaneId, import: &Import, audit: &Audit) -> Imported;
    fn gaps(lane: LaneId, from: Nonce, limit: usize) -> Vec<Nonce>;
    fn enqueue(txs: &[(LaneId, NewTx)], wait: Wait, queue_max: usize) -> Vec<Enqueued>;
    fn queued(lane: LaneId, limit: usize) -> Vec<Record>;
    fn queued_lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneId>;
    fn claim_due(holder: &Holder, held: &[Held], next_in_ms: u64, limit: usize) -> Claimed;
    fn ask_remedy(remedy: &NewRemedy) -> AskedRemedy;
    fn claim_remedies(holder: &Holder, held: &[Held], limit: usize) -> ClaimedRemedies;
    fn decide_remedy(holder: &Holder, held: Held, decided: &Decided) -> Decision as vec![Effect::Decide];
    fn remedy_lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneId>;
    fn acts(of: Acts, before: Option<RemedyId>, limit: usize) -> Vec<Act>;
    fn record_refusal(audit: &Audit, answer: &str) -> ();
    fn settle(call: &Settle) -> Settled;
    fn retire(retire: &Retire) -> Retired;
    fn find(key: &Key) -> Option<Record>;
    fn find_many(ids: &[TxId]) -> Vec<Record>;
    fn page(query: &PageQuery) -> Vec<Record>;
    fn unfinished(lane: LaneId, after: Option<Nonce>, limit: usize) -> Vec<Record>;
    fn history(tx: TxId, after: LaneSeq, limit: usize) -> Vec<StoredEvent>;
    fn listing(txs: &[TxId]) -> Vec<StoredEvent>;
    fn attempts(txs: &[TxId]) -> Vec<StoredAttempt>;
    fn completions(after: FeedSeq, limit: usize) -> Feed;
}
