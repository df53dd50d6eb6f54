//! Creating as the leader: nonces are laid out here, and one statement is fence, cursor, renewal
//! and insert. A duplicate aborts it whole; the known ones are then answered and the rest goes again.

mod work;
mod call;

use std::collections::HashMap;
use std::sync::OnceLock;

use fencepost_app::ports::{
    Holder, LaneBatch, LaneCreated, LaneRefusal, READ_LIMIT_MAX, Record, StoreError,
};
use fencepost_domain::ids::{Nonce, TxId};
use jiff::Timestamp;
use tokio_postgres::Row;

use self::call::Call;
use self::work::{Layout, Outcome, Work, Written};
use crate::PostgresStore;
use crate::broken;
use crate::fault::{Fault, Unique, after_write, refused};
use crate::parts::needed;
use crate::row::column;
use crate::statement;

const CREATE: &str = include_str!("../sql/create.sql");

/// The statement, with what uses up free nonces only where there are any.
fn sql(takes_free: bool) -> &'static str {
    static PLAIN: OnceLock<String> = OnceLock::new();
    static FREE: OnceLock<String> = OnceLock::new();
    let (text, part) = if takes_free {
        (&FREE, "free")
    } else {
        (&PLAIN, "plain")
    };
    text.get_or_init(|| broken::create(needed(CREATE, |name| name == part)))
}

/// Rounds of "known ones out, the rest again". Each takes out all that were stored by then, so a
/// further round means that others insert the same requests at this very moment.
const ROUNDS: usize = 4;

/// How a set of lanes fared together.
enum Together {
    Done,
    /// Something in one lane stops all: each must go on its own, to stop only itself.
    Apart,
}

/// Whether a statement that ran leaves something to send.
#[derive(PartialEq, Eq)]
enum Left {
    Nothing,
    /// Lanes that were left out had requests among them that are stored. The rest may be what they
    /// take now: placeholders alone pass a queue.
    Rest,
}

impl PostgresStore {
    pub(crate) async fn create_many(
        &self,
        holder: &Holder,
        batches: &[LaneBatch],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        let mut works: Vec<Work<'_>> = batches.iter().map(Work::new).collect();
        let mut all: Vec<usize> = (0..works.len()).collect();
        all.sort_by_key(|lane| works[*lane].lane());
        // An item that repeats another's name may still be stored under its own id.
        let repeats = works.iter().any(|work| work.repeated().next().is_some());
        if self.is_wary() || repeats {
            self.take_out_known(&mut works, &all, repeats).await?;
        }
        let ran = match self.create_rounds(holder, &mut works, &all).await {
            Ok(Together::Done) => Ok(()),
            Ok(Together::Apart) => self.create_apart(holder, &mut works).await,
            Err(error) => Err(error),
        };
        let wrote = works
            .iter()
            .any(|work| matches!(work.outcome, Some(Outcome::Written(_))));
        let answers = match ran {
            Ok(()) => self.create_answers(holder, works).await,
            Err(error) => Err(error),
        };
        // With a lane written the call must not be told as nothing.
        if wrote {
            answers.map_err(after_write)
        } else {
            answers
        }
    }

    async fn create_apart(
        &self,
        holder: &Holder,
        works: &mut [Work<'_>],
    ) -> Result<(), StoreError> {
        for lane in 0..works.len() {
            match self.create_rounds(holder, works, &[lane]).await {
                Ok(Together::Done) => {}
                // Others keep inserting the same requests: the caller reads and tries again.
                Ok(Together::Apart) => {
                    works[lane].outcome = Some(Outcome::Refused(LaneRefusal::Stale));
                }
                // Lanes before this one may be written; that must not be told as nothing.
                Err(error) if lane > 0 => return Err(StoreError::OutcomeUnknown(error.into())),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn create_rounds(
        &self,
        holder: &Holder,
        works: &mut [Work<'_>],
        among: &[usize],
    ) -> Result<Together, StoreError> {
        for _ in 0..ROUNDS {
            let mut call = Call::new(self, holder);
            let mut sent: Vec<(usize, Layout)> = Vec::new();
            for &lane in among {
                let work = &mut works[lane];
                if !work.is_open() {
                    continue;
                }
                match work.lay_out() {
                    Ok(layout) => {
                        call.add(work, &layout);
                        sent.push((lane, layout));
                    }
                    Err(why) => work.outcome = Some(Outcome::Refused(why)),
                }
            }
            if sent.is_empty() {
                return Ok(Together::Done);
            }
            let sql = sql(call.takes_free());
            match self.connections.write(sql, &call.params()).await? {
                statement::Written::Rows { rows, again } => {
                    let recorded = self.record_written(holder, works, sent, &rows, again);
                    if recorded.await.map_err(after_write)? == Left::Nothing {
                        return Ok(Together::Done);
                    }
                }
                statement::Written::Refused {
                    again: true, error, ..
                } => {
                    let found = self.find_written(works, &sent, &call.ids()).await;
                    if !found.map_err(after_write)? {
                        return Err(StoreError::OutcomeUnknown(error.into()));
                    }
                }
                statement::Written::Refused { fault, error, .. } => {
                    let alone = sent.len() == 1;
                    match fault {
                        Fault::Taken(Unique::Tx | Unique::Request) => {
                            self.become_wary();
                            let lanes: Vec<usize> = sent.iter().map(|(lane, _)| *lane).collect();
                            if !self.take_out_known(works, &lanes, true).await? && !alone {
                                return Ok(Together::Apart);
                            }
                        }
                        _ if !alone => return Ok(Together::Apart),
                        // A request that is stored already may hold just the nonce it would get.
                        Fault::Partial | Fault::Taken(Unique::Nonce)
                            if self.take_out_known(works, among, true).await? => {}
                        Fault::Partial => refuse(works, &sent, LaneRefusal::FreeMoved),
                        Fault::Held => refuse(works, &sent, LaneRefusal::Busy),
                        Fault::Taken(Unique::Nonce) => {
                            let lane = works[sent[0].0].lane();
                            let layout = &sent[0].1;
                            let nonces = layout.places.iter().map(|(_, nonce)| nonce.column());
                            let nonces: Vec<i64> = nonces.collect();
                            let why = self.nonce_refusal(lane, &layout.plan, &nonces).await?;
                            refuse(works, &sent, why);
                        }
                        Fault::Taken(_) | Fault::Lost | Fault::Contended | Fault::Refused => {
                            return Err(refused(error));
                        }
                    }
                }
            }
        }
        Ok(Together::Apart)
    }

    /// Notes what a statement that ran has written, and why it left lanes out.
    async fn record_written(
        &self,
        holder: &Holder,
        works: &mut [Work<'_>],
        sent: Vec<(usize, Layout)>,
        rows: &[Row],
        again: bool,
    ) -> Result<Left, StoreError> {
        let mut written: HashMap<i64, (Timestamp, bool)> = HashMap::new();
        for row in rows {
            let lane: i64 = column(row, "lane_id")?;
            written.insert(lane, (column(row, "at")?, column(row, "more_free")?));
        }
        let mut left = Vec::new();
        for (lane, layout) in sent {
            let work = &mut works[lane];
            match written.get(&work.lane().0) {
                Some(&(at, more_free)) => {
                    work.outcome = Some(Outcome::Written(Written {
                        layout,
                        at,
                        more_free,
                    }));
                }
                None => left.push((lane, layout)),
            }
        }
        // The token is read before the rows: what is absent after it was passed stays absent.
        let lanes: Vec<i64> = left.iter().map(|(lane, _)| works[*lane].lane().0).collect();
        let states = self.lane_states(holder, &lanes).await?;
        if again && !left.is_empty() {
            // The lost try may have done it, and then this one could not.
            let ids: Vec<TxId> = left
                .iter()
                .flat_map(|(lane, layout)| {
                    layout
                        .places
                        .iter()
                        .map(|(place, _)| works[*lane].batch.txs[*place].tx)
                })
                .collect();
            self.find_written(works, &left, &ids).await?;
        }
        // What is known is answered even by a node that no longer leads.
        let unwritten: Vec<usize> = left
            .iter()
            .map(|(lane, _)| *lane)
            .filter(|lane| works[*lane].outcome.is_none())
            .collect();
        let learnt = self.take_out_known(works, &unwritten, true).await?;
        left.retain(|(lane, _)| works[*lane].is_open());
        if learnt && !again && !left.is_empty() {
            return Ok(Left::Rest);
        }
        for (lane, layout) in left {
            let work = &mut works[lane];
            let token = work.batch.held.token;
            let state = states.get(&work.lane().0);
            // Behind an unchanged token the lost try could still apply.
            if again && !state.is_some_and(|state| state.is_past(token)) {
                return Err(StoreError::OutcomeUnknown(
                    "the lost try may still run".into(),
                ));
            }
            let queue_first = !layout.plan.nonces.is_empty();
            let until = work.until(&layout);
            let why = state.map_or(LaneRefusal::UnknownLane, |state| {
                state.refusal(token, queue_first, until)
            });
            work.outcome = Some(Outcome::Refused(why));
        }
        Ok(Left::Nothing)
    }

    /// After a lost reply: which lanes the lost try had written. True when there were any.
    async fn find_written(
        &self,
        works: &mut [Work<'_>],
        sent: &[(usize, Layout)],
        ids: &[TxId],
    ) -> Result<bool, StoreError> {
        let there = self.find_map(ids).await?;
        let mut any = false;
        let mut stored = Vec::new();
        for (lane, layout) in sent {
            let work = &works[*lane];
            let ours = |(place, nonce): &(usize, Nonce)| {
                let record = there.get(&work.batch.txs[*place].tx)?;
                let held = record.state.nonce().or(record.state.gave_back());
                (record.lane_id == work.lane() && held == Some(*nonce)).then_some(record.created_at)
            };
            let times: Option<Vec<Timestamp>> = layout.places.iter().map(ours).collect();
            if let Some(&at) = times.as_ref().and_then(|times| times.first()) {
                any = true;
                let written = Written {
                    layout: layout.clone(),
                    at,
                    more_free: true,
                };
                works[*lane].outcome = Some(Outcome::Written(written));
                stored.push(works[*lane].lane().0);
            }
        }
        self.see_events(&stored).await?;
        Ok(any)
    }

    /// Looks for requests that are stored already. True when one was found that was not known before:
    /// another round would be the same otherwise.
    async fn take_out_known(
        &self,
        works: &mut [Work<'_>],
        lanes: &[usize],
        by_id: bool,
    ) -> Result<bool, StoreError> {
        let mut at = Vec::new();
        let mut places = Vec::new();
        for &lane in lanes {
            let work = &works[lane];
            for place in work.unanswered() {
                at.push((lane, place));
                places.push((work.lane(), &work.batch.txs[place]));
            }
        }
        let found = self.known(&places, by_id).await?;
        let mut changed = false;
        for (lane, found) in found.split(&at) {
            changed |= works[lane].learn(found);
        }
        Ok(changed)
    }

    pub(crate) async fn find_map(&self, ids: &[TxId]) -> Result<HashMap<TxId, Record>, StoreError> {
        let mut found = HashMap::with_capacity(ids.len());
        for ids in ids.chunks(READ_LIMIT_MAX) {
            let records = self.find_by_ids(ids).await?;
            found.extend(records.into_iter().map(|record| (record.tx, record)));
        }
        Ok(found)
    }

    async fn create_answers(
        &self,
        holder: &Holder,
        works: Vec<Work<'_>>,
    ) -> Result<Vec<LaneCreated>, StoreError> {
        let repeated: Vec<TxId> = works.iter().flat_map(Work::repeated).collect();
        let stored = self.find_map(&repeated).await?;
        let idle = works.iter().filter(|work| work.outcome.is_none());
        let idle: Vec<i64> = idle.map(|work| work.lane().0).collect();
        let states = self.lane_states(holder, &idle).await?;
        let answer = |work: Work<'_>| {
            let state = states.get(&work.lane().0);
            work.answer(&stored, state)
        };
        Ok(works.into_iter().map(answer).collect())
    }
}

fn refuse(works: &mut [Work<'_>], sent: &[(usize, Layout)], why: LaneRefusal) {
    for (lane, _) in sent {
        works[*lane].outcome = Some(Outcome::Refused(why));
    }
}
