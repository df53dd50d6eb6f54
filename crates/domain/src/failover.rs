//! Whether a lane goes on by itself after the database was failed over to another server, which may lack
//! the newest commits. The last leader of a lane is its witness: it remembers what was acknowledged to it.

use std::fmt;

use crate::ids::{LaneSeq, Nonce, Token};

/// What a node last heard acknowledged about a lane while it led it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness {
    /// The node's own token.
    pub token: Token,
    /// The cursor.
    pub next_nonce: Nonce,
    /// How many events the lane had.
    pub lane_seq: LaneSeq,
}

/// A lane's row as the new server had it, before its token leapt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The newest token.
    pub token: Token,
    /// The cursor.
    pub next_nonce: Nonce,
    /// How many events the lane had.
    pub lane_seq: LaneSeq,
    /// An earlier failover had stopped the lane, and nobody has reconciled it since.
    pub held: bool,
}

/// What one server acknowledged to a node about a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    /// Where the node led the lane.
    pub witness: Option<Witness>,
    /// The newest event that it heard of without leading the lane.
    pub seen: LaneSeq,
    /// The node's lease when it met the next server.
    pub lease: Lease,
    /// The new server took the place of just this one. If not, another server came between, or the new one knows nothing of
    /// this one: numbers of both may be equal and mean different things.
    pub comparable: bool,
}

/// A witness's lease when it met the new server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// It had not run out: until then no other node could take the lane.
    Alive,
    /// It had: another node may have taken the lane, in a commit that is lost.
    RunOut,
}

/// Which of the other nodes that lived at the failover have said what they miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// All have.
    Reported,
    /// One of them has not.
    Silent {
        /// A lease has passed since the failover was noted.
        overdue: bool,
    },
    /// One of them knows that more is missing than it remembers.
    Forgot,
}

/// What a node knows to be missing from a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// The lane was taken under a token that the new server does not know.
    Token {
        /// What the node has.
        acknowledged: Token,
        /// What the server had.
        found: Token,
    },
    /// Nonces were given out that the new server would give again.
    Nonces {
        /// The cursor that was acknowledged.
        acknowledged: Nonce,
        /// The cursor of the server.
        found: Nonce,
    },
    /// Transactions have moved in ways that the new server does not know.
    Events {
        /// How many events were acknowledged.
        acknowledged: LaneSeq,
        /// How many the server had.
        found: LaneSeq,
    },
    /// The lane moved on a server with which the new one cannot be compared: it may know nothing of that server.
    Server,
    /// What the node acknowledged without leading the lane is not there.
    Acknowledged {
        /// How many.
        count: usize,
        /// The first of them.
        first: String,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token {
                acknowledged,
                found,
            } => write!(
                f,
                "token {acknowledged} was acknowledged, the server has {found}"
            ),
            Self::Nonces {
                acknowledged,
                found,
            } => write!(
                f,
                "next nonce {acknowledged} was acknowledged, the server has {found}"
            ),
            Self::Events {
                acknowledged,
                found,
            } => write!(
                f,
                "event {acknowledged} was acknowledged, the server has {found}"
            ),
            Self::Server => f.write_str(
                "it was written on another promoted server, whose commits this one need not have",
            ),
            Self::Acknowledged { count, first } => {
                write!(f, "{count} acknowledged writes are missing, first {first}")
            }
        }
    }
}

/// What becomes of a lane by one node's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing that was acknowledged to its last leader is missing. It goes on when [`goes_on`] says so.
    Whole(Witness, Lease),
    /// It stays as it is: this node has nothing to say about it.
    NotOurs,
    /// An earlier failover had stopped it.
    HeldBefore,
    /// Something is missing: the lane stays held until it is reconciled.
    Lost(Loss),
}

/// What a node's word about a lane is. `known` is what servers acknowledged to it, oldest first, `missing` what else it
/// acknowledged there and does not find.
#[must_use]
pub fn decide(known: &[Acknowledged], missing: Option<Loss>, found: Found) -> Verdict {
    let lost = || known.iter().find_map(|each| each.loss(found));
    if let Some(loss) = missing.or_else(lost) {
        return Verdict::Lost(loss);
    }
    let last = |each: &Acknowledged| each.witness.map(|witness| (witness, each.lease));
    let Some((witness, lease)) = known.iter().rev().find_map(last) else {
        return Verdict::NotOurs;
    };
    if found.held {
        return Verdict::HeldBefore;
    }
    // Another node has led it since, and is the one to ask.
    if found.token > witness.token {
        return Verdict::NotOurs;
    }
    Verdict::Whole(witness, lease)
}

/// Whether a lane goes on now that is whole by its last leader's word. Any other node may have acknowledged something in
/// the lane without leading it, so all are waited for: for one lease if no other node can have led the lane, and without
/// end otherwise.
#[must_use]
pub const fn goes_on(lease: Lease, others: Others) -> bool {
    match (lease, others) {
        (Lease::Alive | Lease::RunOut, Others::Reported)
        | (Lease::Alive, Others::Silent { overdue: true }) => true,
        (Lease::Alive, Others::Silent { overdue: false } | Others::Forgot)
        | (Lease::RunOut, Others::Silent { .. } | Others::Forgot) => false,
    }
}

impl Acknowledged {
    fn loss(&self, found: Found) -> Option<Loss> {
        let is_any = self.witness.is_some() || self.seen > LaneSeq::default();
        if !self.comparable {
            // A lane that an earlier failover stopped has not gone on since, whatever was lost of it.
            return (is_any && !found.held).then_some(Loss::Server);
        }
        if let Some(loss) = self.witness.and_then(|witness| loss(witness, found)) {
            return Some(loss);
        }
        (found.lane_seq < self.seen).then_some(Loss::Events {
            acknowledged: self.seen,
            found: found.lane_seq,
        })
    }
}

/// What the last leader misses. A token above its own means that another node has led since: then the lane's cursor and
/// events can only be further on, unless an operator has lowered the cursor.
fn loss(witness: Witness, found: Found) -> Option<Loss> {
    if found.token < witness.token {
        return Some(Loss::Token {
            acknowledged: witness.token,
            found: found.token,
        });
    }
    if found.token > witness.token {
        return None;
    }
    if found.next_nonce < witness.next_nonce {
        return Some(Loss::Nonces {
            acknowledged: witness.next_nonce,
            found: found.next_nonce,
        });
    }
    (found.lane_seq < witness.lane_seq).then_some(Loss::Events {
        acknowledged: witness.lane_seq,
        found: found.lane_seq,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(n: u64) -> Token {
        Token::new(n).expect("small")
    }

    fn nonce(n: u64) -> Nonce {
        Nonce::new(n).expect("small")
    }

    fn seq(n: u64) -> LaneSeq {
        LaneSeq::new(n).expect("small")
    }

    /// Token 5, cursor 10, 40 events.
    fn found() -> Found {
        Found {
            token: token(5),
            next_nonce: nonce(10),
            lane_seq: seq(40),
            held: false,
        }
    }

    fn witness(of: u64, next_nonce: u64, lane_seq: u64) -> Option<Witness> {
        Some(Witness {
            token: token(of),
            next_nonce: nonce(next_nonce),
            lane_seq: seq(lane_seq),
        })
    }

    fn known(witness: Option<Witness>, seen: u64) -> Acknowledged {
        Acknowledged {
            witness,
            seen: seq(seen),
            lease: Lease::Alive,
            comparable: true,
        }
    }

    fn check(witness: Option<Witness>, seen: u64, expected: &Verdict) {
        let verdict = decide(&[known(witness, seen)], None, found());
        assert_eq!(verdict, *expected, "{witness:?} {seen}");
    }

    fn whole(witness: Option<Witness>) -> Verdict {
        Verdict::Whole(witness.unwrap(), Lease::Alive)
    }

    #[test]
    fn a_lane_goes_on_only_by_the_word_of_its_last_leader() {
        check(witness(5, 10, 40), 0, &whole(witness(5, 10, 40)));
        // What was written after the last acknowledgement was promised to nobody.
        check(witness(5, 8, 31), 0, &whole(witness(5, 8, 31)));
        check(None, 0, &Verdict::NotOurs);
        check(witness(4, 10, 40), 0, &Verdict::NotOurs);
        assert_eq!(decide(&[], None, found()), Verdict::NotOurs);
    }

    #[test]
    fn a_whole_lane_waits_for_nodes_that_may_have_acknowledged_something() {
        let soon = Others::Silent { overdue: false };
        let late = Others::Silent { overdue: true };
        for (lease, others, expected) in [
            (Lease::Alive, Others::Reported, true),
            (Lease::Alive, soon, false),
            (Lease::Alive, late, true),
            (Lease::Alive, Others::Forgot, false),
            (Lease::RunOut, Others::Reported, true),
            (Lease::RunOut, soon, false),
            (Lease::RunOut, late, false),
            (Lease::RunOut, Others::Forgot, false),
        ] {
            assert_eq!(goes_on(lease, others), expected, "{lease:?} {others:?}");
        }
    }

    #[test]
    fn whatever_is_known_to_be_missing_holds_the_lane() {
        let events = |acknowledged| {
            Verdict::Lost(Loss::Events {
                acknowledged: seq(acknowledged),
                found: seq(40),
            })
        };
        check(witness(5, 10, 41), 0, &events(41));
        check(witness(5, 10, 40), 41, &events(41));
        check(None, 41, &events(41));
        check(witness(4, 10, 40), 41, &events(41));
        let nonces = Verdict::Lost(Loss::Nonces {
            acknowledged: nonce(11),
            found: nonce(10),
        });
        check(witness(5, 11, 40), 0, &nonces);
        let taken = Verdict::Lost(Loss::Token {
            acknowledged: token(6),
            found: token(5),
        });
        check(witness(6, 10, 40), 0, &taken);
        // The new token is missing, so what its leader did under it says nothing.
        check(witness(6, 0, 0), 0, &taken);
        let request = Loss::Acknowledged {
            count: 1,
            first: "a request".to_owned(),
        };
        for witness in [witness(5, 10, 40), None] {
            let verdict = decide(&[known(witness, 0)], Some(request.clone()), found());
            assert_eq!(verdict, Verdict::Lost(request.clone()));
        }
    }

    #[test]
    fn what_an_earlier_failover_holds_no_witness_frees() {
        let held = Found {
            held: true,
            ..found()
        };
        let of = |witness| decide(&[known(witness, 0)], None, held);
        assert_eq!(of(witness(5, 10, 40)), Verdict::HeldBefore);
        assert!(matches!(of(witness(5, 10, 41)), Verdict::Lost(_)));
    }

    /// Two standbys of one primary were promoted, the second without the first one's commits.
    #[test]
    fn what_another_server_acknowledged_is_missing_whatever_its_numbers_are() {
        let apart = |witness, seen| Acknowledged {
            comparable: false,
            ..known(witness, seen)
        };
        let before = known(witness(5, 10, 40), 0);
        for other in [apart(witness(4, 1, 1), 0), apart(None, 1)] {
            let verdict = decide(&[before, other], None, found());
            assert_eq!(verdict, Verdict::Lost(Loss::Server));
        }
        // The other server acknowledged nothing about this lane.
        let verdict = decide(&[before, apart(None, 0)], None, found());
        assert_eq!(verdict, whole(witness(5, 10, 40)));
        // Nobody has let it go on since.
        let held = Found {
            held: true,
            ..found()
        };
        let verdict = decide(&[apart(witness(9, 9, 9), 0)], None, held);
        assert_eq!(verdict, Verdict::HeldBefore);
    }
}
