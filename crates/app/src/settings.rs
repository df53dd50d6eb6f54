//! What an operator can choose about the flow. Where too high and too low hurt is said in
//! `config.default.toml`.

use std::time::Duration;

use fencepost_domain::finality::Rule;
use fencepost_domain::ids::ChainId;
use fencepost_domain::request::Ceilings;
use fencepost_domain::seal::Secrets;

use crate::ports::{CountMode, Terms};

/// The settings of one node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long leases last. All nodes of a cluster use the same.
    pub lease: Terms,
    /// How often leases are renewed and the node says that it lives.
    pub renew_interval: Duration,
    /// How many lanes' worth of work goes on at once.
    pub workers: usize,
    /// The most that one statement stores.
    pub batch_max: usize,
    /// The most that waits for one worker; more is told to come again.
    pub worker_queue_max: usize,
    /// The most that waits in one lane without a nonce.
    pub lane_queue_max: usize,
    /// What a node does with a request for a lane that another leads.
    pub not_leader: NotLeader,
    /// How long the leader may take to answer a forwarded request.
    pub forward_deadline: Duration,
    /// Whether and how the chain is asked where an account stands.
    pub chain_query: Option<CountMode>,
    /// How long what a leader remembers of a lane is good without asking the chain again.
    pub state_timeout: Duration,
    /// How far the chain may be ahead of a lane's cursor before a person must look.
    pub max_jump: u64,
    /// How many of a lane may be in the nodes' pools and in no block.
    pub window: usize,
    /// Whether a request without a gas limit is estimated before it is accepted.
    pub preflight: bool,
    /// How long bytes are left alone before they are sent again; none never sends again.
    pub resubmit_interval: Option<Duration>,
    /// How long a transaction may be in no block before its receipt is asked for directly.
    pub stale_receipt_timeout: Duration,
    /// How many such questions are under way at once.
    pub receipt_workers: usize,
    /// Whether each block on top of a transaction's is told.
    pub publish_confirmations: bool,
    /// How many missed blocks are walked; beyond that, receipts are asked for directly.
    pub max_walk: usize,
    /// When the head of a lane counts as stuck.
    pub stuck: StuckAfter,
    /// A stuck policy may have another payload than the client's executed with its nonce.
    pub allow_other_payload: bool,
    /// The secrets that stored rows are sealed with.
    pub seals: Secrets,
    /// How nonces are lent.
    pub lending: Lending,
    /// How long what has ended is kept; none keeps it for ever.
    pub retention: Option<Retention>,
    /// How many critical writes are logged in a second; more are counted and left out.
    pub logged_writes_per_second: u64,
}

/// When the head of a lane counts as stuck, and how often its policy is asked about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StuckAfter {
    /// After so long as the lane's head, in no block.
    pub age: Duration,
    /// After so many sends.
    pub attempts: u32,
    /// With more than so many behind it that wait, `backlog_age` is enough; 0 is never.
    pub backlog: u64,
    /// After so long as the lane's head, with such a backlog.
    pub backlog_age: Duration,
}

/// How nonces are lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lending {
    /// For how long, where the request does not say.
    pub ttl: Duration,
    /// How long after that it is given back at the earliest.
    pub grace: Duration,
    /// What becomes of a nonce that its holder neither used nor gave back.
    pub on_expiry: OnExpiry,
    /// Without a chain: how long after its holder has named a hash a nonce counts as used.
    pub used_after: Duration,
}

/// How long what has ended is kept, and how fast it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// After so long its details go.
    pub keep: Duration,
    /// So long after that its request id is still honoured; then all of it goes.
    pub request_ids: Duration,
    /// How many rows one statement looks at.
    pub batch: usize,
    /// Between two batches.
    pub interval: Duration,
}

/// What becomes of a nonce that its holder neither used nor gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnExpiry {
    /// It is given back once every endpoint says that it is unused; without a chain, at once.
    Recycle,
    /// It stays its holder's until an operator acts.
    Hold,
}

/// A chain that we send on.
#[derive(Debug, Clone)]
pub struct ChainSettings {
    /// Its id.
    pub id: ChainId,
    /// Its configured name.
    pub name: String,
    /// When a block is final.
    pub finality: Rule,
    /// How often its head is looked at.
    pub poll_interval: Duration,
    /// The greatest fees we sign.
    pub ceilings: Ceilings,
    /// How much more a replacement pays, at least 10.
    pub bump_percent: u32,
}

/// What a node does with a request for a lane that another leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLeader {
    /// It hands it to the leader.
    Forward,
    /// It says no, and who leads.
    Reject,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Terms::default(),
            renew_interval: Duration::from_secs(3),
            workers: 16,
            batch_max: 512,
            worker_queue_max: 8_192,
            lane_queue_max: 100_000,
            not_leader: NotLeader::Forward,
            forward_deadline: Duration::from_secs(2),
            chain_query: Some(CountMode::Pending),
            state_timeout: Duration::from_secs(30),
            max_jump: 1_000,
            window: 64,
            preflight: false,
            resubmit_interval: Some(Duration::from_secs(60)),
            stale_receipt_timeout: Duration::from_secs(60),
            receipt_workers: 10,
            publish_confirmations: false,
            max_walk: 1_000,
            allow_other_payload: false,
            seals: Secrets::default(),
            stuck: StuckAfter {
                age: Duration::from_mins(10),
                attempts: 10,
                backlog: 0,
                backlog_age: Duration::from_mins(1),
            },
            lending: Lending {
                ttl: Duration::from_secs(60),
                grace: Duration::from_secs(60),
                on_expiry: OnExpiry::Recycle,
                used_after: Duration::from_mins(10),
            },
            retention: None,
            logged_writes_per_second: 100,
        }
    }
}
