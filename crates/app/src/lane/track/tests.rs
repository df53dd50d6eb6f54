//! What of a lane is kept in mind, and what is sent of it.

use fencepost_domain::ids::{ChainId, Lane, LaneId, Token, TxId};
use fencepost_domain::state::{Allocated, Signing, State};
use fencepost_domain::{Address, B256, Bytes};
use jiff::Timestamp;
use uuid::Uuid;

use super::*;
use crate::lifecycle::accept::{stored, with_nonce};
use crate::ports::{Body, NewTx};

fn n(value: u64) -> Nonce {
    Nonce::new(value).unwrap()
}

fn seat() -> Seat {
    Seat {
        id: LaneId(1),
        lane: Lane {
            chain: ChainId::new(1).unwrap(),
            signer: Address::ZERO,
        },
        max_in_flight: None,
        signs: true,
        start: crate::directory::Start::default(),
    }
}

fn entry(nonce: u64) -> Entry {
    let tx = NewTx {
        tx: TxId(Uuid::from_u128(u128::from(nonce))),
        seal: None,
        request_id: None,
        body: Body::Placeholder(n(nonce)),
        not_after: None,
        meta: None,
        created_by: None,
    };
    let state = with_nonce(&tx, n(nonce));
    let record = stored(seat(), &tx, state, Token::NONE, Timestamp::UNIX_EPOCH);
    Entry::new(record, Duration::ZERO)
}

/// A track of a window of two, with these nonces in mind.
fn track(nonces: std::ops::Range<u64>) -> Track {
    let (lane, token) = (seat().id, Token::NONE);
    let mut track = Track::new(seat(), Held { lane, token }, 2, true);
    for nonce in nonces {
        track.insert(n(nonce), entry(nonce));
    }
    track
}

fn sent(track: &mut Track, nonce: u64, to_send: bool, refused: bool) {
    let entry = track.get_mut(n(nonce)).unwrap();
    let hash = B256::repeat_byte(1);
    entry.state = State::Allocated(Allocated {
        nonce: n(nonce),
        bytes: Signing::Signed(hash),
    });
    entry.raw = Some(Bytes::new());
    (entry.to_send, entry.refused) = (to_send, refused);
}

/// All others wait for it, so it is never too far ahead to be kept in mind.
#[test]
fn a_nonce_below_what_is_in_mind_is_taken_in_however_much_that_is() {
    let mut full = track(5..30);
    full.add(n(3), entry(3));
    assert!(full.get(n(3)).is_some());
    full.add(n(40), entry(40));
    assert!(full.get(n(40)).is_none(), "too far ahead");
    assert_eq!(full.to_read(), None);
}

#[test]
fn what_is_missing_below_is_read_however_much_is_in_mind_above_it() {
    let mut full = track(5..30);
    full.unlearn_from(n(3));
    assert_eq!(full.to_read(), Some(n(3)));
    full.read(Some(n(3)));
    assert_eq!(full.to_read(), Some(n(4)));
    full.read(None);
    assert_eq!(full.to_read(), None);
}

#[test]
fn nothing_is_sent_past_one_without_bytes_or_that_all_refuse() {
    let mut lane = track(0..2);
    sent(&mut lane, 1, true, false);
    assert_eq!(lane.sendable(), [], "the head has no bytes");
    sent(&mut lane, 0, false, true);
    assert_eq!(lane.sendable(), [], "the head is refused");
    sent(&mut lane, 0, true, true);
    assert_eq!(lane.sendable(), [n(0)], "alone, until it is answered");
    sent(&mut lane, 0, false, false);
    assert_eq!(lane.sendable(), [n(1)]);
}
