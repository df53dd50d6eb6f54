//! What tests of stuck transactions share: a chain that becomes too dear, and someone who acts.

use std::sync::Arc;
use std::time::Duration;

use fencepost_app::operate::Wish;
use fencepost_app::ports::{
    Act, Action, Acts, AskedRemedy, Audit, NewTx, Policy, Record, Store, StoredAttempt,
};
use fencepost_app::recovery::rules::{Rule, Rules};
use fencepost_devchain::{EndpointId, Plan};
use fencepost_domain::B256;
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::ids::{ChainId, Lane, Nonce};
use fencepost_domain::request::Draft;
use fencepost_domain::{Address, U256};

use super::life::{Life, with};
use super::nodes::Member;

pub(crate) const GWEI: u128 = 1_000_000_000;

impl Life {
    /// A life in which a head counts as stuck after ten seconds, and a block costs a gwei.
    pub(crate) async fn careful(endpoints: usize) -> Self {
        let mut life = Self::new(endpoints, 1).await;
        life.world.settings.stuck.age = Duration::from_secs(10);
        life.world.settings.stuck.attempts = 1_000;
        life.cost(1);
        life
    }

    pub(crate) fn policy(&mut self, policy: impl Policy + 'static) {
        self.world.policy = Arc::new(policy);
    }

    /// Does this about all that is stuck.
    pub(crate) fn rule(&mut self, action: Action) {
        self.policy(Rules(vec![Rule {
            action: Some(action),
            ..Rule::default()
        }]));
    }

    /// From the next block on the base fee is this.
    pub(crate) fn cost(&self, gwei: u64) {
        let mut chain = self.chain.lock();
        chain.set_base_fee(Some(gwei * 1_000_000_000));
    }

    pub(crate) async fn attempts(&self, record: &Record) -> Vec<StoredAttempt> {
        self.world.store.attempts(&[record.tx]).await.unwrap()
    }

    /// The words of all attempts.
    pub(crate) async fn kinds(&self, record: &Record) -> Vec<&'static str> {
        let attempts = self.attempts(record).await;
        attempts
            .iter()
            .map(|each| each.attempt.kind.word())
            .collect()
    }

    pub(crate) async fn hash(&self, record: &Record, n: usize) -> B256 {
        self.attempts(record).await[n].attempt.hash
    }

    /// What was asked for and done, oldest first.
    pub(crate) async fn acts(&self, record: &Record) -> Vec<Act> {
        let acts = self.world.store.acts(Acts::Tx(record.tx), None, 100).await;
        let mut acts = acts.unwrap();
        acts.reverse();
        acts
    }

    /// A transaction from the same key that we know nothing of.
    pub(crate) async fn foreign(&self, lane: Lane, nonce: u64) -> B256 {
        let unsigned = Unsigned {
            chain: ChainId::new(1).unwrap(),
            nonce: Nonce::new(nonce).unwrap(),
            to: Some(Address::repeat_byte(7)),
            value: U256::from(7),
            data: fencepost_domain::Bytes::new(),
            gas: 21_000,
            fees: SignedFees {
                max_fee: 400 * GWEI,
                max_priority_fee: Some(40 * GWEI),
            },
            access: None,
        };
        let signer = self.world.signer.clone().unwrap();
        let signed = signer.sign(lane.signer, &unsigned).await.unwrap();
        let mut chain = self.chain.lock();
        chain.send(EndpointId(0), signed.raw).unwrap()
    }

    /// How often these bytes were sent to any endpoint.
    pub(crate) fn sends(&self, lane: Lane, hash: B256) -> usize {
        let sends = self.chain.lock().sends_of(lane.signer);
        sends.iter().filter(|sent| sent.hash == hash).count()
    }

    /// How often this receiver was paid, on the chain as it stands.
    pub(crate) fn executed(&self, lane: Lane) -> usize {
        let chain = self.chain.lock();
        let mined = chain.mined_of(lane.signer);
        mined.len()
    }
}

impl Member {
    pub(crate) async fn remedy(&self, record: &Record, action: Action) -> AskedRemedy {
        self.remedy_with(record, action, None).await
    }

    pub(crate) async fn remedy_with(
        &self,
        record: &Record,
        action: Action,
        fees: Option<SignedFees>,
    ) -> AskedRemedy {
        let wish = Wish {
            action,
            fees,
            audit: Audit {
                by: "ops".to_owned(),
                reason: "it is late".to_owned(),
                details: Some(r#"{"ticket":"OPS-7"}"#.to_owned()),
                node: None,
            },
        };
        self.node.ask_remedy(record, &wish).await.unwrap()
    }
}

/// A payment that pays no more than so many gwei.
pub(crate) fn capped(gwei: u128) -> NewTx {
    with(Draft {
        to: Some(Address::repeat_byte(9).to_string()),
        value: Some("1".to_owned()),
        gas: Some("21000".to_owned()),
        max_fee_per_gas: Some((gwei * GWEI).to_string()),
        max_priority_fee_per_gas: Some(GWEI.to_string()),
        ..Draft::default()
    })
}

/// A reorg of the newest block after which the other attempt is in it.
pub(crate) fn swap(life: &Life, old: B256, new: B256) {
    let mut chain = life.chain.lock();
    let plan = Plan {
        depth: 1,
        extra: 1,
        instead: [(old, new)].into(),
        ..Plan::default()
    };
    chain.reorg(&plan).unwrap();
}
