//! Faults on demand. A fault never decides by luck: it works on every call that it matches, or on every
//! k-th, so often as it was told or until it is cleared.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use crate::rejection::Rejection;

/// Names a fault, to clear it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(pub u64);

/// Whether the request is done before it goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// Nothing of the request is done.
    #[default]
    Before,
    /// All of it is done, and its sender is not told.
    After,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultKind {
    /// The answer comes so many milliseconds late.
    Late(u64),
    /// The answer never comes.
    Hang(When),
    /// The connection is cut.
    Disconnect(When),
    /// The answer is this, whatever was asked.
    #[serde(rename_all = "camelCase")]
    Http {
        /// The status.
        status: u16,
        /// The body.
        #[serde(default)]
        body: String,
        /// Whether the request is done.
        #[serde(default)]
        when: When,
    },
    /// Batches are refused as a whole.
    RefuseBatches,
    /// `eth_sendRawTransaction` answers the hash, and nothing is kept.
    Forget,
    /// `eth_sendRawTransaction` (or the named methods) is refused in the words of the endpoint's dialect.
    #[serde(rename_all = "camelCase")]
    Refuse {
        /// For what.
        kind: Rejection,
        /// Whether the transaction is taken all the same.
        #[serde(default)]
        when: When,
    },
    /// A JSON-RPC error.
    #[serde(rename_all = "camelCase")]
    Error {
        /// Its code.
        code: i64,
        /// Its text.
        message: String,
        /// Whether the call is done all the same.
        #[serde(default)]
        when: When,
    },
    /// `eth_getTransactionReceipt` (or the named methods) answers null.
    Null,
    /// The call is answered from so many blocks before the head.
    Stale(u64),
    /// The states of blocks that are more than so many below the head are gone: `eth_getTransactionCount`,
    /// `eth_getBalance` and `eth_getCode` fail there, in the words of the endpoint's dialect.
    Pruned(u64),
    /// `eth_getTransactionCount` answers this.
    Count(u64),
    /// `eth_chainId` and `net_version` answer this.
    ChainId(u64),
}

impl FaultKind {
    /// Whether it concerns the whole HTTP request, not one call in it.
    fn is_of_transport(&self) -> bool {
        match self {
            FaultKind::Late(_)
            | FaultKind::Hang(_)
            | FaultKind::Disconnect(_)
            | FaultKind::Http { .. }
            | FaultKind::RefuseBatches => true,
            FaultKind::Forget
            | FaultKind::Refuse { .. }
            | FaultKind::Error { .. }
            | FaultKind::Null
            | FaultKind::Stale(_)
            | FaultKind::Pruned(_)
            | FaultKind::Count(_)
            | FaultKind::ChainId(_) => false,
        }
    }

    /// The methods it is about when none are named; none is all.
    fn methods(&self) -> &'static [&'static str] {
        match self {
            FaultKind::Late(_)
            | FaultKind::Hang(_)
            | FaultKind::Disconnect(_)
            | FaultKind::Http { .. }
            | FaultKind::RefuseBatches
            | FaultKind::Error { .. }
            | FaultKind::Stale(_) => &[],
            FaultKind::Forget | FaultKind::Refuse { .. } => &["eth_sendRawTransaction"],
            FaultKind::Null => &["eth_getTransactionReceipt"],
            FaultKind::Pruned(_) => &["eth_getTransactionCount", "eth_getBalance", "eth_getCode"],
            FaultKind::Count(_) => &["eth_getTransactionCount"],
            FaultKind::ChainId(_) => &["eth_chainId", "net_version"],
        }
    }
}

/// A fault: what goes wrong, for what, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// The methods; empty is those that the kind is about.
    #[serde(default)]
    pub methods: BTreeSet<String>,
    /// The transactions or accounts: what the first parameter is, or the hash of the bytes that are sent,
    /// in lower-case hex. Empty is all.
    #[serde(default)]
    pub about: BTreeSet<String>,
    /// How often; none is until it is cleared.
    #[serde(default)]
    pub times: Option<u64>,
    /// Only every k-th match; 0 and 1 are each.
    #[serde(default)]
    pub every: u64,
    #[serde(skip)]
    seen: u64,
}

/// A call, as far as faults can tell calls apart.
pub(crate) struct Target<'a> {
    pub(crate) method: &'a str,
    pub(crate) about: Option<String>,
}

impl Fault {
    /// A fault that works on every call until it is cleared.
    #[must_use]
    pub fn new(kind: FaultKind) -> Fault {
        Fault {
            kind,
            methods: BTreeSet::new(),
            about: BTreeSet::new(),
            times: None,
            every: 1,
            seen: 0,
        }
    }

    /// An answer that comes so late.
    #[must_use]
    pub fn late(delay: Duration) -> Fault {
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Fault::new(FaultKind::Late(millis))
    }

    /// Only for this method too.
    #[must_use]
    pub fn on(mut self, method: &str) -> Fault {
        self.methods.insert(method.to_owned());
        self
    }

    /// Only for this transaction or account too.
    #[must_use]
    pub fn about(mut self, what: impl std::fmt::Display) -> Fault {
        self.about.insert(what.to_string().to_lowercase());
        self
    }

    /// Only so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Fault {
        self.times = Some(times);
        self
    }

    /// Only every k-th time.
    #[must_use]
    pub fn every(mut self, every: u64) -> Fault {
        self.every = every;
        self
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.times == Some(0)
    }

    pub(crate) fn is_of_transport(&self) -> bool {
        self.kind.is_of_transport()
    }

    pub(crate) fn asks_about(&self) -> bool {
        !self.about.is_empty()
    }

    /// Whether it matches a request without any readable call.
    pub(crate) fn is_of_all(&self) -> bool {
        self.methods.is_empty() && self.about.is_empty() && self.kind.methods().is_empty()
    }

    pub(crate) fn matches(&self, target: &Target<'_>) -> bool {
        let is_method = if self.methods.is_empty() {
            let own = self.kind.methods();
            own.is_empty() || own.contains(&target.method)
        } else {
            self.methods.contains(target.method)
        };
        let is_about = || {
            let about = target.about.as_ref();
            self.about.is_empty() || about.is_some_and(|about| self.about.contains(about))
        };
        is_method && is_about()
    }

    /// Counts a match and says whether the fault works on it.
    pub(crate) fn strikes(&mut self) -> bool {
        if self.is_used_up() {
            return false;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(self.every.max(1)) {
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_works_so_often_as_it_was_told() {
        let mut fault = Fault::new(FaultKind::Null).times(2).every(3);
        let strikes: Vec<bool> = (0..9).map(|_| fault.strikes()).collect();
        let expected = [false, false, true, false, false, true, false, false, false];
        assert_eq!(strikes, expected);
    }

    #[test]
    fn a_fault_works_on_what_it_is_about() {
        let target = |method, about: Option<&str>| Target {
            method,
            about: about.map(str::to_owned),
        };
        let null = Fault::new(FaultKind::Null);
        assert!(null.matches(&target("eth_getTransactionReceipt", None)));
        assert!(!null.matches(&target("eth_chainId", None)));
        let one = null.about("0xAB");
        assert!(one.matches(&target("eth_getTransactionReceipt", Some("0xab"))));
        assert!(!one.matches(&target("eth_getTransactionReceipt", Some("0xac"))));
        let other = Fault::new(FaultKind::Null).on("eth_getBlockByNumber");
        assert!(other.matches(&target("eth_getBlockByNumber", None)));
        assert!(!other.matches(&target("eth_getTransactionReceipt", None)));
    }
}
