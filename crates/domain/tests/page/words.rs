//! What states and inputs mean, in words for an operator.

use fencepost_domain::state::{Failed, Lent, Seen, Signing, State, Wait, Why};
use fencepost_domain::transition::Input;

pub(crate) const HEAD: &str = "\
# States

Every transaction, and every nonce that is lent out, is in exactly one state, and only what is listed here moves it. Each move
is written together with one event to the transaction's history; what is refused changes nothing. This page is generated from
the rules that the program runs.

Four rules explain most of it:

- **Stored before sent, and maybe sent is sent.** Once signed bytes are stored, the nonce is this transaction's for ever: it is
  never given back, and the same bytes are sent again. Only a CANCEL or PLACEHOLDER attempt of the same transaction uses the
  nonce up instead.
- **Only a final block ends it.** A receipt alone does not, an error text does not, a missing receipt does not. A block that is
  replaced puts it back.
- **STUCK is not an end.** It is told, counted and alerted, and it still ends if the chain lets it. NONCE_TAKEN and
  REORG_AFTER_FINAL were proven by the chain, so new bytes, sends and other reasons leave them standing.
- **The feed tells** of CONFIRMED, FAILED_FINAL, STUCK and USED: once for each `confirmed`, `failed`, `stuck` or `used` event.
";

/// Stands above the table of ends.
pub(crate) const ENDS: &str = "\
Whichever of its attempts is in the block decides.

";

/// What the words behind a state's own words say.
pub(crate) const QUALIFIERS: &str = "\
The column *in* names sub-states; — is the state without one. *unsigned*: no bytes were ever stored for it. *in queue*: it
never had a nonce. *by another*: the nonce was used by something else than the named hash. *unnamed*: the holder has named no hash.
*new fork*: the event says that a block was replaced, so that readers replace what they had.
";

/// What it means to be in this state.
pub(crate) fn meaning(state: &State) -> &'static str {
    match state {
        State::Queued(queued) => match queued.wait {
            Wait::Leader => "stored, without a nonce: nobody leads the lane",
            Wait::Window => "stored, without a nonce: `max_in_flight` are in flight already",
        },
        State::Allocated(allocated) => match allocated.bytes {
            Signing::Unsigned => {
                "it has its nonce; nothing is signed, so the nonce can be given back"
            }
            Signing::Signed(_) => "signed bytes are stored, and perhaps sent",
            Signing::Refused(_) => {
                "every endpoint refused the bytes for a cause that can pass: funds, a full pool, a fee"
            }
        },
        State::Tracking(tracking) => match tracking.seen {
            Seen::Broadcast => "a node has taken it",
            Seen::Ambiguous => "it may have been sent; nobody can say",
            Seen::Mined(_) => "in a block that is not deep enough",
            Seen::Reorged => "its block was replaced; the bytes go out again",
        },
        State::Confirmed(_) => "final: executed",
        State::Failed(failed) => failure(failed),
        State::Stuck(stuck) => match stuck.why {
            Why::NoReceipt => "sent, and for too long in no block",
            Why::Refused => "nodes refuse the signed bytes",
            Why::NonceTaken => {
                "the nonce was used by a transaction that is not ours, and that is not final yet"
            }
            Why::Gap => "a lower nonce is held by nobody",
            Why::NoFunds => "the signer cannot pay",
            Why::SignerError => "the key cannot be used",
            Why::ReorgAfterFinal => "a block that was final has been replaced",
            Why::Tampered => "the stored row is not the one that was accepted, so it is not signed",
        },
        State::Reserved(_) => "a nonce lent out; its holder has named no hash",
        State::Submitted(submitted) => match submitted.seen {
            Lent::Awaited => "the holder says it has sent this hash",
            Lent::Mined(_) => "in a block that is not deep enough",
            Lent::Reorged => "its block was replaced",
        },
        State::Used(_) => "final: the lent nonce is used on chain",
        State::Recyclable(_) => "final: the lent nonce was given back",
    }
}

fn failure(failed: &Failed) -> &'static str {
    match failed {
        Failed::Reverted(..) => "final: executed with status 0",
        Failed::Cancelled(_) => "final: a cancel won, or it was cancelled in the queue",
        Failed::Placeholder(..) => "final: a placeholder won",
        Failed::Substituted(..) => "final: another payload won, which a policy had decided on",
        Failed::NonceTaken { .. } => "final: a foreign transaction with this nonce is itself final",
        Failed::Expired => "final: `notAfter` passed before a nonce was given",
        Failed::Rejected { .. } => {
            "final: refused before any attempt was stored; the nonce, if any, was given back"
        }
    }
}

/// A short name, and what happened.
pub(crate) fn happening(input: &Input) -> (&'static str, &'static str) {
    match input {
        Input::Allocate(_) => ("nonce given", "the lane's leader gave it a nonce"),
        Input::Expire => ("expired", "`notAfter` passed"),
        Input::Reject => ("rejected", "fill, estimate or signer said no for good"),
        Input::Cancel => (
            "cancelled",
            "an operator no longer wants a transaction that waits in the queue",
        ),
        Input::Sign(..) => (
            "signed",
            "bytes of this kind were signed, to be stored before they are sent",
        ),
        Input::Sent(_) => ("sent", "a send came to this"),
        Input::Mined(_) => ("mined", "an attempt of this kind was seen in a block"),
        Input::Reorged => (
            "block replaced",
            "the block it was in is no longer on the chain",
        ),
        Input::Covered(_) => (
            "blocks on top",
            "readers of its events lack the newest blocks on top of the one it is in, or have some that were replaced, \
             and confirmations are published",
        ),
        Input::Final => (
            "block final",
            "the block it is in is deep enough, and the endpoints agree",
        ),
        Input::Taken(_) => (
            "nonce taken",
            "another transaction with this nonce was seen, twice, at depth",
        ),
        Input::TakenFinal(_) => ("taker final", "that other transaction is final"),
        Input::Stick(_) => ("held up", "it cannot move, for this reason"),
        Input::Clear => ("cleared", "what held it up has passed"),
        Input::Submit(_) => (
            "hash named",
            "the holder of a reservation says what it has sent",
        ),
        Input::Recycle => (
            "given back",
            "a reservation is given back: by its holder, by expiry, by an operator",
        ),
    }
}

/// A word of a sample input, as an operator reads it.
pub(crate) fn detail(word: &str) -> &str {
    match word {
        "new" => "new bytes",
        "again" => "the newest bytes again",
        "here" => "in the same block",
        "elsewhere" => "in another block",
        "reverted" => "in the same block with another status",
        "unknown" => "by a hash that nobody could tell",
        "foreign" => "by a foreign hash",
        "own" => "by its own newest hash",
        "more" => "they lack some",
        "anew" => "some were replaced",
        "nothing" => "they lack none",
        "beside" => "they are not on top of its block",
        "same" => "the same as before",
        "other" => "another than before",
        word => word,
    }
}
