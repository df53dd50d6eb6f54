//! What clients asked for and were told. It is all they have, and it must be true.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::B256;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{Completion, NewTx};
use fencepost_domain::ids::{Lane, TxId};

use crate::sometimes::Rare;
use crate::world::World;

/// What a client knows of one try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is stored.
    Stored,
    /// It is not.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// All of it.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Under which id a named request is known.
    named: BTreeMap<(Lane, String), TxId>,
    /// Names under which more than one thing was asked for.
    pub(crate) ambiguous: BTreeSet<(Lane, String)>,
    pub(crate) tries: BTreeMap<TxId, Told>,
    acked: BTreeSet<TxId>,
    foreign: BTreeSet<B256>,
    /// What readers of the feed have seen.
    pub(crate) feed: Vec<Completion>,
}

impl Ledger {
    /// Someone else signed this with one of our keys.
    pub(crate) fn foreign(&mut self, hash: B256) {
        self.foreign.insert(hash);
    }

    pub(crate) fn is_foreign(&self, hash: &B256) -> bool {
        self.foreign.contains(hash)
    }

    /// Under which ids clients know what they were told to be stored.
    pub(crate) fn acked(&self) -> impl Iterator<Item = TxId> {
        self.acked.iter().copied()
    }
}

impl World {
    /// I6, I7: a client was answered.
    pub(crate) fn answered(&self, lane: Lane, tx: &NewTx, verdict: Option<&Verdict>) -> Told {
        let name = tx
            .request_id
            .as_ref()
            .map(|name| (lane, name.as_str().to_owned()));
        let told = match verdict {
            Some(Verdict::New(record) | Verdict::Known(record)) => {
                self.stored(
                    tx,
                    name.as_ref(),
                    record.tx,
                    matches!(verdict, Some(Verdict::New(_))),
                );
                if !tx.is_same(record) {
                    let facts = format!("{tx:?} was answered with {record:?}");
                    self.violate("I7 another payload is another request", facts);
                }
                Told::Stored
            }
            Some(Verdict::Conflict(_)) => {
                let is_so = name
                    .as_ref()
                    .is_some_and(|name| self.ledger().ambiguous.contains(name));
                if !is_so {
                    self.violate(
                        "I7 duplicates cost nothing",
                        format!("a conflict without one: {tx:?}"),
                    );
                }
                self.saw(Rare::Conflict);
                Told::Refused
            }
            Some(
                Verdict::NotLeader(_)
                | Verdict::Paused(_)
                | Verdict::Overloaded
                | Verdict::InFlightLimit
                | Verdict::ChainUnavailable
                | Verdict::Exhausted
                | Verdict::NotOpen
                | Verdict::Unavailable,
            ) => Told::Refused,
            Some(Verdict::Unknown) | None => Told::Unknown,
        };
        if told == Told::Refused && self.checker().rows.contains_key(&tx.tx) {
            let facts = format!("{tx:?} was refused by {verdict:?} and is stored");
            self.violate("I6 refused is not stored", facts);
        }
        if told == Told::Unknown {
            self.saw(Rare::ClientUnknown);
            if self.checker().rows.contains_key(&tx.tx) {
                self.saw(Rare::UnknownWasStored);
            }
        }
        self.ledger().tries.entry(tx.tx).or_insert(told);
        told
    }

    fn stored(&self, tx: &NewTx, name: Option<&(Lane, String)>, id: TxId, is_new: bool) {
        if !self.checker().rows.contains_key(&id) {
            self.violate("I6 acked is stored", format!("{tx:?} is not there"));
        }
        if is_new && id != tx.tx {
            self.violate("I6 acked is stored", format!("{tx:?} is new under {id:?}"));
        }
        self.ledger().acked.insert(id);
        let Some(name) = name else {
            return;
        };
        let mut ledger = self.ledger();
        let first = *ledger.named.entry(name.clone()).or_insert(id);
        drop(ledger);
        if first != id {
            let facts = format!("{name:?} was {first:?} and is {id:?}");
            self.violate("I6 one request id, one transaction", facts);
        }
        if id != tx.tx {
            self.saw(Rare::RetryKnown);
        }
    }
}
