//! What no store may be asked for. Every adapter checks its input here before it does anything, so
//! that the same call is impossible everywhere and a statement is bounded before it is sent.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use fencepost_domain::gas::TX_BYTES_MAX;
use fencepost_domain::ids::{Lane, LaneId, TxId};

use super::{
    Action, Audit, Bid, Body, CursorMove, Decided, Held, IMPORT_MAX, Import, LaneBatch, LaneMoves,
    LanePromotion, Move, NewRemedy, NewTx, OpenBody, OpenTx, PauseChange, PauseReason,
    READ_LIMIT_MAX, Reach, Retire, Settle, SettleAct, StoreError, WRITE_LIMIT_MAX,
};

/// A longer URL is a mistake, and it is stored in every lane that a node leads.
pub const URL_BYTES_MAX: usize = 500;
/// A receipt with more logs than this is no receipt that a block can hold.
pub const RECEIPT_BYTES_MAX: usize = 1024 * 1024;
/// Who and why, in a person's words, whatever letters those are written in.
pub const AUDIT_CHARS_MAX: usize = 1_000;
/// The name of an API key, in the keys file and in rows.
pub const KEY_NAME_BYTES_MAX: usize = 100;
/// The caller's own audit fields.
pub const DETAILS_BYTES_MAX: usize = 16 * 1024;
/// Longer errors are cut: they are for reading, and nodes can answer with megabytes.
pub const ERROR_BYTES_MAX: usize = 1_000;
/// Ten years. More is a mistake in units, and added to a clock it could leave the calendar.
pub const WAIT_MAX: Duration = Duration::from_hours(10 * 365 * 24);

type Checked = Result<(), StoreError>;

fn refuse(why: impl Into<String>) -> Checked {
    Err(StoreError::Invalid(why.into()))
}

/// How many a read may return.
pub fn limit(limit: usize) -> Checked {
    if limit == 0 || limit > READ_LIMIT_MAX {
        return refuse(format!("a limit of {limit}; it is 1 to {READ_LIMIT_MAX}"));
    }
    Ok(())
}

/// A batch of what is retired.
pub fn retire(retire: &Retire) -> Checked {
    limit(retire.limit)?;
    items(retire.beneath.len())?;
    distinct(retire.beneath.iter().map(|(chain, _)| *chain), "chain")?;
    wait(retire.older_than)
}

/// How many may be asked for by id.
pub fn ids(ids: &[TxId]) -> Checked {
    if ids.len() > READ_LIMIT_MAX {
        let n = ids.len();
        return refuse(format!("{n} ids in one read; {READ_LIMIT_MAX} at most"));
    }
    Ok(())
}

/// A node's URL.
pub fn url(url: &str) -> Checked {
    text(url, URL_BYTES_MAX, "url")
}

/// The chains of a heartbeat.
pub fn chains(chains: &[Reach]) -> Checked {
    items(chains.len())
}

/// Lanes to open; the same one twice is the same lane.
pub fn lanes(lanes: &[Lane]) -> Checked {
    items(lanes.len())
}

/// Bids for lanes.
pub fn bids(at: &str, bids: &[Bid]) -> Checked {
    url(at)?;
    items(bids.len())?;
    distinct(bids.iter().map(|bid| bid.lane), "lane")
}

/// Led lanes.
pub fn held(held: &[Held]) -> Checked {
    items(held.len())?;
    distinct(held.iter().map(|held| held.lane), "lane")
}

/// A change of a lane's pause. A hold after a failover is the store's own finding.
pub fn pause(change: PauseChange, by: &Audit) -> Checked {
    audit(by)?;
    match change {
        PauseChange::Pause(PauseReason::Failover) => refuse("a pause for FAILOVER"),
        PauseChange::Pause(
            PauseReason::Operator | PauseReason::CursorJump | PauseReason::NonceClash,
        )
        | PauseChange::Resume
        | PauseChange::Reconcile { .. } => Ok(()),
    }
}

/// A move of a lane's cursor.
pub fn cursor(lane: LaneId, to: &CursorMove, by: &Audit) -> Checked {
    audit(by)?;
    match to {
        CursorMove::Raise { held, .. } | CursorMove::Forget { held, .. } if held.lane != lane => {
            refuse("a cursor raised under another lane's token")
        }
        CursorMove::Raise { .. } | CursorMove::Forget { .. } | CursorMove::Set { .. } => Ok(()),
    }
}

/// What a lane takes over from another service. Which items clash with what is stored, the store finds out.
pub fn import(import: &Import, by: &Audit) -> Checked {
    audit(by)?;
    at_most(import.open.len(), IMPORT_MAX, "open nonces in one import")?;
    distinct(import.open.iter().map(|open| open.tx), "transaction")?;
    distinct(import.open.iter().map(|open| open.nonce), "nonce")?;
    let names = import
        .open
        .iter()
        .filter_map(|open| open.request_id.as_ref());
    distinct(names, "request id")?;
    distinct(import.open.iter().filter_map(OpenTx::hash), "hash")?;
    for open in &import.open {
        if open.nonce >= import.next_nonce {
            return refuse(format!("nonce {}, not below the cursor", open.nonce));
        }
        match &open.body {
            OpenBody::Reserved(loan) | OpenBody::Submitted(loan, _) => {
                wait(loan.ttl)?;
                wait(loan.grace)?;
            }
            OpenBody::Tracking(..) => {}
        }
    }
    Ok(())
}

/// New transactions with nonces.
pub fn create(batches: &[LaneBatch]) -> Checked {
    items(batches.iter().map(|batch| batch.txs.len()).sum())?;
    items(batches.iter().map(|batch| batch.free.len()).sum())?;
    items(batches.len())?;
    distinct(batches.iter().map(|batch| batch.held.lane), "lane")?;
    for batch in batches {
        for tx in &batch.txs {
            creator(tx)?;
            match tx.body {
                Body::Managed(_) => {}
                Body::Reserved(loan) => {
                    wait(loan.ttl)?;
                    wait(loan.grace)?;
                }
                Body::Placeholder(nonce) if nonce >= batch.cursor => {
                    refuse(format!("a placeholder for nonce {nonce}, never given"))?;
                }
                Body::Placeholder(_) => {}
            }
        }
    }
    Ok(())
}

/// New transactions without nonces. Only what we sign ourselves can wait for one.
pub fn enqueue(txs: &[(LaneId, NewTx)]) -> Checked {
    items(txs.len())?;
    for (_, tx) in txs {
        creator(tx)?;
        match tx.body {
            Body::Managed(_) => {}
            Body::Reserved(_) | Body::Placeholder(_) => {
                refuse("only a managed transaction can wait in the queue")?;
            }
        }
    }
    Ok(())
}

/// The name of the API key that asked.
fn creator(tx: &NewTx) -> Checked {
    let name = tx.created_by.as_deref().unwrap_or_default();
    text(name, KEY_NAME_BYTES_MAX, "the key's name")
}

/// Queued transactions that get nonces.
pub fn promote(promotions: &[LanePromotion]) -> Checked {
    items(promotions.iter().map(|lane| lane.txs.len()).sum())?;
    items(promotions.iter().map(|lane| lane.free.len()).sum())?;
    items(promotions.len())?;
    distinct(promotions.iter().map(|lane| lane.held.lane), "lane")
}

/// Moves that the feed does not tell.
pub fn apply(batches: &[LaneMoves]) -> Checked {
    moves(batches)?;
    if each(batches).any(|step| step.event.kind.is_told()) {
        return refuse("a move that the feed tells must complete");
    }
    Ok(())
}

/// Moves that the feed tells.
pub fn complete(batches: &[LaneMoves]) -> Checked {
    moves(batches)?;
    if each(batches).any(|step| !step.event.kind.is_told()) {
        return refuse("a move that the feed does not tell cannot complete");
    }
    Ok(())
}

fn each(batches: &[LaneMoves]) -> impl Iterator<Item = &Move> {
    batches.iter().flat_map(|batch| &batch.moves)
}

fn moves(batches: &[LaneMoves]) -> Checked {
    items(each(batches).count())?;
    items(batches.len())?;
    distinct(batches.iter().map(|batch| batch.held.lane), "lane")?;
    distinct(each(batches).map(|step| step.tx), "transaction")?;
    for step in each(batches) {
        let receipt = step.receipt.as_deref().unwrap_or_default();
        text(receipt, RECEIPT_BYTES_MAX, "receipt")?;
        step.due_in.map_or(Ok(()), wait)?;
    }
    Ok(())
}

/// A claim of due work.
pub fn claim_due(lanes: &[Held], next_in_ms: u64, most: usize) -> Checked {
    held(lanes)?;
    limit(most)?;
    wait(Duration::from_millis(next_in_ms))
}

/// A claim of remedies.
pub fn claim_remedies(lanes: &[Held], most: usize) -> Checked {
    held(lanes)?;
    limit(most)
}

/// A remedy that is asked for. Rounds are counted from one, in a 32-bit column.
pub fn remedy(remedy: &NewRemedy) -> Checked {
    let round = remedy.round;
    if round == 0 || i32::try_from(round).is_err() {
        return refuse(format!("a round {round}"));
    }
    audit(&remedy.audit)
}

/// A refused call.
pub fn refusal(by: &Audit, answer: &str) -> Checked {
    audit(by)?;
    person(answer, "the answer")
}

/// What a policy has decided. A question is no answer: the round would never come to its end.
pub fn decided(decided: &Decided) -> Checked {
    let bytes = decided.raw.as_ref().map(|raw| raw.len());
    if bytes.is_some_and(|bytes| bytes == 0 || bytes > TX_BYTES_MAX) {
        return refuse("bytes that are no transaction");
    }
    match decided.action {
        Some(Action::Decide) => refuse("a decision to decide"),
        Some(Action::Resubmit | Action::Fill) | None if bytes.is_some() => {
            refuse("bytes for an action that stores none")
        }
        Some(
            Action::Resubmit
            | Action::Replace
            | Action::Cancel
            | Action::Placeholder
            | Action::Fill,
        )
        | None => audit(&decided.audit),
    }
}

/// What the holder of a reservation says.
pub fn settle(call: &Settle) -> Checked {
    match call.act {
        SettleAct::Extend(by) => wait(by),
        SettleAct::Submitted { due_in, .. } => wait(due_in),
        SettleAct::Recycle => Ok(()),
    }
}

/// An error's text as it is stored: [`clean`], and cut at a character's edge. A replaced character
/// grows by two bytes, so it is cut last.
#[must_use]
pub fn cut(text: &str) -> Cow<'_, str> {
    let edge = |text: &str| {
        let mut end = text.len().min(ERROR_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        end
    };
    match clean(text) {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..edge(text)]),
        Cow::Owned(mut text) => {
            text.truncate(edge(&text));
            Cow::Owned(text)
        }
    }
}

/// What others told us, as it is stored. A node's words must never stop a move, so the one
/// character that no text column holds is replaced instead of refused.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

fn audit(audit: &Audit) -> Checked {
    person(&audit.by, "audit.by")?;
    person(&audit.reason, "audit.reason")?;
    let details = audit.details.as_deref().unwrap_or_default();
    text(details, DETAILS_BYTES_MAX, "audit.details")
}

/// What a person has written.
fn person(words: &str, what: &str) -> Checked {
    let chars = words.chars().count();
    at_most(chars, AUDIT_CHARS_MAX, &format!("characters of {what}"))?;
    storable(words, what)
}

/// A text that must be stored as it is.
fn text(text: &str, bytes_max: usize, what: &str) -> Checked {
    at_most(text.len(), bytes_max, &format!("bytes of {what}"))?;
    storable(text, what)
}

/// No text column holds a NUL, and no JSON has one either.
fn storable(text: &str, what: &str) -> Checked {
    if text.contains('\0') {
        return refuse(format!("a NUL character in {what}"));
    }
    Ok(())
}

fn wait(time: Duration) -> Checked {
    if time > WAIT_MAX {
        return refuse(format!("a wait of {} s, above ten years", time.as_secs()));
    }
    Ok(())
}

fn items(n: usize) -> Checked {
    at_most(n, WRITE_LIMIT_MAX, "items in one write")
}

fn at_most(n: usize, max: usize, what: &str) -> Checked {
    if n > max {
        return refuse(format!("{n} {what}; {max} at most"));
    }
    Ok(())
}

fn distinct<T: Eq + Hash>(items: impl Iterator<Item = T>, what: &str) -> Checked {
    let mut seen = HashSet::new();
    for item in items {
        if !seen.insert(item) {
            return refuse(format!("one {what} twice in one call"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fencepost_domain::ids::{Nonce, Token};
    use uuid::Uuid;

    use super::super::{Loan, RemedyId};
    use super::*;

    fn is_invalid(checked: Checked) -> bool {
        matches!(checked, Err(StoreError::Invalid(_)))
    }

    fn lane(n: i64) -> Held {
        Held {
            lane: LaneId(n),
            token: Token::default(),
        }
    }

    fn batch(n: i64, bodies: Vec<Body>) -> LaneBatch {
        let tx = |body| NewTx {
            tx: TxId(Uuid::nil()),
            seal: None,
            request_id: None,
            body,
            not_after: None,
            meta: None,
            created_by: None,
        };
        LaneBatch {
            held: lane(n),
            cursor: Nonce::new(5).unwrap(),
            free: Vec::new(),
            txs: bodies.into_iter().map(tx).collect(),
        }
    }

    #[test]
    fn reads_are_bounded_and_never_for_nothing() {
        assert!(is_invalid(limit(0)));
        assert!(limit(1).is_ok() && limit(READ_LIMIT_MAX).is_ok());
        assert!(is_invalid(limit(READ_LIMIT_MAX + 1)));
        let some = |n| vec![TxId(Uuid::nil()); n];
        assert!(ids(&some(READ_LIMIT_MAX)).is_ok());
        assert!(is_invalid(ids(&some(READ_LIMIT_MAX + 1))));
    }

    #[test]
    fn a_write_is_bounded_over_all_its_lanes_and_names_each_once() {
        let fill = |n| vec![Body::Placeholder(Nonce::ZERO); n];
        let half = WRITE_LIMIT_MAX / 2;
        assert!(create(&[batch(1, fill(half)), batch(2, fill(half))]).is_ok());
        let over = [batch(1, fill(half)), batch(2, fill(half + 1))];
        assert!(is_invalid(create(&over)));
        assert!(is_invalid(create(&[batch(1, fill(1)), batch(1, fill(1))])));
        assert!(is_invalid(held(&[lane(1), lane(1)])));
    }

    #[test]
    fn placeholders_stay_below_the_cursor_and_loans_within_ten_years() {
        let placeholder = |n| vec![Body::Placeholder(Nonce::new(n).unwrap())];
        assert!(create(&[batch(1, placeholder(4))]).is_ok());
        assert!(is_invalid(create(&[batch(1, placeholder(5))])));
        let loan = |ttl| {
            let lock = fencepost_domain::ids::LockToken(Uuid::nil());
            let grace = Duration::ZERO;
            vec![Body::Reserved(Loan { lock, ttl, grace })]
        };
        assert!(create(&[batch(1, loan(WAIT_MAX))]).is_ok());
        let longer = WAIT_MAX + Duration::from_nanos(1);
        assert!(is_invalid(create(&[batch(1, loan(longer))])));
        assert!(is_invalid(claim_due(&[], u64::MAX, 1)));
    }

    #[test]
    fn texts_are_refused_or_cut_at_a_characters_edge() {
        assert!(is_invalid(url(&"x".repeat(URL_BYTES_MAX + 1))));
        let round = |round, by: String| NewRemedy {
            tx: TxId(Uuid::nil()),
            round,
            action: Action::Cancel,
            fees: None,
            audit: Audit {
                by,
                reason: String::new(),
                details: None,
                node: None,
            },
        };
        for letter in ["x", "错"] {
            assert!(remedy(&round(1, letter.repeat(AUDIT_CHARS_MAX))).is_ok());
            let longer = letter.repeat(AUDIT_CHARS_MAX + 1);
            assert!(is_invalid(remedy(&round(1, longer))), "{letter}");
        }
        assert!(is_invalid(remedy(&round(1, "a\0b".to_owned()))));
        assert!(is_invalid(remedy(&round(0, String::new()))));
        assert!(is_invalid(remedy(&round(u32::MAX, String::new()))));
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"错".repeat(1_000)), "错".repeat(333));
    }
    #[test]
    fn a_decision_is_anything_but_the_question_again() {
        let decide = |action, by: String| {
            decided(&Decided {
                remedy: RemedyId(1),
                action,
                fees: None,
                raw: None,
                severity: None,
                after: None,
                audit: Audit {
                    by,
                    reason: String::new(),
                    details: None,
                    node: None,
                },
            })
        };
        for action in Action::ALL {
            let said = decide(Some(action), String::new());
            assert_eq!(said.is_ok(), action != Action::Decide, "{action:?}");
        }
        assert!(decide(None, String::new()).is_ok());
        assert!(is_invalid(decide(None, "x".repeat(AUDIT_CHARS_MAX + 1))));
    }
}
