//! What is measured, one file for each case.

mod limit;
mod create;
mod latency;
mod lifecycle;
mod failover;
mod growth;
mod idle;
mod sqlite;
mod duel;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use crate::Options;
use crate::node::{Node, Spec, signers};
use crate::plain::Plain;
use crate::postgres::Postgres;
use crate::report::Found;
use crate::screen::Screen;

/// One of the things that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// What the database does without us.
    Limit,
    /// Creates over HTTP.
    Create,
    /// Creates by the clock.
    Latency,
    /// From a create to CONFIRMED.
    Lifecycle,
    /// Leaders that go.
    Failover,
    /// Creates on large tables.
    Growth,
    /// Lanes that nobody uses.
    Idle,
    /// The embedded store.
    Sqlite,
}

impl Case {
    /// All of them, in the order in which they are run.
    pub const ALL: [Self; 8] = [
        Self::Limit,
        Self::Create,
        Self::Latency,
        Self::Lifecycle,
        Self::Failover,
        Self::Growth,
        Self::Idle,
        Self::Sqlite,
    ];

    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Create => "create",
            Self::Latency => "latency",
            Self::Lifecycle => "lifecycle",
            Self::Failover => "failover",
            Self::Growth => "growth",
            Self::Idle => "idle",
            Self::Sqlite => "sqlite",
        }
    }

    /// What it measures, in a line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Limit => "plain inserts and updates on our tables, and commits of one row",
            Self::Create => "creates over HTTP, one per request and in batches",
            Self::Latency => {
                "how long a create takes at fixed rates, from when it should have been sent"
            }
            Self::Lifecycle => "from a create to CONFIRMED, on the built-in chain and on anvil",
            Self::Failover => {
                "until another node accepts and gives nonces, after a kill and after a stop"
            }
            Self::Growth => "creates on tables with millions of rows",
            Self::Idle => "what lanes cost that nobody uses",
            Self::Sqlite => "creates on the embedded store",
        }
    }

    pub(crate) fn steps(self, plan: &Plan) -> u64 {
        match self {
            Self::Limit => limit::steps(),
            Self::Create => create::steps(plan),
            Self::Latency => latency::steps(),
            Self::Lifecycle => lifecycle::steps(),
            Self::Failover => failover::steps(plan),
            Self::Growth => growth::steps(plan),
            Self::Idle => idle::steps(),
            Self::Sqlite => sqlite::steps(),
        }
    }

    pub(crate) async fn run(self, world: &World<'_>) -> Result<Found> {
        match self {
            Self::Limit => limit::run(world).await,
            Self::Create => create::run(world).await,
            Self::Latency => latency::run(world).await,
            Self::Lifecycle => lifecycle::run(world).await,
            Self::Failover => failover::run(world).await,
            Self::Growth => growth::run(world).await,
            Self::Idle => idle::run(world).await,
            Self::Sqlite => sqlite::run(world).await,
        }
    }
}

/// How much of everything.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How long each figure is measured; the limit beside it takes as long again.
    pub(crate) time: Duration,
    /// In so many slices, which alternate with those of the limit.
    pub(crate) slices: u32,
    /// How many kinds of creates.
    pub(crate) creates: usize,
    /// The most signers that anything is measured with.
    pub(crate) signers_max: usize,
    /// To how many rows tables are filled.
    pub(crate) growth: Vec<u64>,
    /// How often a leader is killed, and how often it is asked to stop.
    pub(crate) kills: u32,
    pub(crate) stops: u32,
}

/// How long a figure may be measured: more would not fit into the hour, less is all noise.
pub const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=60.0;

impl Plan {
    pub(crate) fn of(options: &Options) -> Self {
        let quick = options.quick;
        let usual = if quick { 1.5 } else { 8.0 };
        let seconds = options.seconds.unwrap_or(usual);
        let seconds = seconds.clamp(*SECONDS.start(), *SECONDS.end());
        Self {
            time: Duration::from_secs_f64(seconds),
            slices: if quick { 6 } else { 16 },
            creates: if quick { 8 } else { create::ALL },
            signers_max: if quick { 10_000 } else { 100_000 },
            growth: if quick {
                vec![200_000]
            } else {
                vec![1_000_000, 10_000_000]
            },
            kills: if quick { 2 } else { 20 },
            stops: if quick { 4 } else { 20 },
        }
    }

    pub(crate) fn slice(&self) -> Duration {
        self.time / self.slices
    }

    /// Before anything counts: plans are made, caches filled, lanes taken.
    pub(crate) fn warm_up(&self) -> Duration {
        (self.time / 2).min(Duration::from_secs(2))
    }
}

/// Where cases run.
pub(crate) struct World<'a> {
    pub(crate) postgres: &'a Postgres,
    pub(crate) screen: Screen,
    pub(crate) plan: Plan,
    pub(crate) nodes: usize,
    pub(crate) rpc: Option<String>,
}

impl World<'_> {
    /// Plain writers on a new database with our schema.
    pub(crate) async fn plain(&self, lanes: usize, data_bytes: usize) -> Result<Plain> {
        let database = self.database().await?;
        Plain::new(&database, lanes, data_bytes).await
    }

    /// A new database with our schema.
    pub(crate) async fn database(&self) -> Result<String> {
        self.postgres.database().await
    }

    /// Nodes that give nonces and have no chain.
    pub(crate) async fn nodes(&self, store: &str, signers: usize) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        for number in 0..self.nodes {
            let spec = Spec {
                name: format!("bench-{number}"),
                store: store.to_owned(),
                chain: None,
                signers,
            };
            nodes.push(Node::start(&spec).await?);
        }
        Ok(nodes)
    }
}

/// The addresses that nodes without a chain send from.
pub(crate) fn addresses(count: usize) -> Arc<[String]> {
    signers(count).collect()
}
