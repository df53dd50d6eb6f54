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
    let endpoint = dice.index(crate::world::dev::ENDPOINTS);
    let refusal = *dice.pick(&REFUSALS).expect("there are some");
    let every = 1 + dice.below(3);
    let lie = |name, endpoint, fault: Fault| Lie {
        name,
        endpoint,
        faults: vec![fault.every(every)],
    };
    let send = |kind| Fault::new(kind).on(SEND);
    match dice.below(14) {
        0 => lie(
            "hangs after taking",
            endpoint,
            send(FaultKind::Hang(When::After)),
        ),
        1 => lie(
            "cuts after taking",
            endpoint,
            send(FaultKind::Disconnect(When::After)),
        ),
        2 => lie("errs after taking", endpoint, send(error(When::After))),
        3 => lie("errs", endpoint, Fault::new(error(When::Before))),
        4 => {
            let kind = FaultKind::Refuse {
                kind: refusal,
                when: When::After,
            };
            lie("refuses what it takes", endpoint, send(kind))
        }
        5 => {
            let kind = FaultKind::Refuse {
                kind: refusal,
                when: When::Before,
            };
            lie("refuses", endpoint, send(kind))
        }
        6 => lie("forgets what it takes", endpoint, send(FaultKind::Forget)),
        7 => {
            let receipts = Fault::new(FaultKind::Null).on("eth_getTransactionReceipt");
            lie(
                "has no receipts",
                endpoint,
                receipts.on("eth_getBlockReceipts"),
            )
        }
        8 => lie(
            "is behind",
            endpoint,
            Fault::new(FaultKind::Stale(2 + every)),
        ),
        9 => lie(
            "is slow",
            endpoint,
            Fault::late(Duration::from_millis(700 * every)),
        ),
        10 => {
            let (status, body) = (429, "slow down".to_owned());
            let kind = FaultKind::Http {
                status,
                body,
                when: When::Before,
            };
            lie("has had enough", endpoint, Fault::new(kind))
        }
        11 => lie(
            "takes no batches",
            endpoint,
            Fault::new(FaultKind::RefuseBatches),
        ),
        12 => {
            let count = if dice.chance(50) { 0 } else { 1_000_000 };
            lie("counts wrong", 1, Fault::new(FaultKind::Count(count)))
        }
        _last => lie("is on another chain", 1, Fault::new(FaultKind::ChainId(1))),
    }
}
