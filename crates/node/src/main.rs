//! The Fencepost node and its command line.
//!
//! Read [`cli`] for what there is, [`serve`] for a node's life and [`wiring`] for what it is made of.
//! Only this crate knows where settings come from; only it names adapters.

mod cli;
mod config;
mod serve;
mod wiring;
mod opened;
mod state_file;
mod descriptors;
mod keyring;
mod dev;
mod demo;
mod bench;
mod timed;
#[cfg(debug_assertions)]
mod trap;
mod clock;
mod signals;
mod reload;
mod telemetry;
mod inspect;
mod client;
mod output;
mod failure;
mod hardening;
#[cfg(test)]
mod runbook;

use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use cli::{Cli, Command};
use config::Config;
use config::environment::Environment;
use failure::Failure;

/// A request is many small allocations that other threads free; this one does them for less.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Cli { command } = Cli::parse();
    let environment = Environment::of_process();
    match command {
        Command::Dev(what) => logged(&what.log.clone(), || {
            telemetry::end_on_panic();
            run(
                &mut Builder::new_multi_thread(),
                dev::dev(what, environment),
            )
        }),
        Command::Demo(what) => told(run(&mut Builder::new_multi_thread(), demo::demo(what))),
        Command::Bench(what) => told(run(&mut Builder::new_multi_thread(), bench::bench(what))),
        Command::BenchChain => told(run(&mut Builder::new_multi_thread(), bench::chain())),
        Command::Serve(what) => logged(&what.log, || {
            telemetry::end_on_panic();
            hardening::protect();
            let (config, serving) = Config::load_to_serve(&what.from.config, &environment)?;
            hardening::settle(config.node.allow_core_dumps)?;
            run(
                &mut Builder::new_multi_thread(),
                serve::serve(config, serving),
            )
        }),
        Command::Migrate(what) => logged(&what.logged.log, || {
            hardening::protect();
            let config = Config::load_for_store(&what.logged.from.config, &environment)?;
            hardening::settle(config.node.allow_core_dumps)?;
            let migrate = inspect::migrate(config, what.new_store);
            run(&mut Builder::new_multi_thread(), migrate)
        }),
        Command::Config(command) => told(asked(inspect::config(&command, &environment))),
        Command::Tx(command) => told(asked(client::tx::run(command, &environment))),
        Command::Signers(command) => told(asked(client::signers::run(command, &environment))),
        Command::Audit(command) => told(asked(client::export::run(command, &environment))),
        Command::Nonces(command) => told(asked(client::nonces::run(command, &environment))),
        Command::Completions(command) => {
            told(asked(client::completions::run(command, &environment)))
        }
        Command::Version => told(output::print(concat!(
            "fencepost ",
            env!("CARGO_PKG_VERSION")
        ))),
    }
}

/// Whatever still runs when the work is done is left behind, not waited for.
fn run(
    builder: &mut Builder,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let runtime = builder.enable_all().build();
    let runtime: Runtime = runtime.map_err(|error| Failure::new("no runtime", error))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

fn asked(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    run(&mut Builder::new_current_thread(), work)
}

/// Runs what has logs: its failure is one of them, a line for each mistake.
fn logged(filter: &str, work: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    if let Err(failure) = telemetry::start(filter) {
        return told(Err(failure));
    }
    let ended = work();
    telemetry::end();
    let Err(failure) = ended else {
        return ExitCode::SUCCESS;
    };
    for line in failure.lines() {
        tracing::error!("{line}");
    }
    ExitCode::from(failure.code())
}

/// Tells a person how it ended.
fn told(ended: Result<(), Failure>) -> ExitCode {
    let Err(failure) = ended else {
        return ExitCode::SUCCESS;
    };
    for line in failure.lines() {
        eprintln!("error: {line}");
    }
    ExitCode::from(failure.code())
}
