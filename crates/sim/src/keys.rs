//! A node's way to its keys: they are slow, do not answer, or say no for good.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fencepost_app::ports::{Signed, Signer, Unsignable};
use fencepost_domain::Address;
use fencepost_domain::attempt::Unsigned;
use tokio::time::sleep;

use crate::gate::Gate;
use crate::rng::Rng;
use crate::world::World;

/// The keys as one node has them.
pub(crate) struct Keys {
    world: Arc<World>,
    gate: Arc<Gate>,
    who: String,
    luck: Mutex<Rng>,
}

impl Keys {
    pub(crate) fn new(world: &Arc<World>, gate: &Arc<Gate>, who: &str, start: u64) -> Self {
        Self {
            luck: Mutex::new(world.rng(&format!("keys {who} {start}"))),
            world: Arc::clone(world),
            gate: Arc::clone(gate),
            who: who.to_owned(),
        }
    }
}

#[async_trait]
impl Signer for Keys {
    async fn sign(&self, account: Address, tx: &Unsigned) -> Result<Signed, Unsignable> {
        let rates = &self.world.profile.rates;
        let healed = self.world.is_healed();
        let (delay, fails, refuses) = {
            let mut luck = self.luck.lock().expect("nothing panics while it is held");
            let longest = if luck.chance(rates.rpc_slow) { 800 } else { 2 };
            let fails = luck.chance(rates.signer_fails) && !healed;
            let refuses = luck.chance(rates.signer_refuses) && !healed;
            (luck.millis(0, longest), fails, refuses)
        };
        self.gate.pass().await;
        sleep(delay).await;
        self.gate.pass().await;
        // A remedy uses a nonce up by sending nothing to its own account: refusing that is not this key's way.
        let is_payload = tx.to != Some(account);
        let what = if fails { "fails" } else { "signs" };
        self.world
            .trace
            .murmur(&self.who, format_args!("key {what} {}", tx.nonce));
        if fails {
            return Err(Unsignable::Unusable("the key's service is away".to_owned()));
        }
        if refuses && is_payload {
            return Err(Unsignable::Refused("not this one".to_owned()));
        }
        self.world.keys.sign(account, tx).await
    }
}
