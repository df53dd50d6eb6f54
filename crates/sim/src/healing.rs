//! The end: nothing goes wrong any more, and then everything that was accepted comes to its true end.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::operate::Wish;
use fencepost_app::ports::{
    Action, Audit, Body, NewTx, PauseChange, Record, Settle, SettleAct, Store,
};
use fencepost_devchain::{EndpointId, View};
use fencepost_domain::ids::{Lane, Nonce};
use fencepost_domain::request::{Draft, Payload};
use fencepost_domain::state::{State, Why};
use tokio::time::{Instant, sleep};

use crate::checks::PAYEE;
use crate::endure::{TOO_DEAR_GWEI, endure};
use crate::restless::restless;
use crate::rng::Rng;
use crate::run::name;
use crate::verdict;
use crate::world::World;

/// How long everything may take to end once nothing goes wrong. Endpoints that failed are asked again after
/// half a minute at most, and chains of remedies take their rounds.
const PATIENCE: Duration = Duration::from_mins(5);
/// How often it is looked whether all has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After how many looks whoever heals helps where a person would have to.
const HELP_EVERY: u32 = 6;

/// Heals the world and waits for its end.
pub(crate) async fn heal(world: &Arc<World>) {
    world.heal();
    world.note("world", "is healed");
    let dear = world.profile.dear_end;
    calm_chain(world, if dear { TOO_DEAR_GWEI } else { 1 });
    for member in world.all() {
        member.gate.resume();
        member.line.cut(false);
        member.wires.iter().for_each(|wire| wire.cut(false));
    }
    for n in 0..world.profile.nodes {
        world.come_back(name(n)).await;
    }
    resume_lanes(world).await;
    if dear && !endure(world).await {
        return;
    }
    calm_chain(world, 1);
    if !restless(world).await {
        return;
    }
    let mut luck = world.rng("healing");
    if !settle(world, &mut luck).await {
        return;
    }
    // A reorg below a final block is looked for in lanes that are led: so each is used once more.
    wake(world, &mut luck).await;
    if settle(world, &mut luck).await {
        verdict::check(world).await;
    }
}

/// Waits until all has ended as it is on the chain; says whether it has.
async fn settle(world: &Arc<World>, luck: &mut Rng) -> bool {
    let began = Instant::now();
    let mut looks = 0_u32;
    loop {
        sleep(LOOK_EVERY).await;
        looks += 1;
        let open = unfinished(world);
        let untrue = if open.is_empty() {
            verdict::untrue(world)
        } else {
            None
        };
        if open.is_empty() && untrue.is_none() {
            break;
        }
        if began.elapsed() > PATIENCE {
            let first = open.first().map(|row| format!("{row:?}"));
            let what = first.or(untrue).unwrap_or_default();
            let facts = format!("{} have not ended: {what}", open.len());
            world.violate("liveness: what was accepted ends", facts);
            return false;
        }
        if looks.is_multiple_of(HELP_EVERY) {
            help(world, &open, luck).await;
        }
    }
    let took = began.elapsed().as_millis();
    world.note("world", format_args!("all has ended after {took} ms"));
    true
}

fn calm_chain(world: &World, gwei: u64) {
    let mut chain = world.chain.lock();
    chain.set_base_fee(Some(gwei * 1_000_000_000));
    for n in 0..world.profile.endpoints {
        let endpoint = EndpointId(n);
        chain.clear_faults(endpoint, None).expect("it is there");
        chain
            .set_view(endpoint, View::default())
            .expect("it is there");
    }
}

pub(crate) fn audit(reason: &str) -> Audit {
    Audit {
        by: "ops".to_owned(),
        reason: reason.to_owned(),
        details: None,
        node: None,
    }
}

async fn resume_lanes(world: &World) {
    let audit = audit("all is well");
    for lane in &world.lane_ids {
        let resumed = world.store.pause(*lane, PauseChange::Resume, &audit);
        resumed.await.expect("it is asked directly");
    }
}

/// What has not ended.
fn unfinished(world: &World) -> Vec<Record> {
    let checker = world.checker();
    let open = checker.rows.values().filter(|row| !row.state.is_final());
    open.cloned().collect()
}

/// What a person would have to do: fill gaps, end holds, and speak for holders that do not.
async fn help(world: &Arc<World>, open: &[Record], luck: &mut Rng) {
    resume_lanes(world).await;
    for row in open {
        let Some(member) = world.someone(luck) else {
            return;
        };
        let behind_gap = matches!(&row.state, State::Stuck(stuck) if stuck.why == Why::Gap);
        if behind_gap {
            let wish = Wish {
                action: Action::Placeholder,
                fees: None,
                audit: audit("fill the gap"),
            };
            drop(member.node.ask_remedy(row, &wish).await);
        }
        if let State::Submitted(lent) = &row.state {
            fill_below(world, row.lane, lent.nonce, luck).await;
        }
        // Whoever used a nonce below it before the reorg does not do so again.
        if let State::Stuck(stuck) = &row.state
            && stuck.why == Why::ReorgAfterFinal
        {
            fill_below(world, row.lane, stuck.nonce, luck).await;
        }
        if let (State::Reserved(lent), Some(terms)) = (&row.state, row.reservation) {
            let signer = row.lane.signer;
            let is_used = world.is_used(signer, lent.nonce.get());
            let call = Settle {
                reservation: row.tx,
                lock: terms.lock,
                act: SettleAct::Recycle,
            };
            if is_used {
                fill_below(world, row.lane, lent.nonce, luck).await;
            } else {
                drop(member.node.settle_loan(row.lane, &call).await);
            }
        }
    }
}

/// A lent nonce is never told as stuck: whoever looks at its lane sees the gap, and uses it up.
async fn fill_below(world: &Arc<World>, lane: Lane, below: Nonce, luck: &mut Rng) {
    let count = world.chain.lock().state().nonce(&lane.signer);
    let from = Nonce::new(count).expect("it is small");
    let gaps = world.store.gaps(world.lane_id(lane), from, 20).await;
    let gaps = gaps.expect("it is asked directly");
    for nonce in gaps.into_iter().filter(|nonce| *nonce < below) {
        let tx = NewTx {
            tx: world.mint(luck),
            seal: None,
            request_id: None,
            body: Body::Placeholder(nonce),
            not_after: None,
            meta: None,
            created_by: None,
        };
        let Some(member) = world.someone(luck) else {
            return;
        };
        let verdict = member.ask(lane, vec![tx.clone()], PATIENCE).await.pop();
        world.answered(lane, &tx, verdict.flatten().as_ref());
    }
}

/// One more payment for each lane.
async fn wake(world: &Arc<World>, luck: &mut Rng) {
    for (n, lane) in (0_u64..).zip(world.lanes.clone()) {
        let draft = Draft {
            to: Some(PAYEE.to_string()),
            value: Some((1_000_000_000 + n).to_string()),
            gas: Some("21000".to_owned()),
            ..Draft::default()
        };
        let payload = Payload::parse(&draft, world.profile.chain.ceilings);
        let payload = payload.expect("it is sound");
        let mut stored = false;
        for _ in 0..50 {
            let tx = NewTx {
                tx: world.mint(luck),
                seal: None,
                request_id: None,
                body: Body::Managed(payload.clone()),
                not_after: None,
                meta: None,
                created_by: None,
            };
            let Some(member) = world.someone(luck) else {
                sleep(LOOK_EVERY).await;
                continue;
            };
            let verdict = member
                .ask(lane, vec![tx.clone()], PATIENCE)
                .await
                .pop()
                .flatten();
            let told = world.answered(lane, &tx, verdict.as_ref());
            stored = told == crate::ledger::Told::Stored;
            if stored {
                break;
            }
            sleep(LOOK_EVERY).await;
            // Paused for what an endpoint had said before all was healed.
            resume_lanes(world).await;
        }
        if !stored && !ran_away(world, lane).await {
            let facts = format!("{lane:?} takes nothing any more");
            world.violate("liveness: a lane accepts again", facts);
        }
    }
}

/// The chain is further than the lane may follow without a person: that is told, and true.
async fn ran_away(world: &World, lane: Lane) -> bool {
    let view = world.store.lane(lane).await.expect("it is asked directly");
    let count = world.chain.lock().state().nonce(&lane.signer);
    let most = world.profile.settings.max_jump;
    view.is_some_and(|view| view.next_nonce.get().saturating_add(most) < count)
}

impl World {
    /// Whether the chain or a pool has a transaction of this nonce.
    pub(crate) fn is_used(&self, signer: fencepost_domain::Address, nonce: u64) -> bool {
        let chain = self.chain.lock();
        let pooled = chain.pooled(EndpointId(0)).expect("it is there");
        let waits = pooled
            .iter()
            .any(|each| each.sender == signer && each.nonce == nonce);
        waits || chain.state().nonce(&signer) > nonce
    }
}
