//! What the fuzz targets share: a node with its API in one thread and in virtual time, so that an
//! input gives the same answer each time it is tried.

pub mod call;
pub mod mutate;
pub mod reply;
pub mod said;
pub mod world;

/// The clock of the API's own tests, and nobody beside the node.
#[path = "../../crates/http/tests/api/alone.rs"]
mod alone;

/// The chain of the API's own tests: it only counts, and nothing moves by itself between two inputs.
#[allow(dead_code)] // Those tests let it say more than is wanted here.
#[path = "../../crates/http/tests/api/counting.rs"]
mod counting;
