//! Statements whose rules are broken, in test builds that ask for it. In every other build these return what
//! they were given.

use fencepost_domain::mutant::Mutant;

const GUARD: &str = "1 / ((SELECT count(*) FROM moved) = (SELECT sum(n) FROM lane)";
const LOCK: &str = "FOR NO KEY UPDATE OF l";
const TOKEN: &str =
    "l.owner_node = $5 AND l.owner_incarnation = $6::bigint AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()";
const HEAD: &str = "UPDATE feed_head SET last_seq = last_seq + (SELECT count(*) FROM moved)
     WHERE EXISTS (SELECT FROM moved)
    RETURNING last_seq";

/// How a statement of moves takes its lanes. Only one that locks them first can be made not to.
pub(crate) fn taking(way: &'static str) -> &'static str {
    if Mutant::FenceByExists.is_on() || Mutant::KeyShare.is_on() {
        "locked"
    } else {
        way
    }
}

/// A statement of moves.
pub(crate) fn moves(sql: String) -> String {
    if Mutant::FenceByExists.is_on() {
        return sql.replace(&format!("{LOCK} SKIP LOCKED"), "");
    }
    if Mutant::KeyShare.is_on() {
        return sql.replace(LOCK, "FOR KEY SHARE OF l");
    }
    if Mutant::CountsAfterCommit.is_on() {
        return sql.replace(GUARD, "1 / ((SELECT count(*) FROM moved) >= 0");
    }
    if Mutant::NoToken.is_on() {
        let types = "(l.owner_node = $5 OR l.owner_incarnation = $6::bigint OR l.fencing_token = i.token OR true)";
        return sql.replace(TOKEN, types);
    }
    if Mutant::FeedBySequence.is_on() {
        let number =
            "SELECT max(nextval('mutant_feed')) AS last_seq FROM moved HAVING count(*) > 0";
        return sql.replace(HEAD, number);
    }
    sql
}

/// The statement that stores new transactions.
pub(crate) fn create(sql: String) -> String {
    if Mutant::CountsAfterCommit.is_on() {
        let needed = "\n            = (SELECT count(*) FROM unnest($26::integer[]";
        return sql.replace(needed, &needed.replace("= (", ">= 0 * ("));
    }
    if Mutant::NoToken.is_on() {
        let token = "l.owner_node = $6 AND l.owner_incarnation = $7 AND l.fencing_token = i.token
       AND l.expires_at > clock_timestamp()";
        let types =
            "(l.owner_node = $6 OR l.owner_incarnation = $7 OR l.fencing_token = i.token OR true)";
        return sql.replace(token, types);
    }
    sql
}
