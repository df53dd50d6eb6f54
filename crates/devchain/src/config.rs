//! What a chain is started with. Nothing here is read from the outside: the caller decides all of it.

use alloy_primitives::{Address, U256, address};

use crate::dialect::Dialect;

/// One gwei in wei.
pub const GWEI: u64 = 1_000_000_000;
/// Where the tips go, unless configured.
pub const COINBASE: Address = address!("0x00000000000000000000000000000000000c01ba");

/// How the base fee of the next block is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseFee {
    /// Always this, in wei.
    Fixed(u64),
    /// By the rule of EIP-1559, starting from this, in wei.
    Eip1559(u64),
}

impl BaseFee {
    /// What the genesis block has.
    #[must_use]
    pub fn initial(self) -> u64 {
        match self {
            BaseFee::Fixed(wei) | BaseFee::Eip1559(wei) => wei,
        }
    }
}

/// What a pool takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// How many transactions it holds. A full pool takes only what pays more than its cheapest.
    pub total_max: usize,
    /// How many transactions of one account it holds.
    pub account_max: usize,
    /// How far above the account's next nonce a nonce may be.
    pub gap_max: u64,
    /// How much higher both fees of a replacement are, in percent.
    pub bump_percent: u128,
    /// The lowest tip it takes, in wei.
    pub tip_min: u128,
    /// How many accepted sends of each account are remembered for inspection.
    pub sends_kept: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits {
            total_max: 200_000,
            account_max: 20_000,
            gap_max: 20_000,
            bump_percent: 10,
            tip_min: 0,
            sends_kept: 65_536,
        }
    }
}

/// Whose pool an endpoint has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolChoice {
    /// The one that blocks are mined from.
    #[default]
    Shared,
    /// Its own, that reaches the others only by [`crate::Devchain::gossip`].
    Own,
}

/// An endpoint as it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointConfig {
    /// What it is called, in the server's path too.
    pub name: String,
    /// Whose words it speaks.
    pub dialect: Dialect,
    /// Whose pool it has.
    pub pool: PoolChoice,
}

impl EndpointConfig {
    /// An endpoint that speaks like geth and shares the pool.
    #[must_use]
    pub fn new(name: &str) -> Self {
        EndpointConfig {
            name: name.to_owned(),
            dialect: Dialect::Geth,
            pool: PoolChoice::Shared,
        }
    }
}

/// How much of the past is kept. Memory grows with it, and what is older is forgotten on all branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// How many blocks of a branch are kept.
    pub blocks_max: usize,
    /// How many transactions are kept; the newest 256 blocks stay whatever they hold.
    pub txs_max: usize,
    /// How many abandoned branches can be returned to.
    pub branches_max: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        HistoryLimits {
            blocks_max: 100_000,
            txs_max: 1_000_000,
            branches_max: 32,
        }
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The chain id that signatures are for.
    pub chain_id: u64,
    /// The timestamp of the genesis block, in seconds.
    pub genesis_time: u64,
    /// Who has how much, in wei, from the start.
    pub accounts: Vec<(Address, U256)>,
    /// The rule of the base fee.
    pub base_fee: BaseFee,
    /// The gas limit of every block.
    pub gas_limit: u64,
    /// The gas limit of one transaction (EIP-7825).
    pub tx_gas_max: u64,
    /// What `eth_maxPriorityFeePerGas` proposes, in wei.
    pub tip_proposed: u128,
    /// How many blocks `safe` is behind the head.
    pub safe_lag: u64,
    /// How many blocks `finalized` is behind the head.
    pub finalized_lag: u64,
    /// Where the tips go.
    pub coinbase: Address,
    /// What each pool takes.
    pub pool: PoolLimits,
    /// How much of the past is kept.
    pub history: HistoryLimits,
    /// The endpoints, in the order of the server's paths. The first one is also at `/`.
    pub endpoints: Vec<EndpointConfig>,
    /// How many calls one JSON-RPC batch may hold.
    pub batch_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            chain_id: 31_337,
            genesis_time: 1_700_000_000,
            accounts: Vec::new(),
            base_fee: BaseFee::Fixed(GWEI),
            gas_limit: 60_000_000,
            tx_gas_max: 1 << 24,
            tip_proposed: u128::from(GWEI),
            safe_lag: 4,
            finalized_lag: 8,
            coinbase: COINBASE,
            pool: PoolLimits::default(),
            history: HistoryLimits::default(),
            endpoints: vec![EndpointConfig::new("main")],
            batch_max: 1_000,
        }
    }
}
