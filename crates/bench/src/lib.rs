//! How fast Fencepost is, as shares of what the same database does without it, in one run on one machine.
//!
//! Read `case` for what is measured, `plain` for the limit that it is held against, `load` for the requests
//! and `meters` for what they cost. Nothing here is part of a node: `fencepost bench` starts nodes as users do.

mod figures;
mod http;
mod process;
mod environment;
mod postgres;
mod node;
mod plain;
mod load;
mod meters;
mod keys;
mod chain;
mod case;
mod report;
mod plot;
mod screen;
mod window;

use std::time::Instant;

use anyhow::Result;
use serde_json::json;

pub use case::{Case, SECONDS};
pub use chain::serve as serve_chain;
pub use process::Process;

use case::World;
use environment::Environment;
use postgres::Postgres;
use screen::Screen;

/// What a run is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Small tables and short measurements: all cases within five minutes.
    pub quick: bool,
    /// One JSON object for each case instead of tables.
    pub json: bool,
    /// Which cases; none is all of them.
    pub cases: Vec<Case>,
    /// A PostgreSQL server to use instead of one of our own: a URL whose user may make databases.
    pub store: Option<String>,
    /// How many nodes creates are spread over.
    pub nodes: usize,
    /// A chain's endpoint to use instead of a chain of our own. It must fund the usual test phrase.
    pub rpc: Option<String>,
    /// How long each figure is measured.
    pub seconds: Option<f64>,
    /// Where drawings of the figures are put.
    pub plots: Option<std::path::PathBuf>,
}

/// Runs the cases and hands each one's text to `tell` when it is done. Whatever was started is gone when this
/// returns, also where `stop` resolved before the end.
pub async fn run(
    options: Options,
    stop: impl Future<Output = ()>,
    mut tell: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let environment = Environment::read();
    let postgres = Postgres::start(options.store.as_deref()).await?;
    let done = tokio::select! {
        done = measure(&options, &environment, &postgres, &mut tell) => done,
        () = stop => Err(anyhow::anyhow!("stopped in the middle of it")),
    };
    let ended = postgres.end().await;
    done.and(ended)
}

async fn measure(
    options: &Options,
    environment: &Environment,
    postgres: &Postgres,
    tell: &mut impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let cases = match options.cases.as_slice() {
        [] => Case::ALL.to_vec(),
        some => some.to_vec(),
    };
    let settings = postgres.settings().await?;
    let plan = case::Plan::of(options);
    let steps = cases.iter().map(|case| case.steps(&plan)).sum();
    let world = World {
        postgres,
        screen: Screen::new(steps),
        plan,
        nodes: options.nodes.max(1),
        rpc: options.rpc.clone(),
    };
    if Environment::is_debug() {
        world.screen.say(DEBUG);
    }
    let mut settings = json!(settings);
    settings["nodes"] = json!(world.nodes);
    settings["secondsPerFigure"] = json!(world.plan.time.as_secs_f64());
    settings["quick"] = json!(options.quick);
    if !options.json {
        tell(&format!("{}\n{settings}", environment.line()))?;
    }
    for case in cases {
        let began = Instant::now();
        let mut found = case.run(&world).await?;
        found.seconds = began.elapsed().as_secs_f64();
        found.blame_generator();
        found.blame_others();
        if let Some(directory) = &options.plots {
            plot::draw(&found, directory)?;
        }
        if Environment::is_debug() {
            found.notes.insert(0, DEBUG.to_owned());
        }
        let text = if options.json {
            found.json(&environment.json(), &settings).to_string()
        } else {
            found.text()
        };
        tell(&text)?;
    }
    Ok(())
}

const DEBUG: &str =
    "THIS IS A DEBUG BUILD: its figures say nothing; use `cargo run --release -- bench`";
