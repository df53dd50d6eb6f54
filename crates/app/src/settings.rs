//! What an operator can choose about the flow. Where too high and too low hurt is said in
//! `config.default.toml`.

use std::time::Duration;

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
        }
    }
}
