//! What an operator does to a signer. Each act is kept with the name of the key, the reason and the audit
//! fields. What lets a signer go on is not tried again once it may have been done: someone may have stopped the
//! signer since, and whoever resumes it again should know.

use alloy_primitives::Address;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{Call, Effect};
use crate::client::Client;
use crate::error::Error;
use crate::send::{Accepted, minted};
use crate::signer::{PauseReason, Signer};

/// Why an operator does something.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Act {
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<Value>,
}

impl Act {
    /// For this reason, in a person's words.
    #[must_use]
    pub fn because(reason: impl Into<String>) -> Self {
        Self {
            chain: None,
            reason: reason.into(),
            audit: None,
        }
    }

    /// On this chain; may be left out while the cluster has only one.
    #[must_use]
    pub fn chain(mut self, name: impl Into<String>) -> Self {
        self.chain = Some(name.into());
        self
    }

    /// With fields of your own, such as a ticket.
    #[must_use]
    pub fn audit(mut self, fields: Value) -> Self {
        self.audit = Some(fields);
        self
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reconcile<'a> {
    #[serde(flatten)]
    act: &'a Act,
    dry_run: bool,
}

/// What reconciling a signer with its chain has changed, or would.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reconciled {
    /// The address.
    pub signer: Address,
    /// The chain's configured name.
    pub chain: String,
    /// Nothing was changed, only told.
    pub dry_run: bool,
    /// The next nonce to be given.
    pub next_nonce: Change<u64>,
    /// What the chain counts in blocks.
    pub chain_latest: u64,
    /// The same with what waits in the pools.
    pub chain_pending: u64,
    /// Given-back nonces that the chain has used meanwhile: they are dropped.
    pub dropped_free_nonces: Vec<u64>,
    /// Nonces that nobody holds.
    pub gaps: Vec<u64>,
    /// Why no nonces are given, if so.
    pub paused: Change<Option<PauseReason>>,
}

/// Before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Change<T> {
    /// Before.
    pub before: T,
    /// After.
    pub after: T,
}

/// A nonce that nobody holds, to be used up so that later ones can go on. **One value is one placeholder**: it
/// has its request id from the beginning.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPlaceholder {
    #[serde(flatten)]
    act: Act,
    nonce: u64,
    request_id: String,
}

impl NewPlaceholder {
    /// Uses this nonce up.
    #[must_use]
    pub fn new(nonce: u64, act: Act) -> Self {
        Self {
            act,
            nonce,
            request_id: minted(),
        }
    }

    /// Under a name of your own.
    #[must_use]
    pub fn named(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// Its request id.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }
}

/// Something that was done to a signer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditedAct {
    /// Its number; later ones have greater ones.
    pub id: i64,
    /// What: PAUSE, RESUME, RECONCILE, …
    pub action: String,
    /// The key's name, or the node's.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The operator's own fields.
    pub audit: Option<Value>,
    /// What it has changed, in the server's own words.
    pub before_after: Option<Value>,
    /// When.
    pub at: Timestamp,
}

/// A page of what was done to a signer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditPage {
    /// The acts.
    pub acts: Vec<AuditedAct>,
    /// Gives the next page; none where there is none.
    pub next_cursor: Option<String>,
}

impl Client {
    /// Gives no more nonces of a signer. When this returns, nothing of it is given a nonce or signed; what is on
    /// its way is still followed. Tried again like a read: pausing twice is pausing once, unless someone else
    /// has resumed it between two tries.
    pub async fn pause(&self, signer: Address, act: &Act) -> Result<Signer, Error> {
        self.act(signer, "pause", act, Effect::Idempotent).await
    }

    /// Gives nonces of a signer again. A hold after a failover of the database stays: `paused` says so, and
    /// [`Client::reconcile`] lifts it. **Not tried again once a try was not answered**
    /// ([`Error::outcome_unknown`]): meanwhile another operator may have paused it, which a second try would undo.
    /// Look at the signer first.
    pub async fn resume(&self, signer: Address, act: &Act) -> Result<Signer, Error> {
        self.act(signer, "resume", act, Effect::Unnamed).await
    }

    async fn act(
        &self,
        signer: Address,
        verb: &str,
        act: &Act,
        effect: Effect,
    ) -> Result<Signer, Error> {
        let signer = signer.to_string();
        let path = ["signers", &signer, verb];
        self.told(Call::post(path, act, effect)).await
    }

    /// Compares a signer with its chain, raises its cursor to the chain and ends a hold after a failover. **Not
    /// tried again once a try was not answered** ([`Error::outcome_unknown`]): a hold that was found since would
    /// end with it, and nobody would have looked. [`Client::reconcile_dry`] tells how things stand.
    pub async fn reconcile(&self, signer: Address, act: &Act) -> Result<Reconciled, Error> {
        self.reconciled(signer, act, false).await
    }

    /// What [`Client::reconcile`] would change. Nothing is changed; tried again like any read.
    pub async fn reconcile_dry(&self, signer: Address, act: &Act) -> Result<Reconciled, Error> {
        self.reconciled(signer, act, true).await
    }

    async fn reconciled(
        &self,
        signer: Address,
        act: &Act,
        dry_run: bool,
    ) -> Result<Reconciled, Error> {
        let effect = if dry_run {
            Effect::Read
        } else {
            Effect::Unnamed
        };
        let (signer, body) = (signer.to_string(), Reconcile { act, dry_run });
        self.told(Call::post(["signers", &signer, "reconcile"], &body, effect))
            .await
    }

    /// Uses up a nonce that nobody holds (see `gaps` of the signer). Tried again under the same request id, like
    /// [`Client::send`].
    pub async fn placeholder(
        &self,
        signer: Address,
        placeholder: &NewPlaceholder,
    ) -> Result<Accepted, Error> {
        let signer = signer.to_string();
        let path = ["signers", &signer, "placeholder"];
        let call = Call::post(path, placeholder, Effect::Idempotent);
        let answer = self.ask(&call).await?;
        let transaction = answer.read(call.effect)?;
        Ok(Accepted::new(answer.status, transaction))
    }

    /// What was done to a signer, newest first: a page of it, or the next one by the cursor of the page before.
    pub async fn signer_audit(
        &self,
        signer: Address,
        chain: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<AuditPage, Error> {
        let signer = signer.to_string();
        let call = Call::get(["signers", &signer, "audit"])
            .with("chain", chain)
            .with("cursor", cursor);
        self.told(call).await
    }
}
