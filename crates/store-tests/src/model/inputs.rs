//! What might happen to a transaction in a run.

use fencepost_app::ports::{Move, Record};
use fencepost_domain::attempt::{self, Outcome};
use fencepost_domain::state::{Execution, Inclusion, Kind, Why};
use fencepost_domain::transition::Input;

use crate::bench::moved;
use crate::builders::{block, hash};

/// The first thing, from the one named on, that can happen to a record; `n` is a hash for new bytes.
pub(super) fn plan(record: &Record, n: u64, turn: usize) -> Option<Move> {
    let inputs = inputs(record, n, turn);
    let (before, after) = inputs.split_at(turn % inputs.len());
    let mut in_turn = after.iter().chain(before);
    in_turn.find_map(|input| moved(record, input.clone()))
}

/// Everything that might happen to a transaction.
fn inputs(record: &Record, n: u64, turn: usize) -> Vec<Input> {
    let by = match record.kind {
        Kind::Reserved => attempt::Kind::External,
        Kind::Managed => attempt::Kind::Original,
        Kind::Placeholder => attempt::Kind::Placeholder,
    };
    let at = Inclusion {
        block: block(100 + n % 3, n % 2),
        hash: record.state.hash().unwrap_or_default(),
        by,
        execution: Execution::ALL[turn / 17 % 2],
    };
    vec![
        Input::Sign(attempt::Kind::Original, hash(n)),
        Input::Sign(attempt::Kind::Replacement, hash(n)),
        Input::Sent(Outcome::ALL[turn / 17 % 3]),
        Input::Mined(at),
        Input::Final,
        Input::Reorged,
        Input::Mined(at),
        Input::Final,
        Input::Reject,
        Input::Stick(Why::NoReceipt),
        Input::Stick(Why::SignerError),
        Input::Clear,
        Input::Taken(Some(hash(900_000 + n))),
        Input::TakenFinal(None),
        Input::Recycle,
        Input::Expire,
        Input::Sign(attempt::Kind::Cancel, hash(n)),
    ]
}
