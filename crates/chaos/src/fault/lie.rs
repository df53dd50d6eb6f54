//! What an endpoint of the dev chain can say that is not so.

use std::time::Duration;

use fencepost_devchain::{Fault, FaultKind, Rejection, When};

use crate::dice::Dice;

const SEND: &str = "eth_sendRawTransaction";

/// Which endpoint lies, and how.
#[derive(Debug)]
pub(crate) struct Lie {
    pub(crate) name: &'static str,
    pub(crate) endpoint: usize,
    pub(crate) faults: Vec<Fault>,
}

/// Refusals that an endpoint may utter although it has taken the bytes, or for no reason.
const REFUSALS: [Rejection; 5] = [
    Rejection::NonceTooLow,
    Rejection::PoolFull,
    Rejection::Underpriced,
    Rejection::RateLimited,
    Rejection::ReplacementUnderpriced,
];

fn error(when: When) -> FaultKind {
    FaultKind::Error {
        code: -32_000,
        message: "internal error".to_owned(),
        when,
    }
}

/// One of them. Counts and chain ids are lied about by the second endpoint only: were it the only one, there
/// would be nobody to contradict it.
pub(crate) fn choose(dice: &mut Dice) -> Lie {
    let any = dice.index(crate::world::dev::ENDPOINTS);
    let every = 1 + dice.below(3);
    let (name, endpoint, fault) = match dice.below(14) {
        roll @ 0..7 => {
            let (name, fault) = about_sending(roll, dice);
            (name, any, fault)
        }
        7 => {
            let receipts = Fault::new(FaultKind::Null).on("eth_getTransactionReceipt");
            ("has no receipts", any, receipts.on("eth_getBlockReceipts"))
        }
        8 => ("is behind", any, Fault::new(FaultKind::Stale(2 + every))),
        9 => {
            let delay = Duration::from_millis(700 * every);
            ("is slow", any, Fault::late(delay))
        }
        10 => {
            let kind = FaultKind::Http {
                status: 429,
                body: "slow down".to_owned(),
                when: When::Before,
            };
            ("has had enough", any, Fault::new(kind))
        }
        11 => (
            "takes no batches",
            any,
            Fault::new(FaultKind::RefuseBatches),
        ),
        12 => {
            let count = if dice.chance(50) { 0 } else { 1_000_000 };
            ("counts wrong", 1, Fault::new(FaultKind::Count(count)))
        }
        _last => ("is on another chain", 1, Fault::new(FaultKind::ChainId(1))),
    };
    Lie {
        name,
        endpoint,
        faults: vec![fault.every(every)],
    }
}

/// Whether bytes were taken is what they lie about.
fn about_sending(roll: u64, dice: &mut Dice) -> (&'static str, Fault) {
    let refusal = *dice.pick(&REFUSALS).expect("there are some");
    let refuse = |when| FaultKind::Refuse {
        kind: refusal,
        when,
    };
    let (name, kind) = match roll {
        0 => ("hangs after taking", FaultKind::Hang(When::After)),
        1 => ("cuts after taking", FaultKind::Disconnect(When::After)),
        2 => ("errs after taking", error(When::After)),
        3 => ("errs", error(When::Before)),
        4 => ("refuses what it takes", refuse(When::After)),
        5 => ("refuses", refuse(When::Before)),
        _last => ("forgets what it takes", FaultKind::Forget),
    };
    (name, Fault::new(kind).on(SEND))
}
