//! Blows of fate, one after the other: nodes die, stand still, come back twice; lines are cut, clocks jump,
//! endpoints lie.

use std::sync::Arc;
use std::time::Duration;

use fencepost_devchain::{EndpointId, Fault, FaultKind, Rejection, View, When};
use tokio::time::sleep;

use crate::node::Member;
use crate::profile::Mood;
use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::world::World;

/// Whoever decides what goes wrong next.
pub(crate) struct Fateful {
    world: Arc<World>,
    luck: Rng,
}

impl Fateful {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            luck: world.rng("fate"),
            world: Arc::clone(world),
        }
    }

    /// Until all is healed.
    pub(crate) async fn run(mut self) {
        let quiet = self.world.profile.rates.quiet;
        loop {
            sleep(self.luck.millis(quiet / 4, quiet * 2)).await;
            if self.world.is_healed() {
                return;
            }
            self.strike();
        }
    }

    fn strike(&mut self) {
        let Some(member) = self.world.someone(&mut self.luck) else {
            return;
        };
        match self.luck.below(20) {
            0..4 => self.crash(&member),
            4..7 => self.pause(&member),
            7 => self.haunt(&member),
            8..10 => self.stop(&member),
            10 => self.cut_store(&[member]),
            11 => self.cut_store(&self.world.all()),
            12 | 13 => self.cut_chain(&member),
            14 => self.jump(&member),
            15 => self.fall_behind(),
            _ => self.lie(),
        }
    }

    /// So long, counted in leases.
    fn leases(&mut self, tenths_max: u64) -> Duration {
        let tenths = u32::try_from(self.luck.between(1, tenths_max)).expect("it is small");
        self.world.lease() * tenths / 10
    }

    fn crash(&mut self, member: &Arc<Member>) {
        self.world.saw(Rare::Crash);
        self.world.kill(member);
        let (world, name) = (Arc::clone(&self.world), member.name.clone());
        let after = self.leases(25);
        tokio::spawn(async move {
            sleep(after).await;
            world.come_back(&name).await;
        });
    }

    fn stop(&mut self, member: &Arc<Member>) {
        self.world.saw(Rare::GracefulStop);
        let (world, member) = (Arc::clone(&self.world), Arc::clone(member));
        let after = self.leases(15);
        tokio::spawn(async move {
            world.stop(&member).await;
            sleep(after).await;
            world.come_back(&member.name).await;
        });
    }

    fn pause(&mut self, member: &Arc<Member>) {
        self.world.saw(Rare::Pause);
        member.gate.stop();
        let after = self.leases(25);
        self.world
            .note(&member.name, format_args!("stands still for {after:?}"));
        if after > self.world.lease() + self.world.profile.settings.lease.skew {
            self.world.saw(Rare::PausePastLease);
        }
        let (world, member) = (Arc::clone(&self.world), Arc::clone(member));
        tokio::spawn(async move {
            sleep(after).await;
            world.note(&member.name, "goes on");
            member.gate.resume();
        });
    }

    /// It stands still, is taken for dead and started again; then it wakes up.
    fn haunt(&mut self, member: &Arc<Member>) {
        self.pause(member);
        let (world, name) = (Arc::clone(&self.world), member.name.clone());
        tokio::spawn(async move {
            world.start(&name).await;
        });
    }

    fn cut_store(&mut self, members: &[Arc<Member>]) {
        self.world.saw(Rare::StoreAway);
        let after = self.leases(20);
        for member in members {
            self.world
                .note(&member.name, format_args!("has no store for {after:?}"));
            member.line.cut(true);
            let member = Arc::clone(member);
            tokio::spawn(async move {
                sleep(after).await;
                member.line.cut(false);
            });
        }
    }

    fn cut_chain(&mut self, member: &Arc<Member>) {
        let after = self.leases(30);
        let all = self.luck.chance(500);
        for wire in &member.wires {
            if !all && self.luck.chance(500) {
                continue;
            }
            self.world.note(
                &member.name,
                format_args!("lacks an endpoint for {after:?}"),
            );
            wire.cut(true);
            let wire = Arc::clone(wire);
            tokio::spawn(async move {
                sleep(after).await;
                wire.cut(false);
            });
        }
    }

    fn jump(&mut self, member: &Arc<Member>) {
        let far = i64::try_from(self.luck.below(200_000)).expect("it is small") - 100_000;
        self.world.saw(Rare::ClockJump);
        self.world
            .note(&member.name, format_args!("its clock jumps by {far} ms"));
        member.hands.jump(far);
        // The store's moves a little, and never far from the truth.
        if self.luck.chance(300) {
            let near = i64::try_from(self.luck.below(600)).expect("it is small") - 300;
            let clock = &self.world.store_clock;
            if (clock.offset_millis() + near).abs() < 500 {
                clock.jump(near);
                self.world.saw(Rare::StoreClockJump);
                self.world
                    .note("store", format_args!("its clock jumps by {near} ms"));
            }
        }
    }

    fn endpoint(&mut self) -> EndpointId {
        EndpointId(self.luck.place(self.world.profile.endpoints))
    }

    fn fall_behind(&mut self) {
        let (endpoint, lag) = (self.endpoint(), self.luck.between(1, 7));
        let view = View { branch: None, lag };
        let mut chain = self.world.chain.lock();
        chain.set_view(endpoint, view).expect("it is there");
        drop(chain);
        self.world.saw(Rare::EndpointBehind);
        self.world.note(
            "chain",
            format_args!("endpoint {} is {lag} behind", endpoint.0),
        );
        let (world, after) = (Arc::clone(&self.world), self.luck.millis(300, 5_000));
        tokio::spawn(async move {
            sleep(after).await;
            let mut chain = world.chain.lock();
            chain
                .set_view(endpoint, View::default())
                .expect("it is there");
        });
    }

    fn lie(&mut self) {
        let endpoint = self.endpoint();
        let kind = self.falsehood();
        match &kind {
            FaultKind::Forget => self.world.saw(Rare::Forgotten),
            FaultKind::Refuse {
                when: When::After, ..
            } => self.world.saw(Rare::RefusedAccepted),
            FaultKind::Late(_)
            | FaultKind::Hang(_)
            | FaultKind::Disconnect(_)
            | FaultKind::Http { .. }
            | FaultKind::RefuseBatches
            | FaultKind::Refuse { .. }
            | FaultKind::Error { .. }
            | FaultKind::Null
            | FaultKind::Stale(_)
            | FaultKind::Pruned(_)
            | FaultKind::Count(_)
            | FaultKind::ChainId(_) => {}
        }
        // Mostly one of them, seldom and for longer all of them: then nobody can tell.
        if self.luck.chance(150) {
            let (every, after) = (1, self.luck.millis(2_000, 15_000));
            for n in 0..self.world.profile.endpoints {
                self.say(EndpointId(n), kind.clone(), every, after);
            }
        } else {
            let (every, after) = (self.luck.between(1, 3), self.luck.millis(300, 4_000));
            self.say(endpoint, kind, every, after);
        }
    }

    fn say(&self, endpoint: EndpointId, kind: FaultKind, every: u64, after: Duration) {
        let told = format_args!("endpoint {}: {kind:?} for {after:?}", endpoint.0).to_string();
        self.world.note("chain", told);
        let fault = Fault::new(kind).every(every);
        let added = self.world.chain.lock().add_fault(endpoint, fault);
        let fault = added.expect("there is room");
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            sleep(after).await;
            let mut chain = world.chain.lock();
            let cleared = chain.clear_faults(endpoint, Some(fault));
            cleared.expect("it is there");
        });
    }

    fn falsehood(&mut self) -> FaultKind {
        let when = if self.luck.chance(500) {
            When::Before
        } else {
            When::After
        };
        match self.luck.below(12) {
            0 => FaultKind::Null,
            1 => FaultKind::Stale(self.luck.between(1, 5)),
            2 => FaultKind::Forget,
            3 | 4 => FaultKind::Refuse {
                kind: *self.luck.pick(&[
                    Rejection::AlreadyKnown,
                    Rejection::NonceTooLow,
                    Rejection::NonceTooHigh,
                    Rejection::NoFunds,
                    Rejection::ReplacementUnderpriced,
                    Rejection::Underpriced,
                    Rejection::PoolFull,
                    Rejection::BelowBaseFee,
                    Rejection::RateLimited,
                    Rejection::Syncing,
                ]),
                when,
            },
            5 => FaultKind::Error {
                code: -32_000,
                message: "internal error".to_owned(),
                when,
            },
            6 => FaultKind::Hang(when),
            7 => FaultKind::Disconnect(when),
            8 => FaultKind::Http {
                status: 429,
                body: "slow down".to_owned(),
                when,
            },
            9 => FaultKind::RefuseBatches,
            10 => FaultKind::Pruned(self.luck.between(1, 6)),
            _ => self.count(),
        }
    }

    /// A wrong count of a transaction or two: where it is alone, nobody can tell.
    fn count(&mut self) -> FaultKind {
        let lanes = &self.world.lanes;
        let lane = lanes[self.luck.place(lanes.len())];
        let true_count = self.world.chain.lock().state().nonce(&lane.signer);
        if self.world.profile.mood != Mood::Calm && self.luck.chance(350) {
            return FaultKind::Count(true_count + self.luck.between(1, 12));
        }
        FaultKind::Count(true_count.saturating_sub(self.luck.between(1, 4)))
    }
}

impl World {
    /// A node starts again, unless it did already.
    pub(crate) async fn come_back(self: &Arc<Self>, name: &str) {
        let is_there = self.all().iter().any(|member| member.name == name);
        if !is_there {
            self.start(name).await;
        }
    }
}
