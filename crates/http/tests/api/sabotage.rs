//! A store that fails as a test tells it to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{StoreError, Watcher};

use super::world::World;

/// How calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The store is not there.
    Away,
    /// It is put, and the answer is lost.
    Lost,
    /// It never answers.
    Silent,
    /// It answers after this time.
    Slow(Duration),
    /// The store finds what was never written.
    Corrupt,
    /// Our own code is wrong.
    Panic,
}

/// Makes every call of these operations fail.
#[derive(Default)]
pub(crate) struct Sabotage(Mutex<Vec<(&'static str, Fault)>>);

impl Sabotage {
    /// A world whose store can be made to fail.
    pub(crate) fn world() -> (World, Arc<Self>) {
        let sabotage = Arc::new(Self::default());
        let mut world = World::new();
        world.watcher = Some(Arc::clone(&sabotage) as Arc<dyn Watcher>);
        (world, sabotage)
    }

    pub(crate) fn fail(&self, op: &'static str, fault: Fault) {
        self.0.lock().unwrap().push((op, fault));
    }

    pub(crate) fn slow(&self, op: &'static str, by: Duration) {
        self.fail(op, Fault::Slow(by));
    }

    pub(crate) fn repair(&self) {
        self.0.lock().unwrap().clear();
    }

    fn fault(&self, op: &str) -> Option<Fault> {
        let faults = self.0.lock().unwrap();
        faults
            .iter()
            .find(|(of, _)| *of == op)
            .map(|(_, fault)| *fault)
    }
}

#[async_trait]
impl Watcher for Sabotage {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        match self.fault(op) {
            Some(Fault::Away) => Err(StoreError::Unavailable("away".into())),
            Some(Fault::Corrupt) => {
                let corrupt = fencepost_domain::ids::Corrupt { column: "state" };
                Err(StoreError::Corrupt(corrupt))
            }
            Some(Fault::Silent) => std::future::pending().await,
            Some(Fault::Panic) => panic!("as the test wants it"),
            Some(Fault::Slow(by)) => {
                tokio::time::sleep(by).await;
                Ok(())
            }
            Some(Fault::Lost) | None => Ok(()),
        }
    }

    async fn after(&self, op: &'static str, _: Duration) -> Result<(), StoreError> {
        match self.fault(op) {
            Some(Fault::Lost) => Err(StoreError::OutcomeUnknown("no reply".into())),
            Some(Fault::Away | Fault::Silent | Fault::Slow(_) | Fault::Corrupt | Fault::Panic)
            | None => Ok(()),
        }
    }
}
