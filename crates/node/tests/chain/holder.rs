//! Somebody who borrows nonces, signs with the key itself and sends to the chain itself.

use anyhow::{Context, Result, bail, ensure};
use fencepost_app::ports::{Signed, Signer};
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::ids::{ChainId, Nonce};
use fencepost_domain::{Address, Bytes, U256};
use fencepost_signer::{KeySource, KeySpec, Keyring};
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::fleet::{CHAIN_ID, PHRASE};
use super::market::GWEI;
use super::member::Member;
use super::rpc::Rpc;

/// A nonce that was lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loan {
    pub(crate) id: String,
    pub(crate) lock: String,
    pub(crate) nonce: u64,
}

impl Loan {
    pub(crate) fn of(told: &Value) -> Result<Self> {
        let text = |field: &str| told[field].as_str().map(str::to_owned);
        Ok(Self {
            id: text("reservationId").with_context(|| told.to_string())?,
            lock: text("lockToken").with_context(|| told.to_string())?,
            nonce: told["nonce"].as_u64().with_context(|| told.to_string())?,
        })
    }

    /// The path of a call about it.
    pub(crate) fn path(&self, verb: &str) -> String {
        format!("/api/v1/nonces/{}/{verb}", self.id)
    }
}

/// The key, and where what it signs is sent.
pub(crate) struct Holder {
    keyring: Keyring,
    account: Address,
    rpc: Rpc,
}

impl Holder {
    /// Has the phrase's first account.
    pub(crate) async fn new(rpc: &str) -> Result<Self> {
        let source = KeySource::Mnemonic {
            phrase: PHRASE.into(),
            count: 1,
        };
        let address = None;
        let keyring = match Keyring::open(vec![KeySpec { source, address }]).await {
            Ok(keyring) => keyring,
            Err(errors) => bail!("{errors:?}"),
        };
        Ok(Self {
            account: keyring.addresses().concat()[0],
            keyring,
            rpc: Rpc::new(rpc),
        })
    }

    /// A transfer under this nonce.
    pub(crate) async fn sign(&self, nonce: u64, to: Address, value: u64) -> Result<Signed> {
        let transfer = Unsigned {
            chain: ChainId::new(CHAIN_ID)?,
            nonce: Nonce::new(nonce)?,
            to: Some(to),
            value: U256::from(value),
            data: Bytes::new(),
            gas: 21_000,
            fees: SignedFees {
                max_fee: u128::from(300 * GWEI),
                max_priority_fee: Some(u128::from(GWEI)),
            },
            access: None,
        };
        Ok(self.keyring.sign(self.account, &transfer).await?)
    }

    pub(crate) async fn send(&self, signed: &Signed) -> Result<()> {
        let raw = json!([signed.raw.to_string()]);
        let hash = self.rpc.call("eth_sendRawTransaction", raw).await?;
        ensure!(hash == signed.hash.to_string(), "{hash}");
        Ok(())
    }

    /// Borrows a nonce under a name of its own.
    pub(crate) async fn reserve(&self, node: &Member, name: &str) -> Result<Loan> {
        let body = json!({ "signer": self.account.to_string(), "requestId": name });
        let (status, told) = node.post_to("/api/v1/nonces/reserve", &body).await?;
        ensure!(status == StatusCode::CREATED, "{status} {told}");
        Loan::of(&told)
    }

    /// Signs, sends and says so.
    pub(crate) async fn spend(
        &self,
        node: &Member,
        loan: &Loan,
        (to, value): (Address, u64),
    ) -> Result<Signed> {
        let signed = self.sign(loan.nonce, to, value).await?;
        self.send(&signed).await?;
        let body = json!({ "lockToken": loan.lock, "txHash": signed.hash.to_string() });
        let (status, told) = node.post_to(&loan.path("submitted"), &body).await?;
        ensure!(status == StatusCode::OK, "{status} {told}");
        ensure!(
            told["state"] == "SUBMITTED" || told["state"] == "USED",
            "{told}"
        );
        Ok(signed)
    }
}
