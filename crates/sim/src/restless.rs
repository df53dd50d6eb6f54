//! A time in which only the chain is restless: blocks come and are replaced, and now and then a leader dies, while
//! everything else works. After each block, as soon as nodes can have seen it, every open list of confirmations must be
//! the chain that counts (I13).

use std::sync::Arc;
use std::time::Duration;

use fencepost_devchain::{Fate, Plan};
use tokio::time::{Instant, sleep};

use crate::clock::EPOCH;
use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::world::World;

/// How many blocks or forks there are. More takes time, fewer forks hit fewer lists.
const ROUNDS: u32 = 6;
/// Until endpoints that failed before are asked again, and lanes have leaders that know their transactions.
const RECOVER: Duration = Duration::from_secs(60);
/// How often lists are held against the chain.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Says whether all lists were true after each round.
pub(crate) async fn restless(world: &Arc<World>) -> bool {
    if !world.profile.settings.publish_confirmations {
        return true;
    }
    world.rest_miner(true);
    world.note("world", "only the chain is restless");
    let mut luck = world.rng("restless");
    // A call that left before faults ended may be under way for two and a quarter leases, and a lane waits for its own.
    sleep(world.lease() * 3).await;
    let mut is_true = lists_come_true(world, RECOVER).await;
    for _ in 0..ROUNDS {
        if !is_true {
            break;
        }
        let died = luck.chance(200) && kill_one(world, &mut luck);
        change_chain(world, &mut luck);
        world.look_at_chain().await;
        if world.has_replaced_list() {
            world.saw(Rare::OpenListOutdated);
        }
        let within = if died { RECOVER } else { settling(world) };
        if died {
            come_back(world).await;
        }
        is_true = lists_come_true(world, within).await;
    }
    world.rest_miner(false);
    is_true
}

/// A look at the chain that was under way, a whole one after it, and the writes.
fn settling(world: &World) -> Duration {
    world.profile.chain.poll_interval * 4 + Duration::from_secs(2)
}

async fn lists_come_true(world: &World, within: Duration) -> bool {
    let began = Instant::now();
    while let Some(outdated) = world.outdated_list() {
        if began.elapsed() > within {
            world.violate_list(format!("for {within:?} {outdated}"));
            return false;
        }
        sleep(LOOK_EVERY).await;
    }
    true
}

fn change_chain(world: &World, luck: &mut Rng) {
    let start = u64::try_from(EPOCH).expect("it is after 1970");
    let time = start + world.began.elapsed().as_secs();
    let forks = luck.chance(600);
    let plan = Plan {
        depth: luck.between(1, 4),
        extra: luck.below(2),
        txs: match luck.below(4) {
            0 => Fate::Pool,
            1 => Fate::Later(1),
            _ => Fate::Keep,
        },
        ..Plan::default()
    };
    let mut chain = world.chain.lock();
    let forked = forks && chain.reorg(&plan).is_ok();
    if !forked {
        chain.mine(time);
    }
    let head = chain.head().number();
    drop(chain);
    let what = if forked { "fork" } else { "block" };
    world.note("chain", format_args!("{what} to {head}, and no more"));
}

fn kill_one(world: &Arc<World>, luck: &mut Rng) -> bool {
    let member = world.someone(luck);
    if let Some(member) = &member {
        world.saw(Rare::Crash);
        world.kill(member);
    }
    member.is_some()
}

async fn come_back(world: &Arc<World>) {
    for n in 0..world.profile.nodes {
        world.come_back(crate::run::name(n)).await;
    }
}
