//! Fail points: with `FENCEPOST_TRAP=after_send:2` the process dies the second time that it has sent
//! something, as if it were killed there. They stand around the ports, between two effects each, and are
//! absent from release builds.

mod ports;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fencepost_app::ports::{Chain, Signer, Store};

use crate::failure::Failure;
use ports::Trapped;

const VARIABLE: &str = "FENCEPOST_TRAP";

/// Something whose effect outlives the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nonces are given.
    Allocate,
    /// Bytes are signed.
    Sign,
    /// Signed bytes are stored.
    Store,
    /// Stored bytes are sent.
    Send,
    /// What came of sending is stored.
    Outcome,
    /// What a policy has said is stored.
    Decide,
    /// A receipt is stored.
    Receipt,
    /// An ending is stored and told.
    Final,
}

const EFFECTS: [(Effect, &str); 8] = [
    (Effect::Allocate, "allocate"),
    (Effect::Sign, "sign"),
    (Effect::Store, "store"),
    (Effect::Send, "send"),
    (Effect::Outcome, "outcome"),
    (Effect::Decide, "decide"),
    (Effect::Receipt, "receipt"),
    (Effect::Final, "final"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// A place where the process dies, and when.
#[derive(Debug)]
struct Trap {
    side: Side,
    effect: Effect,
    /// How often the place is still passed unharmed, and once more.
    left: AtomicU64,
    text: String,
}

impl Trap {
    /// Reads `before_store:1`.
    fn parse(text: &str) -> Option<Self> {
        let (point, k) = text.split_once(':')?;
        let (side, word) = match point.split_once('_')? {
            ("before", word) => (Side::Before, word),
            ("after", word) => (Side::After, word),
            (_, _) => return None,
        };
        let (effect, _) = EFFECTS.into_iter().find(|(_, known)| *known == word)?;
        let left: NonZeroU64 = k.parse().ok()?;
        Some(Self {
            side,
            effect,
            left: AtomicU64::new(left.get()),
            text: text.to_owned(),
        })
    }

    /// The process gets to this place. It ends here like one that is killed: nothing is given up,
    /// finished or said goodbye to.
    fn reach(&self, side: Side, effect: Effect) {
        if (side, effect) != (self.side, self.effect) {
            return;
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            eprintln!("{VARIABLE}: {}", self.text);
            std::process::abort();
        }
    }
}

type Ports = (
    Arc<dyn Store>,
    Option<Arc<dyn Chain>>,
    Option<Arc<dyn Signer>>,
);

/// Puts the trap that the environment asks for around the ports.
pub(crate) fn set(
    store: Arc<dyn Store>,
    chain: Option<Arc<dyn Chain>>,
    signer: Option<Arc<dyn Signer>>,
) -> Result<Ports, Failure> {
    let Some(text) = std::env::var_os(VARIABLE) else {
        return Ok((store, chain, signer));
    };
    let trap = text.to_str().and_then(Trap::parse);
    let trap = Arc::new(trap.ok_or_else(|| {
        let effects = EFFECTS.map(|(_, word)| word).join(", ");
        let how = "is no point to die at: before_ or after_ one of";
        Failure::Usage(format!(
            "{VARIABLE} {how} {effects}, and :1 for the first time"
        ))
    })?);
    let around = || Arc::clone(&trap);
    Ok((
        Arc::new(Trapped(store, around())),
        chain.map(|chain| Arc::new(Trapped(chain, around())) as Arc<dyn Chain>),
        signer.map(|signer| Arc::new(Trapped(signer, around())) as Arc<dyn Signer>),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trap_is_read_whole_or_not_at_all() {
        let trap = Trap::parse("before_receipt:12").unwrap();
        assert_eq!((trap.side, trap.effect), (Side::Before, Effect::Receipt));
        assert_eq!(trap.left.into_inner(), 12);
        let wrong = [
            "",
            "send",
            "send:1",
            "after_send",
            "after_send:0",
            "after_send:-1",
            "after_send:x",
            "amid_send:1",
            "after_lunch:1",
            "after_send:1:2",
        ];
        for text in wrong {
            assert!(Trap::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn other_places_are_passed_unharmed_and_this_one_until_its_time() {
        let trap = Trap::parse("after_send:3").unwrap();
        for _ in 0..2 {
            for (effect, _) in EFFECTS {
                trap.reach(Side::Before, effect);
                trap.reach(Side::After, effect);
            }
        }
        assert_eq!(trap.left.into_inner(), 1);
    }
}
