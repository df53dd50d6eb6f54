//! Faults, and the schedule of a run: what is done to whom, when and for how long, all decided by the seed
//! before anything has begun.

pub(crate) mod inflict;
pub(crate) mod lie;

use std::time::Duration;

use crate::dice::Dice;
use crate::world::NAMES;
use crate::world::config::{CONFIRMATIONS, LEASE_MS, STUCK_AFTER_S};

/// Declares the kinds with their words and weights, so that none is forgotten in a list.
macro_rules! kinds {
    ($($(#[$doc:meta])+ $variant:ident = $word:literal, $weight:literal;)+) => {
        /// What is done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind { $($(#[$doc])+ $variant,)+ }

        /// All of them, each with how often it comes beside the others.
        const WEIGHTS: &[(Kind, u64)] = &[$((Kind::$variant, $weight),)+];

        impl Kind {
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}

kinds! {
    /// kill -9, and a start some time later.
    Kill = "kill", 14;
    /// SIGSTOP for longer than the lease, then SIGCONT.
    Freeze = "freeze", 8;
    /// SIGTERM, and a start at once.
    Restart = "restart", 8;
    /// `pg_terminate_backend` of some sessions.
    Backends = "backends", 10;
    /// `pg_ctl stop -m immediate`, and a start.
    Postgres = "postgres", 5;
    /// A node's way to the store is cut, for a moment or for some time.
    StoreCut = "store_cut", 8;
    /// What a node says to the store arrives late.
    StoreHold = "store_hold", 7;
    /// What the store answers a node is lost, commits among it.
    StoreSwallow = "store_swallow", 9;
    /// A node is cut off, and the store hears nothing of it.
    StoreForsake = "store_forsake", 4;
    /// A node's way to a chain is cut.
    RpcCut = "rpc_cut", 6;
    /// What a node says to a chain arrives late.
    RpcHold = "rpc_hold", 4;
    /// What a chain answers a node is lost.
    RpcSwallow = "rpc_swallow", 5;
    /// The newest blocks of anvil are replaced.
    AnvilReorg = "anvil_reorg", 8;
    /// Anvil is killed and started from its state.
    AnvilRestart = "anvil_restart", 3;
    /// Anvil makes no blocks for longer than something may wait before it counts as stuck.
    AnvilStall = "anvil_stall", 2;
    /// The newest blocks of the dev chain are replaced.
    DevReorg = "dev_reorg", 7;
    /// The dev chain forgets what waits to be mined.
    DevForget = "dev_forget", 3;
    /// A block of the dev chain costs far more, for as long.
    DevSurge = "dev_surge", 2;
    /// An endpoint of the dev chain lies.
    DevLie = "dev_lie", 14;
}

impl Kind {
    /// By its word.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let found = WEIGHTS.iter().find(|(kind, _)| kind.word() == word);
        found.map(|(kind, _)| *kind).ok_or_else(|| {
            let words: Vec<&str> = WEIGHTS.iter().map(|(kind, _)| kind.word()).collect();
            format!("is not one of {}", words.join(", "))
        })
    }

    /// For how long, at least and at most, in milliseconds. Everything ends by itself.
    fn lasting(self) -> (u64, u64) {
        match self {
            Self::Kill => (100, 9_000),
            Self::Freeze => (LEASE_MS + 700, 2 * LEASE_MS + 2_000),
            Self::StoreCut | Self::RpcCut => (0, 6_000),
            Self::StoreHold | Self::RpcHold => (200, 5_000),
            Self::StoreSwallow | Self::RpcSwallow => (100, 3_000),
            Self::Postgres => (0, 3_000),
            Self::AnvilRestart => (0, 2_000),
            Self::DevLie => (2_000, 9_000),
            Self::AnvilStall | Self::DevSurge => (
                STUCK_AFTER_S * 1_000 + 2_000,
                STUCK_AFTER_S * 1_000 + 10_000,
            ),
            Self::Restart
            | Self::Backends
            | Self::StoreForsake
            | Self::AnvilReorg
            | Self::DevReorg
            | Self::DevForget => (0, 0),
        }
    }
}

/// One fault to come.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    /// After the beginning.
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    pub(crate) node: usize,
    pub(crate) lasting: Duration,
    /// Blocks that a reorg replaces: never so many that something final is among them.
    pub(crate) depth: u64,
    pub(crate) dice: Dice,
}

/// Between two faults, in milliseconds: one each four seconds or so.
const GAP: (u64, u64) = (800, 7_200);
/// Before the first: the lanes have leaders by then.
const CALM: Duration = Duration::from_secs(3);

/// The schedule of a run that takes so long. No kinds given are all kinds.
pub(crate) fn schedule(seed: u64, length: Duration, only: &[Kind]) -> Vec<Planned> {
    let mut dice = Dice::new(seed);
    let wanted = |kind: &Kind| only.is_empty() || only.contains(kind);
    let kinds: Vec<(Kind, u64)> = WEIGHTS
        .iter()
        .filter(|(kind, _)| wanted(kind))
        .copied()
        .collect();
    let total: u64 = kinds.iter().map(|(_, weight)| weight).sum();
    let mut planned = Vec::new();
    let mut at = CALM;
    while at < length {
        let kind = choose(&kinds, dice.below(total));
        let (least, most) = kind.lasting();
        planned.push(Planned {
            at,
            kind,
            node: dice.index(NAMES.len()),
            lasting: dice.millis(least, most),
            depth: 1 + dice.below(CONFIRMATIONS - 2),
            dice: dice.fork(),
        });
        at += dice.millis(GAP.0, GAP.1);
    }
    planned
}

fn choose(kinds: &[(Kind, u64)], mut roll: u64) -> Kind {
    for (kind, weight) in kinds {
        if roll < *weight {
            return *kind;
        }
        roll -= weight;
    }
    kinds.last().map_or(Kind::Kill, |(kind, _)| *kind)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn told(planned: &[Planned]) -> Vec<String> {
        planned.iter().map(|fault| format!("{fault:?}")).collect()
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let hour = Duration::from_secs(3_600);
        let one = schedule(7, hour, &[]);
        assert_eq!(told(&one), told(&schedule(7, hour, &[])));
        assert_ne!(told(&one), told(&schedule(8, hour, &[])));
    }

    #[test]
    fn half_an_hour_has_three_hundred_faults_and_every_kind() {
        for seed in 0..20 {
            let planned = schedule(seed, Duration::from_secs(1_800), &[]);
            assert!(planned.len() >= 300, "{} faults", planned.len());
            let kinds: BTreeSet<Kind> = planned.iter().map(|fault| fault.kind).collect();
            assert_eq!(kinds.len(), WEIGHTS.len(), "seed {seed}");
        }
    }

    #[test]
    fn nothing_final_is_ever_replaced() {
        let planned = schedule(3, Duration::from_secs(36_000), &[]);
        let deepest = planned.iter().map(|fault| fault.depth).max();
        assert!(deepest.is_some_and(|deepest| deepest < CONFIRMATIONS));
    }

    #[test]
    fn only_the_wanted_kinds_are_planned() {
        let only = [Kind::Kill, Kind::DevLie];
        let planned = schedule(1, Duration::from_secs(600), &only);
        assert!(planned.iter().all(|fault| only.contains(&fault.kind)));
        assert!(Kind::parse("kill") == Ok(Kind::Kill) && Kind::parse("kil").is_err());
    }
}
