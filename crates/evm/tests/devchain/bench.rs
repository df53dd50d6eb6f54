//! A chain, its endpoints, and keys that more than one may use.

use std::sync::Arc;
use std::time::Duration;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use async_trait::async_trait;
use fencepost_app::ports::{Chain, Consumer};
use fencepost_devchain::{Config, Devchain, EndpointConfig, EndpointId, GWEI, PoolChoice, Shared};
use fencepost_domain::ids::{ChainId, Height, Lane, Nonce};
use fencepost_domain::state::Block;
use fencepost_evm::{ChainConfig, Chains, Meters, Response, Transport, TransportError};
use prometheus_client::registry::Registry;

pub(crate) const MAIN: EndpointId = EndpointId(0);
pub(crate) const OTHER: EndpointId = EndpointId(1);
const CHAIN: u64 = 31_337;

/// The way to one endpoint.
struct Wire(Shared, EndpointId);

#[async_trait]
impl Transport for Wire {
    async fn post(&self, body: String, _within: Duration) -> Result<Response, TransportError> {
        let broken = |_| TransportError::Broken("cut".to_owned());
        let (status, text) = self.0.call(self.1, body).await.map_err(broken)?;
        let body = text.into_bytes();
        Ok(Response { status, body })
    }
}

pub(crate) struct Bench {
    pub(crate) chain: Shared,
    pub(crate) registry: Registry,
    pub(crate) chains: Chains,
}

fn key() -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(7)).unwrap()
}

pub(crate) fn signer() -> Address {
    key().address()
}

pub(crate) fn lane() -> Lane {
    Lane {
        chain: ChainId::new(CHAIN).unwrap(),
        signer: signer(),
    }
}

/// The signer's transaction with this nonce that carries so many wei and pays so many gwei.
pub(crate) fn signed(nonce: u64, value: u64, gwei: u64) -> Bytes {
    let tx = TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: u128::from(gwei * GWEI),
        max_priority_fee_per_gas: u128::from(gwei * GWEI / 10),
        to: TxKind::Call(Address::repeat_byte(1)),
        value: U256::from(value),
        ..TxEip1559::default()
    };
    let signature = key().sign_hash_sync(&tx.signature_hash()).unwrap();
    let signed = TxEnvelope::from(tx.into_signed(signature));
    signed.encoded_2718().into()
}

impl Bench {
    /// Two endpoints, the second with a pool of its own.
    pub(crate) fn new() -> Self {
        let money = U256::from(10).pow(U256::from(18));
        let other = EndpointConfig {
            pool: PoolChoice::Own,
            ..EndpointConfig::new("other")
        };
        let chain = Shared::new(Devchain::new(Config {
            chain_id: CHAIN,
            accounts: vec![(signer(), money)],
            endpoints: vec![EndpointConfig::new("main"), other],
            ..Config::default()
        }));
        let wire = |at| Arc::new(Wire(chain.clone(), at)) as Arc<dyn Transport>;
        let endpoints = vec![wire(MAIN), wire(OTHER)];
        let id = ChainId::new(CHAIN).unwrap();
        let mut registry = Registry::default();
        let meters = Meters::register(&mut registry);
        let config = ChainConfig::new(id, "main", endpoints);
        let chains = Chains::new(vec![config], &meters);
        Self {
            chain,
            registry,
            chains,
        }
    }

    /// Sends bytes straight to an endpoint, past all that Fencepost knows.
    pub(crate) fn send(&self, at: EndpointId, raw: Bytes) -> B256 {
        self.chain.lock().send(at, raw).unwrap()
    }

    /// Mines what is pooled.
    pub(crate) fn mine(&self, blocks: u64) {
        let mut chain = self.chain.lock();
        for _ in 0..blocks {
            let time = chain.head().header.timestamp + 1;
            chain.mine(time);
        }
    }

    pub(crate) async fn consumer(&self, nonce: u64) -> Option<Consumer> {
        let nonce = Nonce::new(nonce).unwrap();
        self.chains.consumer(lane(), nonce).await.unwrap()
    }

    pub(crate) fn states(&self) -> Vec<&'static str> {
        let health = self.chains.health();
        let endpoints = health[0].endpoints.iter();
        endpoints.map(|endpoint| endpoint.state).collect()
    }

    /// Where the newest block holds this transaction, as the adapter should tell it.
    pub(crate) fn mined(&self, raw: &Bytes) -> Option<Consumer> {
        let hash = keccak256(raw);
        let chain = self.chain.lock();
        let head = chain.head().clone();
        let is_here = head.txs.iter().any(|mined| mined.tx.hash == hash);
        assert!(is_here, "it is not in the newest block");
        Some(Consumer {
            block: Block {
                number: Height::new(head.number()).unwrap(),
                hash: head.hash,
            },
            hash: Some(hash),
        })
    }
}
