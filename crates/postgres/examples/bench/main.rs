//! How close the store comes to the database's limit, in one run and as ratios.
//!
//! `cargo run --release -p fencepost-postgres --example bench -- [--seconds S] [--prefill N] [--url U]
//! [--batches 1,64,256,1024] [--lanes 1,16,1000]`
//!
//! **L** is a plain UNNEST insert into the same tables and indexes; the plain update likewise. Each
//! pair is measured in alternating slices, so that a drift of the machine hits both alike.

#![allow(clippy::cast_precision_loss, clippy::unwrap_used)] // A benchmark may stop at any surprise.

mod plain;
mod load;
mod prefill;

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fencepost_postgres::Settings;
use fencepost_testkit::postgres::{Cluster, Options, connect};

use load::Load;

const BATCHES: [usize; 4] = [1, 64, 256, 1024];
const LANES: [usize; 3] = [1, 16, 1000];
/// Slices of each measured pair: short ones, so that the alternation cancels drift.
const SLICES: u32 = 20;

struct Args {
    seconds: f64,
    prefill: u64,
    url: Option<String>,
    batches: Vec<usize>,
    lanes: Vec<usize>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = args()?;
    let cluster = match &args.url {
        Some(_) => None,
        None => Some(
            Cluster::start(Options {
                settings: settings(),
            })
            .await?,
        ),
    };
    let url = match (&args.url, &cluster) {
        (Some(url), _) => url.clone(),
        (None, Some(cluster)) => cluster.create_database().await?.url(),
        (None, None) => bail!("no server"),
    };
    let settings = Settings {
        statement_timeout: Duration::from_secs(30),
        terms: fencepost_app::ports::Terms {
            duration: Duration::from_hours(1),
            skew: Duration::from_secs(1),
        },
        ..Settings::new(&url)
    };
    let mut load = Load::new(settings, &url).await?;
    print_server(&url).await?;
    println!("\n== empty tables");
    table(&mut load, &args).await?;
    if args.prefill > 0 {
        let started = std::time::Instant::now();
        prefill::prefill(&url, args.prefill).await?;
        let took = started.elapsed().as_secs();
        println!(
            "\n== with {} more transactions in the table (filled in {took} s)",
            args.prefill
        );
        table(&mut load, &args).await?;
    }
    Ok(())
}

fn settings() -> Vec<(String, String)> {
    [("max_wal_size", "4GB"), ("shared_buffers", "1GB")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

async fn table(load: &mut Load, args: &Args) -> Result<()> {
    println!(
        "{:>5} {:>5} | {:>9} {:>9} {:>6} | {:>9} {:>6} | {:>9} {:>9} {:>6}",
        "batch",
        "lanes",
        "L rows/s",
        "create",
        "ratio",
        "10% dup",
        "ratio",
        "plain upd",
        "fenced",
        "ratio"
    );
    for &lanes in &args.lanes {
        for &batch in &args.batches {
            let slice = Duration::from_secs_f64(args.seconds / f64::from(SLICES));
            let mut sums = [0.0_f64; 5];
            // The first slice warms caches and plans and is not counted.
            for round in 0..=SLICES {
                let rates = load.slices(lanes, batch, slice).await?;
                if round > 0 {
                    for (sum, rate) in sums.iter_mut().zip(rates) {
                        *sum += rate;
                    }
                }
            }
            let [limit, create, dup, plain, fenced] = sums.map(|sum| sum / f64::from(SLICES));
            println!(
                "{batch:>5} {lanes:>5} | {limit:>9.0} {create:>9.0} {:>6.2} | {dup:>9.0} {:>6.2} | {plain:>9.0} {fenced:>9.0} {:>6.2}",
                create / limit,
                dup / limit,
                fenced / plain
            );
        }
    }
    Ok(())
}

async fn print_server(url: &str) -> Result<()> {
    let client = connect(url).await?;
    println!(
        "{}",
        client
            .query_one("SELECT version()", &[])
            .await?
            .get::<_, String>(0)
    );
    let names = [
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "shared_buffers",
        "max_wal_size",
        "wal_sync_method",
        "max_connections",
    ];
    for name in names {
        let value: String = client
            .query_one("SELECT current_setting($1)", &[&name])
            .await?
            .get(0);
        print!("{name}={value} ");
    }
    println!("connections={}", load::CONNECTIONS);
    Ok(())
}

fn args() -> Result<Args> {
    let mut args = Args {
        seconds: 2.0,
        prefill: 0,
        url: None,
        batches: BATCHES.into(),
        lanes: LANES.into(),
    };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let value = given
            .next()
            .with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--seconds" => args.seconds = value.parse()?,
            "--prefill" => args.prefill = value.parse()?,
            "--url" => args.url = Some(value),
            "--batches" => args.batches = numbers(&value)?,
            "--lanes" => args.lanes = numbers(&value)?,
            _ => bail!(
                "unknown option {flag}: --seconds S, --prefill N, --url U, --batches N,…, --lanes N,…"
            ),
        }
    }
    Ok(args)
}

fn numbers(list: &str) -> Result<Vec<usize>> {
    let number = |word: &str| Ok(std::num::NonZeroUsize::from_str(word)?.get());
    list.split(',').map(number).collect()
}
