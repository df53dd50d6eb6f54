//! Somebody who asks for one transaction again and again, at any node, until it has ended and a while longer.

use std::sync::Arc;

use tokio::time::sleep;

use super::business::Known;
use super::call::get;
use crate::dice::Dice;
use crate::note::{Note, now};
use crate::world::World;

/// How often one transaction is asked for.
const LOOKS: usize = 80;
/// … and how often after it has ended.
const AFTERWARDS: usize = 12;

pub(crate) struct Looker {
    pub(crate) world: Arc<World>,
    pub(crate) known: Arc<Known>,
    pub(crate) number: usize,
    pub(crate) dice: Dice,
}

impl Looker {
    /// Looks for ever. Only what is new is noted.
    pub(crate) async fn run(mut self) {
        loop {
            sleep(self.dice.millis(100, 300)).await;
            if let Some((_, tx)) = self.known.fresh(&mut self.dice) {
                self.look(&tx).await;
            }
        }
    }

    async fn look(&mut self, tx: &str) {
        let path = format!("/api/v1/tx/{tx}");
        let mut before = None;
        let mut ended = 0;
        for _ in 0..LOOKS {
            let node = self.dice.index(self.world.nodes.len());
            let heard = get(&self.world, node, &path).await;
            let text = |field: &str| heard.body[field].as_str().map(str::to_owned);
            let state = match heard.answer.status {
                Some(200) => text("state"),
                // The checker takes it for what it is: acknowledged and not there.
                Some(404) => Some("NOT_FOUND".to_owned()),
                Some(_) | None => None,
            };
            if let Some(state) = state {
                ended += usize::from(["CONFIRMED", "FAILED_FINAL"].contains(&state.as_str()));
                if ended > AFTERWARDS {
                    return;
                }
                let seen = (state, text("subState"));
                if before.as_ref() != Some(&seen) {
                    self.world.journal.note(&Note::Looked {
                        at: now(),
                        reader: self.number,
                        tx: tx.to_owned(),
                        state: seen.0.clone(),
                        sub: seen.1.clone(),
                    });
                    before = Some(seen);
                }
            }
            sleep(self.dice.millis(150, 500)).await;
        }
    }
}
