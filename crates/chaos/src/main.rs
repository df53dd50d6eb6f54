//! `fencepost-chaos` does to a small cluster whatever can be done to one, and then looks for anything that
//! should never be: lost or doubled requests, nonces, payments, rows of the feed. Exits 0 only if there is
//! none. Everything of a run lives in one directory, which stays if something was found.

mod args;
mod dice;
mod note;
mod journal;
mod world;
mod load;
mod fault;
mod heal;
mod facts;
mod check;
mod failover;
mod report;
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use args::Args;
use report::Summary;

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok()
        .context("TLS was chosen before")?;
    let home = std::env::temp_dir().join(format!("fencepost-chaos-{}", std::process::id()));
    std::fs::create_dir(&home).with_context(|| home.display().to_string())?;
    println!(
        "seed {}, {} minutes, in {}",
        args.seed,
        args.minutes,
        home.display()
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(watched(&args, &home));
    // Whatever still runs is dropped here, and so ended: nodes, chains, the database.
    drop(runtime);
    let summary = match ended {
        Ok(summary) => summary,
        Err(error) => {
            println!("seed {}: what is left is in {}", args.seed, home.display());
            return Err(error);
        }
    };
    tell(&args, &summary, &home)?;
    Ok(if summary.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The run, unless somebody ends it before.
async fn watched(args: &Args, home: &std::path::Path) -> Result<Summary> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = run::run(args, home) => ended,
        _ = interrupt.recv() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    }
}

fn tell(args: &Args, summary: &Summary, home: &PathBuf) -> Result<()> {
    report::print(summary);
    let json = serde_json::to_string_pretty(summary)?;
    println!("{json}");
    if let Some(file) = &args.json {
        std::fs::write(file, &json).with_context(|| file.display().to_string())?;
    }
    let verdict = if summary.passed {
        "all zero"
    } else {
        "VIOLATIONS"
    };
    println!("seed {}: {verdict}", args.seed);
    if summary.passed && !args.keep {
        std::fs::remove_dir_all(home)?;
    } else {
        println!("logs are in {}", home.display());
    }
    Ok(())
}
