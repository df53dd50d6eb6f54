//! Transactions that are signed elsewhere with our keys: by holders of lent nonces, who may, and by others, who
//! should not.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256};
use fencepost_app::ports::Signer;
use fencepost_devchain::EndpointId;
use fencepost_domain::Address;
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::ids::{Lane, Nonce};
use tokio::time::sleep;

use crate::profile::GWEI;
use crate::rng::Rng;
use crate::world::World;

/// Bytes of someone else.
#[derive(Debug, Clone)]
pub(crate) struct Theirs {
    pub(crate) hash: B256,
    pub(crate) raw: Bytes,
}

impl World {
    /// Someone signs with one of our keys.
    pub(crate) async fn sign_elsewhere(&self, lane: Lane, nonce: u64, wei: u64) -> Theirs {
        let unsigned = Unsigned {
            chain: lane.chain,
            nonce: Nonce::new(nonce).expect("it is small"),
            to: Some(Address::repeat_byte(7)),
            value: U256::from(wei),
            data: Bytes::new(),
            gas: 21_000,
            fees: SignedFees {
                max_fee: 400 * GWEI,
                max_priority_fee: Some(2 * GWEI),
            },
            access: None,
        };
        let signed = self.keys.sign(lane.signer, &unsigned).await;
        let signed = signed.expect("the key is here");
        self.ledger().foreign(signed.hash);
        Theirs {
            hash: signed.hash,
            raw: signed.raw,
        }
    }

    /// Sends it to an endpoint. What that says is the sender's affair.
    pub(crate) fn send_elsewhere(&self, theirs: &Theirs) {
        let sent = self.chain.lock().send(EndpointId(0), theirs.raw.clone());
        let word = if sent.is_ok() { "taken" } else { "not taken" };
        self.note("outside", format_args!("{} is {word}", theirs.hash));
    }
}

/// Uses our keys without asking.
pub(crate) struct Outsider {
    world: Arc<World>,
    luck: Rng,
}

impl Outsider {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            luck: world.rng("outsider"),
            world: Arc::clone(world),
        }
    }

    pub(crate) async fn run(mut self) {
        for n in 0..self.luck.between(1, 3) {
            sleep(self.luck.millis(500, 6_000)).await;
            let lane = *self.luck.pick(&self.world.lanes.clone());
            let next = self.world.chain.lock().state().nonce(&lane.signer);
            let nonce = next + self.luck.below(4);
            let theirs = self.world.sign_elsewhere(lane, nonce, 500_000 + n).await;
            self.world
                .note("outside", format_args!("someone uses nonce {nonce}"));
            self.world.send_elsewhere(&theirs);
        }
    }
}
