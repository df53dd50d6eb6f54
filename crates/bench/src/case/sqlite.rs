//! The embedded store against PostgreSQL: the same creates over HTTP, in alternating slices.

use anyhow::Result;

use super::create::{BATCH_SIZE, DATA_BYTES, addresses_of, shape, verify};
use super::duel::Duel;
use super::{Case, World};
use crate::load::Load;
use crate::meters::Gauge;
use crate::node::{Node, Spec};
use crate::report::{Found, Target};

const SIGNERS: usize = 16;

pub(super) const fn steps() -> u64 {
    2
}

pub(super) async fn run(world: &World<'_>) -> Result<Found> {
    let mut parts = Vec::new();
    for batch in [1, BATCH_SIZE] {
        let name = match batch {
            1 => "one per request".to_owned(),
            batch => format!("batches of {batch}"),
        };
        world.screen.step("sqlite", &name);
        let database = world.database().await?;
        let nodes = world.nodes(&database, SIGNERS).await?;
        // In its own directory, which goes with it.
        let embedded = Spec {
            name: "bench-sqlite".to_owned(),
            store: "sqlite://fencepost.db".to_owned(),
            chain: None,
            signers: SIGNERS,
        };
        let embedded = Node::start(&embedded).await?;
        let shape = shape(SIGNERS, batch, 0, DATA_BYTES);
        let base = Load::start(addresses_of(&nodes), shape.clone()).await?;
        let rival = Load::start(vec![embedded.address()], shape).await?;
        let mut gauge = Gauge::new(None, vec![&embedded]).await?;
        let duel = Duel::run(&world.plan, &base, &rival, &mut gauge).await?;
        let part = duel.part(format!("{name}, {SIGNERS} signers"), &gauge);
        parts.push(part.target(Target::AtLeast(0.5)));
        drop((gauge, base, rival));
        embedded.stop().await?;
        for node in nodes {
            node.stop().await?;
        }
        verify(&database, &duel.totals[0]).await?;
    }
    Ok(Found {
        case: Case::Sqlite,
        ratio_is: "creates per second on SQLite over those on PostgreSQL",
        parts,
        notes: vec![
            "SQLite with journal_mode=WAL and synchronous=FULL, in the node's own process"
                .to_owned(),
        ],
        seconds: 0.0,
    })
}
