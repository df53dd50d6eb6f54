//! The way between nodes: in order for each lane, late, and sometimes lost on either way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::{Origin, Verdict};
use fencepost_app::ports::{NewTx, Peers, Unforwarded};
use fencepost_domain::ids::Lane;
use tokio::time::{Instant, sleep_until, timeout};

use crate::gate::Gate;
use crate::node::Member;
use crate::rng::Rng;
use crate::sometimes::Rare;
use crate::world::World;

/// One node's way to the others.
pub(crate) struct Wires {
    world: Arc<World>,
    gate: Arc<Gate>,
    who: String,
    luck: Mutex<Rng>,
    /// When the last message for a lane gets there.
    last: Mutex<BTreeMap<(String, Lane), Instant>>,
}

/// What becomes of a message.
struct Way {
    arrives: Instant,
    is_unsent: bool,
    is_lost: bool,
    is_unheard: bool,
}

impl Wires {
    pub(crate) fn new(world: &Arc<World>, gate: &Arc<Gate>, who: &str, start: u64) -> Self {
        Self {
            luck: Mutex::new(world.rng(&format!("peers {who} {start}"))),
            world: Arc::clone(world),
            gate: Arc::clone(gate),
            who: who.to_owned(),
            last: Mutex::default(),
        }
    }

    fn way(&self, url: &str, lane: Lane) -> Way {
        let lost = if self.world.is_healed() {
            0
        } else {
            self.world.profile.rates.peers_lost
        };
        let mut luck = self.luck.lock().expect("nothing panics while it is held");
        let mut last = self.last.lock().expect("nothing panics while it is held");
        let least = Instant::now() + luck.millis(0, 4);
        let at = last.entry((url.to_owned(), lane)).or_insert(least);
        *at = least.max(*at);
        Way {
            arrives: *at,
            is_unsent: luck.chance(lost / 3),
            is_lost: luck.chance(lost / 3),
            is_unheard: luck.chance(lost / 3),
        }
    }

    fn to(&self, url: &str) -> Option<Arc<Member>> {
        self.world.members().get(url).cloned()
    }
}

#[async_trait]
impl Peers for Wires {
    async fn forward(
        &self,
        url: &str,
        lane: Lane,
        tx: &NewTx,
        within: Duration,
    ) -> Result<Verdict, Unforwarded> {
        let way = self.way(url, lane);
        let end = Instant::now() + within;
        self.gate.pass().await;
        let to = self.to(url).filter(|_| !way.is_unsent);
        let Some(to) = to else {
            return Err(Unforwarded::NotSent("no such node".into()));
        };
        sleep_until(way.arrives).await;
        self.world
            .trace
            .murmur(&self.who, format_args!("forwards to {url}"));
        let silent = || Unforwarded::Unanswered("no answer".into());
        if way.is_lost {
            sleep_until(end).await;
            return Err(silent());
        }
        self.world.saw(Rare::Forwarded);
        let handler = to.handle(lane, vec![tx.clone()], Origin::Node);
        let left = end.saturating_duration_since(Instant::now());
        let answer = timeout(left, handler).await;
        self.gate.pass().await;
        if way.is_unheard {
            self.world.saw(Rare::ForwardLost);
            return Err(silent());
        }
        let verdict = answer
            .ok()
            .and_then(Result::ok)
            .and_then(|mut all| all.pop());
        verdict.flatten().ok_or_else(silent)
    }

    async fn nudge(&self, url: &str, lane: Lane, _: Duration) -> Result<(), Unforwarded> {
        let way = self.way(url, lane);
        self.gate.pass().await;
        let to = self.to(url).filter(|to| !way.is_unsent && to.gate.runs());
        let Some(to) = to else {
            return Err(Unforwarded::NotSent("no such node".into()));
        };
        if way.is_lost {
            return Err(Unforwarded::Unanswered("no answer".into()));
        }
        sleep_until(way.arrives).await;
        if let Some(seat) = to.node.directory().seat(lane) {
            to.node.look_at(seat);
        }
        Ok(())
    }
}
