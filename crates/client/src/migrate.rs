//! Moving a signer from another service to this one, and back: its cursor and its open nonces.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::call::{Call, Effect};
use crate::client::Client;
use crate::error::Error;
use crate::operate::{Act, Change};
use crate::signer::Signer;

words! {
    /// How far an open nonce is.
    OpenState {
        /// Given, nothing sent.
        Reserved = "RESERVED",
        /// Sent by someone who keeps the bytes: followed by its hash.
        Submitted = "SUBMITTED",
        /// Sent: followed, and sent again where its bytes are known.
        Tracking = "TRACKING",
    }
}

/// A nonce that was given and is not final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenNonce {
    /// The nonce.
    pub nonce: u64,
    /// The client's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The hash that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_hash: Option<B256>,
    /// The signed bytes; with TRACKING only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_transaction: Option<Bytes>,
    /// How far it is.
    pub state: OpenState,
    /// How long a reservation lasts, with RESERVED only; a day where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A signer's cursor and open nonces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handover {
    /// The next nonce to be given: above every open one.
    pub next_nonce: u64,
    /// Nonces that were given and are not final, at most 1,000.
    pub open: Vec<OpenNonce>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Import<'a> {
    #[serde(flatten)]
    act: &'a Act,
    #[serde(flatten)]
    handover: &'a Handover,
    dry_run: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cursor<'a> {
    #[serde(flatten)]
    act: &'a Act,
    next_nonce: u64,
}

/// What an import came to, or would come to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Imported {
    /// The address.
    pub signer: Address,
    /// The chain's configured name.
    pub chain: String,
    /// Nothing was changed, only told.
    pub dry_run: bool,
    /// The next nonce to be given.
    pub next_nonce: Change<u64>,
    /// What the chain counts in blocks, where it can be asked.
    pub chain_latest: Option<u64>,
    /// The same with what waits in the pools.
    pub chain_pending: Option<u64>,
    /// Nonces below the next one that nobody holds, the lowest hundred.
    pub gaps: Vec<u64>,
    /// What was taken over, in the order of the list.
    pub open: Vec<TakenOver>,
}

/// One nonce that was taken over.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TakenOver {
    /// The nonce.
    pub nonce: u64,
    /// The client's own name for it.
    pub request_id: Option<String>,
    /// The transaction or reservation that it is now; none in a dry run.
    pub tx_id: Option<Uuid>,
    /// What the holder of a reservation shows.
    pub lock_token: Option<Uuid>,
    /// Where it stands.
    pub state: OpenState,
    /// The hash that is followed.
    pub tx_hash: Option<B256>,
}

impl Client {
    /// Sets the next nonce of a paused signer, up or down. **Not tried again once a try was not answered**
    /// ([`Error::outcome_unknown`]): look at the signer first.
    pub async fn set_cursor(
        &self,
        signer: Address,
        next_nonce: u64,
        act: &Act,
    ) -> Result<Signer, Error> {
        let (signer, body) = (signer.to_string(), Cursor { act, next_nonce });
        let path = ["signers", &signer, "cursor"];
        self.told(Call::post(path, &body, Effect::Unnamed)).await
    }

    /// Takes over a signer that was used elsewhere, all or nothing, while it is paused. **Not tried again once a
    /// try was not answered** ([`Error::outcome_unknown`]). Calling it again with the same handover is safe while the
    /// signer is paused: what was taken over is answered as it is, with the same lock tokens.
    pub async fn import(
        &self,
        signer: Address,
        handover: &Handover,
        act: &Act,
    ) -> Result<Imported, Error> {
        self.imported(signer, handover, act, false).await
    }

    /// What [`Client::import`] would come to. Nothing is changed; tried again like any read.
    pub async fn import_dry(
        &self,
        signer: Address,
        handover: &Handover,
        act: &Act,
    ) -> Result<Imported, Error> {
        self.imported(signer, handover, act, true).await
    }

    async fn imported(
        &self,
        signer: Address,
        handover: &Handover,
        act: &Act,
        dry_run: bool,
    ) -> Result<Imported, Error> {
        let effect = if dry_run {
            Effect::Read
        } else {
            Effect::Unnamed
        };
        let body = Import {
            act,
            handover,
            dry_run,
        };
        let signer = signer.to_string();
        let path = ["signers", &signer, "import"];
        self.told(Call::post(path, &body, effect)).await
    }

    /// A signer's cursor and open nonces, as [`Client::import`] takes them. Pause it first.
    pub async fn export(&self, signer: Address, chain: Option<&str>) -> Result<Handover, Error> {
        let signer = signer.to_string();
        let call = Call::get(["signers", &signer, "export"]).with("chain", chain);
        self.told(call).await
    }
}
