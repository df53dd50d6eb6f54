//! What kind of world a seed is: how many nodes and lanes, which settings, and how much goes wrong. Some
//! are calm and long, others wild.

use std::time::Duration;

use fencepost_app::directory::{InFlightLimit, InFlightUntil};
use fencepost_app::ports::{CountMode, Terms};
use fencepost_app::settings::{ChainSettings, Lending, NotLeader, OnExpiry, Settings, StuckAfter};
use fencepost_domain::finality::Rule;
use fencepost_domain::ids::ChainId;
use fencepost_domain::request::Ceilings;
use fencepost_domain::seal::{Secret, Secrets};

use crate::rng::Rng;

/// One gwei in wei.
pub(crate) const GWEI: u128 = 1_000_000_000;
/// The chain's id.
pub(crate) const CHAIN: u64 = 1;
/// The most lanes of any world: so many keys are needed.
pub(crate) const LANES_MAX: u32 = 5;
/// How many blocks `safe` is behind the head.
pub(crate) const SAFE_LAG: u64 = 2;
/// How many blocks `finalized` is behind the head.
pub(crate) const FINALIZED_LAG: u64 = 4;

/// Seeds from here on are worlds with an eighth of the requests: several times as many in the same time.
pub(crate) const BRIEF_FROM: u64 = 1_000_000;

/// A strict lane ends one request in the time of as many blocks as make one final. More requests than this share of the
/// usual would not end in the time that a run has.
const STRICT_SHARE: u64 = 6;

/// How much goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Almost nothing.
    Calm,
    /// Something, now and then.
    Rough,
    /// Everything, all the time.
    Wild,
}

/// Who decides about stuck transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chooser {
    /// Nobody.
    Noop,
    /// A list of rules.
    Rules,
    /// Someone who says anything, after any time.
    Moody,
}

/// How often calls go wrong, in a thousand.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// A call of the store that takes long.
    pub store_slow: u64,
    /// A call of the store that is not put.
    pub store_away: u64,
    /// A write whose reply is lost, done, not done or done later.
    pub store_lost: u64,
    /// A request to an endpoint that takes long.
    pub rpc_slow: u64,
    /// A request to an endpoint that fails before or after it was done.
    pub rpc_fails: u64,
    /// A message between nodes that is lost.
    pub peers_lost: u64,
    /// A signature that is not made.
    pub signer_fails: u64,
    /// A signature that is refused for good.
    pub signer_refuses: u64,
    /// A block that replaces others.
    pub reorg: u64,
    /// How long it is quiet between two blows of fate, in milliseconds.
    pub quiet: u64,
}

/// A world before it begins.
#[derive(Debug, Clone)]
pub struct Profile {
    /// How much goes wrong.
    pub mood: Mood,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many lanes.
    pub lanes: usize,
    /// How many endpoints the chain has.
    pub endpoints: usize,
    /// How many transactions the clients ask for.
    pub requests: u64,
    /// How many nonces are borrowed.
    pub loans: u64,
    /// How many acts of operators there are.
    pub acts: u64,
    /// How often a block is mined.
    pub block_every: Duration,
    /// What the nodes are told.
    pub settings: Settings,
    /// What they are told of the chain.
    pub chain: ChainSettings,
    /// How many of a lane may be in flight.
    pub max_in_flight: Option<InFlightLimit>,
    /// Who decides about stuck transactions.
    pub chooser: Chooser,
    /// How often calls go wrong.
    pub rates: Rates,
    /// Others use the same keys.
    pub foreigners: bool,
    /// In the end the chain stays too dear for some.
    pub dear_end: bool,
}

impl Profile {
    /// The world of a seed: a brief one from 1,000,000 on.
    #[must_use]
    pub fn of(seed: u64, rng: &mut Rng) -> Self {
        let mood = match rng.below(10) {
            0..3 => Mood::Calm,
            3..7 => Mood::Rough,
            _ => Mood::Wild,
        };
        let lanes = 1 + rng.place(usize::try_from(LANES_MAX).expect("it is small"));
        let requests = match mood {
            Mood::Calm => rng.between(110, 200),
            Mood::Rough => rng.between(90, 140),
            Mood::Wild => rng.between(60, 130),
        };
        let requests = if seed < BRIEF_FROM {
            requests
        } else {
            requests / 8
        };
        let settings = settings(rng);
        let mut profile = Self {
            mood,
            nodes: 1 + rng.place(4),
            lanes,
            endpoints: 1 + rng.place(3),
            requests,
            loans: rng.below(12),
            acts: if mood == Mood::Calm {
                rng.below(4)
            } else {
                rng.below(16)
            },
            block_every: rng.millis(200, 900),
            chain: chain(rng),
            settings,
            max_in_flight: in_flight(rng),
            chooser: match rng.below(3) {
                0 => Chooser::Noop,
                1 => Chooser::Rules,
                _ => Chooser::Moody,
            },
            rates: rates(mood, rng),
            foreigners: mood != Mood::Calm && rng.chance(150),
            dear_end: rng.chance(60),
        };
        if profile.is_strict() {
            profile.requests = profile.requests.div_ceil(STRICT_SHARE);
        }
        profile
    }

    /// Whether a lane waits for the last one to be final before it gives the next nonce.
    fn is_strict(&self) -> bool {
        let limit = self.max_in_flight;
        limit.is_some_and(|limit| limit.until == InFlightUntil::Final)
    }
}

/// Mostly no limit; a third of the limits are strict.
fn in_flight(rng: &mut Rng) -> Option<InFlightLimit> {
    let max = rng.chance(250).then(|| 1 + rng.place(12))?;
    Some(match max {
        // One after the other, each final before the next.
        10.. => InFlightLimit {
            max: 1,
            until: InFlightUntil::Final,
        },
        8 | 9 => InFlightLimit {
            max: 3,
            until: InFlightUntil::Final,
        },
        max => InFlightLimit {
            max,
            until: InFlightUntil::Mined,
        },
    })
}

fn settings(rng: &mut Rng) -> Settings {
    let lease = rng.millis(1_000, 3_000);
    Settings {
        lease: Terms {
            duration: lease,
            skew: lease / 10,
        },
        renew_interval: lease * 3 / 10,
        workers: 1 + rng.place(3),
        batch_max: *rng.pick(&[2, 8, 512]),
        worker_queue_max: *rng.pick(&[4, 64, 8_192]),
        lane_queue_max: *rng.pick(&[8, 100_000, 100_000]),
        not_leader: if rng.chance(150) {
            NotLeader::Reject
        } else {
            NotLeader::Forward
        },
        forward_deadline: rng.millis(100, 600),
        chain_query: match rng.below(10) {
            0..7 => Some(CountMode::Pending),
            _ => Some(CountMode::Latest),
        },
        state_timeout: rng.millis(1_000, 8_000),
        max_jump: *rng.pick(&[2, 10, 1_000]),
        window: *rng.pick(&[1, 4, 64]),
        preflight: false,
        resubmit_interval: Some(rng.millis(1_500, 5_000)),
        stale_receipt_timeout: rng.millis(1_500, 5_000),
        receipt_workers: 1 + rng.place(10),
        publish_confirmations: rng.chance(700),
        max_walk: *rng.pick(&[4, 1_000, 1_000]),
        // Every row is sealed: one that no path seals would be STUCK/TAMPERED, which no world allows.
        seals: Secrets {
            current: Some(Secret::new(b"a secret of the simulation")),
            ..Secrets::default()
        },
        allow_other_payload: rng.chance(700),
        stuck: StuckAfter {
            age: rng.millis(3_000, 8_000),
            attempts: u32::try_from(rng.between(2, 10)).expect("it is small"),
            backlog: rng.below(2) * 5,
            backlog_age: rng.millis(1_000, 4_000),
        },
        // The checks know every row from its beginning to the end of the run.
        retention: None,
        logged_writes_per_second: Settings::default().logged_writes_per_second,
        lending: Lending {
            ttl: Duration::from_secs(6),
            grace: Duration::from_secs(3),
            on_expiry: if rng.chance(150) {
                OnExpiry::Hold
            } else {
                OnExpiry::Recycle
            },
            used_after: Duration::from_mins(10),
        },
    }
}

fn chain(rng: &mut Rng) -> ChainSettings {
    ChainSettings {
        id: ChainId::new(CHAIN).expect("it is small"),
        name: "main".to_owned(),
        finality: match rng.below(8) {
            0 => Rule::Safe,
            1 => Rule::Finalized,
            _ => Rule::Confirmations(rng.between(1, 5)),
        },
        poll_interval: rng.millis(150, 600),
        ceilings: Ceilings {
            max_fee: 500 * GWEI,
            max_priority_fee: 50 * GWEI,
        },
        bump_percent: 12,
    }
}

fn rates(mood: Mood, rng: &mut Rng) -> Rates {
    let most = match mood {
        Mood::Calm => 4,
        Mood::Rough => 25,
        Mood::Wild => 80,
    };
    Rates {
        store_slow: rng.below(most),
        store_away: rng.below(most) / 2,
        store_lost: rng.below(most),
        rpc_slow: rng.below(most),
        rpc_fails: rng.below(most),
        peers_lost: rng.below(most * 4),
        signer_fails: rng.below(most) / 2,
        signer_refuses: if rng.chance(300) {
            rng.below(most) / 4
        } else {
            0
        },
        reorg: match mood {
            Mood::Calm => rng.below(20),
            Mood::Rough => rng.below(80),
            Mood::Wild => rng.below(150),
        },
        quiet: match mood {
            Mood::Calm => 30_000,
            Mood::Rough => rng.between(2_000, 8_000),
            Mood::Wild => rng.between(700, 3_000),
        },
    }
}
