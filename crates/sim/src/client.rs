//! Businesses: they send payments, one by one and in batches, ask again when they were not told, and now and
//! then use one name for two things.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost_app::ports::{Body, Clock, NewTx};
use fencepost_devchain::revert_call;
use fencepost_domain::ids::{Lane, RequestId};
use fencepost_domain::request::{Draft, Payload};
use tokio::time::sleep;

use crate::checks::PAYEE;
use crate::ledger::Told;
use crate::node::Member;
use crate::profile::GWEI;
use crate::rng::Rng;
use crate::world::World;

/// How often one request is tried.
const TRIES_MAX: u32 = 12;

/// One business.
pub(crate) struct Client {
    world: Arc<World>,
    name: String,
    luck: Rng,
    /// What is left to ask for, by all of them together.
    left: Arc<AtomicU64>,
    /// How many were asked for: each payment has an amount of its own.
    amount: Arc<AtomicU64>,
    pace: u64,
}

/// Something to ask for, again and again until it is answered.
#[derive(Clone)]
struct Wanted {
    lane: Lane,
    name: Option<RequestId>,
    payload: Payload,
    not_after: bool,
}

impl Client {
    pub(crate) fn new(
        world: &Arc<World>,
        n: usize,
        left: &Arc<AtomicU64>,
        amount: &Arc<AtomicU64>,
    ) -> Self {
        let name = format!("client{n}");
        let mut luck = world.rng(&name);
        Self {
            pace: luck.between(20, 900),
            luck,
            world: Arc::clone(world),
            name,
            left: Arc::clone(left),
            amount: Arc::clone(amount),
        }
    }

    /// Until nothing is left to ask for.
    pub(crate) async fn run(mut self) {
        loop {
            let batch = if self.luck.chance(200) {
                self.luck.between(2, 12)
            } else {
                1
            };
            let take = |left: u64| (left > 0).then(|| left.saturating_sub(batch));
            let before = self
                .left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
            let Ok(before) = before else {
                return;
            };
            let lane = *self.luck.pick(&self.world.lanes.clone());
            let wanted: Vec<Wanted> = (0..batch.min(before)).map(|_| self.want(lane)).collect();
            self.see_through(wanted).await;
            sleep(self.luck.millis(0, 2 * self.pace)).await;
        }
    }

    fn want(&mut self, lane: Lane) -> Wanted {
        let amount = self.amount.fetch_add(1, Ordering::Relaxed);
        let named = self.luck.chance(850);
        let name = format!("{}-{amount}", self.name);
        Wanted {
            lane,
            name: named.then(|| RequestId::new(name).expect("it is short")),
            payload: self.payload(amount),
            not_after: self.luck.chance(30),
        }
    }

    fn payload(&mut self, amount: u64) -> Payload {
        let reverts = self.luck.chance(20);
        // Some pay what is asked for, some no more than they say.
        let cap = match self.luck.below(10) {
            0 => Some(self.luck.between(2, 4)),
            1 | 2 => Some(self.luck.between(20, 90)),
            _ => None,
        };
        let wei = |gwei: u64| (u128::from(gwei) * GWEI).to_string();
        let draft = Draft {
            to: Some(PAYEE.to_string()),
            value: Some(amount.to_string()),
            data: reverts.then(|| revert_call("no").to_string()),
            gas: Some(if reverts { "60000" } else { "21000" }.to_owned()),
            max_fee_per_gas: cap.map(wei),
            max_priority_fee_per_gas: cap.map(|_| wei(1)),
            ..Draft::default()
        };
        Payload::parse(&draft, self.world.profile.chain.ceilings).expect("it is sound")
    }

    /// Asks until it is told, or loses interest.
    async fn see_through(&mut self, mut wanted: Vec<Wanted>) {
        for n in 0..TRIES_MAX {
            wanted = self.ask(wanted).await;
            // Whoever gave no name must not ask again: it would pay twice.
            wanted.retain(|each| each.name.is_some());
            if wanted.is_empty() || self.luck.chance(20) {
                return;
            }
            sleep(self.luck.millis(5, 60 << n.min(6))).await;
        }
    }

    /// Those that are still to be asked for.
    async fn ask(&mut self, wanted: Vec<Wanted>) -> Vec<Wanted> {
        let Some(member) = self.world.someone(&mut self.luck) else {
            return wanted;
        };
        let lane = wanted[0].lane;
        let txs: Vec<NewTx> = wanted.iter().map(|each| self.tx(each)).collect();
        let longest = if self.luck.chance(100) { 300 } else { 8_000 };
        let patience = self.luck.millis(1, longest);
        let verdicts = member.ask(lane, txs.clone(), patience).await;
        let mut left = Vec::new();
        for ((each, tx), verdict) in wanted.into_iter().zip(&txs).zip(verdicts) {
            let told = self.world.answered(lane, tx, verdict.as_ref());
            let word = verdict
                .as_ref()
                .map_or("no answer", |verdict| verdict.word());
            let named = each.name.as_ref().map_or("-", RequestId::as_str);
            self.world.note(
                &self.name,
                format_args!("{named} at {}: {word}", member.name),
            );
            match told {
                Told::Stored => self.again(&member, &each).await,
                Told::Refused | Told::Unknown => left.push(each),
            }
        }
        left
    }

    /// Some ask for what they have; some use its name for something else.
    async fn again(&mut self, member: &Arc<Member>, had: &Wanted) {
        let Some(name) = &had.name else {
            return;
        };
        let mut same = had.clone();
        let other = self.luck.chance(25);
        if other {
            let key = (had.lane, name.as_str().to_owned());
            self.world.ledger().ambiguous.insert(key);
            let amount = 900_000_000 + self.luck.below(1_000_000);
            same.payload = self.payload(amount);
        } else if !self.luck.chance(60) {
            return;
        }
        let tx = self.tx(&same);
        let verdicts = member
            .ask(had.lane, vec![tx.clone()], Duration::from_secs(8))
            .await;
        for verdict in verdicts {
            let told = self.world.answered(had.lane, &tx, verdict.as_ref());
            let word = verdict
                .as_ref()
                .map_or("no answer", |verdict| verdict.word());
            self.world
                .note(&self.name, format_args!("{} again: {word}", name.as_str()));
            if other && told == Told::Stored {
                let facts = format!("{} was taken with another payload", name.as_str());
                self.world.violate("I7 duplicates cost nothing", facts);
            }
        }
    }

    fn tx(&mut self, wanted: &Wanted) -> NewTx {
        let now = self.world.store_clock.now();
        let soon = now.saturating_add(Duration::from_millis(self.luck.between(50, 4_000)));
        NewTx {
            tx: self.world.mint(&mut self.luck),
            seal: None,
            request_id: wanted.name.clone(),
            body: Body::Managed(wanted.payload.clone()),
            not_after: wanted.not_after.then(|| soon.expect("runs are short")),
            meta: None,
            created_by: None,
        }
    }
}
