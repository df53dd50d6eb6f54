//! Operators: they press buttons, mostly at the wrong moment.

use std::sync::Arc;

use fencepost_app::operate::Wish;
use fencepost_app::ports::{
    Action, Body, CursorMove, NewTx, PauseChange, PauseReason, Record, Store,
};
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::ids::{Lane, Nonce};
use tokio::time::sleep;

use crate::healing::audit;
use crate::node::Member;
use crate::profile::GWEI;
use crate::rng::Rng;
use crate::world::World;

/// Someone with the rights to do it.
pub(crate) struct Operator {
    world: Arc<World>,
    luck: Rng,
}

impl Operator {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            luck: world.rng("operator"),
            world: Arc::clone(world),
        }
    }

    pub(crate) async fn run(mut self) {
        for _ in 0..self.world.profile.acts {
            sleep(self.luck.millis(200, 3_000)).await;
            let Some(member) = self.world.someone(&mut self.luck) else {
                continue;
            };
            let act = self.act(&member);
            tokio::select! {
                biased;
                () = member.gate.died() => {}
                () = act => {}
            }
        }
    }

    async fn act(&mut self, member: &Arc<Member>) {
        let at = self.luck.place(self.world.lanes.len());
        let lane = self.world.lanes[at];
        match self.luck.below(12) {
            0 | 1 => self.hold(member, lane, false).await,
            2 => self.hold(member, lane, true).await,
            3 => self.reconcile(member, lane).await,
            4 => self.fill(member, lane).await,
            _ => self.remedy(member).await,
        }
    }

    async fn remedy(&mut self, member: &Arc<Member>) {
        let open: Vec<Record> = {
            let checker = self.world.checker();
            let open = checker.rows.values().filter(|row| !row.state.is_final());
            open.cloned().collect()
        };
        if open.is_empty() {
            return;
        }
        let record = self.luck.pick(&open).clone();
        let action = *self.luck.pick(&[
            Action::Resubmit,
            Action::Replace,
            Action::Replace,
            Action::Cancel,
            Action::Cancel,
            Action::Placeholder,
        ]);
        let gwei = u128::from(self.luck.between(1, 300));
        let fees = (action == Action::Replace && self.luck.chance(300)).then_some(SignedFees {
            max_fee: gwei * GWEI,
            max_priority_fee: Some(2 * GWEI),
        });
        let wish = Wish {
            action,
            fees,
            audit: audit("it is late"),
        };
        // Whether it was written down is told by whoever stands at the store.
        drop(member.node.ask_remedy(&record, &wish).await);
    }

    /// Pauses a lane for a while; perhaps its cursor is lowered meanwhile, to what is held.
    async fn hold(&mut self, member: &Arc<Member>, lane: Lane, lowers: bool) {
        let id = self.world.lane_id(lane);
        let store = member.node.store();
        let pause = PauseChange::Pause(PauseReason::Operator);
        if store.pause(id, pause, &audit("wait")).await.is_ok() && lowers {
            let least = self.least(lane).await;
            let to = CursorMove::Set { to: least };
            drop(store.move_cursor(id, &to, &audit("it ran away")).await);
        }
        sleep(self.luck.millis(100, 2_500)).await;
        // Pressed until it is done: nobody leaves a lane like this.
        for _ in 0..20 {
            if store
                .pause(id, PauseChange::Resume, &audit("go on"))
                .await
                .is_ok()
            {
                break;
            }
            sleep(self.luck.millis(50, 500)).await;
        }
    }

    /// The lowest cursor above all that is held and all that the chain has.
    async fn least(&self, lane: Lane) -> Nonce {
        let count = self.world.chain.lock().state().nonce(&lane.signer);
        let held = {
            let checker = self.world.checker();
            let rows = checker.rows.values().filter(|row| row.lane == lane);
            rows.filter_map(|row| Some(row.state.nonce()?.get() + 1))
                .max()
        };
        let pooled = self.world.chain.lock().pooled_of(lane.signer);
        let waits = count + u64::try_from(pooled).expect("it is in memory");
        Nonce::new(waits.max(held.unwrap_or_default())).expect("it is small")
    }

    async fn reconcile(&mut self, member: &Arc<Member>, lane: Lane) {
        let seat = member
            .node
            .directory()
            .seat(lane)
            .expect("it has all lanes");
        let dry = self.luck.chance(300);
        let told = member.node.reconcile(seat, dry, &audit("compare")).await;
        let word = if told.is_ok() {
            "reconciled"
        } else {
            "not reconciled"
        };
        self.world
            .note("operator", format_args!("a lane is {word}, dry {dry}"));
    }

    /// Uses up a nonce that nobody holds.
    async fn fill(&mut self, member: &Arc<Member>, lane: Lane) {
        let id = self.world.lane_id(lane);
        let count = self.world.chain.lock().state().nonce(&lane.signer);
        let from = Nonce::new(count).expect("it is small");
        let gaps = self.world.store.gaps(id, from, 10).await;
        let gaps = gaps.expect("it is asked directly");
        if gaps.is_empty() {
            return;
        }
        let tx = NewTx {
            tx: self.world.mint(&mut self.luck),
            seal: None,
            request_id: None,
            body: Body::Placeholder(*self.luck.pick(&gaps)),
            not_after: None,
            meta: None,
            created_by: None,
        };
        let patience = self.luck.millis(1_000, 5_000);
        let verdict = member
            .ask(lane, vec![tx.clone()], patience)
            .await
            .pop()
            .flatten();
        self.world.answered(lane, &tx, verdict.as_ref());
        let word = verdict.map_or("no answer", |verdict| verdict.word());
        self.world
            .note("operator", format_args!("places a placeholder: {word}"));
    }
}
