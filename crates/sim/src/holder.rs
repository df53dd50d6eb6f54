//! Holders of lent nonces: they sign and send by themselves, name what they sent, give back what they do not
//! use, ask for more time, or say nothing any more.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Body, Clock, Loan, NewTx, Record, Settle, SettleAct, Settled};
use fencepost_domain::ids::{Lane, LockToken, RequestId};
use jiff::SignedDuration;
use tokio::time::sleep;

use crate::outsider::Theirs;
use crate::rng::Rng;
use crate::world::World;

const TRIES_MAX: u32 = 10;

/// One business that signs by itself.
pub(crate) struct Borrower {
    world: Arc<World>,
    luck: Rng,
}

impl Borrower {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            luck: world.rng("holder"),
            world: Arc::clone(world),
        }
    }

    pub(crate) async fn run(mut self) {
        for n in 0..self.world.profile.loans {
            sleep(self.luck.millis(50, 1_500)).await;
            let lane = *self.luck.pick(&self.world.lanes.clone());
            if let Some(lent) = self.borrow(lane, n).await {
                self.spend(lane, &lent, n).await;
            }
        }
    }

    async fn borrow(&mut self, lane: Lane, n: u64) -> Option<Record> {
        let name = RequestId::new(format!("loan-{n}")).expect("it is short");
        let loan = Loan {
            lock: LockToken(self.world.mint(&mut self.luck).0),
            ttl: self.luck.millis(1_000, 6_000),
            grace: self.world.profile.settings.lending.grace,
        };
        for _ in 0..TRIES_MAX {
            if let Some(member) = self.world.someone(&mut self.luck) {
                let tx = NewTx {
                    tx: self.world.mint(&mut self.luck),
                    seal: None,
                    request_id: Some(name.clone()),
                    body: Body::Reserved(loan),
                    not_after: None,
                    meta: None,
                    created_by: None,
                };
                let verdict = member
                    .ask(lane, vec![tx.clone()], Duration::from_secs(8))
                    .await
                    .pop();
                let verdict = verdict.flatten();
                self.world.answered(lane, &tx, verdict.as_ref());
                let word = verdict
                    .as_ref()
                    .map_or("no answer", |verdict| verdict.word());
                self.world.note("holder", format_args!("loan-{n}: {word}"));
                if let Some(Verdict::New(record) | Verdict::Known(record)) = verdict {
                    return Some(*record);
                }
            }
            sleep(self.luck.millis(20, 800)).await;
        }
        None
    }

    async fn spend(&mut self, lane: Lane, lent: &Record, n: u64) {
        match self.luck.below(10) {
            0..5 => self.use_it(lane, lent, n).await,
            5 | 6 => drop(self.say(lane, lent, SettleAct::Recycle).await),
            7 => {
                let more = SettleAct::Extend(self.luck.millis(1_000, 5_000));
                if let Some(Settled::Done(extended)) = self.say(lane, lent, more).await {
                    self.use_it(lane, &extended, n).await;
                }
            }
            8 => self.use_silently(lane, lent, n).await,
            _ => self.world.note("holder", "forgets its nonce"),
        }
    }

    /// It names its hash first, and sends when that is written down.
    async fn use_it(&mut self, lane: Lane, lent: &Record, n: u64) {
        let Some(nonce) = lent.state.nonce() else {
            return;
        };
        sleep(self.luck.millis(0, 1_500)).await;
        let theirs = self
            .world
            .sign_elsewhere(lane, nonce.get(), 700_000 + n)
            .await;
        let named = SettleAct::Submitted {
            hash: theirs.hash,
            due_in: self.world.profile.settings.lending.used_after,
        };
        // What may be written down must be sent, or the lane waits for it: it asks until it is told.
        let settled = loop {
            if let Some(settled) = self.say(lane, lent, named).await {
                break settled;
            }
        };
        if let Settled::Done(_) = settled {
            self.world.send_elsewhere(&theirs);
            insist(&self.world, theirs);
        }
    }

    /// It sends without a word: while its time is not over, and with nothing missing below.
    async fn use_silently(&mut self, lane: Lane, lent: &Record, n: u64) {
        let Some(nonce) = lent.state.nonce() else {
            return;
        };
        let theirs = self
            .world
            .sign_elsewhere(lane, nonce.get(), 700_000 + n)
            .await;
        let next = self.world.chain.lock().state().nonce(&lane.signer);
        let margin = SignedDuration::from_millis(600);
        let now = self.world.store_clock.now();
        let in_time = lent.reservation.is_some_and(|terms| {
            now.saturating_add(margin)
                .is_ok_and(|then| then < terms.expires_at)
        });
        if next == nonce.get() && in_time {
            self.world.send_elsewhere(&theirs);
        }
    }

    /// Says something until it is answered.
    async fn say(&mut self, lane: Lane, lent: &Record, act: SettleAct) -> Option<Settled> {
        let call = Settle {
            reservation: lent.tx,
            lock: lent.reservation?.lock,
            act,
        };
        for _ in 0..TRIES_MAX {
            if let Some(member) = self.world.someone(&mut self.luck) {
                let settled = tokio::select! {
                    biased;
                    () = member.gate.died() => None,
                    settled = member.node.settle_loan(lane, &call) => settled.ok(),
                };
                if settled.is_some() {
                    return settled;
                }
            }
            sleep(self.luck.millis(20, 500)).await;
        }
        None
    }
}

/// A holder sends what it has named until it is mined, as we do.
fn insist(world: &Arc<World>, theirs: Theirs) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_secs(2)).await;
            let mined = world.checker().mirror.mined(&theirs.hash).is_some();
            if !mined {
                world.send_elsewhere(&theirs);
            }
        }
    });
}
