//! Following a chain: one follower for each chain and node. It keeps the newest blocks linked by
//! their parent hashes, matches what is in them against the attempts of our lanes, and tells workers
//! what was mined, what was replaced and what is final. Its cost grows with blocks, not with what is
//! pending. It decides nothing: workers write, behind the fence.

pub(crate) mod board;
mod decide;
mod cover;
pub(crate) mod pace;
mod walk;
pub(crate) mod window;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use fencepost_domain::B256;
use fencepost_domain::confirmation::Stretch;
use fencepost_domain::finality::{Heads, Rule};
use fencepost_domain::ids::{Height, LaneId, TxId};
use fencepost_domain::state::Block;

use crate::lane::report::Report;
use crate::node::Node;
use crate::ports::{BlockBody, Chain, ChainUnavailable, Receipt, Source, Tip};
use crate::settings::ChainSettings;
use board::{Board, Hit, Whose};
use walk::Branch;
use window::Window;

/// The least number of blocks kept: reorgs of final blocks are looked for that deep.
const KEEP_MIN: u64 = 256;
/// How many blocks a new window grows downwards in one pass.
const DEEPENED_MAX: usize = 64;
/// How many receipts that an endpoint owes us are remembered. What is beyond is found when it is
/// asked for directly.
const OWED_MAX: usize = 10_000;

/// What was seen of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It is in a block.
    Mined(Box<Receipt>),
    /// The block it was in was replaced, and it is in none of those that came instead.
    Reorged(Block),
    /// The block it is in is final, and the chain that makes it so, where confirmations are published: its list must be
    /// whole before it ends, whatever became of what was told before.
    Final(Block, Option<Arc<Stretch>>),
    /// The chain with the block it is in and what is on top.
    Covered(Arc<Stretch>),
}

/// Who follows one chain.
pub struct Follower {
    node: Arc<Node>,
    chain: Arc<dyn Chain>,
    settings: ChainSettings,
    board: Arc<Board>,
    window: Window,
    /// Hits whose receipts the endpoint did not give.
    owed: Vec<(Block, B256, Whose)>,
    /// Finality is decided from this height on first: the blocks on top of those below could not be read.
    decide_from: Height,
    /// What this pass has seen, for each lane in order.
    sights: BTreeMap<LaneId, Vec<(Whose, Sight)>>,
}

/// One pass found the chain changing under it; the next one will do better.
const TORN: &str = "the blocks of one pass do not fit together";

impl Follower {
    pub(crate) fn new(
        node: Arc<Node>,
        chain: Arc<dyn Chain>,
        settings: ChainSettings,
        board: Arc<Board>,
    ) -> Self {
        Self {
            node,
            chain,
            settings,
            board,
            window: Window::default(),
            owed: vec![],
            decide_from: Height::default(),
            sights: BTreeMap::new(),
        }
    }

    /// The chain it follows.
    pub(crate) fn chain(&self) -> Arc<dyn Chain> {
        Arc::clone(&self.chain)
    }

    /// How often it looks.
    #[must_use]
    pub const fn settings(&self) -> &ChainSettings {
        &self.settings
    }

    fn keep(&self) -> u64 {
        let deep = match self.settings.finality {
            Rule::Confirmations(n) => n.saturating_mul(4),
            Rule::Safe | Rule::Finalized => 0,
        };
        deep.max(KEEP_MIN)
    }

    /// One look at the chain. What was seen is told even if the look ends early.
    pub async fn pass(&mut self) -> Result<(), ChainUnavailable> {
        let looked = self.look().await;
        for (lane, sights) in std::mem::take(&mut self.sights) {
            // A worker that does not keep up reads for itself what it has missed.
            if self
                .node
                .report_now(lane, Report::Seen { lane, sights })
                .is_err()
            {
                self.board.miss(lane);
            }
        }
        for lane in self.board.missed() {
            if self.node.report_now(lane, Report::LookAgain(lane)).is_err() {
                self.board.miss(lane);
            }
        }
        looked
    }

    async fn look(&mut self) -> Result<(), ChainUnavailable> {
        let tip = self.chain.tip(self.settings.id).await?;
        let (source, safe, finalized) = (tip.source, tip.safe, tip.finalized);
        self.advance(tip).await?;
        self.deepen(source).await?;
        self.compare();
        self.cover();
        // Blocks that are linked, not a height that somebody names.
        let Some(head) = self.window.head() else {
            return Ok(());
        };
        let below = head.number.get().saturating_sub(self.keep());
        self.board.settle(Height::new(below).unwrap_or_default());
        let within = |height: &Height| *height <= head.number;
        let heads = Heads {
            latest: head.number,
            safe: safe.filter(within),
            finalized: finalized.filter(within),
        };
        self.decide(source, heads).await
    }

    /// Takes new blocks in.
    async fn advance(&mut self, tip: Tip) -> Result<(), ChainUnavailable> {
        let source = tip.source;
        let branch = match self.branch(tip).await? {
            Branch::Nothing => vec![],
            Branch::Linked(branch) => branch,
            Branch::Apart(head) => {
                self.apart(&head);
                return Ok(());
            }
        };
        let sights = self.read(source, &branch).await?;
        let keep = usize::try_from(self.keep()).unwrap_or(usize::MAX);
        let before = self.window.head();
        // Only now, with every receipt in hand: a pass that failed above is simply made again.
        if let Some(first) = self.window.take(&branch, keep) {
            self.replaced(&branch, before, &sights);
            let head = self.window.head().map_or(first, |head| head.number);
            let below = head.get().saturating_sub(self.keep());
            self.board.prune(Height::new(below).unwrap_or(first));
        }
        for (whose, receipt) in sights {
            let hit = Hit {
                block: receipt.block,
                whose,
                told: false,
            };
            self.board.put(hit);
            self.tell(whose, Sight::Mined(Box::new(receipt)));
        }
        Ok(())
    }

    /// A window that has just begun grows downwards too: what we know to be in those blocks may have
    /// been replaced while we were not looking.
    async fn deepen(&mut self, source: Source) -> Result<(), ChainUnavailable> {
        let keep = usize::try_from(self.keep()).unwrap_or(usize::MAX);
        let heights = self.window.shallow(keep, DEEPENED_MAX);
        if heights.is_empty() {
            return Ok(());
        }
        let chain = self.settings.id;
        for body in self.chain.blocks(chain, source, &heights).await? {
            let Some(body) = body else {
                return Ok(());
            };
            if !self.window.deepen(&body) {
                return Err(ChainUnavailable(TORN.into()));
            }
        }
        Ok(())
    }

    /// What is said to be in a block that is not the one at its height: workers put such onto the board
    /// too, from the store and from direct answers, whenever they read a lane.
    fn compare(&mut self) {
        let Some(base) = self.window.base() else {
            return;
        };
        for hit in self.board.hits_from(base) {
            let standing = self.window.at(hit.block.number);
            if standing.is_some_and(|hash| hash != hit.block.hash) {
                self.board.take(&hit);
                self.tell(hit.whose, Sight::Reorged(hit.block));
            }
        }
    }

    /// The chain has gone on too far to walk: from here on we follow it again, and what happened
    /// meanwhile is asked for transaction by transaction.
    fn apart(&mut self, head: &BlockBody) {
        if self.window.head().is_some() {
            let chain = self.settings.name.as_str();
            tracing::warn!(chain, head = %head.block.number, "too many blocks were missed to walk them; receipts are asked for directly");
        }
        self.window.reset(head);
        self.owed.clear();
        self.board.miss_all();
    }

    /// The receipts of ours in new blocks, and those that were owed.
    async fn read(
        &mut self,
        source: Source,
        branch: &[BlockBody],
    ) -> Result<Vec<(Whose, Receipt)>, ChainUnavailable> {
        let first = branch.first().map(|body| body.block.number);
        self.board.keep_unseen(&mut self.owed);
        let mut asked: BTreeMap<Height, (Block, Vec<(B256, Whose)>)> = BTreeMap::new();
        let owed = self.owed.iter().filter(|(block, ..)| {
            let standing = self.window.at(block.number) == Some(block.hash);
            standing && first.is_none_or(|first| block.number < first)
        });
        for (block, hash, whose) in owed {
            let entry = asked.entry(block.number).or_insert((*block, vec![]));
            entry.1.push((*hash, *whose));
        }
        for body in branch {
            let found = self.board.find(&body.txs);
            if !found.is_empty() {
                asked.insert(body.block.number, (body.block, found));
            }
        }
        let mut receipts = Vec::new();
        let mut owed = Vec::new();
        for (block, found) in asked.into_values() {
            let hashes: Vec<B256> = found.iter().map(|(hash, _)| *hash).collect();
            let chain = self.settings.id;
            let answers = self
                .chain
                .receipts_in(chain, source, block, &hashes)
                .await
                .inspect_err(|_| self.node.meters.receipts_failed(hashes.len()))?;
            for ((hash, whose), answer) in found.into_iter().zip(answers) {
                match answer {
                    Some(receipt) if receipt.block == block && receipt.hash == hash => {
                        receipts.push((whose, receipt));
                    }
                    Some(_) | None => owed.push((block, hash, whose)),
                }
            }
        }
        self.node.meters.receipts(receipts.len(), owed.len());
        owed.truncate(OWED_MAX);
        self.owed = owed;
        Ok(receipts)
    }

    /// What stood in blocks that are no longer there, and did not come back in the new ones.
    fn replaced(
        &mut self,
        branch: &[BlockBody],
        before: Option<Block>,
        sights: &[(Whose, Receipt)],
    ) {
        let back: HashSet<TxId> = sights.iter().map(|(whose, _)| whose.tx).collect();
        let now = self.window.head();
        let Some(first) = branch.first().map(|body| body.block.number) else {
            return;
        };
        // Of a branch that is longer than the window the lowest blocks are not kept, but they stand.
        let walked = |height: Height| {
            let place = usize::try_from(height.get().checked_sub(first.get())?).ok()?;
            Some(branch.get(place)?.block.hash)
        };
        for hit in self.board.hits_from(first) {
            let height = hit.block.number;
            let is_past = |head: Option<Block>| head.is_none_or(|head| height > head.number);
            let standing = walked(height) == Some(hit.block.hash);
            // One that was seen ahead of us is compared when we get there.
            if standing || (is_past(before) && is_past(now)) {
                continue;
            }
            self.board.take(&hit);
            if !back.contains(&hit.whose.tx) {
                self.tell(hit.whose, Sight::Reorged(hit.block));
            }
        }
    }

    fn tell(&mut self, whose: Whose, sight: Sight) {
        let sights = self.sights.entry(whose.lane).or_default();
        sights.push((whose, sight));
    }
}
