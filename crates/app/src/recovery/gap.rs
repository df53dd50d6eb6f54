//! Gaps: nonces that nobody holds and that later ones wait for. They are found and told; only a policy or
//! an operator has them filled, for the next request may take a nonce that was given back.

use fencepost_domain::event::{self, Event};
use fencepost_domain::ids::{LaneId, Nonce, TxId};
use fencepost_domain::keccak256;
use fencepost_domain::state::{State, Why};
use fencepost_domain::transition::{Input, Transition};

use crate::causes::Causes;
use crate::lane::entry::Busy;
use crate::lane::front::Gaps;
use crate::lane::moves::Then;
use crate::lane::track::Track;
use crate::lane::worker::Worker;
use crate::lifecycle::accept::Verdict;
use crate::ports::{Action, Body, Closing, Held, Move, NewTx, RemedyId};

/// How many gaps one remedy fills; more take more rounds.
const FILLED_MAX: usize = 16;
/// How many gaps a text names.
const NAMED_MAX: usize = 5;

impl Worker {
    /// These nonces, from the chain's count up, are held by nobody.
    pub(crate) async fn gapped(&mut self, lane: LaneId, mut nonces: Vec<Nonce>) {
        let now = self.node.ticks.ticks();
        let settings = &self.node.settings;
        let patience = settings.stuck.age.min(settings.stale_receipt_timeout);
        let Some(track) = self.tracks.get_mut(&lane) else {
            return;
        };
        let highest = track.highest();
        nonces.retain(|nonce| highest.is_some_and(|highest| *nonce < highest));
        let lowest = nonces.first().copied();
        track.gaps = lowest.map(|lowest| {
            let known = track.gaps.as_ref();
            let known = known.filter(|gaps| gaps.nonces.first() == Some(&lowest));
            let since = known.map_or(now, |gaps| gaps.since);
            Gaps { nonces, since }
        });
        let open = still_open(track, lowest);
        let blocked = lowest.and_then(|lowest| first_above(track, lowest));
        let ripe = track
            .gaps
            .as_ref()
            .is_some_and(|gaps| now.saturating_sub(gaps.since) >= patience);
        let text = track.gaps.as_ref().map(named).unwrap_or_default();
        for nonce in open {
            // What it waited for is there: its bytes go out again.
            let _ = self
                .plan(lane, nonce, Input::Clear, Then::Reorged, |step| step)
                .await;
        }
        if let Some(nonce) = blocked.filter(|_| ripe) {
            self.stick(lane, nonce, Why::Gap, &text, |step| step).await;
        }
    }

    /// Has the gaps filled that a policy or an operator wants filled. To be called after a look at the chain.
    pub(crate) async fn fill_gaps(&mut self, held: Held) {
        let wanted = self
            .errands
            .iter()
            .filter(|(_, errand)| errand.held == held && errand.action == Action::Fill);
        let wanted: Vec<(TxId, RemedyId)> = wanted.map(|(tx, each)| (*tx, each.remedy)).collect();
        for (tx, remedy) in wanted {
            self.fill_below(held, tx, remedy).await;
        }
    }

    async fn fill_below(&mut self, held: Held, tx: TxId, remedy: RemedyId) {
        self.write().await;
        let record = match self.node.store.find_many(&[tx]).await {
            Ok(mut found) => found.pop(),
            Err(error) => {
                tracing::warn!(error = %Causes(&error), tx_id = %tx, "a transaction behind a gap could not be read");
                return;
            }
        };
        let seat = self.node.directory.seat_by_id(held.lane);
        let (Some(record), Some(seat)) = (record, seat) else {
            return;
        };
        let waits = matches!(&record.state, State::Stuck(stuck) if stuck.why == Why::Gap);
        let track = self.tracks.get(&held.lane);
        let gaps = track.and_then(|track| track.gaps.as_ref());
        let below = record.state.nonce();
        let gaps: Vec<Nonce> = gaps
            .map(|gaps| gaps.nonces.clone())
            .unwrap_or_default()
            .into_iter()
            .filter(|gap| waits && below.is_some_and(|below| *gap < below))
            .take(FILLED_MAX)
            .collect();
        let mut filled = Vec::new();
        for nonce in gaps {
            let tx = self.placeholder(held, nonce, remedy);
            let tx = tx.sealed(&self.node.settings.seals, seat.lane);
            if let Verdict::New(_) = self.fill_one(held, seat, &tx).await {
                filled.push(nonce.get().to_string());
            }
        }
        if filled.is_empty() {
            let why = "no nonce below it can be filled";
            return self.refuse(held, &record, remedy, Action::Fill, why).await;
        }
        let note = format!("fills nonce {}", filled.join(", "));
        let same = Transition {
            to: record.state.clone(),
            event: Event::new(event::Kind::Remedied).note(&note),
        };
        let closing = Closing {
            remedy,
            refused: None,
        };
        let step = Move::of(&record, same).closing(closing);
        if self.close(held, &record, step, "done", Action::Fill).await {
            self.errands.remove(&tx);
        }
    }

    fn placeholder(&self, held: Held, nonce: Nonce, remedy: RemedyId) -> NewTx {
        let seed = format!("{} {} {nonce} {}", held.lane.0, held.token, remedy.0);
        let mut rest = [0; 10];
        rest.copy_from_slice(&keccak256(seed)[..10]);
        let now = self.node.clock.now().as_millisecond();
        let millis = u64::try_from(now).unwrap_or_default();
        NewTx {
            tx: TxId(uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid()),
            seal: None,
            request_id: None,
            body: Body::Placeholder(nonce),
            not_after: None,
            meta: None,
            created_by: None,
        }
    }
}

/// Those that were stuck behind a gap which is closed.
fn still_open(track: &Track, lowest: Option<Nonce>) -> Vec<Nonce> {
    let is_closed = |nonce: Nonce| lowest.is_none_or(|lowest| nonce < lowest);
    track
        .unmined()
        .filter(|(nonce, entry)| {
            entry.stuck() == Some(Why::Gap) && entry.busy == Busy::No && is_closed(*nonce)
        })
        .map(|(nonce, _)| nonce)
        .collect()
}

/// The first of ours that waits for a gap, unless it is told as stuck already.
fn first_above(track: &Track, gap: Nonce) -> Option<Nonce> {
    let (nonce, entry) = track.unmined().find(|(nonce, _)| *nonce > gap)?;
    // That a lower nonce is missing says more than that it is in no block.
    let news = matches!(entry.stuck(), None | Some(Why::NoReceipt));
    (news && entry.busy == Busy::No).then_some(nonce)
}

pub(super) fn named(gaps: &Gaps) -> String {
    let few = gaps.nonces.iter().take(NAMED_MAX);
    let few: Vec<String> = few.map(|nonce| nonce.get().to_string()).collect();
    let more = if gaps.nonces.len() > NAMED_MAX {
        " and more"
    } else {
        ""
    };
    format!("held by nobody: nonce {}{more}", few.join(", "))
}
