//! Names of things: each its own type, so that a nonce is never passed where a token belongs.
//! Numbers fit the stores' signed 64-bit columns by construction; nothing here can mint an id.

use std::fmt;
use std::sync::Arc;

use alloy_primitives::Address;
use uuid::Uuid;

/// A number does not fit the stores' signed 64-bit column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value} is beyond {max}")]
pub struct OutOfRange {
    /// Which kind of number it was.
    pub what: &'static str,
    /// The number that was given.
    pub value: u64,
    /// The greatest one that is allowed.
    pub max: u64,
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// The greatest value a signed 64-bit column holds.
            pub const MAX: Self = Self(i64::MAX.unsigned_abs());

            /// Checks that the number fits.
            pub const fn new(value: u64) -> Result<Self, OutOfRange> {
                if value > Self::MAX.0 {
                    return Err(OutOfRange { what: $what, value, max: Self::MAX.0 });
                }
                Ok(Self(value))
            }

            /// The number itself.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The number as a store column holds it.
            #[must_use]
            pub fn column(self) -> i64 {
                i64::try_from(self.0).expect("checked at construction")
            }

            /// Reads a column back; a negative one was never written by us.
            pub fn from_column(value: i64) -> Result<Self, Corrupt> {
                u64::try_from(value).map(Self).map_err(|_| Corrupt { column: $what })
            }

            /// The number `n` further on, unless that no longer fits.
            pub fn plus(self, n: u64) -> Result<Self, OutOfRange> {
                Self::new(self.0.saturating_add(n))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// A stored value that our own writes could not have produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("column {column} holds what was never written")]
pub struct Corrupt {
    /// The column, or the rule over several of them.
    pub column: &'static str,
}

counter!(
    /// A transaction's place in its signer's order on one chain.
    Nonce, "nonce");
counter!(
    /// The fencing token of a lane: one more at each change of hands.
    Token, "fencing_token");
counter!(
    /// Counts the starts of a node id, so that a ghost of an earlier start is recognised.
    Incarnation, "incarnation");
counter!(
    /// An EIP-155 chain id.
    ChainId, "chain_id");
counter!(
    /// Counts the writes of one transaction's row.
    Version, "version");
counter!(
    /// The place of an event in its lane's history.
    LaneSeq, "lane_seq");
counter!(
    /// The place of a completion in the feed.
    FeedSeq, "seq");
counter!(
    /// A block's height.
    Height, "block_number");

impl Token {
    /// Nobody's: what was written without a fence carries it.
    pub const NONE: Self = Self(0);
}

impl Version {
    /// Of a row that was never moved.
    pub const FIRST: Self = Self(1);
}

impl FeedSeq {
    /// Before the first completion.
    pub const ZERO: Self = Self(0);
}

impl Nonce {
    /// Where a lane begins that the chain has never seen.
    pub const ZERO: Self = Self(0);
}

/// The store's own name of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub i64);

/// One signer on one chain: the unit of leadership, of nonce order and of serial work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The chain.
    pub chain: ChainId,
    /// The address we send from. Bytes, so that hex case can never make two lanes of one.
    pub signer: Address,
}

/// A transaction's id, minted by the node that accepted it and kept on every path it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub Uuid);

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the holder of a reservation shows with every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockToken(pub Uuid);

/// A text is empty, too long, or has characters that do not belong in a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} must be 1 to {max} bytes of printable text without surrounding spaces")]
pub struct BadName {
    /// Which name it was.
    pub what: &'static str,
    /// The greatest length, in bytes.
    pub max: usize,
}

fn check(text: &str, what: &'static str, max: usize) -> Result<(), BadName> {
    let fits = !text.is_empty() && text.len() <= max;
    let clean = text.trim() == text && !text.chars().any(char::is_control);
    if fits && clean {
        Ok(())
    } else {
        Err(BadName { what, max })
    }
}

/// A client's own name for a request: one per lane, for ever. Copies share the text: a request is copied on its way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// Longer ids would make the unique index wide; nobody needs more than a few UUIDs.
    pub const BYTES_MAX: usize = 200;

    /// Accepts 1 to 200 bytes of printable text.
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, BadName> {
        let text = text.into();
        check(&text, "requestId", Self::BYTES_MAX)?;
        Ok(Self(text))
    }

    /// The text as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A node's name in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(String);

impl NodeId {
    /// A host name with a suffix fits; more is a mistake.
    pub const BYTES_MAX: usize = 128;

    /// Accepts 1 to 128 bytes of printable text.
    pub fn new(text: impl Into<String>) -> Result<Self, BadName> {
        let text = text.into();
        check(&text, "node.id", Self::BYTES_MAX)?;
        Ok(Self(text))
    }

    /// The text as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_holds_every_signed_64_bit_value_and_no_more() {
        assert_eq!(
            Nonce::new(i64::MAX.unsigned_abs()).unwrap().column(),
            i64::MAX
        );
        assert!(Nonce::new(i64::MAX.unsigned_abs() + 1).is_err());
        assert!(Nonce::MAX.plus(1).is_err());
        assert!(Nonce::MAX.plus(u64::MAX).is_err());
        assert_eq!(Nonce::from_column(-1), Err(Corrupt { column: "nonce" }));
    }

    #[test]
    fn a_request_id_is_printable_bounded_and_not_padded() {
        for bad in ["", " a", "a ", "a\nb", "a\u{0}b", &"x".repeat(201)] {
            assert!(RequestId::new(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "order 17", "支付-1", &"x".repeat(200)] {
            assert_eq!(RequestId::new(good).unwrap().as_str(), good);
        }
    }
}
