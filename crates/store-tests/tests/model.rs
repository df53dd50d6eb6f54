//! The scenarios hold for the model that both adapters are compared with.

use fencepost_app::ports::Terms;
use fencepost_store_tests::conformance;
use fencepost_store_tests::model::{MemoryHarness, agree};

conformance!(MemoryHarness::new(Terms::default()));

/// The comparison itself: the model agrees with the model. Without this a mistake in the comparison
/// would first be looked for in an adapter.
#[test]
fn the_model_agrees_with_itself() {
    let fresh = async || MemoryHarness::new(Terms::default());
    agree(fresh, fresh, 256);
}
