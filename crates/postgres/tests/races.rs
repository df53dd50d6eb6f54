//! The race proofs of the fence rules (DESIGN §4), on a real PostgreSQL. A gate stops one session in
//! the middle of its statement, others overtake it or queue up behind it, and the gate opens again.
//!
//! Each proof has a broken twin: the same scenario with an easier, wrong statement, which must show
//! the anomaly. A twin that shows none means that the gate no longer stands where the danger is.

mod races {
    mod stage;
    mod write;
    mod twin;
    mod takeover;
    mod fence;
    mod decision;
    mod audit_order;
    mod clock;
    mod waiting;
    mod feed;
    mod promotion;
    mod counts;
    mod same_request;
    mod lock_order;
    mod pause;
    mod guards;
    mod storm;
    mod whole;
    mod given_back;
    mod retiring;
}
