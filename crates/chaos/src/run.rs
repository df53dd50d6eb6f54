//! One run in its order: start, load and faults together, heal, check, report.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::args::Args;
use crate::check::{Findings, Line, check};
use crate::dice::Dice;
use crate::facts::{self, Evidence};
use crate::failover;
use crate::fault::inflict::Inflictor;
use crate::fault::schedule;
use crate::heal::{Healer, readers_are_done};
use crate::load::business::{Business, Known};
use crate::load::feed::Reader;
use crate::load::holder::{self, Holder, Sent};
use crate::load::looker::Looker;
use crate::load::operator::Operator;
use crate::load::{blocks, sampler};
use crate::report::{Frame, Summary, summary};
use crate::world::lane::CHAINS;
use crate::world::{NAMES, World};

const BUSINESSES: u64 = 12;
const READERS: usize = 2;
const LOOKERS: usize = 6;
/// How long clients may take to end what they have begun: longer than any of them is patient.
const CLOSING: Duration = Duration::from_secs(180);
const TELL: Duration = Duration::from_secs(30);

/// Those who go on until the very end, and how far each reader of the feed is.
struct Onlookers {
    tasks: JoinSet<()>,
    places: Vec<Arc<AtomicU64>>,
}

/// The whole run. What it leaves in `home` is for those who want to know why it failed.
pub(crate) async fn run(args: &Args, home: &Path) -> Result<Summary> {
    let world = Arc::new(World::start(home).await?);
    let mut dice = Dice::new(args.seed.wrapping_mul(31));
    let known = Arc::new(Known::default());
    let began = Instant::now();
    let mut onlookers = onlookers(&world, &known, &mut dice);
    let length = Duration::from_secs(args.minutes * 60);
    load(args, &world, &known, &mut dice, length).await?;
    let healing = Instant::now();
    println!("healing, {} s after the start", began.elapsed().as_secs());
    let healer = Healer {
        world: Arc::clone(&world),
        known,
        dice: dice.fork(),
    };
    healer.run().await?;
    readers_are_done(&world, &onlookers.places).await?;
    let heal_seconds = healing.elapsed().as_secs();
    // One that has panicked has not seen what it should have.
    while let Some(ended) = onlookers.tasks.try_join_next() {
        ended.context("an onlooker")?;
    }
    onlookers.tasks.shutdown().await;
    let mut findings = Findings::default();
    for node in &world.nodes {
        let mut held = node.hold().await;
        if let Err(error) = held.stop().await {
            findings.add(Line::NodeDied, format!("{error:#}"));
        }
    }
    let frame = Frame {
        seed: args.seed,
        seconds: began.elapsed().as_secs(),
        heal_seconds,
        errors_logged: logged(&world, &mut findings)?,
    };
    println!("checking");
    let summary = judge(&world, frame, findings).await?;
    if !summary.passed || args.keep {
        facts::dump::keep(&world, home).await?;
    }
    Ok(summary)
}

async fn judge(world: &World, frame: Frame, mut findings: Findings) -> Result<Summary> {
    let rows = facts::database::read(world).await.context("the database")?;
    let mined = facts::chain::read(world).await?;
    let notes = world.journal.read()?;
    let evidence = Evidence {
        notes: &notes,
        rows: &rows,
        mined: &mined,
    };
    findings.0.extend(check(&evidence).0);
    let failover = failover::measure(&notes, &rows);
    Ok(summary(frame, &evidence, &findings, failover))
}

/// Blocks, watchers and readers.
fn onlookers(world: &Arc<World>, known: &Arc<Known>, dice: &mut Dice) -> Onlookers {
    let mut tasks = JoinSet::new();
    let mined = Arc::clone(world);
    tasks.spawn(async move { mined.anvil.mine().await });
    for (node, name) in NAMES.into_iter().enumerate() {
        let world = Arc::clone(world);
        tasks.spawn(async move {
            if let Err(error) = world.watch(node).await {
                eprintln!("{name} is watched no longer: {error:#}");
            }
        });
    }
    tasks.spawn(sampler::run(Arc::clone(world)));
    for chain in CHAINS {
        tasks.spawn(blocks::run(Arc::clone(world), chain));
    }
    tasks.spawn(tell(Arc::clone(world)));
    let mut places = Vec::new();
    for number in 0..=READERS {
        let place = Arc::new(AtomicU64::new(0));
        let reader = Reader {
            world: Arc::clone(world),
            number,
            dice: dice.fork(),
            place: Arc::clone(&place),
        };
        if number < READERS {
            places.push(place);
            tasks.spawn(reader.go_on());
        } else {
            tasks.spawn(reader.go_back());
        }
    }
    for number in 0..LOOKERS {
        let looker = Looker {
            world: Arc::clone(world),
            known: Arc::clone(known),
            number,
            dice: dice.fork(),
        };
        tasks.spawn(looker.run());
    }
    let sent = Arc::new(Sent::default());
    tasks.spawn(holder::send_again(Arc::clone(world), Arc::clone(&sent)));
    for lane in 0..world.lanes.len() {
        if world.lanes[lane].lends {
            let holder = Holder {
                world: Arc::clone(world),
                sent: Arc::clone(&sent),
                lane,
                dice: dice.fork(),
                count: 0,
            };
            tasks.spawn(holder.run());
        }
    }
    Onlookers { tasks, places }
}

/// Clients and faults, until the time is over and all of them have ended what they had begun.
async fn load(
    args: &Args,
    world: &Arc<World>,
    known: &Arc<Known>,
    dice: &mut Dice,
    length: Duration,
) -> Result<()> {
    let mut clients = JoinSet::new();
    for n in 0..BUSINESSES {
        let business = Business {
            world: Arc::clone(world),
            known: Arc::clone(known),
            name: format!("business-{n}"),
            dice: dice.fork(),
            rate: args.rate.div_ceil(BUSINESSES),
            count: 0,
        };
        clients.spawn(business.run());
    }
    let operator = Operator {
        world: Arc::clone(world),
        known: Arc::clone(known),
        dice: dice.fork(),
    };
    clients.spawn(operator.run());
    let planned = if args.calm {
        Vec::new()
    } else {
        schedule(args.seed, length, &args.faults)
    };
    let inflictor = Inflictor {
        world: Arc::clone(world),
        known: Arc::clone(known),
        server: Arc::new(Mutex::new(())),
    };
    tokio::join!(inflictor.run(planned), sleep(length));
    world.closing.store(true, Ordering::Relaxed);
    let ended = timeout(CLOSING, clients.join_all()).await;
    ended.map(drop).context("clients do not end")
}

/// Says now and then how it goes.
async fn tell(world: Arc<World>) {
    let mut ticks = interval(TELL);
    let began = Instant::now();
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let acked = world.acked.load(Ordering::Relaxed);
        let told = world.completed.load(Ordering::Relaxed);
        println!(
            "{:>5} s: {acked} accepted, {told} told",
            began.elapsed().as_secs()
        );
    }
}

/// What nodes logged as errors, by code. A panic is a finding.
fn logged(world: &World, findings: &mut Findings) -> Result<BTreeMap<String, u64>> {
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for node in &world.nodes {
        for line in node.log()?.lines() {
            if !line.contains("\"ERROR\"") && !line.contains("panic") {
                continue;
            }
            let entry: Value = serde_json::from_str(line).unwrap_or_default();
            let code = entry["code"].as_str().or(entry["message"].as_str());
            let code = code.unwrap_or(line);
            if code == "panic" || entry.is_null() {
                findings.add(Line::NodeDied, format!("{}: {line}", node.name));
            }
            *errors.entry(code.to_owned()).or_default() += 1;
        }
        let starts = node.false_starts.load(Ordering::Relaxed);
        if starts > 0 {
            *errors.entry("starts without a store".into()).or_default() += starts;
        }
    }
    Ok(errors)
}
