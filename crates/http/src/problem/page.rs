//! The page about problems: `docs/problems.md`, and what `/docs/problems` answers.

use std::fmt::Write;

use super::Code;

const HEAD: &str = "# Problems\n
Every error of the HTTP API is a problem of [RFC 9457](https://www.rfc-editor.org/rfc/rfc9457), with the media type
`application/problem+json`. `code` is stable and what programs should compare; `title` goes with it; `detail` says what went
wrong this time and may change. `errors` names the fields that are wrong, `txId` and `requestId` the transaction and the
client's own name for it, `retryAfterSeconds` what `Retry-After` says. The response's `x-request-id` finds the matching lines in the log.\n
A 4xx or a 503 means that nothing was stored. A 504 means that it cannot be known yet.\n";

/// The page, in Markdown.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for code in Code::ALL {
        let (word, status, title) = (code.word(), code.status().as_u16(), code.title());
        let (meaning, advice) = (code.meaning(), code.advice());
        write!(
            page,
            "\n## {word}\n\n**{status} {title}.** {meaning}\n\n*What to do:* {advice}\n"
        )
        .expect("a text takes everything");
    }
    page
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_about_problems_is_what_the_code_says() {
        let path = Path::new("../../docs/problems.md");
        let page = page();
        if std::env::var_os("FENCEPOST_BLESS").is_some() {
            std::fs::write(path, page).unwrap();
            return;
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == page,
            "{} is stale: run FENCEPOST_BLESS=1 cargo test -p fencepost-http",
            path.display()
        );
    }

    #[test]
    fn codes_are_distinct_words() {
        for (n, code) in Code::ALL.iter().enumerate() {
            assert!(
                Code::ALL[..n]
                    .iter()
                    .all(|other| other.word() != code.word())
            );
        }
    }
}
