//! The words of node software: client versions, and error codes and texts for each kind of refusal.
//! Read from the clients' sources in 2026; versions differ, and providers rewrite them.

mod besu;
mod erigon;
mod geth;
mod nethermind;
mod other;

use serde::{Deserialize, Serialize};

use crate::block::Block;
use crate::rejection::{Facts, Rejection};

/// The most bytes of a transaction that pools take, unless it has blobs.
pub const TX_BYTES_MAX: usize = 128 * 1024;

/// Whose words an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// go-ethereum, and what is derived from it.
    #[default]
    Geth,
    /// reth.
    Reth,
    /// Erigon.
    Erigon,
    /// Nethermind.
    Nethermind,
    /// Hyperledger Besu.
    Besu,
    /// anvil of Foundry.
    Anvil,
}

/// Every dialect, for tables.
pub const DIALECTS: [Dialect; 6] = [
    Dialect::Geth,
    Dialect::Reth,
    Dialect::Erigon,
    Dialect::Nethermind,
    Dialect::Besu,
    Dialect::Anvil,
];

/// What a node answers to a transaction that it does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A JSON-RPC error.
    Error {
        /// Its code.
        code: i64,
        /// Its text.
        message: String,
    },
    /// The hash, as if it had been accepted.
    Hash,
}

impl Dialect {
    /// What `web3_clientVersion` answers.
    #[must_use]
    pub fn client_version(self) -> &'static str {
        match self {
            Dialect::Geth => "Geth/v1.16.7-stable-b9f3a3d9/linux-amd64/go1.24.9",
            Dialect::Reth => "reth/v1.9.3-27a8c0f/x86_64-unknown-linux-gnu",
            Dialect::Erigon => "erigon/v3.2.2/linux-amd64/go1.24.9",
            Dialect::Nethermind => "Nethermind/v1.35.2+faa9b9e6/linux-x64/dotnet9.0.10",
            Dialect::Besu => "besu/v25.11.0/linux-x86_64/openjdk-java-21",
            Dialect::Anvil => "anvil/v1.5.0",
        }
    }

    /// What it answers to a transaction that it refuses.
    #[must_use]
    pub fn verdict(self, rejection: Rejection, facts: &Facts) -> Verdict {
        let said = match self {
            Dialect::Geth => Some(geth::words(rejection, facts)),
            Dialect::Reth => Some(other::reth(rejection, facts)),
            Dialect::Erigon => Some(erigon::words(rejection, facts)),
            Dialect::Nethermind => Some(nethermind::words(rejection, facts)),
            Dialect::Besu => besu::words(rejection),
            Dialect::Anvil => Some(other::anvil(rejection, facts)),
        };
        match said {
            Some((code, message)) => Verdict::Error { code, message },
            None => Verdict::Hash,
        }
    }
}

impl Dialect {
    /// What it answers when it is asked for a state that it has pruned.
    pub(crate) fn pruned(self, block: &Block) -> (i64, String) {
        let (number, hash) = (block.number(), block.hash);
        let root = block.header.state_root;
        match self {
            Dialect::Geth => (
                -32000,
                format!("missing trie node {root} (path ) state {root} is not available"),
            ),
            Dialect::Reth => (-32603, format!("state at block #{number} is pruned")),
            Dialect::Erigon => (-32000, "old data not available due to pruning".to_owned()),
            Dialect::Nethermind => {
                let text = format!("No state available for block {number} ({hash})");
                (-32002, text)
            }
            Dialect::Besu => (-32000, "World state unavailable".to_owned()),
            Dialect::Anvil => (-32000, format!("historical state {root} is not available")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rejection::REJECTIONS;

    #[test]
    fn every_dialect_has_words_for_every_kind() {
        for dialect in DIALECTS {
            for rejection in REJECTIONS {
                match dialect.verdict(rejection, &Facts::default()) {
                    Verdict::Error { code, message } => {
                        assert!(code < 0 && !message.is_empty(), "{dialect:?} {rejection:?}");
                    }
                    Verdict::Hash => assert_eq!(dialect, Dialect::Besu, "{rejection:?}"),
                }
            }
        }
    }

    #[test]
    fn the_words_are_the_clients_own() {
        let facts = Facts {
            nonce: 3,
            nonce_next: 5,
            ..Facts::default()
        };
        let check = |dialect: Dialect, rejection, code, message: &str| {
            let message = message.to_owned();
            let expected = Verdict::Error { code, message };
            assert_eq!(dialect.verdict(rejection, &facts), expected);
        };
        let low = Rejection::NonceTooLow;
        check(
            Dialect::Geth,
            low,
            -32000,
            "nonce too low: next nonce 5, tx nonce 3",
        );
        check(
            Dialect::Erigon,
            low,
            -32000,
            "INTERNAL_ERROR: nonce too low",
        );
        check(Dialect::Besu, low, -32001, "Nonce too low");
        let known = Rejection::AlreadyKnown;
        check(Dialect::Reth, known, -32000, "already known");
        check(
            Dialect::Erigon,
            known,
            -32000,
            "ALREADY_EXISTS: already known",
        );
        check(Dialect::Besu, known, -32000, "Known transaction");
        check(
            Dialect::Anvil,
            known,
            -32003,
            "transaction already imported",
        );
        assert_eq!(
            Dialect::Besu.verdict(Rejection::Underpriced, &facts),
            Verdict::Hash
        );
    }
}
