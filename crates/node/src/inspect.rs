//! `fencepost config …` and `fencepost migrate`: what can be done without running a node.

use std::sync::Arc;

use fencepost_app::ports::Clock;

use crate::cli::ConfigCommand;
use crate::clock::TimeOfDay;
use crate::config::Config;
use crate::config::environment::Environment;
use crate::config::problem::Problems;
use crate::config::serving::Serving;
use crate::failure::Failure;
use crate::output::print;
use crate::{keyring, wiring};

/// Says what is wrong with a configuration, or shows it.
pub(crate) async fn config(
    command: &ConfigCommand,
    environment: &Environment,
) -> Result<(), Failure> {
    match command {
        ConfigCommand::Print(from) => {
            let config = Config::load(&from.config, environment)?;
            print(&config.print())
        }
        ConfigCommand::Check(from) => {
            let (config, serving) = Config::load_to_serve(&from.config, environment)?;
            let summary = check(&config, serving).await?;
            print(&format!("{} is good: {summary}", from.config.display()))
        }
    }
}

async fn check(config: &Config, serving: Serving) -> Result<String, Problems> {
    for warning in &config.warnings {
        eprintln!("warning: {warning}");
    }
    let (_, lanes) = keyring::open(&serving.senders, serving.keys).await?;
    let (chains, signers) = (config.chains.len(), config.signers.len());
    let (lanes, store) = (lanes.len(), config.store.place.word());
    Ok(format!(
        "store {store}, chains {chains}, signers {signers}, lanes {lanes}"
    ))
}

/// Opens the store, which brings its schema up to date.
pub(crate) async fn migrate(config: Config) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(TimeOfDay);
    let opened = wiring::open(&config.store, config.settings.lease, &clock).await;
    opened.map_err(|error| Failure::new("the store cannot be opened", error))?;
    let store = config.store.place.word();
    print(&format!("the schema of the {store} store is up to date"))
}
