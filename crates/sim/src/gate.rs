//! A process as the outside sees it: it runs, stands still (SIGSTOP), or is dead. Every call out of a node
//! and every answer into it passes here.

use std::future::pending;

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Stopped,
    Dead,
}

/// Where a node's calls leave and answers arrive.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<Life>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Life::Runs))
    }

    /// Waits while the process stands still. What is of a dead one never goes on.
    pub(crate) async fn pass(&self) {
        if *self.0.borrow() == Life::Runs {
            return;
        }
        let mut life = self.0.subscribe();
        loop {
            let now = *life.borrow_and_update();
            match now {
                Life::Runs => return,
                Life::Stopped => {}
                Life::Dead => pending().await,
            }
            life.changed().await.expect("the sender is ours");
        }
    }

    /// Resolves when the process is dead.
    pub(crate) async fn died(&self) {
        let mut life = self.0.subscribe();
        let _ = life.wait_for(|life| *life == Life::Dead).await;
    }

    pub(crate) fn stop(&self) {
        self.turn(Life::Runs, Life::Stopped);
    }

    pub(crate) fn resume(&self) {
        self.turn(Life::Stopped, Life::Runs);
    }

    pub(crate) fn kill(&self) {
        self.0.send_replace(Life::Dead);
    }

    pub(crate) fn runs(&self) -> bool {
        *self.0.borrow() == Life::Runs
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.0.borrow() == Life::Dead
    }

    fn turn(&self, from: Life, to: Life) {
        self.0.send_if_modified(|life| {
            let turns = *life == from;
            if turns {
                *life = to;
            }
            turns
        });
    }
}
