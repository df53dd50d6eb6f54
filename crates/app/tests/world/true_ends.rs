//! An end that is told is the chain's: never before it is final, never of our own bytes, and corrected when
//! the chain takes it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    BlockBody, Chain, ChainHealth, ChainUnavailable, Consumer, CountMode, Estimate, Receipt,
    Record, Source, Tip,
};
use fencepost_devchain::{EndpointId, Fate, Fault, FaultKind, Plan};
use fencepost_domain::fee::Quote;
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::{ChainId, Height, Lane, Nonce};
use fencepost_domain::nonce::ChainCount;
use fencepost_domain::rejection::Reply;
use fencepost_domain::request::Payload;
use fencepost_domain::state::Block;
use fencepost_domain::{B256, Bytes, U256};

use super::care::capped;
use super::faults::{self as store, fail, watch};
use super::life::{Life, seconds};
use super::loans::{lend, submitted};
use super::nodes::{Member, accepted};

/// A head that is too cheap, and whose nonce a foreign transaction takes.
async fn with_taken_head(life: &Life, node: &Member) -> Record {
    let lane = life.lanes[0];
    life.cost(100);
    let head = accepted(node.ask(lane, capped(10)).await);
    life.until_state(&head, "TRACKING/BROADCAST").await;
    life.foreign(lane, 0).await;
    life.until_state(&head, "STUCK/NONCE_TAKEN").await;
    head
}

/// The newest blocks go away, with all that was in them.
fn drop_blocks(life: &Life, depth: u64) {
    let plan = Plan {
        depth,
        extra: 1,
        txs: Fate::Drop,
        ..Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
}

/// Goal: a lent nonce is USED only when the block is final. The endpoint has no old states and cannot tell in
/// which block that was; the block is replaced, and much later the holder's transaction is in another.
#[tokio::test(start_paused = true)]
async fn a_lent_nonce_of_which_nobody_can_tell_where_it_was_used_is_used_when_that_is_final() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = Rule::Confirmations(60);
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    life.fault(0, Fault::new(FaultKind::Pruned(0)));
    let lent = lend(&node, lane, 3_000).await;
    let behind = accepted(node.ask(lane, capped(100)).await);
    seconds(10).await;
    life.rest();
    life.foreign(lane, 0).await;
    life.mine(1);
    seconds(60).await;
    assert_eq!(life.words(&lent).await, "RESERVED", "nothing is on top");
    drop_blocks(&life, 1);
    life.work();
    seconds(120).await;
    assert_eq!(life.words(&lent).await, "RESERVED", "that block is gone");
    life.foreign(lane, 0).await;
    seconds(50).await;
    assert_eq!(life.words(&lent).await, "RESERVED", "not final yet");
    seconds(30).await;
    life.until_state(&lent, "USED").await;
    life.until_state(&behind, "CONFIRMED").await;
    life.check_feed().await;
}

/// Goal: a taken nonce ends under any leader. The next one comes when the foreign block is too old to be
/// searched for.
#[tokio::test(start_paused = true)]
async fn a_leader_that_comes_late_still_ends_a_taken_nonce() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = Rule::Confirmations(200);
    let node = life.world.node("a").await;
    let head = with_taken_head(&life, &node).await;
    life.fault(0, Fault::new(FaultKind::Pruned(128)));
    seconds(140).await;
    assert_eq!(life.words(&head).await, "STUCK/NONCE_TAKEN");
    node.kill();
    let _next = life.world.node("b").await;
    seconds(60).await;
    life.until_state(&head, "FAILED_FINAL/NONCE_TAKEN").await;
    life.check_feed().await;
}

/// Goal: the same where one question to the chain is not answered, whichever it is: also the one between the
/// new leader's two sights of what has used the nonce.
#[tokio::test(start_paused = true)]
async fn a_leader_that_gets_no_answer_between_two_looks_still_ends_a_taken_nonce() {
    for unanswered in 3..=6 {
        let mut life = Life::careful(1).await;
        life.world.main.finality = Rule::Confirmations(60);
        let poor = Arc::new(Poor::new(&life, Lacks::Answer(unanswered)));
        life.world.chain = Some(Arc::clone(&poor) as Arc<dyn Chain>);
        let node = life.world.node("a").await;
        let head = with_taken_head(&life, &node).await;
        assert_eq!(poor.asked.load(Ordering::Relaxed), 2, "two sights");
        node.kill();
        let _next = life.world.node("b").await;
        life.until_state(&head, "FAILED_FINAL/NONCE_TAKEN").await;
        life.check_feed().await;
    }
}

/// Goal: what the store did not take when it was told is told again, and then its end.
#[tokio::test(start_paused = true)]
async fn a_taken_nonce_ends_although_the_store_was_away_when_it_was_told() {
    for times in [1, 10, 60] {
        let mut life = Life::careful(1).await;
        let script = watch(&mut life.world);
        let node = life.world.node("a").await;
        let lane = life.lanes[0];
        life.cost(100);
        let head = accepted(node.ask(lane, capped(10)).await);
        life.until_state(&head, "TRACKING/BROADCAST").await;
        fail(&script, &vec![("complete", store::Fault::Away); times]);
        life.foreign(lane, 0).await;
        life.until_state(&head, "FAILED_FINAL/NONCE_TAKEN").await;
        let feed = life.feed().await;
        let told = feed
            .iter()
            .map(|row| (row.state.word(), row.sub_state.as_deref()));
        let told: Vec<_> = told.collect();
        let last = [
            ("STUCK", Some("NONCE_TAKEN")),
            ("FAILED_FINAL", Some("NONCE_TAKEN")),
        ];
        assert!(told.ends_with(&last), "{times}: {told:?}");
        life.check_feed().await;
    }
}

/// Goal: no end is wrong in silence. The foreign block is replaced after it was final, and our bytes, which
/// some pool still has, are executed.
#[tokio::test(start_paused = true)]
async fn a_reorg_below_a_final_taken_nonce_is_told_and_so_is_the_payload() {
    let mut life = Life::careful(1).await;
    let below = life.chain.lock().head().header.number;
    let node = life.world.node("a").await;
    let head = with_taken_head(&life, &node).await;
    life.until_state(&head, "FAILED_FINAL/NONCE_TAKEN").await;
    life.rest();
    life.cost(1);
    let height = life.chain.lock().head().header.number;
    drop_blocks(&life, height - below);
    let raw = life.attempts(&head).await[0].attempt.raw.clone();
    life.chain.lock().send(EndpointId(0), raw).unwrap();
    life.work();
    life.until_state(&head, "CONFIRMED").await;
    let feed = life.feed().await;
    let told = feed
        .iter()
        .map(|row| (row.state.word(), row.sub_state.as_deref()));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ("STUCK", Some("NONCE_TAKEN")),
            ("FAILED_FINAL", Some("NONCE_TAKEN")),
            ("STUCK", Some("REORG_AFTER_FINAL")),
            ("CONFIRMED", None),
        ]
    );
    life.check().await;
    life.check_feed().await;
}

/// Goal: what waits for finality hides nothing. Behind a taken nonce the first that can still move is judged.
#[tokio::test(start_paused = true)]
async fn behind_a_taken_nonce_the_real_head_is_told_as_stuck() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = Rule::Confirmations(200);
    let node = life.world.node("a").await;
    let head = with_taken_head(&life, &node).await;
    let behind = accepted(node.ask(life.lanes[0], capped(10)).await);
    life.until_state(&behind, "STUCK/NO_RECEIPT").await;
    assert_eq!(life.words(&head).await, "STUCK/NONCE_TAKEN");
}

/// Goal: our own bytes never take our own nonce. They are in a block; their receipts are late, and the
/// endpoint tells only in which block the nonce was used.
#[tokio::test(start_paused = true)]
async fn a_nonce_that_was_used_by_nobody_knows_whom_is_not_taken() {
    let mut life = Life::careful(1).await;
    life.world.chain = Some(Arc::new(Poor::new(&life, Lacks::Names)));
    for method in ["eth_getTransactionReceipt", "eth_getBlockReceipts"] {
        life.fault(0, Fault::new(FaultKind::Null).on(method));
    }
    let node = life.world.node("a").await;
    let row = accepted(node.ask(life.lanes[0], capped(100)).await);
    seconds(300).await;
    assert_eq!(life.executed(life.lanes[0]), 1);
    let feed = life.feed().await;
    let taken = Some("NONCE_TAKEN");
    assert!(feed.iter().all(|told| told.sub_state.as_deref() != taken));
    life.heal();
    life.until_state(&row, "CONFIRMED").await;
    life.check().await;
    life.check_feed().await;
}

/// The block becomes final while the chain is still asked whose the hash is that a holder has named.
#[tokio::test(start_paused = true)]
async fn a_lent_nonce_ends_although_its_block_was_final_before_anybody_could_say_whose_it_is() {
    let mut life = Life::careful(1).await;
    life.world.chain = Some(Arc::new(Poor::new(&life, Lacks::Names)));
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 60).await;
    let hash = life.foreign(lane, 0).await;
    submitted(&node, lane, &lent, hash).await;
    life.until_state(&lent, "USED").await;
    life.check_feed().await;
}

/// The chain has said whose a hash is, and that is stored with its block. A new leader does not ask again when it
/// is in another one: nobody might answer.
#[tokio::test(start_paused = true)]
async fn whose_a_hash_is_need_not_be_asked_again_after_a_change_of_leaders() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = Rule::Confirmations(20);
    life.world.chain = Some(Arc::new(Poor::new(&life, Lacks::SecondWord)));
    let node = life.world.node("a").await;
    let lane = life.lanes[0];
    let lent = lend(&node, lane, 600).await;
    let hash = life.foreign(lane, 0).await;
    submitted(&node, lane, &lent, hash).await;
    life.until_state(&lent, "SUBMITTED/MINED").await;
    node.kill();
    let plan = Plan {
        depth: 1,
        extra: 1,
        txs: Fate::Later(1),
        ..Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
    let _next = life.world.node("b").await;
    life.until_state(&lent, "USED").await;
    life.check_feed().await;
}

/// That it is stuck was stored, and the answer is late. Meanwhile it is mined and its lane read anew: what was answered
/// is older than what is known by then.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_its_lane_was_read_anew_changes_nothing() {
    let mut life = Life::careful(1).await;
    life.world.main.finality = Rule::Confirmations(60);
    let script = watch(&mut life.world);
    let node = life.world.node("a").await;
    life.cost(100);
    let head = accepted(node.ask(life.lanes[0], capped(10)).await);
    life.until_state(&head, "TRACKING/BROADCAST").await;
    fail(&script, &[("complete", store::Fault::Late)]);
    life.until_state(&head, "STUCK/NO_RECEIPT").await;
    life.cost(1);
    life.until_state(&head, "TRACKING/MINED").await;
    life.until_state(&head, "CONFIRMED").await;
    life.check().await;
    life.check_feed().await;
}

/// A receipt of a block that a reorg has replaced comes when the transaction has ended in another block. That one
/// endpoint once had it elsewhere undoes nothing: whoever follows the chain knows which block stands.
#[tokio::test(start_paused = true)]
async fn an_old_receipt_that_comes_late_undoes_no_end() {
    let mut life = Life::careful(1).await;
    life.world.settings.stale_receipt_timeout = Duration::from_secs(1);
    let poor = Arc::new(Poor::new(&life, Lacks::Sight));
    life.world.chain = Some(Arc::clone(&poor) as Arc<dyn Chain>);
    life.rest();
    life.mine(1);
    let node = life.world.node("a").await;
    let rows = life.send(&node, life.lanes[0], 1).await;
    life.until_state(&rows[0], "TRACKING/BROADCAST").await;
    life.mine(1);
    // Whoever waits for it has asked, and whoever compares the lane with the chain.
    let world = &life.world;
    let asked = async || poor.asked.load(Ordering::Relaxed) == 2;
    world.until("both have asked", asked).await;
    let plan = Plan {
        depth: 1,
        extra: 1,
        txs: Fate::Keep,
        ..Plan::default()
    };
    life.chain.lock().reorg(&plan).unwrap();
    life.work();
    life.until_state(&rows[0], "CONFIRMED").await;
    seconds(120).await;
    let feed = life.feed().await;
    let told: Vec<_> = feed.iter().map(|row| row.state.word()).collect();
    assert_eq!(told, ["CONFIRMED"]);
    life.check().await;
    life.check_feed().await;
}

/// What an endpoint does not say.
enum Lacks {
    /// Where the head is, until it has told of two receipts; and those come a minute late.
    Sight,
    /// Who has used a nonce, only where. And it is slow to say whose a hash is.
    Names,
    /// Who has used a nonce when that is asked for the so-manieth time.
    Answer(u32),
    /// Whose a hash is, but for the first time.
    SecondWord,
}

struct Poor {
    real: Arc<dyn Chain>,
    lacks: Lacks,
    asked: AtomicU32,
}

impl Poor {
    fn new(life: &Life, lacks: Lacks) -> Self {
        Self {
            real: life.world.chain.clone().unwrap(),
            lacks,
            asked: AtomicU32::new(0),
        }
    }
}

#[async_trait]
impl Chain for Poor {
    fn health(&self) -> Vec<ChainHealth> {
        self.real.health()
    }

    fn is_usable(&self, chain: ChainId) -> bool {
        self.real.is_usable(chain)
    }

    async fn count(&self, lane: Lane, mode: CountMode) -> Result<ChainCount, ChainUnavailable> {
        self.real.count(lane, mode).await
    }

    async fn consumer(
        &self,
        lane: Lane,
        nonce: Nonce,
    ) -> Result<Option<Consumer>, ChainUnavailable> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let by = self.real.consumer(lane, nonce).await?;
        match self.lacks {
            Lacks::Names => Ok(by.map(|by| Consumer { hash: None, ..by })),
            Lacks::Answer(number) if number == asked => Err(ChainUnavailable("no answer".into())),
            Lacks::Answer(_) | Lacks::SecondWord | Lacks::Sight => Ok(by),
        }
    }

    async fn is_of(
        &self,
        lane: Lane,
        nonce: Nonce,
        hash: B256,
    ) -> Result<Option<bool>, ChainUnavailable> {
        match self.lacks {
            Lacks::Names => seconds(30).await,
            Lacks::SecondWord if self.asked.fetch_add(1, Ordering::Relaxed) > 0 => {
                return Err(ChainUnavailable("no answer".into()));
            }
            Lacks::Answer(_) | Lacks::SecondWord | Lacks::Sight => {}
        }
        self.real.is_of(lane, nonce, hash).await
    }

    async fn balance(&self, lane: Lane) -> Result<U256, ChainUnavailable> {
        self.real.balance(lane).await
    }

    async fn quote(&self, chain: ChainId) -> Result<Quote, ChainUnavailable> {
        self.real.quote(chain).await
    }

    async fn estimate(&self, lane: Lane, payload: &Payload) -> Result<Estimate, ChainUnavailable> {
        self.real.estimate(lane, payload).await
    }

    async fn send(&self, chain: ChainId, raws: &[Bytes]) -> Vec<Reply> {
        self.real.send(chain, raws).await
    }

    async fn tip(&self, chain: ChainId) -> Result<Tip, ChainUnavailable> {
        if matches!(self.lacks, Lacks::Sight) && self.asked.load(Ordering::Relaxed) < 2 {
            return Err(ChainUnavailable("no answer".into()));
        }
        self.real.tip(chain).await
    }

    async fn blocks(
        &self,
        chain: ChainId,
        source: Source,
        heights: &[Height],
    ) -> Result<Vec<Option<BlockBody>>, ChainUnavailable> {
        self.real.blocks(chain, source, heights).await
    }

    async fn receipts_in(
        &self,
        chain: ChainId,
        source: Source,
        block: Block,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        self.real.receipts_in(chain, source, block, hashes).await
    }

    async fn receipts(
        &self,
        chain: ChainId,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, ChainUnavailable> {
        let found = self.real.receipts(chain, hashes).await?;
        let late = found.iter().any(Option::is_some) && matches!(self.lacks, Lacks::Sight);
        if late && self.asked.fetch_add(1, Ordering::Relaxed) < 2 {
            seconds(60).await;
        }
        Ok(found)
    }

    async fn witnesses(
        &self,
        chain: ChainId,
        heights: &[Height],
    ) -> Result<Vec<Vec<Option<B256>>>, ChainUnavailable> {
        self.real.witnesses(chain, heights).await
    }
}
