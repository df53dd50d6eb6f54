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
use crate::keyring;
use crate::opened::{self, Opened, unopened};
use crate::output::print;

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

/// Opens the store, which brings its schema up to date. `new_store` declares that it is meant to be new.
pub(crate) async fn migrate(config: Config, new_store: bool) -> Result<(), Failure> {
    crate::telemetry::name(&config.node.id);
    let clock: Arc<dyn Clock> = Arc::new(TimeOfDay::of_machine());
    let memory = opened::memory(&config.node)?;
    let opening = Opened::open(&config.store, config.settings.lease, &clock, &memory);
    let opened = opening.await.map_err(unopened)?;
    if new_store {
        let remembered = memory.store();
        let found = opened.describe().await.map_err(unopened)?;
        let instead_of = remembered.filter(|known| *known != found.id);
        opened.declare_new(instead_of).await.map_err(unopened)?;
    }
    opened.meet(&memory, &opened::state(&config.node)).await?;
    let store = config.store.place.word();
    let declared = if new_store {
        " and declared to be new"
    } else {
        ""
    };
    print(&format!(
        "the schema of the {store} store is up to date{declared}"
    ))
}
