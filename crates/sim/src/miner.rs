//! The chain's own life: blocks, fees, reorgs, and pools that lose things.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::B256;
use fencepost_app::ports::Record;
use fencepost_devchain::{EndpointId, Fate, Order, Plan, ReorgError, View};
use tokio::time::sleep;

use crate::clock::EPOCH;
use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::world::World;

const GWEI: u64 = 1_000_000_000;

/// Whoever makes the blocks.
pub(crate) struct Miner {
    world: Arc<World>,
    luck: Rng,
    /// The base fee goes down again after so many blocks.
    dear_for: u64,
}

impl Miner {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        world.chain.lock().set_base_fee(Some(GWEI));
        Self {
            luck: world.rng("miner"),
            world: Arc::clone(world),
            dear_for: 0,
        }
    }

    pub(crate) async fn run(mut self) {
        loop {
            sleep(self.world.profile.block_every).await;
            if self.world.miner_rests() {
                continue;
            }
            if self.world.is_healed() {
                self.mine();
            } else {
                self.misbehave();
            }
            self.world.look_at_chain().await;
        }
    }

    fn misbehave(&mut self) {
        let rates = self.world.profile.rates;
        let reorgs = self.luck.chance(rates.reorg);
        let idles = self.luck.chance(60);
        self.fees();
        if reorgs {
            self.reorg();
        } else if !idles && !self.mine_older() {
            self.mine();
        }
        if self.luck.chance(rates.rpc_fails) {
            self.evict();
        }
    }

    fn time(&self) -> u64 {
        let start = u64::try_from(EPOCH).expect("it is after 1970");
        start + self.world.began.elapsed().as_secs()
    }

    fn mine(&self) {
        let time = self.time();
        let (number, txs, left) = {
            let mut chain = self.world.chain.lock();
            let block = chain.mine(time);
            let left: usize = self
                .world
                .lanes
                .iter()
                .map(|lane| chain.pooled_of(lane.signer))
                .sum();
            (block.number(), block.txs.len(), left)
        };
        self.world
            .note("chain", format_args!("block {number}: {txs}, {left} wait"));
    }

    /// Now and then an older attempt gets into a block, by a node that never heard of the newer one.
    fn mine_older(&mut self) -> bool {
        if !self.luck.chance(60) {
            return false;
        }
        let older: Vec<B256> = {
            let checker = self.world.checker();
            let older = checker.attempts.iter().filter(|(_, known)| {
                let newest = checker.attempts_of(known.tx);
                let is_open = |row: &Record| !row.state.is_final();
                known.n < newest && checker.rows.get(&known.tx).is_some_and(is_open)
            });
            older.map(|(hash, _)| *hash).collect()
        };
        if older.is_empty() {
            return false;
        }
        let (wanted, time) = ([*self.luck.pick(&older)], self.time());
        let mined = self.world.chain.lock().mine_with(&wanted, time);
        if let Ok(block) = &mined {
            let number = block.number();
            self.world.note(
                "chain",
                format_args!("block {number} with an older attempt"),
            );
        }
        mined.is_ok()
    }

    /// Now and then a block costs more than some pay.
    fn fees(&mut self) {
        if self.dear_for > 0 {
            self.dear_for -= 1;
            if self.dear_for == 0 {
                self.world.chain.lock().set_base_fee(Some(GWEI));
                self.world.note("chain", "is cheap again");
            }
            return;
        }
        if self.luck.chance(15) {
            self.dear_for = self.luck.between(3, 25);
            let gwei = self.luck.between(5, 150);
            self.world.chain.lock().set_base_fee(Some(gwei * GWEI));
            self.world.saw(Rare::FeesAboveCaps);
            self.world
                .note("chain", format_args!("asks for {gwei} gwei"));
        }
    }

    fn reorg(&mut self) {
        let deep = if self.luck.chance(40) { 9 } else { 3 };
        let mut plan = Plan {
            depth: self.luck.between(1, deep),
            extra: self.luck.below(3),
            txs: match self.luck.below(5) {
                0 | 1 => Fate::Keep,
                2 => Fate::Later(self.luck.between(1, 3)),
                3 => Fate::Pool,
                _ => Fate::Drop,
            },
            instead: self.rivals(),
            order: if self.luck.chance(300) {
                Order::Reversed
            } else {
                Order::Same
            },
            ..Plan::default()
        };
        let mut done = self.world.chain.lock().reorg(&plan);
        if let Err(ReorgError::Unknown(_) | ReorgError::NotReplaced(_)) = done {
            // No pool remembers the other bytes: the same without them.
            plan.instead.clear();
            done = self.world.chain.lock().reorg(&plan);
        }
        match done {
            Ok(reorg) => {
                let (head, depth, fate) = (reorg.head.number(), plan.depth, plan.txs);
                self.world
                    .note("chain", format_args!("reorg {depth} {fate:?} to {head}"));
                if !plan.instead.is_empty() {
                    self.world.saw(Rare::ReorgSwap);
                }
                if self.luck.chance(300) {
                    self.stay(reorg.left, head - depth - plan.extra);
                }
            }
            Err(why) => self
                .world
                .trace
                .note("chain", format_args!("no reorg: {why}")),
        }
    }

    /// One endpoint has not heard of the new branch.
    fn stay(&mut self, left: fencepost_devchain::BranchId, above: u64) {
        let endpoint = EndpointId(self.luck.place(self.world.profile.endpoints));
        let view = View {
            branch: Some(left),
            lag: 0,
        };
        if self.world.chain.lock().set_view(endpoint, view).is_err() {
            return;
        }
        self.world.checker().mirror.fork(above);
        self.world.saw(Rare::EndpointForked);
        let (world, after) = (Arc::clone(&self.world), self.luck.millis(200, 3_000));
        tokio::spawn(async move {
            sleep(after).await;
            let mut chain = world.chain.lock();
            chain
                .set_view(endpoint, View::default())
                .expect("it is there");
        });
    }

    /// In the newest block, for some transactions another attempt of the same nonce.
    fn rivals(&mut self) -> BTreeMap<B256, B256> {
        let chain = self.world.chain.lock();
        let head = chain.head();
        let checker = self.world.checker();
        let mut rivals = BTreeMap::new();
        for mined in &head.txs {
            let Some(known) = checker.known(&mined.tx.hash) else {
                continue;
            };
            let other = checker.attempts.iter().find(|(hash, other)| {
                other.tx == known.tx && other.n != known.n && *hash != &mined.tx.hash
            });
            if let Some((other, _)) = other {
                rivals.insert(mined.tx.hash, *other);
            }
        }
        rivals
    }

    fn evict(&mut self) {
        let mut chain = self.world.chain.lock();
        let pooled = chain.pooled(EndpointId(0)).expect("it is there");
        if pooled.is_empty() {
            return;
        }
        let gone = self.luck.pick(&pooled);
        let dropped = chain.drop_tx(EndpointId(0), gone.hash);
        drop(chain);
        if dropped == Ok(true) {
            self.world.saw(Rare::Evicted);
            self.world
                .note("chain", format_args!("the pool drops {}", gone.nonce));
        }
    }
}
