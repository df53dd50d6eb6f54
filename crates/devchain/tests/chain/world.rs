//! Keys, signed transactions and a chain to send them to.

use alloy_consensus::{
    SignableTransaction, TxEip1559, TxEip2930, TxEnvelope, TxLegacy,
    transaction::RlpEcdsaEncodableTx,
};
use alloy_eips::eip2718::Encodable2718;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use fencepost_devchain::{
    Answer, Config, Devchain, EndpointConfig, EndpointId, GWEI, Rejection, SendError, State,
};
use serde_json::{Value, json};

pub(crate) const MAIN: EndpointId = EndpointId(0);
pub(crate) const OTHER: EndpointId = EndpointId(1);
pub(crate) const CHAIN_ID: u64 = 31_337;
pub(crate) const TO: Address = Address::repeat_byte(0x70);

pub(crate) fn key(n: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::with_last_byte(n + 1)).unwrap()
}

pub(crate) fn gwei(n: u64) -> u128 {
    u128::from(n * GWEI)
}

pub(crate) fn ether(n: u64) -> U256 {
    U256::from(n) * U256::from(10).pow(U256::from(18))
}

/// A transaction before it is signed; what is not said is an affordable transfer of one wei.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) key: u8,
    pub(crate) nonce: u64,
    pub(crate) gas: u64,
    pub(crate) fee: u128,
    pub(crate) tip: u128,
    pub(crate) to: TxKind,
    pub(crate) value: U256,
    pub(crate) input: Bytes,
    pub(crate) chain_id: u64,
}

pub(crate) fn tx(key: u8, nonce: u64) -> Made {
    Made {
        key,
        nonce,
        gas: 21_000,
        fee: gwei(10),
        tip: gwei(1),
        to: TxKind::Call(TO),
        value: U256::from(1),
        input: Bytes::new(),
        chain_id: CHAIN_ID,
    }
}

pub(crate) fn one_listed() -> AccessList {
    AccessList(vec![AccessListItem {
        address: TO,
        storage_keys: vec![B256::ZERO],
    }])
}

impl Made {
    pub(crate) fn paying(mut self, fee: u128, tip: u128) -> Made {
        (self.fee, self.tip) = (fee, tip);
        self
    }

    pub(crate) fn value(mut self, value: U256) -> Made {
        self.value = value;
        self
    }

    pub(crate) fn gas(mut self, gas: u64) -> Made {
        self.gas = gas;
        self
    }

    pub(crate) fn input(mut self, input: impl Into<Bytes>) -> Made {
        self.input = input.into();
        self
    }

    pub(crate) fn create(mut self) -> Made {
        self.to = TxKind::Create;
        self
    }

    pub(crate) fn unsigned(&self) -> TxEip1559 {
        TxEip1559 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_limit: self.gas,
            max_fee_per_gas: self.fee,
            max_priority_fee_per_gas: self.tip,
            to: self.to,
            value: self.value,
            access_list: AccessList::default(),
            input: self.input.clone(),
        }
    }

    pub(crate) fn raw(&self) -> Bytes {
        sign(self.key, self.unsigned())
    }

    pub(crate) fn hash(&self) -> B256 {
        alloy_primitives::keccak256(self.raw())
    }

    pub(crate) fn legacy(&self, chain_id: Option<u64>) -> Bytes {
        let tx = TxLegacy {
            chain_id,
            nonce: self.nonce,
            gas_price: self.fee,
            gas_limit: self.gas,
            to: self.to,
            value: self.value,
            input: self.input.clone(),
        };
        sign(self.key, tx)
    }

    pub(crate) fn listed(&self) -> Bytes {
        let tx = TxEip2930 {
            chain_id: self.chain_id,
            nonce: self.nonce,
            gas_price: self.fee,
            gas_limit: self.gas,
            to: self.to,
            value: self.value,
            access_list: one_listed(),
            input: self.input.clone(),
        };
        sign(self.key, tx)
    }
}

pub(crate) fn sign<T>(by: u8, tx: T) -> Bytes
where
    T: SignableTransaction<Signature> + RlpEcdsaEncodableTx,
    TxEnvelope: From<alloy_consensus::Signed<T>>,
{
    let signature = key(by).sign_hash_sync(&tx.signature_hash()).unwrap();
    TxEnvelope::from(tx.into_signed(signature))
        .encoded_2718()
        .into()
}

/// Five keys with a hundred ether each, and two endpoints on one pool.
pub(crate) fn config() -> Config {
    Config {
        accounts: (0..5).map(|n| (key(n).address(), ether(100))).collect(),
        endpoints: vec![EndpointConfig::new("main"), EndpointConfig::new("other")],
        ..Config::default()
    }
}

pub(crate) fn chain() -> Devchain {
    Devchain::new(config())
}

pub(crate) fn send(chain: &mut Devchain, tx: &Made) -> Result<B256, Rejection> {
    send_raw(chain, tx.raw())
}

pub(crate) fn send_raw(chain: &mut Devchain, raw: Bytes) -> Result<B256, Rejection> {
    chain.send(MAIN, raw).map_err(|error| match error {
        SendError::Rejected(rejected) => rejected.rejection,
        SendError::NotThere(missing) => panic!("{missing}"),
    })
}

pub(crate) fn mine(chain: &mut Devchain) {
    let next = chain.head().header.timestamp.saturating_add(12);
    chain.mine(next);
}

pub(crate) fn accounts(state: &State) -> Vec<(Address, fencepost_devchain::Account)> {
    let accounts = state
        .iter()
        .filter(|(_, account)| **account != Default::default());
    accounts
        .map(|(address, account)| (*address, account.clone()))
        .collect()
}

pub(crate) fn request(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

/// The whole answer to a call, which must come at once.
pub(crate) fn answer(chain: &mut Devchain, at: EndpointId, method: &str, params: Value) -> Value {
    let outcome = chain.handle(at, &request(method, &params));
    match outcome.answer {
        Answer::Reply { body, .. } => serde_json::from_str(&body).unwrap(),
        other @ (Answer::Hang | Answer::Disconnect) => panic!("{method}: {other:?}"),
    }
}

/// The result of a call that must succeed.
pub(crate) fn ask(chain: &mut Devchain, at: EndpointId, method: &str, params: Value) -> Value {
    let mut answer = answer(chain, at, method, params);
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].take()
}

/// The error of a call that must fail.
pub(crate) fn fail(chain: &mut Devchain, at: EndpointId, method: &str, params: Value) -> Value {
    let mut answer = answer(chain, at, method, params);
    assert!(answer.get("result").is_none(), "{method}: {answer}");
    answer["error"].take()
}
