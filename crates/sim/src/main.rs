//! `fencepost-sim`: runs many seeds on all cores, or replays one.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use fencepost_sim::{Rare, Report, Sometimes, keys, run, watch_panics};

/// As in the node; worlds are made of small allocations too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Fewer seeds only report what never happened: it may be luck.
const SEEDS_ENOUGH: u64 = 2_000;
/// A run with so many violations is not worth finishing.
const VIOLATIONS_MAX: usize = 10;

/// Runs seeded worlds and checks the promises in them.
#[derive(Debug, Parser)]
#[command(name = "./test sim")]
struct Options {
    /// How many seeds.
    #[arg(long, default_value_t = SEEDS_ENOUGH)]
    seeds: u64,
    /// The first of them. From 1,000,000 on worlds have an eighth of the requests, and are done the sooner.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Only this one.
    #[arg(long)]
    seed: Option<u64>,
    /// Shows every step of the one seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Ends with the first violation, and says in one line after how many seeds and of what.
    #[arg(long)]
    hunt: bool,
    /// How many run at once; by default as many as there are cores.
    #[arg(long)]
    jobs: Option<usize>,
}

/// What all runs came to.
#[derive(Default)]
struct Sum {
    transactions: AtomicU64,
    steps: AtomicU64,
    virtual_millis: AtomicU64,
    runs: AtomicU64,
    seen: Sometimes,
    broken: Mutex<Vec<Report>>,
}

impl Sum {
    fn add(&self, report: Report) {
        let millis = u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX);
        self.transactions
            .fetch_add(report.transactions, Ordering::Relaxed);
        self.steps.fetch_add(report.trace.steps, Ordering::Relaxed);
        self.virtual_millis.fetch_add(millis, Ordering::Relaxed);
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.seen.add(&report.seen);
        if report.violation.is_some() {
            self.broken().push(report);
        }
    }

    fn broken(&self) -> std::sync::MutexGuard<'_, Vec<Report>> {
        self.broken.lock().expect("nothing panics while it is held")
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    watch_panics();
    let began = Instant::now();
    let (first, seeds) = match options.seed {
        Some(seed) => (seed, 1),
        None => (options.first, options.seeds),
    };
    let sum = Sum::default();
    let next = AtomicU64::new(first);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let keys = keys();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.unwrap_or(cores).max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let enough = if options.hunt { 1 } else { VIOLATIONS_MAX };
                    if seed >= first + seeds || sum.broken().len() >= enough {
                        break;
                    }
                    let report = run(seed, &keys, options.trace);
                    if options.trace {
                        report.trace.all.iter().for_each(|line| println!("{line}"));
                    }
                    sum.add(report);
                }
            });
        }
    });
    if options.hunt {
        return tell_hunted(&sum);
    }
    tell(&sum, began.elapsed(), seeds)
}

/// What a hunt came to: one line, and success if something was caught.
fn tell_hunted(sum: &Sum) -> ExitCode {
    let broken = sum.broken();
    let caught = broken.iter().min_by_key(|report| report.seed);
    let runs = sum.runs.load(Ordering::Relaxed);
    let violation = caught.and_then(|report| Some((report.seed, report.violation.as_ref()?)));
    if let Some((seed, violation)) = violation {
        println!("{runs} seeds: seed {seed} violates: {}", violation.promise);
        ExitCode::SUCCESS
    } else {
        println!("{runs} seeds: nothing was noticed");
        ExitCode::FAILURE
    }
}

fn tell(sum: &Sum, took: Duration, seeds: u64) -> ExitCode {
    let mut broken = sum.broken();
    broken.sort_by_key(|report| report.seed);
    for report in broken.iter() {
        show(report);
    }
    let runs = sum.runs.load(Ordering::Relaxed);
    let transactions = sum.transactions.load(Ordering::Relaxed);
    let steps = sum.steps.load(Ordering::Relaxed);
    let virtual_seconds = sum.virtual_millis.load(Ordering::Relaxed) / 1_000;
    println!("what happened, over all seeds:");
    for rare in Rare::ALL {
        println!("{:>10}  {}", sum.seen.count(*rare), rare.words());
    }
    println!(
        "{runs} seeds, {transactions} transactions, {steps} steps, {virtual_seconds} s of virtual time in {:.1} s; {} violations",
        took.as_secs_f64(),
        broken.len()
    );
    let never = sum.seen.never();
    for rare in &never {
        println!("never happened: {}", rare.words());
    }
    let is_blind = seeds >= SEEDS_ENOUGH && !never.is_empty();
    if broken.is_empty() && !is_blind {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn show(report: &Report) {
    let Some(violation) = &report.violation else {
        return;
    };
    for line in &report.trace.tail {
        println!("  {line}");
    }
    println!("violated: {}", violation.promise);
    println!("facts:    {}", violation.facts);
    println!(
        "seed:     {} (digest {:016x})",
        report.seed, report.trace.digest
    );
    println!("replay:   ./test sim --seed {}\n", report.seed);
}
