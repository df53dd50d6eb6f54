//! Short words for what scenarios store: the same number always makes the same id, payload or hash,
//! so that a scenario can name a thing twice without carrying it around.

use std::time::Duration;

use fencepost_app::ports::{Audit, Body, Loan, NewTx};
use fencepost_domain::attempt::{self, Attempt, Outcome, SignedFees};
use fencepost_domain::ids::{
    ChainId, FeedSeq, Height, Lane, LaneSeq, LockToken, Nonce, RequestId, Token, TxId, Version,
};
use fencepost_domain::request::{Ceilings, Draft, Payload};
use fencepost_domain::state::{Block, Execution, Inclusion};
use fencepost_domain::transition::Input;
use fencepost_domain::{Address, B256, Bytes};
use uuid::{Builder, Uuid};

/// How long a reservation lasts: longer than any lease, so that time can pass for one alone.
pub const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long after that its nonce may be looked at.
pub const GRACE: Duration = Duration::from_secs(60 * 60);

/// The lane of the n-th signer on chain 1.
#[must_use]
pub fn lane(n: u8) -> Lane {
    lane_on(1, n)
}

/// The lane of the n-th signer on some chain.
#[must_use]
pub fn lane_on(chain: u64, n: u8) -> Lane {
    Lane {
        chain: chain_id(chain),
        signer: Address::repeat_byte(n),
    }
}

/// A chain id.
#[must_use]
pub fn chain_id(n: u64) -> ChainId {
    ChainId::new(n).unwrap()
}

/// A nonce.
#[must_use]
pub fn nonce(n: u64) -> Nonce {
    Nonce::new(n).unwrap()
}

/// Many nonces.
#[must_use]
pub fn nonces(numbers: impl IntoIterator<Item = u64>) -> Vec<Nonce> {
    numbers.into_iter().map(nonce).collect()
}

/// A fencing token.
#[must_use]
pub fn token(n: u64) -> Token {
    Token::new(n).unwrap()
}

/// A row's version.
#[must_use]
pub fn version(n: u64) -> Version {
    Version::new(n).unwrap()
}

/// A place in a lane's history.
#[must_use]
pub fn lane_seq(n: u64) -> LaneSeq {
    LaneSeq::new(n).unwrap()
}

/// A place in the feed.
#[must_use]
pub fn feed_seq(n: u64) -> FeedSeq {
    FeedSeq::new(n).unwrap()
}

/// The n-th transaction's id; ids grow with n, as minted ones do with time.
#[must_use]
pub fn id(n: u64) -> TxId {
    TxId(Builder::from_unix_timestamp_millis(1_760_000_000_000 + n, &[7; 10]).into_uuid())
}

/// The n-th lock token.
#[must_use]
pub fn lock(n: u64) -> LockToken {
    LockToken(Uuid::from_u128(u128::from(n) + 1))
}

/// A request id.
#[must_use]
pub fn request_id(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}

/// A payload that pays this much.
#[must_use]
pub fn payload(wei: u64) -> Payload {
    let draft = Draft {
        to: Some(format!("0x{}", "42".repeat(20))),
        value: Some(wei.to_string()),
        ..Draft::default()
    };
    let ceilings = Ceilings {
        max_fee: u128::MAX,
        max_priority_fee: u128::MAX,
    };
    Payload::parse(&draft, ceilings).unwrap()
}

/// The n-th transaction, without a request id, paying n wei.
#[must_use]
pub fn tx(n: u64) -> NewTx {
    NewTx {
        tx: id(n),
        seal: None,
        request_id: None,
        body: Body::Managed(payload(n)),
        not_after: None,
        meta: None,
        created_by: Some("billing".into()),
    }
}

/// Many transactions.
#[must_use]
pub fn txs(numbers: impl IntoIterator<Item = u64>) -> Vec<NewTx> {
    numbers.into_iter().map(tx).collect()
}

/// The n-th transaction under a client's own name, paying `wei`.
#[must_use]
pub fn request(n: u64, name: &str, wei: u64) -> NewTx {
    NewTx {
        request_id: Some(request_id(name)),
        body: Body::Managed(payload(wei)),
        ..tx(n)
    }
}

/// The n-th row as a reservation with the n-th lock.
#[must_use]
pub fn loan(n: u64) -> NewTx {
    let loan = Loan {
        lock: lock(n),
        ttl: TTL,
        grace: GRACE,
    };
    NewTx {
        body: Body::Reserved(loan),
        ..tx(n)
    }
}

/// The n-th row as a placeholder for this nonce.
#[must_use]
pub fn placeholder(n: u64, at: u64) -> NewTx {
    NewTx {
        body: Body::Placeholder(nonce(at)),
        ..tx(n)
    }
}

/// The n-th hash.
#[must_use]
pub fn hash(n: u64) -> B256 {
    B256::left_padding_from(&n.to_be_bytes())
}

/// Signed bytes with the n-th hash.
#[must_use]
pub fn attempt(kind: attempt::Kind, n: u64) -> Attempt {
    Attempt {
        kind,
        hash: hash(n),
        raw: Bytes::from(format!("bytes of {n}").into_bytes()),
        fees: Some(SignedFees {
            max_fee: u128::MAX - u128::from(n),
            max_priority_fee: n.is_multiple_of(2).then_some(u128::from(n)),
        }),
    }
}

/// A block at this height on one of several forks.
#[must_use]
pub fn block(height: u64, fork: u64) -> Block {
    Block {
        number: Height::new(height).unwrap(),
        hash: hash(height.wrapping_mul(1_000).wrapping_add(1_000_000 + fork)),
    }
}

/// The attempt with the n-th hash, executed in a block at this height.
#[must_use]
pub fn included(n: u64, height: u64, fork: u64) -> Inclusion {
    Inclusion {
        block: block(height, fork),
        hash: hash(n),
        by: attempt::Kind::Original,
        execution: Execution::Success,
    }
}

/// Signing the payload as asked, with the n-th hash.
#[must_use]
pub fn sign(n: u64) -> Input {
    Input::Sign(attempt::Kind::Original, hash(n))
}

/// A node took the bytes.
#[must_use]
pub fn accepted() -> Input {
    Input::Sent(Outcome::Accepted)
}

/// The attempt with the n-th hash is in a block at this height.
#[must_use]
pub fn mined(n: u64, height: u64) -> Input {
    Input::Mined(included(n, height, 0))
}

/// The n-th hash, sent by the holder of a reservation, is in a block at this height.
#[must_use]
pub fn lent_mined(n: u64, height: u64) -> Input {
    Input::Mined(Inclusion {
        by: attempt::Kind::External,
        ..included(n, height, 0)
    })
}

/// Who did something and why.
#[must_use]
pub fn audit() -> Audit {
    Audit {
        by: "operator".to_owned(),
        reason: "a scenario".to_owned(),
        details: Some(r#"{"ticket":"T-1"}"#.to_owned()),
        node: None,
    }
}
