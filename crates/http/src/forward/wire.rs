//! What two nodes say to each other, in JSON: requests of one lane in order, and an answer for each. Nodes of two versions may talk: what one does not
//! understand it refuses, and the request waits in the lane's queue instead, or is told to come again
//! where it is none that can wait.

use std::time::Duration;

use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::check::WAIT_MAX;
use fencepost_app::ports::{Body, Loan, NewTx, PauseReason, Record};
use fencepost_app::store_memory::StoreInUse;
use fencepost_domain::Bytes;
use fencepost_domain::amount;
use fencepost_domain::ids::{ChainId, Lane, LockToken, Nonce, RequestId, TxId, Version};
use fencepost_domain::request::{Meta, Payload};
use fencepost_domain::state::{Allocated, Reserved, Signing, State};
use fencepost_domain::store_identity::{Server, StoreId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::line::REQUESTS_MAX;

/// Requests of one lane, in order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Share<T> {
    chain_id: u64,
    signer: String,
    requests: Vec<T>,
}

impl<'a> Share<&'a RawValue> {
    pub(crate) fn of(lane: Lane, requests: &[&'a RawValue]) -> Self {
        Self {
            chain_id: lane.chain.get(),
            signer: lane.signer.to_string(),
            requests: requests.to_vec(),
        }
    }
}

impl Share<Handed> {
    /// The requests, unless some part is none that a node of ours would hand on.
    pub(crate) fn read(self) -> Option<(Lane, Vec<NewTx>)> {
        let lane = Lane {
            chain: ChainId::new(self.chain_id).ok()?,
            signer: amount::address(&self.signer).ok()?,
        };
        let few = self.requests.len() <= REQUESTS_MAX;
        let requests = few.then_some(self.requests)?;
        let txs: Option<Vec<NewTx>> = requests.into_iter().map(Handed::read).collect();
        Some((lane, txs?))
    }
}

/// An empty object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// The store that a node works on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorksOn {
    store: Uuid,
    server: Option<WorksOnServer>,
    acquainted: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct WorksOnServer {
    system: i64,
    timeline: i64,
    era: Uuid,
}

impl WorksOn {
    pub(crate) fn of(used: &StoreInUse) -> Self {
        Self {
            store: used.store.0,
            server: used.server.map(|server| WorksOnServer {
                system: server.system,
                timeline: server.timeline,
                era: server.era,
            }),
            acquainted: used.is_acquainted,
        }
    }

    pub(crate) fn read(self) -> StoreInUse {
        StoreInUse {
            store: StoreId(self.store),
            server: self.server.map(|server| Server {
                system: server.system,
                timeline: server.timeline,
                era: server.era,
            }),
            is_acquainted: self.acquainted,
        }
    }
}

/// A request that is handed on: a payload to sign, a nonce to lend, or a nonce to use up. What it is not
/// is left out, so that a node which knows payloads only still takes those.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Handed {
    tx_id: Uuid,
    request_id: Option<String>,
    /// The canonical bytes: the leader stores exactly what the accepting node has understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loan: Option<Lent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    placeholder: Option<u64>,
    not_after: Option<String>,
    meta: Option<String>,
    /// The name of the API key that asked, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
}

/// The terms of a reservation, with the lock that the accepting node has minted.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Lent {
    lock: Uuid,
    ttl_ms: u64,
    grace_ms: u64,
}

impl Lent {
    fn of(loan: Loan) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            lock: loan.lock.0,
            ttl_ms: ms(loan.ttl),
            grace_ms: ms(loan.grace),
        }
    }

    fn read(&self) -> Option<Loan> {
        let time = |ms| Some(Duration::from_millis(ms)).filter(|time| *time <= WAIT_MAX);
        Some(Loan {
            lock: LockToken(self.lock),
            ttl: time(self.ttl_ms)?,
            grace: time(self.grace_ms)?,
        })
    }
}

impl Handed {
    /// A request in these words.
    pub(crate) fn of(tx: &NewTx) -> Self {
        let (payload, loan, placeholder) = match &tx.body {
            Body::Managed(payload) => (
                Some(Bytes::copy_from_slice(payload.canonical()).to_string()),
                None,
                None,
            ),
            Body::Reserved(loan) => (None, Some(Lent::of(*loan)), None),
            Body::Placeholder(nonce) => (None, None, Some(nonce.get())),
        };
        Self {
            tx_id: tx.tx.0,
            request_id: tx.request_id.as_ref().map(|id| id.as_str().to_owned()),
            payload,
            loan,
            placeholder,
            not_after: tx.not_after.map(|at| at.to_string()),
            meta: tx.meta.as_ref().map(|meta| meta.as_str().to_owned()),
            created_by: tx.created_by.as_deref().map(str::to_owned),
        }
    }

    fn read(self) -> Option<NewTx> {
        let body = match (self.payload, self.loan, self.placeholder) {
            (Some(payload), None, None) => {
                let payload = amount::bytes(&payload).ok()?;
                let payload = Payload::from_canonical(&payload).ok()?;
                // Here, where many are read at once, and not while the statement is made that all wait for.
                let _ = payload.hash();
                Body::Managed(payload)
            }
            (None, Some(loan), None) => Body::Reserved(loan.read()?),
            (None, None, Some(nonce)) => Body::Placeholder(Nonce::new(nonce).ok()?),
            (None, None, None)
            | (Some(_), Some(_), _)
            | (Some(_), None, Some(_))
            | (None, Some(_), Some(_)) => return None,
        };
        let request_id = self.request_id.map(RequestId::new).transpose().ok()?;
        let not_after = self.not_after.map(|at| at.parse()).transpose().ok()?;
        Some(NewTx {
            tx: TxId(self.tx_id),
            seal: None,
            request_id,
            body,
            not_after,
            meta: self.meta.map(Meta::new).transpose().ok()?,
            created_by: self.created_by.map(Into::into),
        })
    }
}

/// That something was written for a lane which its leader should see at once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Look {
    chain_id: u64,
    signer: String,
}

impl Look {
    pub(crate) fn at(lane: Lane) -> Self {
        Self {
            chain_id: lane.chain.get(),
            signer: lane.signer.to_string(),
        }
    }

    /// The lane, unless it is none that a node of ours would name.
    pub(crate) fn read(&self) -> Option<Lane> {
        Some(Lane {
            chain: ChainId::new(self.chain_id).ok()?,
            signer: amount::address(&self.signer).ok()?,
        })
    }
}

/// What the leader answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(
    tag = "verdict",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Told {
    /// Stored now: this is all that the other node cannot know.
    New(Row),
    /// Stored under the id that it was handed on with, and moved since.
    Stored,
    Known {
        tx_id: Uuid,
    },
    Conflict {
        tx_id: Uuid,
    },
    NotLeader,
    Paused {
        reason: String,
    },
    Overloaded,
    InFlightLimit,
    ChainUnavailable,
    Exhausted,
    NotOpen,
    Unavailable,
    Unknown,
}

/// A row that was just stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) lane_id: i64,
    pub(crate) nonce: Option<u64>,
    pub(crate) wait: Option<String>,
    pub(crate) at: String,
    pub(crate) token: u64,
}

impl From<Verdict> for Told {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::New(record) => row(&record).map_or(Self::Stored, Self::New),
            Verdict::Known(record) => Self::Known { tx_id: record.tx.0 },
            Verdict::Conflict(record) => Self::Conflict { tx_id: record.tx.0 },
            // The other node has asked the store itself who leads, and asks it again.
            Verdict::NotLeader(_) => Self::NotLeader,
            Verdict::Paused(reason) => Self::Paused {
                reason: PauseReason::word(reason).to_owned(),
            },
            Verdict::Overloaded => Self::Overloaded,
            Verdict::InFlightLimit => Self::InFlightLimit,
            Verdict::ChainUnavailable => Self::ChainUnavailable,
            Verdict::Exhausted => Self::Exhausted,
            Verdict::NotOpen => Self::NotOpen,
            Verdict::Unavailable => Self::Unavailable,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

/// The words for a row that is as it was first written; any other must be read.
fn row(record: &Record) -> Option<Row> {
    let (nonce, wait) = match &record.state {
        State::Allocated(Allocated {
            nonce,
            bytes: Signing::Unsigned,
        })
        | State::Reserved(Reserved { nonce }) => (Some(nonce.get()), None),
        State::Queued(queued) => (None, Some(queued.wait.word().to_owned())),
        State::Allocated(_)
        | State::Tracking(_)
        | State::Confirmed(_)
        | State::Failed(_)
        | State::Stuck(_)
        | State::Submitted(_)
        | State::Used(_)
        | State::Recyclable(_) => return None,
    };
    (record.version == Version::FIRST).then(|| Row {
        lane_id: record.lane_id.0,
        nonce,
        wait,
        at: record.created_at.to_string(),
        token: record.token.get(),
    })
}

#[cfg(test)]
mod tests {
    use fencepost_domain::request::{Ceilings, Draft};

    use super::*;

    fn new_tx(body: Body) -> NewTx {
        NewTx {
            tx: TxId(Uuid::now_v7()),
            seal: None,
            request_id: Some(RequestId::new("order 17").unwrap()),
            body,
            not_after: None,
            meta: Some(Meta::new(r#"{"count":3}"#).unwrap()),
            created_by: None,
        }
    }

    fn loan() -> Body {
        Body::Reserved(Loan {
            lock: LockToken(Uuid::now_v7()),
            ttl: Duration::from_secs(60),
            grace: Duration::from_millis(1_500),
        })
    }

    fn payload() -> Body {
        let draft = Draft {
            to: Some("0x4242424242424242424242424242424242424242".to_owned()),
            ..Draft::default()
        };
        let ceilings = Ceilings {
            max_fee: 1,
            max_priority_fee: 1,
        };
        Body::Managed(Payload::parse(&draft, ceilings).unwrap())
    }

    fn read(text: &str) -> Option<NewTx> {
        serde_json::from_str::<Handed>(text).ok()?.read()
    }

    #[test]
    fn whatever_can_be_asked_for_is_read_as_it_was_handed_on() {
        let placeholder = Body::Placeholder(Nonce::new(7).unwrap());
        for mut tx in [payload(), loan(), placeholder].map(new_tx) {
            tx.created_by = Some("billing".into());
            let text = serde_json::to_string(&Handed::of(&tx)).unwrap();
            assert_eq!(read(&text), Some(tx), "{text}");
        }
    }

    /// A node of the version before refuses fields that it does not know.
    #[test]
    fn a_payload_is_handed_on_in_the_words_that_older_nodes_know() {
        let text = serde_json::to_value(Handed::of(&new_tx(payload()))).unwrap();
        let fields: Vec<&String> = text.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["meta", "notAfter", "payload", "requestId", "txId"]);
    }

    #[test]
    fn a_request_is_one_thing_and_within_bounds() {
        let good = serde_json::to_value(Handed::of(&new_tx(loan()))).unwrap();
        let check = |change: fn(&mut serde_json::Value)| {
            let mut handed = good.clone();
            change(&mut handed);
            assert_eq!(read(&handed.to_string()), None, "{handed}");
        };
        assert!(read(&good.to_string()).is_some());
        check(|handed| handed["placeholder"] = 7.into());
        check(|handed| handed["payload"] = "0x".into());
        check(|handed| handed["loan"] = serde_json::Value::Null);
        check(|handed| handed["loan"]["ttlMs"] = u64::MAX.into());
        check(|handed| handed["loan"]["more"] = 1.into());
        check(|handed| handed["more"] = 1.into());
    }
}
