//! Times every operation of the store, under its own name, and counts those that fail.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::meters::Meters;
use fencepost_app::ports::{StoreError, Watcher};

/// Takes the time of what the store answers.
pub(crate) struct Timed(pub(crate) Meters);

#[async_trait]
impl Watcher for Timed {
    async fn before(&self, _: &'static str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn after(&self, op: &'static str, took: Duration) -> Result<(), StoreError> {
        self.0.stored(op, took);
        Ok(())
    }

    fn failed(&self, _: &'static str, error: &StoreError) {
        self.0.store_failed(error);
    }
}
