//! What is counted of requests to endpoints. Labels are the chain's configured name, words of ours and
//! an endpoint's place in the configuration, never its address.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    chain: String,
    method: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct At {
    chain: String,
    endpoint: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OnChain {
    chain: String,
}

/// What a request is for: the label `method`. A batch is one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Handshake,
    Head,
    Tip,
    Blocks,
    Receipts,
    Reason,
    Count,
    Consumer,
    Sender,
    Balance,
    Quote,
    Estimate,
    Send,
    Witnesses,
}

impl Purpose {
    const ALL: [Self; 14] = [
        Self::Handshake,
        Self::Head,
        Self::Tip,
        Self::Blocks,
        Self::Receipts,
        Self::Reason,
        Self::Count,
        Self::Consumer,
        Self::Sender,
        Self::Balance,
        Self::Quote,
        Self::Estimate,
        Self::Send,
        Self::Witnesses,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Head => "head",
            Self::Tip => "tip",
            Self::Blocks => "blocks",
            Self::Receipts => "receipts",
            Self::Reason => "reason",
            Self::Count => "count",
            Self::Consumer => "consumer",
            Self::Sender => "sender",
            Self::Balance => "balance",
            Self::Quote => "quote",
            Self::Estimate => "estimate",
            Self::Send => "send",
            Self::Witnesses => "witnesses",
        }
    }
}

/// How a request ended: the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With an answer, be it an error of the node.
    Ok,
    /// With nothing that can be read.
    Error,
    /// With the deadline.
    Timeout,
    /// The endpoint turned the request itself away: its rate, its size, its form.
    Refused,
}

impl Ended {
    const ALL: [Self; 4] = [Self::Ok, Self::Error, Self::Timeout, Self::Refused];

    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
        }
    }
}

/// The meters of all chains. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Meters {
    requests: Family<Asked, Counter>,
    head_lag: Family<At, Gauge>,
    receipts_unknown: Family<OnChain, Counter>,
    ws_connected: Family<OnChain, Gauge>,
    ws_heads: Family<OnChain, Counter>,
}

impl Meters {
    /// Registers all of them under the prefix that operators know.
    pub fn register(registry: &mut Registry) -> Self {
        let meters = Self::default();
        let registry = registry.sub_registry_with_prefix("fencepost");
        registry.register(
            "rpc_requests",
            "Requests to endpoints, by what for and how they ended; a batch is one",
            meters.requests.clone(),
        );
        registry.register(
            "rpc_head_lag_blocks",
            "How far an endpoint's newest block is behind the best endpoint's",
            meters.head_lag.clone(),
        );
        registry.register(
            "rpc_receipts_unknown",
            "Receipts that an endpoint could neither give nor deny",
            meters.receipts_unknown.clone(),
        );
        registry.register(
            "ws_connected",
            "Whether new blocks are announced over WebSocket now",
            meters.ws_connected.clone(),
        );
        registry.register(
            "ws_heads",
            "New blocks that were announced over WebSocket",
            meters.ws_heads.clone(),
        );
        meters
    }

    /// The meters of one chain, all at zero: a counter that first appears at 1 has no increase, and an
    /// alert on it would miss its first event.
    pub(crate) fn on(&self, chain: Arc<str>) -> ChainMeters {
        let meters = ChainMeters {
            all: self.clone(),
            chain,
        };
        for purpose in Purpose::ALL {
            for ended in Ended::ALL {
                drop(self.requests.get_or_create(&meters.asked(purpose, ended)));
            }
        }
        drop(self.receipts_unknown.get_or_create(&meters.on_chain()));
        meters
    }
}

/// The meters with one chain's name.
#[derive(Debug, Clone)]
pub(crate) struct ChainMeters {
    all: Meters,
    chain: Arc<str>,
}

impl ChainMeters {
    fn asked(&self, purpose: Purpose, ended: Ended) -> Asked {
        Asked {
            chain: self.chain.to_string(),
            method: purpose.word(),
            result: ended.word(),
        }
    }

    fn on_chain(&self) -> OnChain {
        OnChain {
            chain: self.chain.to_string(),
        }
    }

    pub(crate) fn requested(&self, purpose: Purpose, ended: Ended) {
        let labels = self.asked(purpose, ended);
        self.all.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn head_lag(&self, position: usize, blocks: u64) {
        let at = At {
            chain: self.chain.to_string(),
            endpoint: u64::try_from(position).unwrap_or(u64::MAX),
        };
        let blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
        self.all.head_lag.get_or_create(&at).set(blocks);
    }

    pub(crate) fn receipts_unknown(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let counter = self.all.receipts_unknown.get_or_create(&self.on_chain());
        counter.inc_by(count);
    }

    pub(crate) fn ws_connected(&self, is_connected: bool) {
        let gauge = self.all.ws_connected.get_or_create(&self.on_chain());
        gauge.set(i64::from(is_connected));
    }

    pub(crate) fn ws_heads(&self, count: u64) {
        let counter = self.all.ws_heads.get_or_create(&self.on_chain());
        counter.inc_by(count);
    }
}
