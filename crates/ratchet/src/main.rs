//! `fencepost-ratchet`: measures what a transaction costs and fails when a figure is worse than the checked-in file says.
//! Only counts, never times: they are the same on every machine and beside any load.

/// Tokio's time and nobody else, as the tests of the API have it.
#[path = "../../http/tests/api/alone.rs"]
mod alone;
mod figures;
mod compare;
mod node;
mod life;
mod store;
mod accept;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use tokio::runtime::Builder;

use compare::{Line, Verdict, compare};
use figures::{Parts, rounded};

/// Measures what a transaction costs and holds it against the file.
#[derive(Debug, Parser)]
#[command(name = "./test ratchet")]
struct Options {
    /// Only these; all by default.
    parts: Vec<Part>,
    /// Writes the file anew instead of holding against it.
    #[arg(long)]
    write: bool,
    /// The file.
    #[arg(long, default_value = "crates/ratchet/limits.toml")]
    limits: PathBuf,
    /// Puts so many requests and does nothing else: for valgrind.
    #[arg(long, hide = true)]
    put: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Statements and RPC requests of a transaction's life.
    Life,
    /// Statements, rows and log bytes in PostgreSQL.
    Store,
    /// Instructions from a request's bytes to its answer's.
    Accept,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(requests) = options.put {
        in_virtual_time(accept::put(requests))?;
        return Ok(ExitCode::SUCCESS);
    }
    let measured = measure(&options.parts)?;
    let file = if options.limits.exists() {
        Parts::read(&options.limits)?
    } else {
        Parts::default()
    };
    let lines = compare(&file, &measured);
    for line in &lines {
        println!("{}", told(line));
    }
    if options.write {
        let mut file = file;
        file.0.extend(measured.0);
        file.write(&options.limits)?;
        println!("{} is written anew", options.limits.display());
        return Ok(ExitCode::SUCCESS);
    }
    let failed: Vec<&Line> = lines.iter().filter(|line| line.verdict.fails()).collect();
    if !failed.is_empty() {
        println!("\nif this is what is wanted: ./test ratchet --write, and say why in the commit");
        return Ok(ExitCode::FAILURE);
    }
    if lines.iter().any(|line| line.verdict == Verdict::Better) {
        println!("\nthe file can be tightened: ./test ratchet --write");
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(parts: &[Part]) -> Result<Parts> {
    let wanted = |part: Part| parts.is_empty() || parts.contains(&part);
    let mut measured = Parts::default();
    let mut add = |part: &str, figures| measured.0.insert(part.to_owned(), figures);
    if wanted(Part::Life) {
        add(
            "life-16-signers",
            in_virtual_time(life::measure(16, 2_000))?,
        );
        add("life-1-signer", in_virtual_time(life::measure(1, 500))?);
    }
    if wanted(Part::Store) {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        for (part, figures) in runtime.block_on(store::measure())? {
            add(part, figures);
        }
    }
    // Another machine's instructions are other ones, and the file has those of one kind.
    if wanted(Part::Accept) && cfg!(target_arch = "x86_64") {
        add("accept", accept::measure()?);
    }
    Ok(measured)
}

/// Runs in one thread, in a time that passes only while everybody waits for it.
fn in_virtual_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(work)
}

fn told(line: &Line) -> String {
    let value =
        |value: Option<f64>| value.map_or("-".to_owned(), |value| rounded(value).to_string());
    let change = match (line.was, line.is) {
        (Some(was), Some(is)) if was > 0.0 => format!("{:+.1} %", (is / was - 1.0) * 100.0),
        _ => String::new(),
    };
    let (was, is) = (value(line.was), value(line.is));
    let word = line.verdict.word();
    let text = format!(
        "{:<28} was {was:>10}  is {is:>10}  {change:>9}  {word}",
        line.name
    );
    text.trim_end().to_owned()
}
