//! What is asked of a chain. Whatever is asked, the answer is what endpoints *say*: decisions are made
//! from several answers, never from one missing or negative one.

use async_trait::async_trait;
use fencepost_domain::fee::Quote;
use fencepost_domain::ids::{ChainId, Height, Lane, Nonce};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::rejection::Reply;
use fencepost_domain::request::Payload;
use fencepost_domain::state::{Block, Execution};
use fencepost_domain::{B256, Bytes, U256};
use tokio::sync::Notify;

/// Which count is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountMode {
    /// With what waits in the pools.
    Pending,
    /// What is in blocks.
    Latest,
}

/// No endpoint of the chain answered.
#[derive(Debug, thiserror::Error)]
#[error("no endpoint of the chain answers")]
pub struct ChainUnavailable(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Which endpoint gave an answer. Answers of one pass are asked of one, so that they fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source(pub usize);

/// A block and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockBody {
    /// Which.
    pub block: Block,
    /// The hash of the one below it.
    pub parent: B256,
    /// The hashes of its transactions, in order.
    pub txs: Vec<B256>,
}

/// What one endpoint holds for the newest of the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tip {
    /// Who said so.
    pub source: Source,
    /// The newest block.
    pub head: BlockBody,
    /// The `safe` block's height, where the chain has it.
    pub safe: Option<Height>,
    /// The `finalized` block's height, where the chain has it.
    pub finalized: Option<Height>,
}

/// A receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Of which transaction.
    pub hash: B256,
    /// The block it names.
    pub block: Block,
    /// How the execution went.
    pub execution: Execution,
    /// Why it was reverted, where a node can tell.
    pub reason: Option<String>,
    /// All of it, as the node gave it.
    pub json: String,
}

/// What an estimate of gas came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Estimate {
    /// It needs so much.
    Gas(u64),
    /// It would be reverted now, for this reason if a node can tell.
    Reverted(Option<String>),
    /// The signer cannot pay for it.
    NoFunds(String),
    /// The node cannot say for another reason.
    Refused(String),
}

/// Who has used a nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Consumer {
    /// The block in which the account's count passed the nonce.
    pub block: Block,
    /// The transaction, where the endpoint can tell.
    pub hash: Option<B256>,
}

/// How the endpoints of a chain are, by what was last seen of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainHealth {
    /// The chain's configured name.
    pub name: String,
    /// In configured order.
    pub endpoints: Vec<EndpointHealth>,
}

/// How an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointHealth {
    /// Its place in the configuration, from 0.
    pub position: usize,
    /// `ok`, `lagging`, `unreachable`, `wrong_chain` or `untried`.
    pub state: &'static str,
    /// The newest block that it told.
    pub head: Option<u64>,
    /// What it says it runs.
    pub client: Option<String>,
}

/// The chains. Every call but `watch_heads` ends within a deadline of its own: an endpoint that hangs is not reachable.
#[async_trait]
pub trait Chain: Send + Sync {
    /// How all endpoints are. Asks nobody.
    fn health(&self) -> Vec<ChainHealth>;

    /// Whether some endpoint of this chain can be used now.
    fn is_usable(&self, chain: ChainId) -> bool;

    /// How many transactions of the lane's signer the chain has counted, as its reachable endpoints
    /// say.
    async fn count(&self, lane: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable>;

    /// In which of the newest blocks a nonce of the lane's signer was used, and by what, as one endpoint
    /// says; none where it was not used, was used too long ago, or nobody can tell.
    async fn consumer(
        &self,
        lane: Lane,
        nonce: Nonce,
    ) -> Result<Option<Consumer>, ChainUnavailable>;

    /// Whether a transaction is the lane's signer's with this nonce, as one endpoint says; none where it does
    /// not know the transaction.
    async fn is_of(
        &self,
        lane: Lane,
        nonce: Nonce,
        hash: B256,
    ) -> Result<Option<bool>, ChainUnavailable>;

    /// How much the lane's signer has, in wei, as one endpoint says.
    async fn balance(&self, lane: Lane) -> Result<U256, ChainUnavailable>;

    /// What the chain asks for now. May be some blocks old.
    async fn quote(&self, chain: ChainId) -> Result<Quote, ChainUnavailable>;

    /// How much gas a payload needs, on top of what is pending.
    async fn estimate(&self, lane: Lane, payload: &Payload) -> Result<Estimate, ChainUnavailable>;

    /// Sends bytes to every endpoint, in this order; one answer for each, all endpoints' together.
    /// Returns as soon as nothing better can come: an endpoint that hangs delays nothing that another
    /// has accepted.
    async fn send(&self, chain: ChainId, raws: &[Bytes]) -> Vec<Reply>;

    /// The newest of the chain, as the endpoint says that is read from now.
    async fn tip(&self, chain: ChainId) -> Result<Tip, ChainUnavailable>;

    /// The blocks at these heights, as one endpoint says; one answer for each, none where it has none.
    async fn blocks(
        &self,
        chain: ChainId,
        source: Source,
        heights: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, ChainUnavailable>;

    /// Receipts of transactions that are in one block, as one endpoint says; one answer for each,
    /// none where it has none or one of another block, or where its time was over.
    async fn receipts_in(
        &self,
        chain: ChainId,
        source: Source,
        block: Block,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable>;

    /// Receipts wherever they are; one answer for each, none where the asked endpoint has none. That
    /// is no proof of anything.
    async fn receipts(
        &self,
        chain: ChainId,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable>;

    /// What every reachable endpoint holds at these heights: for each height one entry for each
    /// endpoint that answered, none where that one has no such block.
    async fn witnesses(
        &self,
        chain: ChainId,
        heights: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, ChainUnavailable>;

    /// Notifies `announced` whenever an endpoint announces a new block, until this future is dropped. Returns where the
    /// chain has no endpoint that announces blocks. An announcement is only a reason to read the chain now: its content is
    /// never used, and the chain must be polled all the same, because none may come for hours.
    async fn watch_heads(&self, chain: ChainId, announced: &Notify) {
        let _ = (chain, announced);
    }
}
