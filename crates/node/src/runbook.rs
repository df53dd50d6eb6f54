//! `docs/operations` is true: its commands are commands, its examples are configurations, its metrics are
//! metrics, every reason has its page, and links lead somewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser;
use fencepost_app::ports::PauseReason;
use fencepost_domain::state::Why;

use crate::cli::Cli;
use crate::config::Config;
use crate::config::environment::Environment;

/// Tests run where their crate is. Not where it was compiled: clones share what they have built.
fn docs() -> PathBuf {
    PathBuf::from("../../docs")
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The index and its pages.
fn pages() -> Vec<(PathBuf, String)> {
    let folder = std::fs::read_dir(docs().join("operations")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.push(docs().join("operations.md"));
    files.sort();
    let texts = files.into_iter().map(|file| {
        let text = read(&file);
        (file, text)
    });
    texts.collect()
}

/// The lines of a page's blocks of one kind.
fn blocks(text: &str, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in text.lines().map(str::trim) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(begun)) if begun == kind => open = Some(Vec::new()),
            (Some(_), Some("")) => found.push(open.take().unwrap_or_default().join("\n")),
            (Some(lines), None | Some(_)) => lines.push(line),
            (None, None | Some(_)) => {}
        }
    }
    found
}

/// Words as a shell reads them, where a quote is a single one.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in line.split('\'').enumerate() {
        if n % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

#[test]
fn every_command_is_one_there_is() {
    let mut seen = 0;
    for (file, text) in pages() {
        for block in blocks(&text, "console") {
            for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
                let read = Cli::try_parse_from(words(line));
                let told = read.err().map(|error| error.to_string());
                assert_eq!(told, None, "{}: {line}", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "{seen} commands");
}

#[test]
fn every_example_is_a_configuration() {
    let mut seen = 0;
    for (file, text) in pages() {
        for block in blocks(&text, "toml") {
            let whole = format!("{block}\n[[chain]]\nname = 'main'\nid = 1\n");
            let read = Config::parse(&whole, &Environment::default());
            let config = read.unwrap_or_else(|why| panic!("{}: {why}\n{block}", file.display()));
            let warned = config.warnings.iter().filter(|it| it.path != "signer");
            assert_eq!(warned.count(), 0, "{}: {block}", file.display());
            seen += 1;
        }
    }
    assert_eq!(seen, 3);
}

#[test]
fn every_metric_is_one_there_is() {
    let known = read(&docs().join("metrics.md"));
    let mut seen = BTreeSet::new();
    for (file, text) in pages() {
        for (at, _) in text.match_indices("fencepost_") {
            let name: String = text[at..]
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            let plain = name.trim_end_matches("_bucket");
            let row = format!("| `{plain}` |");
            assert!(known.contains(&row), "{}: {name}", file.display());
            seen.insert(name);
        }
    }
    assert!(seen.len() > 12, "{seen:?}");
}

#[test]
fn every_reason_has_its_page() {
    let index = read(&docs().join("operations.md"));
    for why in Why::ALL {
        let word = why.word();
        let page = format!("operations/{}.md", word.to_lowercase().replace('_', "-"));
        assert!(index.contains(&format!("[{word}]({page})")), "{word}");
        let text = read(&docs().join(&page));
        assert!(text.starts_with(&format!("# STUCK/{word}\n")), "{page}");
        for part in ["It means", "By itself", "See it", "Press", "Do not"] {
            assert!(text.contains(&format!("**{part}:**")), "{page}: {part}");
        }
    }
    let paused = read(&docs().join("operations/paused.md"));
    for reason in PauseReason::ALL {
        let title = format!("\n## {}\n", reason.word());
        assert!(paused.contains(&title), "{title}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut seen = 0;
    for (file, text) in pages() {
        for part in text.split("](").skip(1) {
            let (target, _) = part.split_once(')').unwrap_or_default();
            let (name, title) = target.split_once('#').unwrap_or((target, ""));
            let to = file.parent().unwrap().join(name);
            let there = read(&to);
            let titles = there.lines().filter_map(|line| line.strip_prefix("## "));
            let mut anchors = titles.map(|title| title.to_lowercase().replace(' ', "-"));
            let leads = title.is_empty() || anchors.any(|anchor| anchor == title);
            assert!(leads, "{}: {target}", file.display());
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen} links");
}
