//! Words of endpoints, made fit to be kept and shown: bounded, on one line, without addresses.

use std::error::Error;

/// Longer texts are stack traces and pages of gateways; a person needs the beginning.
pub(crate) const CHARS_MAX: usize = 300;

/// The text on one line, cut, with every address in it replaced: providers put keys into them.
pub(crate) fn cleaned(text: &str) -> String {
    let mut out = String::new();
    // A text may be megabytes long; what is behind the cut is never looked at.
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(if is_address(word) { "<address>" } else { word });
        if out.len() > CHARS_MAX * 4 {
            break;
        }
    }
    match out.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => out[..at].to_owned(),
        None => out,
    }
}

/// An error with all its causes, cleaned.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words = format!("{words}: {cause}");
        next = cause.source();
    }
    cleaned(&words)
}

/// With a scheme, or a host name before a path.
fn is_address(word: &str) -> bool {
    if word.contains("://") {
        return true;
    }
    word.split_once('/')
        .is_some_and(|(host, path)| host.contains('.') && !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_without_addresses_and_cut() {
        let check = |text: &str, expected: &str| assert_eq!(cleaned(text), expected);
        check("nonce too low: next 1", "nonce too low: next 1");
        check("a\n\tb\u{0}c", "a b c");
        check(
            "see https://rpc.example/v3/KEY for more",
            "see <address> for more",
        );
        check("from (rpc.example/v3/KEY)", "from <address>");
        check("gas*price/2 and/or 1.5", "gas*price/2 and/or 1.5");
        check("", "");
        assert_eq!(cleaned(&"é".repeat(1_000)).chars().count(), CHARS_MAX);
        assert!(cleaned(&"word ".repeat(1_000_000)).chars().count() <= CHARS_MAX);
    }
}
