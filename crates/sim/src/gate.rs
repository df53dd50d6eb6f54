//! A process as the outside sees it: it runs, stands still (SIGSTOP), or is dead. Every call out of a node
//! and every answer into it passes here.

use std::future::pending;
use std::sync::Mutex;

use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Runs,
    Stopped,
    Dead,
}

/// Where a node's calls leave and answers arrive. Those who wait here are woken in the order in which they
/// came; a `watch` channel would wake them in any.
#[derive(Debug)]
pub(crate) struct Gate {
    life: Mutex<Life>,
    turned: Notify,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            life: Mutex::new(Life::Runs),
            turned: Notify::new(),
        }
    }

    fn life(&self) -> Life {
        *self.life.lock().expect("nothing panics while it is held")
    }

    /// Waits while the process stands still. What is of a dead one never goes on.
    pub(crate) async fn pass(&self) {
        loop {
            // Asked for before the look, so that no turn is missed in between.
            let turned = self.turned.notified();
            match self.life() {
                Life::Runs => return,
                Life::Stopped => turned.await,
                Life::Dead => pending().await,
            }
        }
    }

    /// Resolves when the process is dead.
    pub(crate) async fn died(&self) {
        loop {
            let turned = self.turned.notified();
            if self.is_dead() {
                return;
            }
            turned.await;
        }
    }

    pub(crate) fn stop(&self) {
        self.turn(Life::Runs, Life::Stopped);
    }

    pub(crate) fn resume(&self) {
        self.turn(Life::Stopped, Life::Runs);
    }

    pub(crate) fn kill(&self) {
        *self.life.lock().expect("nothing panics while it is held") = Life::Dead;
        self.turned.notify_waiters();
    }

    pub(crate) fn runs(&self) -> bool {
        self.life() == Life::Runs
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life() == Life::Dead
    }

    fn turn(&self, from: Life, to: Life) {
        let mut life = self.life.lock().expect("nothing panics while it is held");
        if *life == from {
            *life = to;
            drop(life);
            self.turned.notify_waiters();
        }
    }
}
