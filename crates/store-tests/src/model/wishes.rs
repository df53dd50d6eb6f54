//! Resolving what holders, policies and operators say.

use std::time::Duration;

use fencepost_app::ports::{
    Act, Action, Acts, Decided, NewRemedy, PauseChange, PauseReason, Progress, Settle, SettleAct,
};
use fencepost_domain::ids::Lane;
use fencepost_domain::state::Kind;

use super::ops::{Op, Slip, Who};
use super::run::{Call, Operate, Side};
use super::script::{Script, lanes, pick, records};
use crate::builders::{TTL, audit, hash, lock, nonce};

impl Script {
    pub(super) async fn ask(&mut self, op: &Op, model: &Side<'_>) -> Option<Call> {
        let mut records = records(model).await;
        if let Op::Ask { tx, round, policy } = op {
            return Some(Call::Ask(NewRemedy {
                tx: pick(&records, *tx)?.tx,
                round: *round,
                action: match policy {
                    true => Action::Decide,
                    false => Action::Replace,
                },
                fees: None,
                audit: audit(),
            }));
        }
        let Op::Settle {
            tx,
            act,
            again,
            wrong,
        } = op
        else {
            return None;
        };
        records.retain(|record| record.kind == Kind::Reserved);
        let record = pick(&records, *tx)?;
        let act = match act % 4 {
            0 | 1 => SettleAct::Submitted {
                hash: hash(self.hash(*again)),
                due_in: Duration::ZERO,
            },
            2 => SettleAct::Recycle,
            _ => SettleAct::Extend(TTL * 3),
        };
        let right = record.reservation.unwrap().lock;
        Some(Call::Settle(Settle {
            reservation: record.tx,
            lock: if *wrong { lock(1_000_000) } else { right },
            act,
        }))
    }

    pub(super) async fn decide(
        &self,
        who: Who,
        slip: Slip,
        remedy: usize,
        action: usize,
        model: &Side<'_>,
    ) -> Option<Call> {
        let mut acts: Vec<(Lane, Act)> = Vec::new();
        for record in records(model).await {
            let of = Acts::Tx(record.tx);
            let newest = model.store.acts(of, None, 1).await.unwrap();
            acts.extend(newest.into_iter().map(|act| (record.lane, act)));
        }
        // Mostly what can be decided, or claimed for it; else whatever there is.
        let is_question = |(_, act): &(Lane, Act)| act.action == Action::Decide.word();
        let is_claimed = |(_, act): &(Lane, Act)| act.progress == Progress::Claimed;
        for likely in [&is_question as &dyn Fn(&(Lane, Act)) -> bool, &is_claimed] {
            if acts.iter().any(likely) {
                acts.retain(likely);
            }
        }
        let (lane, act) = pick(&acts, remedy)?;
        let lane = lanes().iter().position(|each| each == lane)?;
        let (holder, mut token) = self.actor(who, lane, model).await;
        let claimed = act.claimed.as_ref().map(|(_, token)| *token);
        if claimed != Some(token) && !action.is_multiple_of(3) {
            return Some(Call::ClaimRemedies(holder, lane, token));
        }
        if slip == Slip::Token {
            token = token.plus(1).unwrap();
        }
        let decided = Decided {
            remedy: act.id,
            action: Action::ALL.get(action / 3 % 6).copied(),
            fees: None,
            raw: None,
            severity: None,
            after: None,
            audit: audit(),
        };
        let number = model.remedy_number(act.id);
        Some(Call::Decide(holder, lane, token, number, decided))
    }

    pub(super) async fn operate(&self, op: &Op, model: &Side<'_>) -> Option<Call> {
        Some(
            if let Op::Pause {
                lane,
                change,
                at_least,
            } = op
            {
                let change = match change {
                    0 => PauseChange::Pause(PauseReason::Operator),
                    1 => PauseChange::Reconcile {
                        at_least: nonce(*at_least),
                    },
                    _ => PauseChange::Resume,
                };
                Call::Operate(*lane, Operate::Pause(change))
            } else if let Op::Raise { who, lane, to } = op {
                let (holder, token) = self.actor(*who, *lane, model).await;
                Call::Operate(*lane, Operate::Raise(holder, token, nonce(*to)))
            } else if let Op::Forget { who, lane, below } = op {
                let (holder, token) = self.actor(*who, *lane, model).await;
                Call::Operate(*lane, Operate::Forget(holder, token, nonce(*below)))
            } else if let Op::Lower { lane, to } = op {
                Call::Operate(*lane, Operate::Lower(nonce(*to)))
            } else {
                return None;
            },
        )
    }
}
