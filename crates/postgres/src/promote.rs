//! Giving nonces to what waits. What the caller read of the queue names the transactions; the
//! statement itself proves that they are its front.

use std::collections::HashMap;

use fencepost_app::ports::{Holder, LaneCreated, LanePromotion, LaneRefusal, StoreError, Stored};
use fencepost_domain::ids::{Nonce, TxId};
use fencepost_domain::nonce::{self, Plan};
use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::fault::{Fault, Unique, after_write, refused};
use crate::lane_state::LaneState;
use crate::row::column;
use crate::statement::Written;
use crate::{PostgresStore, rows};

const PROMOTE: &str = include_str!("../sql/promote.sql");

impl PostgresStore {
    pub(crate) async fn promote_many(
        &self,
        holder: &Holder,
        promotions: &[LanePromotion],
    ) -> Result<Vec<LaneCreated>, StoreError> {
        let mut answers: Vec<Option<LaneCreated>> = Vec::with_capacity(promotions.len());
        let mut sent: Vec<(usize, Plan)> = Vec::new();
        for (index, lane) in promotions.iter().enumerate() {
            let plan = nonce::plan(&lane.free, lane.cursor, lane.txs.len());
            answers.push(match plan {
                Ok(plan) => {
                    sent.push((index, plan));
                    None
                }
                Err(_) => Some(LaneCreated::Refused(LaneRefusal::Exhausted)),
            });
        }
        // What waited is there already, whoever promotes it: nothing to be learnt from no rows.
        sent.retain(|(index, _)| !promotions[*index].txs.is_empty());
        let together = self
            .promote_sent(holder, promotions, &sent, &mut answers)
            .await?;
        if !together {
            for (nth, one) in sent.iter().enumerate() {
                let alone = std::slice::from_ref(one);
                let promoted = self.promote_sent(holder, promotions, alone, &mut answers);
                match promoted.await {
                    Ok(_) => {}
                    // Lanes before this one may be written; that must not be told as nothing.
                    Err(error) if nth > 0 => return Err(after_write(error)),
                    Err(error) => return Err(error),
                }
            }
        }
        let nothing = |(index, answer): (usize, Option<LaneCreated>)| {
            answer.unwrap_or(LaneCreated::Done {
                txs: vec![],
                next_nonce: promotions[index].cursor,
                more_free: false,
            })
        };
        Ok(answers.into_iter().enumerate().map(nothing).collect())
    }

    /// False when several lanes were sent and one of them stops all.
    async fn promote_sent(
        &self,
        holder: &Holder,
        promotions: &[LanePromotion],
        sent: &[(usize, Plan)],
        answers: &mut [Option<LaneCreated>],
    ) -> Result<bool, StoreError> {
        if sent.is_empty() {
            return Ok(true);
        }
        let call = PromoteCall::new(self, holder, promotions, sent);
        let written = self.connections.write(PROMOTE, &call.params()).await?;
        let (found, again) = match written {
            Written::Rows { rows, again } => (rows, again),
            // The lost try may have done it, and then this one could not.
            Written::Refused {
                again: true, error, ..
            } => {
                let mut times = HashMap::new();
                let found = self.find_promoted(promotions, sent, &mut times).await;
                found.map_err(after_write)?;
                if times.len() < sent.len() {
                    return Err(StoreError::OutcomeUnknown(error.into()));
                }
                answer_promoted(promotions, sent, &times, answers);
                return Ok(true);
            }
            Written::Refused { .. } if sent.len() > 1 => return Ok(false),
            Written::Refused { fault, error, .. } => {
                let index = sent[0].0;
                answers[index] = Some(LaneCreated::Refused(match fault {
                    Fault::Partial => {
                        let gone = self
                            .free_gone(promotions[index].held.lane, &sent[0].1)
                            .await?;
                        if gone {
                            LaneRefusal::FreeMoved
                        } else {
                            LaneRefusal::Stale
                        }
                    }
                    Fault::Taken(Unique::Nonce) => {
                        let lane = promotions[index].held.lane;
                        self.nonce_refusal(lane, &sent[0].1, &call.item_nonce)
                            .await?
                    }
                    Fault::Held => LaneRefusal::Busy,
                    Fault::Lost | Fault::Contended | Fault::Taken(_) | Fault::Refused => {
                        return Err(refused(error));
                    }
                }));
                return Ok(true);
            }
        };
        let mut times: HashMap<i64, (Timestamp, bool)> = HashMap::new();
        for row in &found {
            times.insert(
                column(row, "lane_id")?,
                (column(row, "at")?, column(row, "more_free")?),
            );
        }
        // The token is read before the rows: what is absent after it was passed stays absent.
        let lanes = sent.iter().map(|(index, _)| promotions[*index].held.lane.0);
        let unanswered: Vec<i64> = lanes.filter(|lane| !times.contains_key(lane)).collect();
        let states = self.lane_states(holder, &unanswered).await;
        let states = if times.is_empty() && !again {
            states?
        } else {
            states.map_err(after_write)?
        };
        if again {
            let found = self.find_promoted(promotions, sent, &mut times).await;
            found.map_err(after_write)?;
        }
        answer_promoted(promotions, sent, &times, answers);
        let left = explain_unpromoted(&states, promotions, sent, again, answers);
        left.map(|()| true)
    }

    /// After a lost reply: lanes whose transactions hold just the nonces that we laid out.
    async fn find_promoted(
        &self,
        promotions: &[LanePromotion],
        sent: &[(usize, Plan)],
        times: &mut HashMap<i64, (Timestamp, bool)>,
    ) -> Result<(), StoreError> {
        let ids = sent
            .iter()
            .flat_map(|(index, _)| promotions[*index].txs.iter().copied());
        let there = self.find_map(&ids.collect::<Vec<_>>()).await?;
        let mut stored = Vec::new();
        for (index, plan) in sent {
            let promotion = &promotions[*index];
            let ours = |(tx, nonce): (&TxId, &Nonce)| {
                let record = there.get(tx)?;
                let given = record.state.nonce() == Some(*nonce);
                (given && record.token == promotion.held.token).then_some(record.updated_at)
            };
            let at: Option<Vec<Timestamp>> =
                promotion.txs.iter().zip(&plan.nonces).map(ours).collect();
            if let Some(&at) = at.as_ref().and_then(|at| at.first()) {
                times.insert(promotion.held.lane.0, (at, true));
                stored.push(promotion.held.lane.0);
            }
        }
        self.see_events(&stored).await
    }
}

/// The answers of lanes that were written, with the times at which they were.
fn answer_promoted(
    promotions: &[LanePromotion],
    sent: &[(usize, Plan)],
    times: &HashMap<i64, (Timestamp, bool)>,
    answers: &mut [Option<LaneCreated>],
) {
    for (index, plan) in sent {
        if let Some(&(at, more_free)) = times.get(&promotions[*index].held.lane.0) {
            let new = |nonce: &_| Stored::New { nonce: *nonce, at };
            answers[*index] = Some(LaneCreated::Done {
                txs: plan.nonces.iter().map(new).collect(),
                next_nonce: plan.next,
                more_free,
            });
        }
    }
}

/// Why the statement left lanes out.
fn explain_unpromoted(
    states: &HashMap<i64, LaneState>,
    promotions: &[LanePromotion],
    sent: &[(usize, Plan)],
    again: bool,
    answers: &mut [Option<LaneCreated>],
) -> Result<(), StoreError> {
    let left = sent.iter().map(|(index, _)| *index);
    let left: Vec<usize> = left.filter(|index| answers[*index].is_none()).collect();
    for index in left {
        let held = promotions[index].held;
        let state = states.get(&held.lane.0);
        // Behind an unchanged token the lost try could still apply.
        if again && !state.is_some_and(|state| state.is_past(held.token)) {
            return Err(StoreError::OutcomeUnknown(
                "the lost try may still run".into(),
            ));
        }
        answers[index] = Some(LaneCreated::Refused(match state {
            None => LaneRefusal::UnknownLane,
            Some(state) => state.refusal(held.token, false, None),
        }));
    }
    Ok(())
}

/// The parameters of one promotion, fixed before its first try.
struct PromoteCall<'a> {
    lane: Vec<i64>,
    token: Vec<i64>,
    expected: Vec<i64>,
    next: Vec<i64>,
    n: Vec<i64>,
    node: &'a str,
    incarnation: i64,
    lease: i64,
    free_lane: Vec<i64>,
    free_nonce: Vec<i64>,
    item_lane: Vec<i64>,
    item_tx: Vec<Uuid>,
    item_nonce: Vec<i64>,
    item_ord: Vec<i64>,
}

impl<'a> PromoteCall<'a> {
    fn new(
        store: &PostgresStore,
        holder: &'a Holder,
        promotions: &[LanePromotion],
        sent: &[(usize, Plan)],
    ) -> Self {
        let mut call = Self {
            lane: vec![],
            token: vec![],
            expected: vec![],
            next: vec![],
            n: vec![],
            node: holder.node.as_str(),
            incarnation: holder.incarnation.column(),
            lease: store.lease_micros(),
            free_lane: vec![],
            free_nonce: vec![],
            item_lane: vec![],
            item_tx: vec![],
            item_nonce: vec![],
            item_ord: vec![],
        };
        for (index, plan) in sent {
            call.add(&promotions[*index], plan);
        }
        call
    }

    fn add(&mut self, promotion: &LanePromotion, plan: &Plan) {
        let lane = promotion.held.lane.0;
        self.lane.push(lane);
        self.token.push(promotion.held.token.column());
        self.expected.push(plan.expected.column());
        self.next.push(plan.next.column());
        self.n.push(rows(promotion.txs.len()));
        for nonce in &plan.nonces[..plan.from_free] {
            self.free_lane.push(lane);
            self.free_nonce.push(nonce.column());
        }
        for (ord, (tx, nonce)) in promotion.txs.iter().zip(&plan.nonces).enumerate() {
            self.item_lane.push(lane);
            self.item_tx.push(tx.0);
            self.item_nonce.push(nonce.column());
            self.item_ord.push(rows(ord + 1));
        }
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 14] {
        [
            &self.lane,
            &self.token,
            &self.expected,
            &self.next,
            &self.n,
            &self.node,
            &self.incarnation,
            &self.lease,
            &self.free_lane,
            &self.free_nonce,
            &self.item_lane,
            &self.item_tx,
            &self.item_nonce,
            &self.item_ord,
        ]
    }
}
