//! The end: nothing goes wrong any more, and then everything that was accepted comes to its true end.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::ports::{Audit, PauseChange, Record, Store};
use fencepost_devchain::{EndpointId, View};
use tokio::time::{Instant, sleep};

use crate::run::name;
use crate::world::World;

/// How long everything may take to end once nothing goes wrong. Endpoints that failed are asked again after
/// half a minute at most, and chains of remedies take their rounds.
const PATIENCE: Duration = Duration::from_mins(5);

/// Heals the world and waits for its end.
pub(crate) async fn heal(world: &Arc<World>) {
    world.heal();
    world.note("world", "is healed");
    calm_chain(world);
    for member in world.all() {
        member.gate.resume();
        member.line.cut(false);
        member.wires.iter().for_each(|wire| wire.cut(false));
    }
    for n in 0..world.profile.nodes {
        let is_there = world.all().iter().any(|member| member.name == name(n));
        if !is_there {
            world.start(name(n)).await;
        }
    }
    resume_lanes(world).await;
    let began = Instant::now();
    loop {
        sleep(Duration::from_millis(500)).await;
        let open = unfinished(world).await;
        if open.is_empty() {
            break;
        }
        if began.elapsed() > PATIENCE {
            let facts = format!("{} have not ended, the first is {:?}", open.len(), open[0]);
            world.violate("liveness: what was accepted ends", facts);
            return;
        }
    }
    let took = began.elapsed().as_millis();
    world.note("world", format_args!("all has ended after {took} ms"));
    crate::verdict::check(world).await;
}

fn calm_chain(world: &World) {
    let mut chain = world.chain.lock();
    chain.set_base_fee(Some(1_000_000_000));
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
async fn unfinished(world: &World) -> Vec<Record> {
    let checker = world.checker();
    let open = checker.rows.values().filter(|row| !row.state.is_final());
    open.cloned().collect()
}
