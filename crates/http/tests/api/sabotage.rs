//! A store that fails as a test tells it to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{StoreError, Watcher};
use tokio::sync::watch;

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
pub(crate) struct Sabotage {
    faults: Mutex<Vec<(&'static str, Fault)>>,
    /// How often each operation was called.
    calls: watch::Sender<HashMap<&'static str, usize>>,
    /// Whether the last call of each came from code that answers a request.
    answering: Mutex<HashMap<&'static str, bool>>,
}

impl Sabotage {
    /// A world whose store can be made to fail.
    pub(crate) fn world() -> (World, Arc<Self>) {
        let sabotage = Arc::new(Self {
            faults: Mutex::default(),
            calls: watch::Sender::new(HashMap::new()),
            answering: Mutex::default(),
        });
        let mut world = World::new();
        world.watcher = Some(Arc::clone(&sabotage) as Arc<dyn Watcher>);
        (world, sabotage)
    }

    pub(crate) fn fail(&self, op: &'static str, fault: Fault) {
        self.faults.lock().unwrap().push((op, fault));
    }

    pub(crate) fn slow(&self, op: &'static str, by: Duration) {
        self.fail(op, Fault::Slow(by));
    }

    pub(crate) fn repair(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// Resolves at the next call of this operation, counted from here.
    pub(crate) fn called(&self, op: &'static str) -> impl Future<Output = ()> + use<> {
        let mut calls = self.calls.subscribe();
        let count = move |calls: &HashMap<&str, usize>| calls.get(op).copied().unwrap_or(0);
        let before = count(&calls.borrow());
        async move {
            let later = calls.wait_for(|calls| count(calls) > before).await;
            later.expect("the sabotage outlives its test");
        }
    }

    /// How often an operation was called.
    pub(crate) fn count(&self, op: &str) -> usize {
        self.calls.borrow().get(op).copied().unwrap_or(0)
    }

    /// Whether the last call came from code that answers a request.
    pub(crate) fn was_answering(&self, op: &str) -> bool {
        self.answering.lock().unwrap()[op]
    }

    fn fault(&self, op: &str) -> Option<Fault> {
        let faults = self.faults.lock().unwrap();
        faults
            .iter()
            .find(|(of, _)| *of == op)
            .map(|(_, fault)| *fault)
    }
}

#[async_trait]
impl Watcher for Sabotage {
    async fn before(&self, op: &'static str) -> Result<(), StoreError> {
        self.calls
            .send_modify(|calls| *calls.entry(op).or_default() += 1);
        let answering = fencepost_http::is_answering();
        self.answering.lock().unwrap().insert(op, answering);
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
