//! Broken twins: the adapter's own statements with one part replaced, run over a plain session. Their
//! parameters stand in the text as literals; those that do not matter are empty arrays, which `unnest`
//! fills up with NULL.

use fencepost_app::ports::{Move, RemedyId};
use fencepost_domain::ids::TxId;
use fencepost_store_tests::bench::Seat;
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

const CREATE: &str = include_str!("../../sql/create.sql");
pub(crate) const PROMOTE: &str = include_str!("../../sql/promote.sql");
pub(crate) const DECIDE: &str = include_str!("../../sql/decide.sql");
const MOVES: &str = include_str!("../../sql/moves.sql");

/// How `moves.sql` and `decide.sql` take the lane's row.
pub(crate) const LOCK: &str = "FOR NO KEY UPDATE OF l";
/// What keeps a part of what was sent from being committed, in `moves.sql`.
pub(crate) const GUARD: &str = "(SELECT count(*) FROM moved) = (SELECT sum(n) FROM lane)";

const FENCE: &str = "l.owner_node = $5 AND l.owner_incarnation = $6::bigint
       AND l.fencing_token = i.token AND l.expires_at > clock_timestamp()
       AND (NOT i.signs OR (l.paused IS NULL AND NOT l.held))";
const TOKEN: &str = "(SELECT tokens FROM led)[i.k]";
const RENEW: &str = ", expires_at = clock_timestamp() + $7::bigint * interval '1 microsecond'";

/// `create.sql` as it is sent when free nonces are used up.
pub(crate) fn create() -> String {
    let (before, rest) = CREATE.split_once("--? plain\n").expect("a part");
    let (_, after) = rest.split_once("--? free\n").expect("its other form");
    format!("{before}{after}")
}

/// `moves.sql` as `apply` sends it.
pub(crate) fn apply() -> String {
    moves_with("")
}

/// `moves.sql` with CTEs that tell the feed.
pub(crate) fn moves_with(feed: &str) -> String {
    let sql = edit(&locked(), "/*fence*/", FENCE);
    let sql = edit(&sql, "/*renew*/", RENEW);
    let sql = edit(&sql, "/*feed*/", feed);
    let sql = edit(&sql, "/*seqs*/", "NULL::bigint[]");
    let sql = edit(&sql, "/*ack*/", "NULL::bigint");
    let sql = edit(&sql, "/*token*/", TOKEN);
    edit(&sql, "/*tries*/", "i.signs IS TRUE")
}

/// `moves.sql` that locks the lanes' rows before it does anything: the way of taking them that can be
/// broken by a word.
fn locked() -> String {
    let (before, rest) = MOVES.split_once("--? counted\n").expect("a way");
    let (_, after) = rest.split_once("--.\n").expect("its end");
    format!("{before}{after}")
}

/// The statement with one part replaced. A part that is not there makes no twin.
pub(crate) fn edit(sql: &str, part: &str, by: &str) -> String {
    assert!(sql.contains(part), "the statement no longer says: {part}");
    sql.replace(part, by)
}

/// The number of a parameter and its literal.
pub(crate) type Literals = Vec<(usize, String)>;

/// The parameters of `moves.sql` for one lane.
pub(crate) fn moves(seat: &Seat, steps: &[Move]) -> Literals {
    let lane = seat.held.lane.0;
    let signs = |step: &Move| step.attempt.is_some();
    let flats: Vec<_> = steps.iter().map(|step| step.to.flat()).collect();
    let attempts = || steps.iter().map(|step| step.attempt.as_ref());
    let numbers = (1..).take(steps.len());
    vec![
        (1, format!("{{{lane}}}")),
        (2, format!("{{{}}}", seat.held.token.column())),
        (3, format!("{{{}}}", steps.len())),
        (4, array([steps.iter().any(signs)])),
        (5, seat.holder.node.as_str().to_owned()),
        (6, seat.holder.incarnation.column().to_string()),
        (7, "600000000".to_owned()),
        (8, array(steps.iter().map(|_| 1))),
        (9, uuids(steps.iter().map(|step| step.tx))),
        (10, array(steps.iter().map(|step| step.version.column()))),
        (11, array(flats.iter().map(|flat| &flat.state))),
        (
            12,
            nullable(flats.iter().map(|flat| flat.sub_state.clone())),
        ),
        (13, nullable(flats.iter().map(|flat| flat.nonce))),
        (14, nullable(flats.iter().map(|flat| flat.nonce_given_back))),
        (
            15,
            nullable(flats.iter().map(|flat| flat.tx_hash.as_deref().map(bytes))),
        ),
        (22, array(steps.iter().map(|step| step.to.is_final()))),
        (25, array(steps.iter().map(signs))),
        (27, array(steps.iter().map(|_| false))),
        (
            28,
            array(steps.iter().map(|step| step.to.gave_back().is_some())),
        ),
        (29, array(steps.iter().map(|_| false))),
        (30, array(numbers)),
        (31, array(steps.iter().map(|step| step.event.kind.word()))),
        (32, array(steps.iter().map(|step| step.from.0.word()))),
        (33, nullable(steps.iter().map(|step| step.from.1))),
        (37, array(steps.iter().map(|_| false))),
        (
            39,
            nullable(attempts().map(|each| each.map(|each| each.kind.word()))),
        ),
        (
            40,
            nullable(attempts().map(|each| each.map(|each| bytes(each.hash.as_slice())))),
        ),
        (
            41,
            nullable(attempts().map(|each| each.map(|each| bytes(&each.raw)))),
        ),
    ]
}

/// The parameters of `create.sql` for placeholders' worth of rows: no payload, no request id.
pub(crate) fn creation(seat: &Seat, cursor: i64, txs: &[TxId]) -> Literals {
    let n = i64::try_from(txs.len()).expect("a few");
    let lane = seat.held.lane.0;
    vec![
        (1, array([lane])),
        (2, array([seat.held.token.column()])),
        (3, array([cursor])),
        (4, array([cursor + n])),
        (5, array([n])),
        (6, seat.holder.node.as_str().to_owned()),
        (7, seat.holder.incarnation.column().to_string()),
        (8, "600000000".to_owned()),
        (9, array([false])),
        (10, array(txs.iter().map(|_| 1))),
        (11, uuids(txs.iter().copied())),
        (12, array(txs.iter().map(|_| "placeholder"))),
        (16, array(cursor..cursor + n)),
        (21, array(1..=n)),
    ]
}

/// The parameters of `promote.sql` for one lane without free nonces.
pub(crate) fn promotion(seat: &Seat, cursor: i64, txs: &[TxId]) -> Literals {
    let n = i64::try_from(txs.len()).expect("a few");
    let lane = seat.held.lane.0;
    vec![
        (1, array([lane])),
        (2, array([seat.held.token.column()])),
        (3, array([cursor])),
        (4, array([cursor + n])),
        (5, array([n])),
        (6, seat.holder.node.as_str().to_owned()),
        (7, seat.holder.incarnation.column().to_string()),
        (8, "600000000".to_owned()),
        (11, array(txs.iter().map(|_| lane))),
        (12, uuids(txs.iter().copied())),
        (13, array(cursor..cursor + n)),
        (14, array(1..=n)),
    ]
}

/// The parameters of `decide.sql`, for a cancellation.
pub(crate) fn decision(seat: &Seat, remedy: RemedyId) -> Literals {
    let text = [
        "CANCEL", "1", "1", "policy", "because", "{}", "\\x02", "info", "track",
    ]
    .map(str::to_owned);
    let fence = [
        seat.held.lane.0.to_string(),
        seat.holder.node.as_str().to_owned(),
        seat.holder.incarnation.column().to_string(),
        seat.held.token.column().to_string(),
        "600000000".to_owned(),
        remedy.0.to_string(),
    ];
    (1..).zip(fence.into_iter().chain(text)).collect()
}

/// The statement with its parameters in the text.
pub(crate) fn fill(sql: &str, literals: &Literals) -> String {
    // From the highest down, so that $1 does not eat the beginning of $10.
    (1..=51).rev().fold(sql.to_owned(), |sql, n| {
        let given = literals.iter().find(|(number, _)| *number == n);
        let literal = given.map_or("{}", |(_, literal)| literal.as_str());
        sql.replace(&format!("${n}"), &format!("'{literal}'"))
    })
}

fn array<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    nullable(items.into_iter().map(Some))
}

fn nullable<T: ToString>(items: impl IntoIterator<Item = Option<T>>) -> String {
    let word = |item: Option<T>| item.map_or("NULL".to_owned(), |item| item.to_string());
    let words: Vec<String> = items.into_iter().map(word).collect();
    format!("{{{}}}", words.join(","))
}

fn uuids(ids: impl IntoIterator<Item = TxId>) -> String {
    array(ids.into_iter().map(|tx| tx.0))
}

/// As an element of an array's literal, where a backslash stands twice.
fn bytes(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(r#""\\x{hex}""#)
}

/// Sends one autocommit statement; its number of rows.
pub(crate) fn send(client: Client, sql: String) -> JoinHandle<Result<usize, Error>> {
    tokio::spawn(async move {
        let answer = client.simple_query(&sql).await?;
        let is_row = |each: &&SimpleQueryMessage| matches!(each, SimpleQueryMessage::Row(_));
        Ok(answer.iter().filter(is_row).count())
    })
}

/// Whether it was refused with this code; anything else is no anomaly but a broken test.
pub(crate) fn is_refused(answer: &Result<usize, Error>, code: &SqlState) -> bool {
    answer
        .as_ref()
        .is_err_and(|error| error.code() == Some(code))
}
