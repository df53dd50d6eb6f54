//! A chain that says what it is told to.

use std::sync::Mutex;

use async_trait::async_trait;
use fencepost_app::ports::{Chain, ChainUnavailable, CountMode};
use fencepost_domain::ids::{Lane, Nonce};
use fencepost_domain::nonce::ChainCount;

#[derive(Default)]
pub(crate) struct Told {
    pub(crate) count: Mutex<Option<ChainCount>>,
    pub(crate) asked: Mutex<u32>,
}

impl Told {
    pub(crate) fn say(&self, highest: u64, unanimous: bool) {
        *self.count.lock().unwrap() = Some(ChainCount {
            highest: Nonce::new(highest).unwrap(),
            unanimous,
        });
    }
}

#[async_trait]
impl Chain for Told {
    async fn count(&self, _: Lane, _: CountMode) -> Result<ChainCount, ChainUnavailable> {
        *self.asked.lock().unwrap() += 1;
        let said = *self.count.lock().unwrap();
        said.ok_or_else(|| ChainUnavailable("nobody answers".into()))
    }
}
