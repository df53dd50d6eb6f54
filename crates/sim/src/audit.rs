//! Whoever stands at the store and looks at every statement that is carried out, in the moment it is. What
//! it believes is what it reads from the rows, not what callers say.

use fencepost_app::ports::{
    Acquired, AskedRemedy, Audit, Beat, Bid, Body, Claimed, ClaimedRemedies, CursorMove,
    CursorMoved, Decided, Decision, Enqueued, Held, Holder, Import, Imported, LaneBatch,
    LaneCreated, LaneMoved, LaneMoves, LanePromotion, NewRemedy, NewTx, PauseChange, PauseReason,
    Paused, Reach, Renewed, Retire, Retired, Settle, Settled, StoreError, Stored,
};
use fencepost_domain::ids::{Incarnation, Lane, LaneId, NodeId, TxId};
use fencepost_domain::state::Wait;

use crate::sometimes::Rare;
use crate::world::World;

/// Looks at what a node writes.
pub(crate) struct Auditor<'a> {
    world: &'a World,
    who: &'a str,
}

impl<'a> Auditor<'a> {
    pub(crate) const fn new(world: &'a World, who: &'a str) -> Self {
        Self { world, who }
    }

    /// The store itself never fails here: what it says no to is a mistake of ours.
    pub(crate) fn sound<T>(&self, op: &str, answer: &Result<T, StoreError>) {
        if let Err(error) = answer {
            let facts = format!("{} {op}: {error:?}", self.who);
            self.world
                .violate("a statement that the store can take", facts);
        }
    }

    /// A write that nobody waits for any more.
    pub(crate) fn late(&self, is_late: bool, is_dead: bool) {
        if is_late {
            self.world.saw(Rare::LateCommit);
        }
        if is_dead {
            self.world.saw(Rare::PosthumousWrite);
        }
    }

    fn note(&self, what: impl std::fmt::Display) {
        self.world.note(self.who, what);
    }

    fn murmur(&self, what: impl std::fmt::Display) {
        self.world.trace.murmur(self.who, what);
    }

    /// I1: what carries an old token changes nothing.
    async fn fence(&self, held: Held, is_fenced: bool) {
        if is_fenced {
            self.world.saw(Rare::Fenced);
            return;
        }
        let newest = self.world.checker().token(held.lane);
        if held.token < newest {
            let facts = format!("{} wrote {held:?}, the newest is {newest:?}", self.who);
            self.world.violate("I1 one leader", facts);
        }
    }

    pub(crate) async fn join(&self, _: &NodeId, _: &str, _: &Incarnation) {}

    pub(crate) async fn beat(&self, _: &Holder, _: &[Reach], beat: &Beat) {
        let ghost = matches!(beat, Beat::Ghost(_));
        self.murmur(format_args!("beat ghost={ghost}"));
    }

    pub(crate) async fn open_lanes(&self, _: &[Lane], _: &[LaneId]) {}

    pub(crate) async fn acquire(
        &self,
        holder: &Holder,
        _: &str,
        bids: &[Bid],
        answers: &[Acquired],
    ) {
        for (bid, answer) in bids.iter().zip(answers) {
            match answer {
                Acquired::Leading(lead) => {
                    self.note(format_args!("leads lane {} by {}", bid.lane.0, lead.token));
                    self.world.led(bid.lane, holder, lead);
                }
                Acquired::Led(leader) => {
                    let (lane, leader) = (bid.lane.0, leader.node.as_str());
                    self.murmur(format_args!("lane {lane} is {leader}'s"));
                }
                Acquired::Ghost(_) | Acquired::Busy | Acquired::UnknownLane => {
                    self.note(format_args!("bid for lane {}: {answer:?}", bid.lane.0));
                }
            }
        }
    }

    pub(crate) async fn renew(&self, _: &Holder, held: &[Held], answers: &[Renewed]) {
        for (held, answer) in held.iter().zip(answers) {
            self.fence(*held, *answer != Renewed::Kept).await;
            if *answer == Renewed::Kept {
                self.world.kept(held.lane, true);
            }
        }
        self.murmur(format_args!("renew {answers:?}"));
    }

    pub(crate) async fn release(&self, _: &Holder, _: &[Held], released: &[LaneId]) {
        self.note(format_args!("releases {released:?}"));
        for lane in released {
            self.world.kept(*lane, false);
        }
    }

    pub(crate) async fn pause(&self, lane: &LaneId, change: &PauseChange, _: &Audit, now: &Paused) {
        self.note(format_args!("pause of lane {}: {change:?} {now:?}", lane.0));
        match change {
            PauseChange::Pause(PauseReason::CursorJump) => self.world.saw(Rare::CursorJump),
            PauseChange::Pause(_) => self.world.saw(Rare::LanePaused),
            PauseChange::Reconcile { .. } => self.world.checker().follow(*lane),
            PauseChange::Resume => {}
        }
    }

    pub(crate) async fn move_cursor(
        &self,
        lane: &LaneId,
        to: &CursorMove,
        _: &Audit,
        moved: &CursorMoved,
    ) {
        self.note(format_args!("cursor of lane {}: {moved:?}", lane.0));
        match to {
            CursorMove::Raise { held, .. } => {
                self.fence(*held, *moved == CursorMoved::Fenced).await;
                self.world.saw(Rare::CursorRaised);
                self.world.checker().follow(*lane);
            }
            CursorMove::Forget { held, below, .. } => {
                self.fence(*held, *moved == CursorMoved::Fenced).await;
                self.world.checker().forget_free(*lane, *below);
            }
            CursorMove::Set { .. } => {
                if let CursorMoved::Now { from, to } = moved {
                    if to != from {
                        self.world.kept(*lane, false);
                    }
                    if to < from {
                        self.world.saw(Rare::CursorLowered);
                        self.world.checker().lower(*lane, *to);
                    } else if to > from {
                        self.world.checker().follow(*lane);
                    }
                }
            }
        }
    }

    /// Nobody imports here: another service would be another world.
    pub(crate) async fn import(&self, lane: &LaneId, _: &Import, _: &Audit, answer: &Imported) {
        self.note(format_args!("import into lane {}: {answer:?}", lane.0));
    }

    pub(crate) async fn create(&self, _: &Holder, batches: &[LaneBatch], answers: &[LaneCreated]) {
        for (batch, answer) in batches.iter().zip(answers) {
            let fills = |tx: &NewTx| matches!(tx.body, Body::Placeholder(_));
            if !batch.txs.iter().any(fills) {
                self.limited(batch.held, answer);
            }
            let ids: Vec<TxId> = batch.txs.iter().map(|tx| tx.tx).collect();
            self.created("create", batch.held, &ids, answer).await;
        }
    }

    pub(crate) async fn promote(
        &self,
        _: &Holder,
        promotions: &[LanePromotion],
        answers: &[LaneCreated],
    ) {
        for (promotion, answer) in promotions.iter().zip(answers) {
            self.limited(promotion.held, answer);
            self.created("promote", promotion.held, &promotion.txs, answer)
                .await;
        }
    }

    fn limited(&self, held: Held, answer: &LaneCreated) {
        if let LaneCreated::Done { txs, .. } = answer {
            let given = txs.iter().filter(|each| matches!(each, Stored::New { .. }));
            self.world.one_after_the_other(held, given.count());
        }
    }

    async fn created(&self, op: &str, held: Held, ids: &[TxId], answer: &LaneCreated) {
        let lane = held.lane.0;
        match answer {
            LaneCreated::Done {
                txs, next_nonce, ..
            } => {
                let given = txs.iter().filter_map(|stored| match stored {
                    Stored::New { nonce, .. } => Some(nonce.get()),
                    Stored::Known(_) | Stored::Conflict(_) => None,
                });
                let given: Vec<u64> = given.collect();
                // Where all were known nothing was written, and no fence was needed.
                if !given.is_empty() {
                    self.fence(held, false).await;
                    self.world.given(held, &given, *next_nonce);
                }
                self.note(format_args!("{op} lane {lane} {given:?} next {next_nonce}"));
                self.world.look_at(ids).await;
            }
            LaneCreated::Refused(refusal) => {
                self.note(format_args!("{op} lane {lane} {refusal:?}"));
                let fenced = *refusal == fencepost_app::ports::LaneRefusal::Fenced;
                if fenced {
                    self.fence(held, true).await;
                    self.world.saw(Rare::FencedCreate);
                }
            }
        }
    }

    pub(crate) async fn enqueue(
        &self,
        txs: &[(LaneId, NewTx)],
        wait: &Wait,
        _: &usize,
        answers: &[Enqueued],
    ) {
        let ids: Vec<TxId> = txs.iter().map(|(_, tx)| tx.tx).collect();
        for answer in answers {
            if matches!(answer, Enqueued::Queued { .. }) {
                self.world.saw(match wait {
                    Wait::Leader => Rare::Queued,
                    Wait::Window => Rare::WindowFull,
                });
            }
        }
        self.note(format_args!("enqueue {} {wait:?}", txs.len()));
        self.world.look_at(&ids).await;
    }

    pub(crate) async fn apply(&self, _: &Holder, batches: &[LaneMoves], answers: &[LaneMoved]) {
        self.moved("apply", batches, answers).await;
    }

    pub(crate) async fn complete(&self, _: &Holder, batches: &[LaneMoves], answers: &[LaneMoved]) {
        self.moved("complete", batches, answers).await;
        for answer in answers {
            if let LaneMoved::Done(seqs) = answer {
                self.world.numbered(seqs);
            }
        }
    }

    async fn moved(&self, op: &str, batches: &[LaneMoves], answers: &[LaneMoved]) {
        for (batch, answer) in batches.iter().zip(answers) {
            let lane = batch.held.lane.0;
            if let LaneMoved::Done(_) = answer {
                for each in &batch.moves {
                    let (to, sub) = (each.to.name().word(), each.to.sub().unwrap_or("-"));
                    let nonce = each.to.nonce().map(fencepost_domain::ids::Nonce::get);
                    let event = each.event.kind.word();
                    self.note(format_args!(
                        "{op} lane {lane} {nonce:?} {event} {to}/{sub}"
                    ));
                }
                self.fence(batch.held, false).await;
                let ids: Vec<TxId> = batch.moves.iter().map(|each| each.tx).collect();
                self.world.look_at(&ids).await;
                continue;
            }
            self.note(format_args!("{op} lane {lane} {answer:?}"));
            if *answer == LaneMoved::Fenced {
                self.fence(batch.held, true).await;
                if batch.moves.iter().any(|each| each.attempt.is_some()) {
                    self.world.saw(Rare::FencedAttempt);
                }
            }
        }
    }

    pub(crate) async fn claim_due(
        &self,
        _: &Holder,
        held: &[Held],
        _: &u64,
        _: &usize,
        claimed: &Claimed,
    ) {
        for held in held {
            let is_fenced = claimed.fenced.contains(&held.lane);
            let touched = claimed
                .records
                .iter()
                .any(|record| record.lane_id == held.lane);
            if touched || is_fenced {
                self.fence(*held, is_fenced).await;
            }
        }
        let ids: Vec<TxId> = claimed.records.iter().map(|record| record.tx).collect();
        if !ids.is_empty() {
            self.note(format_args!("claims {} due", ids.len()));
            self.world.look_at(&ids).await;
        }
    }

    pub(crate) async fn ask_remedy(&self, remedy: &NewRemedy, answer: &AskedRemedy) {
        self.note(format_args!("asks for {:?}: {answer:?}", remedy.action));
        if let AskedRemedy::Asked(_) = answer {
            self.world.checker().open_remedy(remedy.tx);
        }
    }

    pub(crate) async fn claim_remedies(
        &self,
        _: &Holder,
        held: &[Held],
        _: &usize,
        claimed: &ClaimedRemedies,
    ) {
        for held in held {
            let is_fenced = claimed.fenced.contains(&held.lane);
            let of = |lane: LaneId| {
                claimed
                    .remedies
                    .iter()
                    .any(|each| each.record.lane_id == lane)
            };
            if is_fenced || of(held.lane) {
                self.fence(*held, is_fenced).await;
            }
        }
        for claim in &claimed.remedies {
            self.note(format_args!("claims {:?} {:?}", claim.id, claim.action));
        }
    }

    pub(crate) async fn decide_remedy(
        &self,
        _: &Holder,
        held: &Held,
        decided: &Decided,
        answer: &Decision,
    ) {
        self.note(format_args!("decides {:?}: {answer:?}", decided.action));
        match answer {
            Decision::Written => {
                if decided.action.is_some() {
                    self.world.saw(Rare::PolicyActed);
                }
                self.fence(*held, false).await;
            }
            Decision::Fenced => self.fence(*held, true).await,
            Decision::Gone => {}
        }
    }

    /// No world refuses calls: they are refused before they come to a node's own code.
    #[expect(clippy::unused_async, reason = "as every other write")]
    pub(crate) async fn record_refusal(&self, audit: &Audit, answer: &str, (): &()) {
        self.note(format_args!("refused {}: {answer}", audit.by));
    }

    pub(crate) async fn settle(&self, call: &Settle, answer: &Settled) {
        let word = match answer {
            Settled::Done(_) => "done",
            Settled::LockLost { recorded: true } => "lock lost, recorded",
            Settled::LockLost { recorded: false } => "lock lost",
            Settled::Refused(_) => "refused",
            Settled::NotFound => "not found",
        };
        self.note(format_args!("settle {:?}: {word}", call.act));
        self.world.look_at(&[call.reservation]).await;
    }

    /// No world retires anything: its checks know every row from its beginning to the end of the run.
    #[expect(clippy::unused_async, reason = "as every other write")]
    pub(crate) async fn retire(&self, retire: &Retire, answer: &Retired) {
        self.note(format_args!(
            "retire {:?}: {}",
            retire.stage, answer.retired
        ));
    }
}
