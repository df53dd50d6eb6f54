//! File descriptors: as many as the system grants, and how many of them connections of clients may take. The rest is for the
//! store, the chains and other nodes: a node that cannot open a connection to its store loses its leases.

use fencepost_http::{Limits, SPARE_CONNECTIONS};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;

/// Standard streams, the listener, the runtimes, signals, files of SQLite and of configuration, names that are looked up,
/// and connections that are accepted and refused.
const OWN: u64 = 64;
/// The store's connections are replaced when they are old, and a takeover has one of its own.
const PER_STORE_CONNECTION: u64 = 2;
/// For requests to one endpoint that run at once, and its WebSocket.
const PER_ENDPOINT: u64 = 16;
/// For requests to other nodes, to the stuck policy and to remote signers.
const OUTGOING: u64 = 64;
/// A node with less answers few clients, but it works.
const CONNECTIONS_MIN: u64 = 16;
/// Below this many connections the log says how to get more.
const CONNECTIONS_FEW: u64 = 1_000;

/// Raises the soft limit of the process to the hard one and returns the limit in effect; none is no limit.
pub(crate) fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    let wanted = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, wanted) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, ?current, ?maximum, "the limit of file descriptors cannot be raised");
            current
        }
    }
}

/// How many connections a node with this limit and configuration serves at once.
pub(crate) fn connections(limit: Option<u64>, config: &Config) -> usize {
    let usual = Limits::default().connections;
    let Some(limit) = limit else {
        return usual;
    };
    let store = &config.store;
    let store = store.write_connections + store.read_connections + store.client_connections;
    let endpoints = config.chains.iter().map(|chain| chain.rpc.len() + 1).sum();
    let left = limit.saturating_sub(reserved(store, endpoints));
    if left < CONNECTIONS_FEW {
        let connections = left.max(CONNECTIONS_MIN);
        tracing::warn!(
            limit,
            connections,
            "few file descriptors: raise the limit of the process (ulimit -n, LimitNOFILE= of systemd)"
        );
    }
    let left = usize::try_from(left.max(CONNECTIONS_MIN)).unwrap_or(usize::MAX);
    left.min(usual)
}

/// What is kept for everything but connections of clients.
fn reserved(store: usize, endpoints: usize) -> u64 {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let store = count(store).saturating_mul(PER_STORE_CONNECTION);
    let endpoints = count(endpoints).saturating_mul(PER_ENDPOINT);
    let spare = count(SPARE_CONNECTIONS);
    [store, endpoints, OUTGOING, spare]
        .into_iter()
        .fold(OWN, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_limit_leaves_most_descriptors_to_clients() {
        assert_eq!(reserved(12, 2), 64 + 24 + 32 + 64 + 16);
        assert_eq!(reserved(usize::MAX, usize::MAX), u64::MAX);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
