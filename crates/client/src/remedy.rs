//! What an operator has done to one transaction that does not move.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::call::{Call, Effect};
use crate::client::Client;
use crate::error::Error;
use crate::payload::Fees;
use crate::transaction::Transaction;

words! {
    /// What is done to a transaction.
    Action {
        /// Have the stuck policy asked now. What it decides takes the place of the question.
        Ask = "ASK",
        /// The stuck policy is being asked. Only nodes write this.
        Decide = "DECIDE",
        /// Nothing: what a policy may decide.
        Noop = "NOOP",
        /// Send the newest bytes again.
        Resubmit = "RESUBMIT",
        /// Sign the payload again with higher fees.
        Replace = "REPLACE",
        /// Use the nonce up instead, or end it at once while it has none.
        Cancel = "CANCEL",
        /// Use the nonce up because later ones wait.
        Placeholder = "PLACEHOLDER",
        /// Use up the nonces below it that nobody holds, for one that is stuck behind a gap; its own is
        /// never touched. A placeholder asked for such a one becomes this.
        Fill = "FILL",
    }
}

words! {
    /// How far a remedy is.
    RemedyState {
        /// Nobody has begun.
        Asked = "ASKED",
        /// The signer's leader is at it.
        Claimed = "CLAIMED",
        /// Done.
        Done = "DONE",
        /// Not done, for the reason in `result`.
        Refused = "REFUSED",
    }
}

words! {
    /// How urgent a policy has called its decision.
    Severity {
        /// For the record.
        Info = "info",
        /// Somebody should look today.
        Warning = "warning",
        /// Somebody must look now.
        Critical = "critical",
    }
}

words! {
    /// Where a policy wants the transaction to stand afterwards.
    Then {
        /// TRACKING.
        Track = "track",
        /// STUCK.
        Stuck = "stuck",
    }
}

/// What is to be done to a transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewRemedy {
    action: Action,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fees: Option<Fees>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<Value>,
}

impl NewRemedy {
    /// Does this, for this reason in a person's words.
    #[must_use]
    pub fn new(action: Action, reason: impl Into<String>) -> Self {
        Self {
            action,
            reason: reason.into(),
            fees: None,
            audit: None,
        }
    }

    /// With these fees instead of the smallest valid bump.
    #[must_use]
    pub const fn fees(mut self, fees: Fees) -> Self {
        self.fees = Some(fees);
        self
    }

    /// With fields of your own, such as a ticket.
    #[must_use]
    pub fn audit(mut self, fields: Value) -> Self {
        self.audit = Some(fields);
        self
    }

    /// Whether asking twice is as good as asking once. The same bytes sent again are; so are the same fees, which
    /// cannot outbid themselves. Every other action may sign once more, at a price.
    const fn effect(&self) -> Effect {
        match (&self.action, &self.fees) {
            (Action::Resubmit | Action::Noop, _) | (Action::Replace, Some(_)) => Effect::Idempotent,
            (Action::Replace, None)
            | (
                Action::Cancel
                | Action::Placeholder
                | Action::Fill
                | Action::Ask
                | Action::Decide
                | Action::Other(_),
                _,
            ) => Effect::Unnamed,
        }
    }
}

/// What was done to a transaction, or is to be.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Remedy {
    /// Its number; later ones have greater ones.
    pub remedy_id: i64,
    /// Which round of the transaction, from 1.
    pub round: u32,
    /// What.
    pub action: Action,
    /// With which fees, where they were given.
    pub fees: Option<Fees>,
    /// Who: the key's name, or the policy's.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Fields of whoever asked for it.
    pub audit: Option<Value>,
    /// How far it is.
    pub state: RemedyState,
    /// How urgent the policy called it.
    pub severity: Option<Severity>,
    /// Where the policy wanted the transaction to stand afterwards.
    pub then: Option<Then>,
    /// The node that claimed it.
    pub node: Option<String>,
    /// The fencing token under which it was claimed.
    pub token: Option<u64>,
    /// What came of it, in words.
    pub result: Option<String>,
    /// When it was asked for.
    pub asked_at: Timestamp,
    /// When it was over.
    pub closed_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Remedies {
    remedies: Vec<Remedy>,
}

impl Client {
    /// Has something done to a transaction. When this returns it is stored as asked; whoever leads the signer does
    /// it, and [`Client::remedies`] tells how far it is.
    ///
    /// A remedy has no request id. So it is tried again only while no try can have been stored, or where a
    /// repeat is harmless: RESUBMIT, and REPLACE with fees. After a try of another action that was not answered
    /// [`Error::outcome_unknown`] is true: look at [`Client::remedies`] before asking once more. A 409
    /// `remedy_running` or `already_final` is told as it is, even where it may be an earlier try of this very
    /// call that is running.
    ///
    /// ```no_run
    /// # use fencepost_client::{Client, Error};
    /// # async fn help(client: Client) -> Result<(), Error> {
    /// use fencepost_client::{Action, Filter, NewRemedy, State};
    ///
    /// let stuck = Filter { state: Some(State::Stuck), ..Filter::default() };
    /// for transaction in client.transactions(&stuck).await?.transactions {
    ///     let remedy = NewRemedy::new(Action::Replace, "fees have risen");
    ///     client.remedy(transaction.tx_id, &remedy).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn remedy(&self, tx_id: Uuid, remedy: &NewRemedy) -> Result<Transaction, Error> {
        let tx_id = tx_id.to_string();
        let path = ["tx", &tx_id, "remedy"];
        self.told(Call::post(path, remedy, remedy.effect())).await
    }

    /// What was done to a transaction by policies and operators, or is to be, newest first.
    pub async fn remedies(&self, tx_id: Uuid) -> Result<Vec<Remedy>, Error> {
        let tx_id = tx_id.to_string();
        let call = Call::get(["tx", &tx_id, "remedies"]);
        Ok(self.told::<Remedies>(call).await?.remedies)
    }
}
