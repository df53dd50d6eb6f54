//! Why the head of a lane stands where it stands, in one line for an operator.

use fencepost_app::ports::Record;
use fencepost_domain::ids::Nonce;
use fencepost_domain::state::{
    Allocated, Inclusion, Lent, Reserved, Seen, Signing, State, Stuck, Submitted, Tracking, Why,
};
use jiff::Timestamp;

/// The most nonces that are named; of more, it is told how many.
const NAMED_MAX: usize = 5;

/// The reason, with what is missing below the head and the newest error.
pub(crate) fn why(head: &Record, gaps: &[Nonce], now: Timestamp) -> String {
    let mut text = reason(head, now);
    let below = |gap: &&Nonce| head.state.nonce().is_some_and(|nonce| **gap < nonce);
    let missing: Vec<Nonce> = gaps.iter().filter(below).copied().collect();
    if !missing.is_empty() {
        text.push_str("; ");
        text.push_str(&unheld(&missing));
    }
    if let Some(error) = &head.last_error {
        text.push_str("; last error: ");
        text.extend(error.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }
    text
}

fn reason(head: &Record, now: Timestamp) -> String {
    match &head.state {
        State::Queued(_) => "waits for a nonce".to_owned(),
        State::Allocated(Allocated { bytes, .. }) => match bytes {
            Signing::Unsigned => "not signed yet",
            Signing::Signed(_) => "signed, and not known to be sent",
            Signing::Refused(_) => "refused by the nodes for now",
        }
        .to_owned(),
        State::Tracking(Tracking { seen, .. }) => match seen {
            Seen::Broadcast => "in the pools, in no block yet".to_owned(),
            Seen::Ambiguous => "sent, but no node has said that it took it".to_owned(),
            Seen::Mined(at) => mined(*at),
            Seen::Reorged => "its block was replaced, and it is sent again".to_owned(),
        },
        State::Stuck(stuck) => stuck_for(stuck),
        State::Reserved(Reserved { .. }) => lent(head, now),
        State::Submitted(Submitted { seen, .. }) => match seen {
            Lent::Awaited => "sent by its holder, in no block yet".to_owned(),
            Lent::Mined(at) => mined(*at),
            Lent::Reorged => "sent by its holder, and its block was replaced".to_owned(),
        },
        State::Confirmed(_) | State::Failed(_) | State::Used(_) | State::Recyclable(_) => {
            "it has ended".to_owned()
        }
    }
}

fn mined(at: Inclusion) -> String {
    format!("in block {}, not final yet", at.block.number)
}

fn lent(head: &Record, now: Timestamp) -> String {
    match head.reservation {
        Some(terms) if terms.expires_at <= now => {
            let until = terms.expires_at;
            format!("lent out until {until}, which has passed: it is not given back yet")
        }
        Some(terms) => format!("lent out until {}", terms.expires_at),
        None => "lent out".to_owned(),
    }
}

fn stuck_for(stuck: &Stuck) -> String {
    match stuck.why {
        Why::NoReceipt => "in no block for too long".to_owned(),
        Why::Refused => "the nodes refuse the signed bytes".to_owned(),
        Why::NonceTaken => stuck.foreign.map_or_else(
            || "its nonce was used by another transaction, which is not final yet".to_owned(),
            |hash| format!("its nonce was used by {hash}, which is not final yet"),
        ),
        Why::Gap => "waits for a lower nonce".to_owned(),
        Why::NoFunds => "the signer cannot pay for it".to_owned(),
        Why::SignerError => "its key cannot be used".to_owned(),
        Why::ReorgAfterFinal => "a block that was final has been replaced".to_owned(),
        Why::Tampered => "its stored row was changed, so it is not signed".to_owned(),
    }
}

fn unheld(nonces: &[Nonce]) -> String {
    let named: Vec<String> = nonces
        .iter()
        .take(NAMED_MAX)
        .map(|nonce| nonce.to_string())
        .collect();
    let more = nonces.len().saturating_sub(NAMED_MAX);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match nonces {
        [_] => format!("nonce {} below it is held by nobody", named.join("")),
        _ => format!(
            "nonces {}{more} below it are held by nobody",
            named.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fencepost_app::directory::{Seat, Start};
    use fencepost_app::lifecycle::accept::stored;
    use fencepost_app::ports::{Body, Loan, NewTx};
    use fencepost_domain::ids::{ChainId, Height, Lane, LaneId, LockToken, Token, TxId};
    use fencepost_domain::state::{Block, Execution};
    use fencepost_domain::{Address, B256, attempt};
    use uuid::Uuid;

    use super::*;

    fn n(nonce: u64) -> Nonce {
        Nonce::new(nonce).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A head with nonce 26, lent at second 1000 for a minute.
    fn head(state: State) -> Record {
        let loan = Loan {
            lock: LockToken(Uuid::nil()),
            ttl: Duration::from_secs(60),
            grace: Duration::ZERO,
        };
        let tx = NewTx {
            tx: TxId(Uuid::nil()),
            seal: None,
            request_id: None,
            body: Body::Reserved(loan),
            not_after: None,
            meta: None,
            created_by: None,
        };
        let seat = Seat {
            id: LaneId(1),
            lane: Lane {
                chain: ChainId::new(1).unwrap(),
                signer: Address::ZERO,
            },
            max_in_flight: None,
            signs: true,
            start: Start::default(),
        };
        stored(seat, &tx, state, Token::NONE, at(1000))
    }

    fn stuck(why: Why, foreign: Option<B256>) -> State {
        State::Stuck(Stuck {
            nonce: n(26),
            hash: None,
            why,
            foreign,
        })
    }

    fn check(state: State, gaps: &[Nonce], now: i64, expected: &str) {
        assert_eq!(why(&head(state), gaps, at(now)), expected);
    }

    #[test]
    fn what_is_missing_below_a_head_is_named() {
        check(
            stuck(Why::Gap, None),
            &[n(25), n(27)],
            0,
            "waits for a lower nonce; nonce 25 below it is held by nobody",
        );
        check(
            stuck(Why::Gap, None),
            &[n(18), n(19), n(20), n(21), n(22), n(23), n(24)],
            0,
            "waits for a lower nonce; nonces 18, 19, 20, 21, 22 and 2 more below it are held by nobody",
        );
    }

    #[test]
    fn every_head_has_a_reason() {
        let allocated = |bytes| {
            State::Allocated(Allocated {
                nonce: n(26),
                bytes,
            })
        };
        let tracking = |seen| {
            State::Tracking(Tracking {
                nonce: n(26),
                hash: B256::ZERO,
                seen,
            })
        };
        let block = Inclusion {
            block: Block {
                number: Height::new(500).unwrap(),
                hash: B256::ZERO,
            },
            hash: B256::ZERO,
            by: attempt::Kind::Original,
            execution: Execution::Success,
        };
        check(allocated(Signing::Unsigned), &[], 0, "not signed yet");
        check(
            tracking(Seen::Broadcast),
            &[],
            0,
            "in the pools, in no block yet",
        );
        check(
            tracking(Seen::Mined(block)),
            &[],
            0,
            "in block 500, not final yet",
        );
        check(
            stuck(Why::NoReceipt, None),
            &[],
            0,
            "in no block for too long",
        );
        let reserved = || State::Reserved(Reserved { nonce: n(26) });
        check(reserved(), &[], 1059, "lent out until 1970-01-01T00:17:40Z");
        check(
            reserved(),
            &[],
            1060,
            "lent out until 1970-01-01T00:17:40Z, which has passed: it is not given back yet",
        );
        let submitted = State::Submitted(Submitted {
            nonce: n(26),
            hash: B256::ZERO,
            seen: Lent::Awaited,
        });
        check(
            submitted,
            &[n(3)],
            0,
            "sent by its holder, in no block yet; nonce 3 below it is held by nobody",
        );
    }

    #[test]
    fn the_newest_error_follows_in_the_same_line() {
        let mut head = head(stuck(Why::NonceTaken, Some(B256::repeat_byte(0xab))));
        head.last_error = Some("nonce too low\nnext 27".to_owned());
        let told = why(&head, &[], at(0));
        let hash = B256::repeat_byte(0xab);
        let expected = format!(
            "its nonce was used by {hash}, which is not final yet; last error: nonce too low next 27"
        );
        assert_eq!(told, expected);
    }
}
