//! Keeping leases, and giving them up: when the node stops, and when it has more than it uses.

use std::time::Duration;

use fencepost_domain::ids::ChainId;

use crate::causes::Causes;
use crate::node::Node;
use crate::ports::{Beat, Held, Peer, Reach, Renewed, StoreError, WRITE_LIMIT_MAX};
use crate::settings::ChainSettings;
use crate::writes::{Line, Write};

/// Above so many lanes, those that nobody uses are given up instead of renewed: that is a write for each of them every
/// few seconds.
const LEDGER_MAX: usize = 2_000;
/// How many leases are renewed by one statement. More, and whoever writes to one of these lanes waits for all of them:
/// with five thousand it was a second and a half.
const TOGETHER: usize = 256;
/// How long a lane is unused before it may be given up.
const UNUSED_FOR: Duration = Duration::from_secs(60);
/// How many lanes a line about many names.
const NAMED_MAX: usize = 16;
/// How many are looked at in one pass.
const GIVEN_UP_MAX: usize = 200;

impl Node {
    /// Renews all leases. What is not renewed runs out by itself, here first.
    pub async fn renew(&self) {
        for held in self.leases.all().chunks(TOGETHER) {
            let sent = self.leases.sending();
            match self.store.renew(&self.holder, held).await {
                Ok(answers) => {
                    for (held, answer) in held.iter().zip(answers) {
                        match answer {
                            Renewed::Kept => self.leases.keep(*held, sent),
                            // The statement that holds the row renews it.
                            Renewed::Busy => {}
                            Renewed::Fenced => self.lost(*held),
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(error = %Causes(&error), lanes = held.len(), "renewing leases failed")
                }
            }
        }
        self.meters.led(self.leases.len());
    }

    fn lost(&self, held: Held) {
        self.meters.fenced("renew");
        let (signer, node_id) = (self.signer_of(held.lane), self.holder.node.as_str());
        tracing::warn!(%signer, node_id, token = %held.token, "fenced: the lease is lost");
        self.leases.lose(held);
    }

    /// The same of a chain by its id.
    pub(crate) fn reaches_id(&self, chain: ChainId) -> bool {
        let mut known = self.chains.iter().filter(|known| known.id == chain);
        known.any(|known| self.reaches(known))
    }

    /// Whether an endpoint of the chain has answered and still does. One that was never tried says nothing:
    /// others would leave lanes to us that we can do nothing for.
    fn reaches(&self, chain: &ChainSettings) -> bool {
        let Some(port) = &self.chain else {
            return false;
        };
        let health = port.health();
        let known = health.iter().filter(|known| known.name == chain.name);
        known
            .flat_map(|known| &known.endpoints)
            .any(|endpoint| matches!(endpoint.state, "ok" | "lagging"))
    }

    /// Says that we live, and learns who else does.
    pub async fn beat(&self) {
        let chains = self.chains.iter().filter(|_| self.chain.is_some());
        let chains: Vec<Reach> = chains
            .map(|chain| Reach {
                chain: chain.id,
                usable: self.reaches(chain),
            })
            .collect();
        match self.store.beat(&self.holder, &chains).await {
            Ok(Beat::Alive(peers)) => {
                let others = peers.iter().filter(|peer| peer.node != self.holder.node);
                let urls = others.map(|peer| peer.url.clone()).collect();
                self.store_memory.met_peers(urls);
                self.set_living(peers);
            }
            Ok(Beat::Ghost(later)) => self.become_ghost(later),
            Err(error) => tracing::warn!(error = %Causes(&error), "the heartbeat failed"),
        }
    }

    /// How many lanes more we may lead without having to give some up.
    pub(crate) fn room(&self) -> usize {
        LEDGER_MAX.saturating_sub(self.leases.len())
    }

    /// Gives up lanes that are neither used nor have anything left to do, while there are too many.
    pub async fn release_unused(&self) -> Result<(), StoreError> {
        let excess = self.leases.len().saturating_sub(LEDGER_MAX);
        let mut idle = Vec::new();
        for held in self
            .leases
            .unused(UNUSED_FOR)
            .into_iter()
            .take(excess.min(GIVEN_UP_MAX))
        {
            let Some(seat) = self.directory.seat_by_id(held.lane) else {
                continue;
            };
            let view = self.store.lane(seat.lane).await?;
            // A lane with unfinished work would be adopted again at once.
            if view.is_some_and(|view| view.head.is_none() && view.queued == 0) {
                idle.push(held);
            }
        }
        self.release(&idle).await
    }

    /// Whether another living node reaches this chain.
    pub(crate) fn is_reached_elsewhere(&self, chain: ChainId) -> bool {
        let is_other = |peer: &&Peer| peer.node != self.holder.node;
        let living = self.living();
        living
            .iter()
            .filter(is_other)
            .any(|peer| peer.reaches(chain))
    }

    /// Gives up the lanes of chains that we have not reached for as long as a lease lasts, while another
    /// node does: there they can go on. A node without `rpc` reaches none.
    pub async fn release_unreached(&self) -> Result<(), StoreError> {
        let now = self.ticks.ticks();
        let mut lost = Vec::new();
        for chain in &self.chains {
            let mut unreached = self.unreached();
            if self.reaches(chain) {
                unreached.remove(&chain.id);
                continue;
            }
            let since = *unreached.entry(chain.id).or_insert(now);
            drop(unreached);
            let elsewhere = self.is_reached_elsewhere(chain.id);
            if elsewhere && now.saturating_sub(since) >= self.settings.lease.duration {
                lost.push(chain.id);
            }
        }
        let on_lost = |held: &Held| {
            let seat = self.directory.seat_by_id(held.lane);
            seat.is_some_and(|seat| lost.contains(&seat.lane.chain))
        };
        let held: Vec<Held> = self.leases.all().into_iter().filter(on_lost).collect();
        if !held.is_empty() {
            let node_id = self.holder.node.as_str();
            let (lanes, named) = (held.len(), held.iter().take(NAMED_MAX));
            let signers = named
                .clone()
                .map(|held| self.signer_of(held.lane).to_string());
            let tokens = named.map(|held| held.token.to_string());
            let signer = signers.collect::<Vec<_>>().join(" ");
            let token = tokens.collect::<Vec<_>>().join(" ");
            if self.chain.is_some() {
                tracing::error!(
                    signer,
                    node_id,
                    token,
                    lanes,
                    "no endpoint of their chain answers here: these lanes are left to another node"
                );
            } else {
                tracing::warn!(
                    signer,
                    node_id,
                    token,
                    lanes,
                    "this node has no rpc: these lanes are left to a node that reaches their chain"
                );
            }
        }
        self.release(&held).await
    }

    /// Gives everything up, so that others need not wait for our leases to run out.
    pub async fn release_all(&self) -> Result<(), StoreError> {
        self.release(&self.leases.all()).await
    }

    async fn release(&self, held: &[Held]) -> Result<(), StoreError> {
        for held in held.chunks(WRITE_LIMIT_MAX) {
            for held in held {
                self.leases.lose(*held);
            }
            let released = self.store.release(&self.holder, held).await?;
            for held in held.iter().filter(|held| released.contains(&held.lane)) {
                self.log_write(&Line {
                    write: Write::Release,
                    held: *held,
                    tx: None,
                    nonce: None,
                    from: ("this node", None),
                    to: ("nobody", None),
                });
            }
        }
        self.meters.led(self.leases.len());
        Ok(())
    }
}
