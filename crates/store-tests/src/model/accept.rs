//! Creating, queueing and promoting in the model.

use fencepost_app::ports::{
    Body, Enqueued, Held, Holder, LaneBatch, LaneCreated, LanePromotion, LaneRefusal, NewTx,
    Record, Reservation, StoreError, Stored, StoredEvent, check,
};
use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::{LaneId, NodeId, Nonce, Token, TxId, Version};
use fencepost_domain::nonce::{self, Plan};
use fencepost_domain::state::{Allocated, Kind, Queued, Reserved, Signing, State, Wait};
use fencepost_domain::transition::Input;
use jiff::Timestamp;

use super::memory::Whole;

/// What a new row meets.
enum Fate {
    /// Nothing: it is stored.
    New,
    /// A row that is there, or will be by this batch, and whether it is the same request.
    Met(TxId, bool),
}

impl Whole {
    pub(super) fn create(
        &mut self,
        holder: &Holder,
        batches: &[LaneBatch],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        check::create(batches)?;
        let each = batches.iter().map(|batch| self.create_lane(holder, batch));
        Ok(each
            .map(|done| done.unwrap_or_else(LaneCreated::Refused))
            .collect())
    }

    fn create_lane(
        &mut self,
        holder: &Holder,
        batch: &LaneBatch,
    ) -> Result<LaneCreated, LaneRefusal> {
        let lane = batch.held.lane;
        if !self.lanes.contains_key(&lane) {
            return Err(LaneRefusal::UnknownLane);
        }
        let wait = State::Queued(Queued { wait: Wait::Leader });
        let (fates, mut rows) = self.meet(lane, &batch.txs, &wait);
        let met = batch.txs.iter().zip(&fates);
        let fresh = met.filter_map(|(new, fate)| matches!(fate, Fate::New).then_some(new));
        let fresh: Vec<&NewTx> = fresh.collect();
        if !fresh.is_empty() {
            let placed = rows.iter().filter(|row| row.kind == Kind::Placeholder);
            let only_placed = placed.count() == rows.len();
            self.open_for(holder, batch.held)?;
            if !only_placed && !self.lanes[&lane].queue.is_empty() {
                return Err(LaneRefusal::QueueFirst);
            }
            if rows.iter().any(|row| self.is_late(row)) {
                return Err(LaneRefusal::Late(self.now));
            }
            let count = rows
                .iter()
                .filter(|row| row.kind != Kind::Placeholder)
                .count();
            let plan = self.plan(lane, batch.cursor, &batch.free, count)?;
            self.lay_out(lane, &fresh, &mut rows, &plan)?;
            self.spend(lane, &plan);
            for (row, new) in rows.into_iter().zip(fresh) {
                self.insert(row, new, holder, batch.held.token);
            }
            self.renew_lease(lane);
        }
        Ok(self.created(lane, &batch.txs, &fates))
    }

    /// Finds out for each new row whether it was stored before, by id and then by request id.
    fn meet(&self, lane: LaneId, txs: &[NewTx], state: &State) -> (Vec<Fate>, Vec<Record>) {
        let mut rows: Vec<Record> = Vec::new();
        let mut fates = Vec::new();
        for new in txs {
            let earlier = || rows.iter().chain(self.records.values());
            let named = |row: &&Record| {
                new.request_id.is_some() && row.request_id == new.request_id && row.lane_id == lane
            };
            let by_id = earlier().find(|row| row.tx == new.tx);
            let fate = match by_id.or_else(|| earlier().find(named)) {
                Some(row) => Fate::Met(row.tx, new.matches(lane, row)),
                None => Fate::New,
            };
            if matches!(fate, Fate::New) {
                rows.push(self.row(lane, new, state.clone()));
            }
            fates.push(fate);
        }
        (fates, rows)
    }

    pub(super) fn row(&self, lane: LaneId, new: &NewTx, state: State) -> Record {
        let (payload, reservation) = match &new.body {
            Body::Managed(payload) => (Some(payload.clone()), None),
            Body::Placeholder(_) => (None, None),
            Body::Reserved(loan) => {
                let lock = loan.lock;
                let expires_at = self.later(loan.ttl);
                (None, Some(Reservation { lock, expires_at }))
            }
        };
        Record {
            tx: new.tx,
            lane_id: lane,
            lane: self.lanes[&lane].lane,
            kind: new.kind(),
            request_id: new.request_id.clone(),
            payload,
            proof: new.proof(),
            retired: None,
            state,
            attempts: 0,
            submit_attempts: 0,
            last_error: None,
            first_submit_at: None,
            last_submit_at: None,
            receipt: None,
            confirmed_at: None,
            // Stores keep microseconds.
            not_after: new
                .not_after
                .map(|at| Timestamp::from_microsecond(at.as_microsecond()).unwrap()),
            meta: new.meta.clone(),
            created_by: new.created_by.clone(),
            reservation,
            token: Token::default(),
            version: Version::new(1).unwrap(),
            created_at: self.now,
            updated_at: self.now,
        }
    }

    /// Whether a row is not to be given a nonce any more.
    fn is_late(&self, row: &Record) -> bool {
        row.not_after.is_some_and(|until| until < self.now)
    }

    /// Whether nonces may be given under this token.
    fn open_for(&self, holder: &Holder, held: Held) -> Result<(), LaneRefusal> {
        if !self.leads(holder, held) {
            return Err(LaneRefusal::Fenced);
        }
        self.lanes[&held.lane]
            .paused
            .map_or(Ok(()), |reason| Err(LaneRefusal::Paused(reason)))
    }

    fn plan(
        &self,
        lane: LaneId,
        cursor: Nonce,
        free: &[Nonce],
        count: usize,
    ) -> Result<Plan, LaneRefusal> {
        let row = &self.lanes[&lane];
        if cursor != row.next_nonce {
            return Err(LaneRefusal::CursorMoved(row.next_nonce));
        }
        let plan = nonce::plan(free, cursor, count).map_err(|_| LaneRefusal::Exhausted)?;
        let used = &plan.nonces[..plan.from_free];
        if used.iter().any(|n| !row.free.contains(n)) {
            return Err(LaneRefusal::FreeMoved);
        }
        let held = self.held_nonces(lane);
        match plan.nonces.iter().find(|n| held.contains(n)) {
            Some(held) => Err(LaneRefusal::NonceHeld(*held)),
            None => Ok(plan),
        }
    }

    /// Gives each row its nonce: placeholders the one they name, others what was planned.
    fn lay_out(
        &self,
        lane: LaneId,
        fresh: &[&NewTx],
        rows: &mut [Record],
        plan: &Plan,
    ) -> Result<(), LaneRefusal> {
        let mut held = self.held_nonces(lane);
        let mut planned = plan.nonces.iter().copied();
        held.extend(plan.nonces.iter().copied());
        for (row, new) in rows.iter_mut().zip(fresh) {
            let nonce = match &new.body {
                Body::Placeholder(nonce) if held.insert(*nonce) => *nonce,
                Body::Placeholder(nonce) => return Err(LaneRefusal::NonceHeld(*nonce)),
                Body::Managed(_) | Body::Reserved(_) => planned.next().unwrap(),
            };
            row.state = match row.kind {
                Kind::Reserved => State::Reserved(Reserved { nonce }),
                Kind::Managed | Kind::Placeholder => State::Allocated(Allocated {
                    nonce,
                    bytes: Signing::Unsigned,
                }),
            };
        }
        Ok(())
    }

    fn spend(&mut self, lane: LaneId, plan: &Plan) {
        let row = self.lane_mut(lane);
        row.next_nonce = plan.next;
        for nonce in &plan.nonces[..plan.from_free] {
            row.free.remove(nonce);
        }
    }

    fn insert(&mut self, mut row: Record, new: &NewTx, holder: &Holder, token: Token) {
        row.token = token;
        let due_at = match &new.body {
            Body::Managed(_) | Body::Placeholder(_) => self.now,
            Body::Reserved(loan) => self.later(loan.ttl + loan.grace),
        };
        let lane = self.lane_mut(row.lane_id);
        lane.due.insert(row.tx, due_at);
        if let Some(nonce) = row.state.nonce() {
            lane.free.remove(&nonce);
        }
        let event = Event::new(event::Kind::Accepted);
        self.tell(&row, event, None, Some(&holder.node), token);
        self.records.insert(row.tx, row);
    }

    /// Numbers an event in its lane.
    pub(super) fn tell(
        &mut self,
        row: &Record,
        event: Event,
        from: Option<(String, Option<String>)>,
        node: Option<&NodeId>,
        token: Token,
    ) {
        let at = self.now;
        let lane = self.lane_mut(row.lane_id);
        lane.lane_seq = lane.lane_seq.plus(1).unwrap();
        let seq = lane.lane_seq;
        self.events.push(StoredEvent {
            seq,
            tx: row.tx,
            event,
            from,
            to: words(&row.state),
            node: node.cloned(),
            token,
            at,
        });
    }

    fn created(&self, lane: LaneId, txs: &[NewTx], fates: &[Fate]) -> LaneCreated {
        let answer = |(new, fate): (&NewTx, &Fate)| match fate {
            Fate::New => self.stored(new.tx),
            Fate::Met(tx, true) => Stored::Known(Box::new(self.records[tx].clone())),
            Fate::Met(tx, false) => Stored::Conflict(Box::new(self.records[tx].clone())),
        };
        let txs = txs.iter().zip(fates).map(answer).collect();
        self.done(lane, txs)
    }

    fn stored(&self, tx: TxId) -> Stored {
        let row = &self.records[&tx];
        Stored::New {
            nonce: row.state.nonce().unwrap(),
            at: row.updated_at,
        }
    }

    fn done(&self, lane: LaneId, txs: Vec<Stored>) -> LaneCreated {
        let row = &self.lanes[&lane];
        LaneCreated::Done {
            txs,
            next_nonce: row.next_nonce,
            more_free: !row.free.is_empty(),
        }
    }

    pub(super) fn enqueue(
        &mut self,
        txs: &[(LaneId, NewTx)],
        wait: Wait,
        queue_max: usize,
    ) -> Result<Vec<Enqueued>, StoreError> {
        check::enqueue(txs)?;
        let state = State::Queued(Queued { wait });
        let mut answers = Vec::new();
        for (lane, new) in txs {
            answers.push(self.enqueue_one(*lane, new, &state, queue_max));
        }
        Ok(answers)
    }

    fn enqueue_one(
        &mut self,
        lane: LaneId,
        new: &NewTx,
        state: &State,
        queue_max: usize,
    ) -> Enqueued {
        if !self.lanes.contains_key(&lane) {
            return Enqueued::UnknownLane;
        }
        let (fates, rows) = self.meet(lane, std::slice::from_ref(new), state);
        let at = self.now;
        match (&fates[0], rows.into_iter().next()) {
            (Fate::Met(tx, true), _) => Enqueued::Known(Box::new(self.records[tx].clone())),
            (Fate::Met(tx, false), _) => Enqueued::Conflict(Box::new(self.records[tx].clone())),
            (Fate::New, Some(row)) if self.lanes[&lane].queue.len() < queue_max => {
                self.lane_mut(lane).queue.push(row.tx);
                self.records.insert(row.tx, row);
                Enqueued::Queued { at }
            }
            (Fate::New, _) => Enqueued::Full,
        }
    }

    pub(super) fn promote(
        &mut self,
        holder: &Holder,
        promotions: &[LanePromotion],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        check::promote(promotions)?;
        let each = promotions
            .iter()
            .map(|each| self.promote_lane(holder, each));
        Ok(each
            .map(|done| done.unwrap_or_else(LaneCreated::Refused))
            .collect())
    }

    fn promote_lane(
        &mut self,
        holder: &Holder,
        promotion: &LanePromotion,
    ) -> Result<LaneCreated, LaneRefusal> {
        let lane = promotion.held.lane;
        if !self.lanes.contains_key(&lane) {
            return Err(LaneRefusal::UnknownLane);
        }
        if promotion.txs.is_empty() {
            return Ok(self.done(lane, Vec::new()));
        }
        self.open_for(holder, promotion.held)?;
        let count = promotion.txs.len();
        let plan = self.plan(lane, promotion.cursor, &promotion.free, count)?;
        if !self.lanes[&lane].queue.starts_with(&promotion.txs) {
            return Err(LaneRefusal::Stale);
        }
        if promotion
            .txs
            .iter()
            .any(|tx| self.is_late(&self.records[tx]))
        {
            return Err(LaneRefusal::Stale);
        }
        self.spend(lane, &plan);
        let now = self.now;
        for (tx, nonce) in promotion.txs.iter().zip(&plan.nonces) {
            let mut row = self.records[tx].clone();
            let from = words(&row.state);
            let moved = row.state.clone().apply(Input::Allocate(*nonce)).unwrap();
            row.state = moved.to;
            row.version = row.version.plus(1).unwrap();
            row.token = promotion.held.token;
            row.updated_at = now;
            let node = Some(&holder.node);
            self.tell(&row, moved.event, Some(from), node, promotion.held.token);
            self.records.insert(*tx, row);
            self.lane_mut(lane).due.insert(*tx, now);
        }
        self.lane_mut(lane).queue.drain(..count);
        self.renew_lease(lane);
        let txs = promotion.txs.iter().map(|tx| self.stored(*tx)).collect();
        Ok(self.done(lane, txs))
    }
}

/// A state as the history shows it.
pub(super) fn words(state: &State) -> (String, Option<String>) {
    (
        state.name().word().to_owned(),
        state.sub().map(str::to_owned),
    )
}
