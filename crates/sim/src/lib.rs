//! The deterministic simulation. A seed is a world: several nodes of the real application on one store in
//! memory and one in-process chain, in virtual time, with every delay, loss, crash, lie and reorg drawn from the
//! seed. The promises of the design are checked after every write and every block.

mod rng;
mod profile;
mod clock;
mod gate;
mod trace;
mod sometimes;
mod world;
mod node;
mod store;
mod audit;
mod wire;
mod peers;
mod keys;
mod chooser;
mod ledger;
mod checks;
mod client;
mod outsider;
mod holder;
mod operator;
mod reader;
mod fate;
mod miner;
mod endure;
mod restless;
mod healing;
mod verdict;
mod run;

pub use profile::Profile;
pub use rng::Rng;
pub use run::{Report, keys, run, watch_panics};
pub use sometimes::{Rare, Sometimes};
pub use trace::Told;
pub use world::Violation;
