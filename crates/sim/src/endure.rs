//! A time in which nothing but one thing is wrong: the chain asks for more than anyone pays. Nothing is abandoned
//! silently: what each lane waits for is told as stuck, for a reason that is true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::Record;
use fencepost_domain::ids::{LaneId, TxId, Version};
use fencepost_domain::state::{Kind, Seen, State, Stuck, Why};
use tokio::time::{Instant, sleep};

use crate::checks::Checker;
use crate::world::World;

/// More than any transaction may pay.
pub(crate) const TOO_DEAR_GWEI: u64 = 1_000;
/// How long it may take until it is told. Endpoints that failed are asked again after half a minute.
const PATIENCE: Duration = Duration::from_mins(3);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Waits until what each lane waits for was told as stuck; false if it never was.
pub(crate) async fn endure(world: &Arc<World>) -> bool {
    world.note("world", "is too dear");
    let began = Instant::now();
    let mut told: BTreeSet<TxId> = BTreeSet::new();
    let before: BTreeMap<TxId, Version> = versions(&world.checker());
    loop {
        sleep(LOOK_EVERY).await;
        let fronts = fronts(&world.checker());
        let mut waits = None;
        for front in fronts.values() {
            if let State::Stuck(stuck) = &front.state {
                if let Some(why) = untrue(world, front, stuck) {
                    // What was told before may have been true then: who leads now has to look first.
                    let is_old = before.get(&front.tx) == Some(&front.version);
                    if is_old && began.elapsed() <= PATIENCE {
                        told.remove(&front.tx);
                        waits = Some(front.clone());
                        continue;
                    }
                    world.violate("I10 stuck for a true reason", format!("{why}: {front:?}"));
                    return false;
                }
                told.insert(front.tx);
            }
            if !told.contains(&front.tx) && front.kind != Kind::Reserved {
                waits = Some(front.clone());
            }
        }
        let Some(front) = waits else {
            return true;
        };
        if began.elapsed() > PATIENCE {
            let facts = format!("it waits and is not told as stuck: {front:?}");
            world.violate("I10 nothing is abandoned silently", facts);
            return false;
        }
    }
}

fn versions(checker: &Checker) -> BTreeMap<TxId, Version> {
    let rows = checker.rows.values();
    rows.map(|row| (row.tx, row.version)).collect()
}

/// The first of each lane that holds a nonce and is in no block.
fn fronts(checker: &Checker) -> BTreeMap<LaneId, Record> {
    let mut fronts: BTreeMap<LaneId, Record> = BTreeMap::new();
    for row in checker.rows.values() {
        let in_block = matches!(
            &row.state,
            State::Tracking(tracking) if matches!(tracking.seen, Seen::Mined(_))
        );
        if row.state.is_final() || row.state.nonce().is_none() || in_block {
            continue;
        }
        let first = fronts.get(&row.lane_id);
        if first.is_none_or(|first| row.state.nonce() < first.state.nonce()) {
            fronts.insert(row.lane_id, row.clone());
        }
    }
    fronts
}

/// Why a reason is not true of the chain, if it is not.
fn untrue(world: &World, row: &Record, stuck: &Stuck) -> Option<&'static str> {
    let count = world.chain.lock().state().nonce(&row.lane.signer);
    let checker = world.checker();
    let is_true = match stuck.why {
        Why::Gap => checker.has_gap(row.lane_id, count, stuck.nonce.get()),
        Why::NoReceipt | Why::Refused | Why::ReorgAfterFinal => checker.attempts_of(row.tx) > 0,
        Why::NonceTaken => count > stuck.nonce.get(),
        // Nobody lacks funds here, and by now every key works: it is told otherwise as soon as it is tried.
        Why::SignerError | Why::NoFunds => true,
        // Nothing changes rows here.
        Why::Tampered => false,
    };
    (!is_true).then_some("the chain says otherwise")
}
