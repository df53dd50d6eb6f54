//! A node's words to sent bytes, as a [`Rejection`]. The knowledge is tables, one for each client and
//! one of texts that mean the same everywhere; an endpoint's own client comes first. A union of all
//! clients' texts would take one client's harmless word for another's final one.

mod anvil;
mod besu;
mod erigon;
mod generic;
mod geth;
mod nethermind;
mod reth;

use fencepost_domain::rejection::{Rejection, Reply};

use crate::dialect::Dialect;
use crate::rpc::{self, Fault};
use crate::text;

/// Where in the message an entry's text must stand. Never up to its end: values follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// At its beginning.
    Start,
    /// At the beginning of a word: "unknown transaction" is not "known transaction".
    Word,
}

/// One line of a table.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// In lower case.
    text: &'static str,
    at: At,
    /// Only with one of these codes, or with any if there is none.
    codes: &'static [i64],
    why: Rejection,
}

const fn word(text: &'static str, why: Rejection) -> Entry {
    Entry {
        text,
        at: At::Word,
        codes: &[],
        why,
    }
}

const fn start(text: &'static str, why: Rejection) -> Entry {
    Entry {
        text,
        at: At::Start,
        codes: &[],
        why,
    }
}

impl Entry {
    const fn with(mut self, codes: &'static [i64]) -> Self {
        self.codes = codes;
        self
    }

    fn fits(&self, code: i64, message: &str) -> bool {
        if !self.codes.is_empty() && !self.codes.contains(&code) {
            return false;
        }
        match self.at {
            At::Start => message.starts_with(self.text),
            At::Word => message
                .match_indices(self.text)
                .any(|(at, _)| !message[..at].ends_with(|c: char| c.is_alphanumeric())),
        }
    }
}

/// The tables in which a client's words are looked up, in order. The first entry that fits counts, so
/// within a table the specific stands before the general.
const fn tables(dialect: Dialect) -> [&'static [Entry]; 2] {
    let own: &[Entry] = match dialect {
        Dialect::Geth => geth::TABLE,
        Dialect::Reth => reth::TABLE,
        Dialect::Erigon => erigon::TABLE,
        Dialect::Nethermind => nethermind::TABLE,
        Dialect::Besu => besu::TABLE,
        Dialect::Anvil => anvil::TABLE,
        Dialect::Unknown => &[],
    };
    [own, generic::TABLE]
}

/// What an error of a node means for the bytes.
pub(crate) fn rejection(dialect: Dialect, code: i64, message: &str) -> Rejection {
    // Some rollups put the message between quotes.
    let message = message.trim_matches(|c: char| c.is_whitespace() || c == '\'' || c == '"');
    let message = message.to_lowercase();
    let entries = tables(dialect).into_iter().flatten();
    for entry in entries {
        if entry.fits(code, &message) {
            return entry.why;
        }
    }
    if rpc::is_limit(code, &message) {
        return Rejection::RateLimited;
    }
    Rejection::Unrecognised
}

/// What a call's fault means for the bytes; none where they certainly never left.
pub(crate) fn reply(dialect: Dialect, fault: &Fault) -> Option<Reply> {
    let why = match fault {
        Fault::Unreached(_) => return None,
        Fault::Node { code, message, .. } => {
            let why = rejection(dialect, *code, message);
            return Some(Reply::rejected(why, text::cleaned(message)));
        }
        Fault::Limited => Rejection::RateLimited,
        Fault::Status(_)
        | Fault::TimedOut
        | Fault::NoTime
        | Fault::Broken(_)
        | Fault::TooLarge(_)
        | Fault::Unanswered
        | Fault::Garbled(_) => Rejection::Unrecognised,
    };
    Some(Reply::rejected(why, text::cleaned(&fault.to_string())))
}

#[cfg(test)]
mod tests;
