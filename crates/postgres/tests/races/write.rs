//! Every kind of fenced write, each with something to do, so that one scenario can be played with all.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use fencepost_app::ports::{
    Action, Acts, AskedRemedy, CursorMove, CursorMoved, Decided, Decision, LaneCreated, LaneMoved,
    LaneRefusal, NewRemedy,
};
use fencepost_domain::state::{Wait, Why};
use fencepost_domain::transition::Input;
use fencepost_store_tests::bench::{Seat, only};
use fencepost_store_tests::builders::{audit, id, loan, nonce, sign, tx, txs};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Create,
    Promote,
    Apply,
    Complete,
    ClaimDue,
    ClaimRemedies,
    Decide,
    RaiseCursor,
}

pub(crate) const WRITES: [Write; 8] = [
    Write::Create,
    Write::Promote,
    Write::Apply,
    Write::Complete,
    Write::ClaimDue,
    Write::ClaimRemedies,
    Write::Decide,
    Write::RaiseCursor,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Written,
    Fenced,
}

impl Write {
    /// A table that it writes once it has taken the lane's row.
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Create | Self::Promote | Self::Apply | Self::Complete | Self::ClaimDue => {
                "managed_tx"
            }
            Self::ClaimRemedies | Self::Decide | Self::RaiseCursor => "remedy",
        }
    }

    /// A lane with a signed transaction, an unsigned one, a reservation and a free nonce; and, but for
    /// creating, which must not go before it, one that waits in the queue. Its remedy waits to be
    /// claimed, or is a question that was claimed and waits for its answer.
    pub(crate) async fn prepare(self, seat: &Seat) -> Result<()> {
        seat.accept(vec![tx(1), tx(2), loan(3), tx(4)]).await;
        seat.step(id(1), sign(11)).await;
        seat.step(id(4), Input::Reject).await;
        if self != Self::Create {
            let waiting = [(seat.held.lane, tx(5))];
            seat.store.enqueue(&waiting, Wait::Leader, 10).await?;
        }
        let remedy = NewRemedy {
            tx: id(1),
            round: 1,
            action: match self == Self::Decide {
                true => Action::Decide,
                false => Action::Replace,
            },
            fees: None,
            audit: audit(),
        };
        let asked = seat.store.ask_remedy(&remedy).await?;
        ensure!(matches!(asked, AskedRemedy::Asked(_)), "{asked:?}");
        if self == Self::Decide {
            let held = [seat.held];
            let claimed = seat.store.claim_remedies(&seat.holder, &held, 10).await?;
            ensure!(claimed.remedies.len() == 1, "{claimed:?}");
        }
        Ok(())
    }

    pub(crate) async fn send(self, seat: Seat) -> Result<Answer> {
        match self {
            Self::Create => created(&seat.create(txs([8, 9])).await),
            Self::Promote => created(&seat.promote(vec![id(5)]).await),
            Self::Apply => moved(&seat.write(vec![seat.plan(id(2), sign(22)).await]).await),
            Self::Complete => {
                let stuck = seat.plan(id(1), Input::Stick(Why::NoReceipt)).await;
                let rejected = seat.plan(id(2), Input::Reject).await;
                moved(&seat.write(vec![stuck, rejected]).await)
            }
            Self::ClaimDue => {
                let claimed = seat.claim_due(Duration::from_mins(1), 10).await;
                found(claimed.records.len(), claimed.fenced.len())
            }
            Self::ClaimRemedies => {
                let held = [seat.held];
                let claimed = seat.store.claim_remedies(&seat.holder, &held, 10).await?;
                found(claimed.remedies.len(), claimed.fenced.len())
            }
            Self::Decide => {
                let question = only(seat.store.acts(Acts::Tx(id(1)), None, 1).await?);
                let decided = Decided {
                    remedy: question.id,
                    action: Some(Action::Replace),
                    fees: None,
                    raw: None,
                    severity: None,
                    after: None,
                    audit: audit(),
                };
                let (me, held) = (&seat.holder, seat.held);
                match seat.store.decide_remedy(me, held, &decided).await? {
                    Decision::Written => Ok(Answer::Written),
                    Decision::Fenced => Ok(Answer::Fenced),
                    Decision::Gone => bail!("there was nothing to decide"),
                }
            }
            Self::RaiseCursor => {
                let raise = CursorMove::Raise {
                    holder: seat.holder.clone(),
                    held: seat.held,
                    to: nonce(100),
                };
                let lane = seat.held.lane;
                match seat.store.move_cursor(lane, &raise, &audit()).await? {
                    CursorMoved::Now { to, .. } if to == nonce(100) => Ok(Answer::Written),
                    CursorMoved::Fenced => Ok(Answer::Fenced),
                    other @ (CursorMoved::Now { .. }
                    | CursorMoved::NotPaused
                    | CursorMoved::Holds(_)
                    | CursorMoved::UnknownLane) => bail!("{other:?}"),
                }
            }
        }
    }
}

fn created(answer: &LaneCreated) -> Result<Answer> {
    match answer {
        LaneCreated::Done { .. } => Ok(Answer::Written),
        LaneCreated::Refused(LaneRefusal::Fenced) => Ok(Answer::Fenced),
        LaneCreated::Refused(_) => bail!("{answer:?}"),
    }
}

fn moved(answer: &LaneMoved) -> Result<Answer> {
    match answer {
        LaneMoved::Done(_) => Ok(Answer::Written),
        LaneMoved::Fenced => Ok(Answer::Fenced),
        LaneMoved::Paused(_)
        | LaneMoved::Stale(_)
        | LaneMoved::KnownHash(_)
        | LaneMoved::Busy
        | LaneMoved::UnknownLane => bail!("{answer:?}"),
    }
}

fn found(claimed: usize, fenced: usize) -> Result<Answer> {
    match (claimed, fenced) {
        (1.., 0) => Ok(Answer::Written),
        (0, 1) => Ok(Answer::Fenced),
        other => bail!("claimed and fenced: {other:?}"),
    }
}
