//! What is counted of connections and of callers without a valid key.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    reason: &'static str,
}

/// Why a request was refused before any route handled it: the label `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No key, or one that is not known.
    Unauthorized,
    /// The address has used up its rate of requests without a key.
    KeylessRate,
    /// All places are taken by requests that are being answered.
    Connections,
    /// All bytes for bodies and answers are in use.
    Memory,
}

impl Refused {
    const ALL: [Self; 4] = [
        Self::Unauthorized,
        Self::KeylessRate,
        Self::Connections,
        Self::Memory,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::KeylessRate => "keyless_rate",
            Self::Connections => "connections",
            Self::Memory => "memory",
        }
    }
}

/// The meters of the HTTP server. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Meters {
    pub(crate) connections: Gauge,
    pub(crate) closed_for_room: Counter,
    pub(crate) memory: Gauge,
    refused: Family<Refusal, Counter>,
}

impl Meters {
    /// Registers all of them under the prefix that operators know.
    pub fn register(registry: &mut Registry) -> Self {
        let meters = Self::default();
        for reason in Refused::ALL {
            meters.of(reason);
        }
        let all = registry.sub_registry_with_prefix("fencepost_http");
        all.register(
            "connections",
            "Connections of clients and other nodes that are open",
            meters.connections.clone(),
        );
        all.register(
            "connections_closed_for_room",
            "Idle connections that were closed because a new one needed the place",
            meters.closed_for_room.clone(),
        );
        all.register_with_unit(
            "memory",
            "Bytes of bodies and answers in hand",
            Unit::Bytes,
            meters.memory.clone(),
        );
        all.register(
            "refused",
            "Requests that were refused before any route handled them",
            meters.refused.clone(),
        );
        meters
    }

    fn of(&self, reason: Refused) -> Counter {
        let reason = Refusal {
            reason: reason.word(),
        };
        self.refused.get_or_create_owned(&reason)
    }

    pub(crate) fn refused(&self, reason: Refused) {
        self.of(reason).inc();
    }
}
