//! Remedies and acts of the model: one list, in the order of their ids.

use fencepost_app::ports::{
    Act, Action, Acts, AskedRemedy, Audit, ClaimedRemedies, ClaimedRemedy, Closing, Decided,
    Decision, Held, Holder, NewRemedy, Progress, REFUSED_CALL, RemedyId, StoreError, check,
};
use fencepost_domain::ids::{LaneId, TxId};

use super::memory::{Remedy, Whole};

impl Remedy {
    pub(super) fn is_open(&self) -> bool {
        self.act.closed_at.is_none()
    }
}

impl Whole {
    pub(super) fn ask_remedy(&mut self, asked: &NewRemedy) -> Result<AskedRemedy, StoreError> {
        check::remedy(asked)?;
        let Some(row) = self.records.get(&asked.tx) else {
            return Ok(AskedRemedy::NotFound);
        };
        if row.state.is_final() {
            return Ok(AskedRemedy::AlreadyFinal);
        }
        let lane = row.lane_id;
        let of_tx = self.remedies.iter();
        let of_tx = of_tx.filter(|each| each.act.tx == Some(asked.tx));
        if let Some(running) = of_tx.clone().find(|each| each.is_open()) {
            return Ok(AskedRemedy::Running(running.act.id));
        }
        let last = of_tx.filter_map(|each| each.act.round).max();
        if let Some(last) = last.filter(|last| asked.round <= *last) {
            return Ok(AskedRemedy::RoundTaken { next: last + 1 });
        }
        let act = Act {
            tx: Some(asked.tx),
            round: Some(asked.round),
            fees: asked.fees,
            ..self.next_act(lane, asked.action.word(), &asked.audit)
        };
        let id = act.id;
        self.remedies.push(Remedy {
            lane,
            act,
            raw: None,
        });
        Ok(AskedRemedy::Asked(id))
    }

    /// An act that nobody has begun, under the next free id.
    fn next_act(&self, lane: LaneId, action: &str, audit: &Audit) -> Act {
        Act {
            id: RemedyId(i64::try_from(self.remedies.len()).unwrap() + 1),
            lane: self.lanes.get(&lane).map(|row| row.lane),
            tx: None,
            round: None,
            action: action.to_owned(),
            fees: None,
            severity: None,
            after: None,
            audit: audit.clone(),
            progress: Progress::Asked,
            claimed: None,
            result: None,
            token: None,
            before_after: None,
            asked_at: self.now,
            closed_at: None,
        }
    }

    /// Writes down what was done to a lane.
    pub(super) fn audit(&mut self, lane: LaneId, action: &str, audit: &Audit, change: String) {
        let act = Act {
            progress: Progress::Done,
            token: Some(self.lanes[&lane].token),
            before_after: Some(change),
            closed_at: Some(self.now),
            ..self.next_act(lane, action, audit)
        };
        self.remedies.push(Remedy {
            lane,
            act,
            raw: None,
        });
    }

    /// Writes down a call that was refused. No lane has the id 0.
    pub(super) fn record_refusal(&mut self, audit: &Audit, answer: &str) -> Result<(), StoreError> {
        check::refusal(audit, answer)?;
        let lane = LaneId(0);
        let act = Act {
            progress: Progress::Refused,
            result: Some(answer.to_owned()),
            closed_at: Some(self.now),
            ..self.next_act(lane, REFUSED_CALL, audit)
        };
        self.remedies.push(Remedy {
            lane,
            act,
            raw: None,
        });
        Ok(())
    }

    pub(super) fn claim_remedies(
        &mut self,
        holder: &Holder,
        held: &[Held],
        limit: usize,
    ) -> Result<ClaimedRemedies, StoreError> {
        check::claim_remedies(held, limit)?;
        let (ours, fenced): (Vec<Held>, Vec<Held>) =
            held.iter().partition(|held| self.leads(holder, **held));
        for held in &ours {
            self.renew_lease(held.lane);
        }
        let mut remedies = Vec::new();
        for Remedy { lane, act, raw } in self.remedies.iter_mut().filter(|each| each.is_open()) {
            let Some(held) = ours.iter().find(|held| held.lane == *lane) else {
                continue;
            };
            let claimed = act.claimed.as_ref().map(|(_, token)| *token);
            if claimed.is_some_and(|token| token >= held.token) || remedies.len() == limit {
                continue;
            }
            let is_first_claim = act.progress == Progress::Asked;
            act.claimed = Some((holder.node.clone(), held.token));
            let row = &self.records[&act.tx.unwrap()];
            if row.state.is_final() {
                act.progress = Progress::Refused;
                act.result = Some("already final".to_owned());
                act.closed_at = Some(self.now);
                continue;
            }
            act.progress = Progress::Claimed;
            remedies.push(ClaimedRemedy {
                id: act.id,
                round: act.round.unwrap(),
                action: Action::from_word(&act.action).unwrap(),
                fees: act.fees,
                raw: raw.clone(),
                severity: act.severity,
                after: act.after,
                is_first_claim,
                audit: act.audit.clone(),
                record: row.clone(),
            });
        }
        let fenced = fenced.into_iter().map(|held| held.lane).collect();
        Ok(ClaimedRemedies { remedies, fenced })
    }

    pub(super) fn decide_remedy(
        &mut self,
        holder: &Holder,
        held: Held,
        decided: &Decided,
    ) -> Result<Decision, StoreError> {
        check::decided(decided)?;
        if !self.leads(holder, held) {
            return Ok(Decision::Fenced);
        }
        let now = self.now;
        let question = self.remedies.iter_mut().find(|Remedy { lane, act, .. }| {
            let claimed = act.claimed.as_ref().map(|(_, token)| *token);
            (act.id, *lane, claimed) == (decided.remedy, held.lane, Some(held.token))
                && act.action == Action::Decide.word()
                && act.progress == Progress::Claimed
        });
        let Some(Remedy { act, raw, .. }) = question else {
            return Ok(Decision::Gone);
        };
        raw.clone_from(&decided.raw);
        (act.severity, act.after) = (decided.severity, decided.after);
        act.fees = decided.fees;
        act.audit = decided.audit.clone();
        if let Some(action) = decided.action {
            action.word().clone_into(&mut act.action);
        } else {
            "NOOP".clone_into(&mut act.action);
            act.result = Some("NOOP".to_owned());
            act.progress = Progress::Done;
            act.closed_at = Some(now);
        }
        self.renew_lease(held.lane);
        Ok(Decision::Written)
    }

    /// Whether a move of this transaction can close a remedy.
    pub(super) fn can_close(&self, closing: &Closing, tx: TxId) -> bool {
        let mut open = self.remedies.iter().filter(|each| each.is_open());
        open.any(|each| each.act.id == closing.remedy && each.act.tx == Some(tx))
    }

    pub(super) fn close(&mut self, closing: &Closing) {
        let now = self.now;
        let mut all = self.remedies.iter_mut();
        let act = &mut all.find(|each| each.act.id == closing.remedy).unwrap().act;
        act.result = closing.refused.as_deref().map(check::cut).map(Into::into);
        act.progress = match closing.refused {
            None => Progress::Done,
            Some(_) => Progress::Refused,
        };
        act.closed_at = Some(now);
    }

    pub(super) fn remedy_lanes(
        &self,
        after: Option<LaneId>,
        limit: usize,
    ) -> Result<Vec<LaneId>, StoreError> {
        check::limit(limit)?;
        let open = self.remedies.iter().filter(|each| each.is_open());
        let mut lanes: Vec<LaneId> = open.map(|each| each.lane).collect();
        lanes.sort();
        lanes.dedup();
        lanes.retain(|lane| Some(*lane) > after);
        lanes.truncate(limit);
        Ok(lanes)
    }

    pub(super) fn acts(
        &self,
        of: Acts,
        before: Option<RemedyId>,
        limit: usize,
    ) -> Result<Vec<Act>, StoreError> {
        check::limit(limit)?;
        let fits = |each: &&Remedy| {
            let whose = match of {
                Acts::Tx(tx) => each.act.tx == Some(tx),
                Acts::Lane(lane) => each.act.tx.is_none() && each.lane == lane,
                Acts::After(after) => each.act.id > after,
            };
            whose && before.is_none_or(|before| each.act.id < before)
        };
        let oldest_first = self.remedies.iter().filter(fits);
        let acts = oldest_first.map(|each| each.act.clone());
        Ok(match of {
            Acts::Tx(_) | Acts::Lane(_) => acts.rev().take(limit).collect(),
            Acts::After(_) => acts.take(limit).collect(),
        })
    }
}
