//! The way of a node to its store: late, cut, and silent as the seed has it. A write leaves the node as a
//! message of its own, so it can be carried out when its node is long dead.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{
    Acquired, Act, Acts, AskedRemedy, Audit, Backlog, Beat, Bid, Claimed, ClaimedRemedies,
    CursorMove, CursorMoved, Decided, Decision, Enqueued, Feed, Held, Holder, Import, Imported,
    Key, LaneBatch, LaneCreated, LaneMoved, LaneMoves, LanePromotion, LaneView, NewRemedy, NewTx,
    Orphan, PageQuery, PauseChange, Paused, PausedLanes, Pulse, Reach, Record, RemedyId, Renewed,
    Retire, Retired, Settle, Settled, Store, StoreError, StoredAttempt, StoredEvent, Vouched,
};
use fencepost_domain::ids::{FeedSeq, Incarnation, Lane, LaneId, LaneSeq, NodeId, Nonce, TxId};
use fencepost_domain::state::Wait;
use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::audit::Auditor;
use crate::gate::Gate;
use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::world::World;

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is answered.
    Answered,
    /// It is not put.
    Away,
    /// It is done, and its answer is lost.
    Unheard,
    /// It is never done, and nobody can know.
    Swallowed,
    /// It is done after its caller has given it up.
    Late,
}

/// A call's way.
#[derive(Debug, Clone, Copy)]
struct Way {
    fate: Fate,
    there: Duration,
    back: Duration,
    /// How long its caller waits where no answer comes.
    patience: Duration,
    /// It is carried out although its node dies.
    survives: bool,
}

/// A node's way to the store.
pub(crate) struct Line {
    world: Arc<World>,
    gate: Arc<Gate>,
    who: String,
    luck: Mutex<Rng>,
    cut: AtomicBool,
    under_way: Arc<AtomicUsize>,
    batches: Arc<AtomicUsize>,
}

/// One write on its way.
struct Flight(Vec<Arc<AtomicUsize>>);

impl Drop for Flight {
    fn drop(&mut self) {
        for counted in &self.0 {
            counted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A write whose node may die: then it goes on, or it does not.
struct Message {
    task: JoinHandle<()>,
    survives: bool,
}

impl Drop for Message {
    fn drop(&mut self) {
        if !self.survives {
            self.task.abort();
        }
    }
}

impl Line {
    pub(crate) fn new(world: &Arc<World>, gate: &Arc<Gate>, who: &str, start: u64) -> Self {
        Self {
            luck: Mutex::new(world.rng(&format!("store {who} {start}"))),
            world: Arc::clone(world),
            gate: Arc::clone(gate),
            who: who.to_owned(),
            cut: AtomicBool::new(false),
            under_way: Arc::default(),
            batches: Arc::default(),
        }
    }

    /// Nothing gets through, or all does again.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }

    /// How many writes are on their way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    /// How many of them are batches of lanes.
    pub(crate) fn batches_under_way(&self) -> usize {
        self.batches.load(Ordering::Relaxed)
    }

    fn way(&self, writes: bool) -> Way {
        let rates = &self.world.profile.rates;
        let lease = u64::try_from(self.world.lease().as_millis()).expect("it is short");
        let mut luck = self.luck.lock().expect("nothing panics while it is held");
        let luck = &mut *luck;
        if self.world.is_healed() {
            return Way {
                fate: Fate::Answered,
                there: luck.millis(0, 1),
                back: Duration::ZERO,
                patience: Duration::ZERO,
                survives: true,
            };
        }
        let is_slow = luck.chance(rates.store_slow);
        let is_away = luck.chance(rates.store_away) || self.cut.load(Ordering::Relaxed);
        let is_lost = luck.chance(rates.store_lost);
        let fate = match luck.below(3) {
            _ if is_away => Fate::Away,
            _ if !is_lost || !writes => Fate::Answered,
            0 => Fate::Unheard,
            1 => Fate::Swallowed,
            _ => Fate::Late,
        };
        let longest = if is_slow { lease * 3 / 2 } else { 3 };
        let (there, back) = (luck.millis(0, longest), luck.millis(0, longest / 2));
        let patience = luck.millis(5, 400);
        let late = luck.millis(0, lease * 2);
        Way {
            there: if fate == Fate::Late {
                patience + late
            } else {
                there
            },
            fate,
            back,
            patience,
            survives: luck.chance(500),
        }
    }

    /// The call leaves the node.
    async fn leave(&self, op: &'static str, writes: bool) -> Result<Way, StoreError> {
        self.gate.pass().await;
        let way = self.way(writes);
        if way.fate == Fate::Away {
            self.world
                .trace
                .murmur(&self.who, format_args!("{op} is not put"));
            sleep(way.back).await;
            self.gate.pass().await;
            return Err(StoreError::Unavailable("cut".into()));
        }
        Ok(way)
    }

    fn flight(&self, op: &str) -> Flight {
        let mut counted = vec![Arc::clone(&self.under_way)];
        if ["create", "promote", "apply", "complete"].contains(&op) {
            counted.push(Arc::clone(&self.batches));
        }
        for each in &counted {
            each.fetch_add(1, Ordering::Relaxed);
        }
        Flight(counted)
    }

    /// The caller waits for the answer to a write.
    async fn wait<T>(
        &self,
        op: &'static str,
        way: Way,
        task: JoinHandle<()>,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let survives = way.survives || way.fate == Fate::Late;
        let mut message = Message { task, survives };
        let told = match way.fate {
            Fate::Answered | Fate::Away => answer.await.ok(),
            Fate::Unheard | Fate::Swallowed | Fate::Late => None,
        };
        if let Some(told) = told {
            sleep(way.back).await;
            self.gate.pass().await;
            return told;
        }
        sleep(way.patience).await;
        self.gate.pass().await;
        if way.fate == Fate::Unheard {
            self.world.saw(Rare::LostReply);
        }
        // It goes on without its caller.
        message.survives = true;
        self.world.trace.note(
            &self.who,
            format_args!("{op} has no answer: {:?}", way.fate),
        );
        Err(StoreError::OutcomeUnknown("no answer".into()))
    }
}

/// The way of a message to the store. Without a delay others still get their turn, as the seed has it.
async fn travel(there: Duration) {
    if there.is_zero() {
        tokio::task::yield_now().await;
    } else {
        sleep(there).await;
    }
}

macro_rules! lent {
    (ref $name:ident) => {
        &$name
    };
    (val $name:ident) => {
        $name
    };
}

macro_rules! line {
    (
        reads { $(fn $read:ident($($rname:ident: $rkind:ty),*) -> $found:ty;)* }
        writes { $(fn $write:ident($($how:tt $name:ident: $kind:ty),*) -> $answer:ty;)* }
    ) => {
        #[async_trait]
        impl Store for Line {
            /// Nothing is asked of a store that was never failed over.
            async fn vouch(&self, _: &Holder) -> Result<Vouched, StoreError> {
                Ok(Vouched::default())
            }

            $(async fn $read(&self, $($rname: $rkind),*) -> Result<$found, StoreError> {
                let op = stringify!($read);
                let way = self.leave(op, false).await?;
                travel(way.there).await;
                let found = self.world.store.$read($($rname),*).await;
                self.world.trace.murmur(&self.who, op);
                Auditor::new(&self.world, &self.who).sound(op, &found);
                sleep(way.back).await;
                self.gate.pass().await;
                found
            })*

            $(async fn $write(&self, $($name: $kind),*) -> Result<$answer, StoreError> {
                let op = stringify!($write);
                let way = self.leave(op, true).await?;
                $(let $name = $name.to_owned();)*
                let (reply, answer) = oneshot::channel();
                let (world, who) = (Arc::clone(&self.world), self.who.clone());
                let (flight, gate) = (self.flight(op), Arc::clone(&self.gate));
                let task = tokio::spawn(async move {
                    travel(way.there).await;
                    if way.fate == Fate::Swallowed {
                        return;
                    }
                    let answer = world.store.$write($(lent!($how $name)),*).await;
                    let auditor = Auditor::new(&world, &who);
                    auditor.sound(op, &answer);
                    auditor.late(way.fate == Fate::Late, gate.is_dead());
                    if let Ok(answer) = &answer {
                        auditor.$write($(&$name,)* answer).await;
                    }
                    drop(flight);
                    let _ = reply.send(answer);
                });
                self.wait(op, way, task, answer).await
            })*
        }
    };
}

line! {
    reads {
        fn ping() -> Pulse;
        fn now() -> Timestamp;
        fn orphans(after: Option<LaneId>, limit: usize) -> Vec<Orphan>;
        fn unwatched(within: Duration, after: Option<LaneId>, limit: usize) -> Vec<Orphan>;
        fn lane(lane: Lane) -> Option<LaneView>;
        fn lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneView>;
        fn backlog(after: Option<TxId>, limit: usize) -> Vec<Backlog>;
        fn paused_lanes() -> Vec<PausedLanes>;
        fn gaps(lane: LaneId, from: Nonce, limit: usize) -> Vec<Nonce>;
        fn queued(lane: LaneId, limit: usize) -> Vec<Record>;
        fn queued_lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneId>;
        fn remedy_lanes(after: Option<LaneId>, limit: usize) -> Vec<LaneId>;
        fn acts(of: Acts, before: Option<RemedyId>, limit: usize) -> Vec<Act>;
        fn find(key: &Key) -> Option<Record>;
        fn find_many(ids: &[TxId]) -> Vec<Record>;
        fn page(query: &PageQuery) -> Vec<Record>;
        fn unfinished(lane: LaneId, after: Option<Nonce>, limit: usize) -> Vec<Record>;
        fn history(tx: TxId, after: LaneSeq, limit: usize) -> Vec<StoredEvent>;
        fn listing(txs: &[TxId]) -> Vec<StoredEvent>;
        fn attempts(txs: &[TxId]) -> Vec<StoredAttempt>;
        fn completions(after: FeedSeq, limit: usize) -> Feed;
    }
    writes {
        fn join(ref node: &NodeId, ref url: &str) -> Incarnation;
        fn beat(ref holder: &Holder, ref chains: &[Reach]) -> Beat;
        fn open_lanes(ref lanes: &[Lane]) -> Vec<LaneId>;
        fn acquire(ref holder: &Holder, ref url: &str, ref bids: &[Bid]) -> Vec<Acquired>;
        fn renew(ref holder: &Holder, ref held: &[Held]) -> Vec<Renewed>;
        fn release(ref holder: &Holder, ref held: &[Held]) -> Vec<LaneId>;
        fn pause(val lane: LaneId, val change: PauseChange, ref audit: &Audit) -> Paused;
        fn move_cursor(val lane: LaneId, ref to: &CursorMove, ref audit: &Audit) -> CursorMoved;
        fn import(val lane: LaneId, ref import: &Import, ref audit: &Audit) -> Imported;
        fn create(ref holder: &Holder, ref batches: &[LaneBatch]) -> Vec<LaneCreated>;
        fn enqueue(ref txs: &[(LaneId, NewTx)], val wait: Wait, val queue_max: usize) -> Vec<Enqueued>;
        fn promote(ref holder: &Holder, ref promotions: &[LanePromotion]) -> Vec<LaneCreated>;
        fn apply(ref holder: &Holder, ref batches: &[LaneMoves]) -> Vec<LaneMoved>;
        fn complete(ref holder: &Holder, ref batches: &[LaneMoves]) -> Vec<LaneMoved>;
        fn claim_due(ref holder: &Holder, ref held: &[Held], val next_in_ms: u64, val limit: usize) -> Claimed;
        fn ask_remedy(ref remedy: &NewRemedy) -> AskedRemedy;
        fn claim_remedies(ref holder: &Holder, ref held: &[Held], val limit: usize) -> ClaimedRemedies;
        fn decide_remedy(ref holder: &Holder, val held: Held, ref decided: &Decided) -> Decision;
        fn record_refusal(ref audit: &Audit, ref answer: &str) -> ();
        fn settle(ref call: &Settle) -> Settled;
        fn retire(ref retire: &Retire) -> Retired;
    }
}
