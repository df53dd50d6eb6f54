//! The dependencies are those that deny.toml allows: licences, sources, banned crates, second versions. cargo-deny says the same
//! and more, where it is installed (`./test deny`); this needs no download.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

/// Tests run where their crate is.
const ROOT: &str = "../..";

fn read(name: &str) -> Result<Table> {
    let text = std::fs::read_to_string(format!("{ROOT}/{name}"))?;
    Ok(text.parse()?)
}

fn texts<'a>(value: &'a Value, key: Option<&str>) -> BTreeSet<&'a str> {
    let items = value.as_array().into_iter().flatten();
    let text = |item: &'a Value| key.map_or(Some(item), |key| item.get(key))?.as_str();
    items.filter_map(text).collect()
}

/// A package that is compiled for some target of a crate of this workspace, tests included.
struct Package {
    name: String,
    version: String,
    licence: String,
}

/// What cargo chooses, with the features that are on.
fn packages() -> Result<Vec<Package>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let tree = Command::new(cargo)
        .args(["tree", "--workspace", "--locked", "--target"])
        .args(["all", "--edges", "normal,build,dev", "--prefix", "none"])
        .args(["--format", "{p}|{l}"])
        .current_dir(ROOT)
        .output()?;
    let errors = String::from_utf8(tree.stderr)?;
    ensure!(tree.status.success(), "cargo tree: {errors}");
    let text = String::from_utf8(tree.stdout)?;
    let lines: BTreeSet<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let mut packages = BTreeMap::new();
    for line in lines {
        let (name, licence) = line.split_once('|').context("a line of cargo tree")?;
        let mut words = name.split(' ');
        let (name, version) = (words.next(), words.next());
        let (name, version) = (name.context("a name")?, version.context("a version")?);
        let version = version.trim_start_matches('v');
        let version = version.split('+').next().unwrap_or(version);
        let package = Package {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.trim_end_matches(" (*)").to_owned(),
        };
        packages.insert((package.name.clone(), package.version.clone()), package);
    }
    ensure!(packages.len() > 100, "too few: {text}");
    Ok(packages.into_values().collect())
}

/// Whether an SPDX expression can be met with these licences.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    // An older spelling of OR.
    let spaced = expression.replace('/', " OR ");
    let spaced = spaced.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any(&words, &mut at, allowed) && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<&str>) -> bool {
    let word = words.get(*at).copied().unwrap_or_default();
    *at += 1;
    if word == "(" {
        let met = any(words, at, allowed);
        *at += 1;
        return met;
    }
    if words.get(*at) == Some(&"WITH") {
        // An exception makes another licence of it, which would be allowed by its whole name.
        *at += 2;
        return false;
    }
    allowed.contains(word)
}

#[test]
fn licences_are_read_as_they_are_meant() {
    let allowed = BTreeSet::from(["MIT", "Unicode-3.0"]);
    for good in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "(MIT OR Apache-2.0) AND ISC",
        "MIT WITH some-exception",
        "MIT MIT",
    ] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() -> Result<()> {
    let deny = read("deny.toml")?;
    let allowed = texts(&deny["licenses"]["allow"], None);
    for package in packages()? {
        let (name, licence) = (&package.name, &package.licence);
        ensure!(is_allowed(licence, &allowed), "{name}: {licence:?}");
    }
    Ok(())
}

#[test]
fn everything_comes_from_crates_io() -> Result<()> {
    let lock = read("Cargo.lock")?;
    let deny = read("deny.toml")?;
    let registries = texts(&deny["sources"]["allow-registry"], None);
    for package in lock["package"].as_array().context("packages")? {
        let Some(source) = package.get("source").and_then(Value::as_str) else {
            let name = package["name"].as_str().unwrap_or_default();
            ensure!(name.starts_with("fencepost"), "{name} is not ours");
            continue;
        };
        let registry = source.strip_prefix("registry+").unwrap_or(source);
        ensure!(registries.contains(registry), "{package}: {source}");
        ensure!(package.get("checksum").is_some(), "no checksum: {package}");
    }
    Ok(())
}

#[test]
fn no_banned_crate_is_in_and_each_second_version_has_its_reason() -> Result<()> {
    let deny = read("deny.toml")?;
    let bans = &deny["bans"];
    let banned = texts(&bans["deny"], Some("crate"));
    let mut skipped = texts(&bans["skip"], Some("crate"));
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages()? {
        ensure!(!banned.contains(&*package.name), "{}", package.name);
        versions
            .entry(package.name)
            .or_default()
            .push(package.version);
    }
    let number = |version: &String| -> Vec<u64> {
        let parts = version.split(['.', '-']);
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    let mut missing = Vec::new();
    for (name, mut versions) in versions {
        versions.sort_by_key(number);
        versions.pop();
        for version in versions {
            let named = format!("{name}@{version}");
            if !skipped.remove(&*named) {
                missing.push(named);
            }
        }
    }
    ensure!(missing.is_empty(), "without a reason: {missing:?}");
    ensure!(skipped.is_empty(), "no longer there: {skipped:?}");
    let reasons = texts(&bans["skip"], Some("reason"));
    ensure!(!reasons.contains(""), "a skip without a reason");
    Ok(())
}
