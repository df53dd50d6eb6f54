//! The configuration: one TOML file and the environment above it. Every mistake is found in one pass
//! and reported with its path; what is not known is refused. What `serve` needs beyond a readable
//! file is in [`serving`].

pub(crate) mod problem;
pub(crate) mod environment;
mod path;
mod value;
mod section;
mod keys;
mod endpoint;
mod secret_file;
pub(crate) mod node;
pub(crate) mod store;
pub(crate) mod chain;
mod signer;
mod signing;
mod flow;
mod sending;
mod stuck;
pub(crate) mod api;
pub(crate) mod serving;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use fencepost_app::settings::{NotLeader, Settings};
use toml::Table;

use api::ApiSettings;
use chain::Chain;
use environment::Environment;
use node::Node;
use problem::{Problem, Problems};
use section::{Findings, Section};
use serving::{Seen, Serving};
use signer::Signer;
use store::{Place, Store};
use stuck::Wanted;

/// More lines than that in a second no log takes.
const LOGGED_WRITES_MAX: u64 = 1_000_000;
/// A configuration without mistakes.
pub(crate) struct Config {
    pub(crate) node: Node,
    pub(crate) store: Store,
    pub(crate) chains: Vec<Chain>,
    pub(crate) signers: Vec<Signer>,
    pub(crate) settings: Settings,
    pub(crate) api: ApiSettings,
    /// What works but is most likely not wanted.
    pub(crate) warnings: Vec<Problem>,
    shown: Table,
}

impl Config {
    /// Reads a file, with the environment above it.
    pub(crate) fn load(file: &Path, environment: &Environment) -> Result<Self, Problems> {
        let unreadable = |error| Problem::new(file.display(), format!("cannot be read: {error}"));
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let config = Self::parse(&text, environment).map_err(|problems| named(problems, file))?;
        Ok(config.beside(file))
    }

    /// Reads the text of a file. A mistake in its syntax has no path.
    pub(crate) fn parse(text: &str, environment: &Environment) -> Result<Self, Problems> {
        let (drafted, shown, findings) = draft(text, environment)?;
        drafted.finish(shown, findings)
    }

    /// Reads a file for a command that opens the store: its secrets are its owner's alone.
    pub(crate) fn load_for_store(file: &Path, environment: &Environment) -> Result<Self, Problems> {
        let config = Self::load(file, environment)?;
        let mut problems = Vec::new();
        if !config.node.allow_readable_secrets {
            secret_file::check_all(config.store.secret_files(), &mut problems);
        }
        match problems.is_empty() {
            true => Ok(config),
            false => Err(Problems(problems)),
        }
    }

    /// Reads a file that a node is to be served with, and what that needs besides.
    pub(crate) fn load_to_serve(
        file: &Path,
        environment: &Environment,
    ) -> Result<(Self, Serving), Problems> {
        let unreadable = |error| Problem::new(file.display(), format!("cannot be read: {error}"));
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let parsed = Self::parse_to_serve(&text, environment);
        let (config, serving) = parsed.map_err(|problems| named(problems, file))?;
        Ok((config.beside(file), serving))
    }

    /// A node keeps its state beside the file that names it, unless that says where else.
    fn beside(mut self, file: &Path) -> Self {
        let beside = || file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        self.node.state_dir.get_or_insert_with(beside);
        self
    }

    /// The same of a text. What is wrong with the file and what is missing beside it are told together.
    pub(crate) fn parse_to_serve(
        text: &str,
        environment: &Environment,
    ) -> Result<(Self, Serving), Problems> {
        let (drafted, shown, mut findings) = draft(text, environment)?;
        let mut missing = Vec::new();
        let serving = Serving::prepare(&drafted.seen(), environment, &mut missing);
        // A default that stands in for a mistake is not reported beside it.
        missing.retain(|new| findings.problems.iter().all(|old| old.path != new.path));
        findings.problems.extend(missing);
        let config = drafted.finish(shown, findings)?;
        let unready = || Problem::new("", "cannot be served");
        Ok((config, serving.ok_or_else(unready)?))
    }

    /// The effective values as TOML, without secrets.
    pub(crate) fn print(&self) -> String {
        toml::to_string(&self.shown).expect("a table of plain values is TOML")
    }
}

/// Reads a text, whatever is wrong with what it says.
fn draft(text: &str, environment: &Environment) -> Result<(Draft, Table, Findings), Problem> {
    let file: Table = text
        .parse()
        .map_err(|error: toml::de::Error| Problem::new("", syntax(text, &error)))?;
    let mut findings = Findings::default();
    let (drafted, shown) = Section::root(file, environment, &mut findings, Draft::read);
    strangers(environment, &mut findings);
    Ok((drafted, shown, findings))
}

/// What was read, before it is known whether it is good.
struct Draft {
    node: Option<Node>,
    store: Store,
    chains: Vec<Option<Chain>>,
    signers: Vec<Signer>,
    settings: Settings,
    policy: Wanted,
    keys_file: String,
    api: ApiSettings,
}

impl Draft {
    fn read(from: &mut Section<'_>) -> Self {
        let node = from.section("node", Node::read);
        // Read ahead of the store, whose limits depend on it; shown where it was read.
        let mut settings = flow::read(from);
        let store = from.section("store", |from| Store::read(from, settings.lease.duration));
        let chains = from.each("chain", Chain::read);
        chain::check(from, &chains);
        let signers = from.each("signer", |from| Signer::read(from, &chains));
        signer::check(from, &signers, &chains);
        sending::read(from, &mut settings);
        let stuck = from.section("stuck", |from| stuck::read(from, settings.stuck));
        settings.stuck = stuck.after;
        settings.allow_other_payload = stuck.allow_other_payload;
        settings.lending = from.section("reservation", |from| {
            sending::lending(from, settings.lending)
        });
        settings.retention = from.section("retention", sending::retention);
        settings.logged_writes_per_second = from.section("log", |from| {
            let usual = settings.logged_writes_per_second;
            from.number("writes_per_second", usual, 0..=LOGGED_WRITES_MAX)
        });
        let keys_file = from.section("auth", |from| from.text("keys_file", String::new()));
        let api = from.section("api", api::read);
        let draft = Self {
            node,
            store,
            chains,
            signers,
            settings,
            policy: stuck.policy,
            keys_file,
            api,
        };
        draft.warn(from);
        draft
    }

    fn warn(&self, from: &mut Section<'_>) {
        if self.signers.is_empty() {
            from.warn("signer", "without a [[signer]] no request can be accepted");
        }
        let Some(node) = &self.node else { return };
        let several = matches!(self.store.place, Place::Postgres(_));
        let forwards = self.settings.not_leader == NotLeader::Forward;
        if several && forwards && node.cluster_secret_env.is_none() {
            let why = "without it nothing is forwarded between nodes: a request for a lane that \
                       another node leads waits in the queue";
            from.warn("node.cluster_secret_env", why);
        }
        if several && node.advertise.is_none() && node.listen.ip().is_unspecified() {
            let listen = node.listen;
            let why = format!("is needed for several nodes: others cannot reach {listen}");
            from.warn("node.advertise", why);
        }
        if several && node.cluster_secret_env.is_some() && node.is_reached_by_loopback() {
            let why = "other machines cannot reach this node at a loopback address: what they would \
                       forward to it waits in the queue";
            from.warn("node.advertise", why);
        }
    }

    /// As much as is sound.
    fn seen(&self) -> Seen<'_> {
        Seen {
            node: self.node.as_ref(),
            store: &self.store,
            chains: self.chains.iter().flatten().collect(),
            signers: &self.signers,
            settings: &self.settings,
            policy: &self.policy,
            hide_nonces: self.api.hide_nonces,
            audited_refusals: self.api.audited_refusals,
            keys_file: (!self.keys_file.is_empty()).then(|| Path::new(&self.keys_file)),
        }
    }

    fn finish(self, shown: Table, findings: Findings) -> Result<Config, Problems> {
        let Findings {
            problems, warnings, ..
        } = findings;
        match self.config(warnings, shown) {
            Some(config) if problems.is_empty() => Ok(config),
            Some(_) | None => Err(Problems(problems)),
        }
    }

    fn config(self, warnings: Vec<Problem>, shown: Table) -> Option<Config> {
        Some(Config {
            node: self.node?,
            store: self.store,
            chains: self.chains.into_iter().collect::<Option<_>>()?,
            signers: self.signers,
            settings: self.settings,
            api: self.api,
            warnings,
            shown,
        })
    }
}

/// Variables that would set a key that does not exist are refused like unknown keys.
fn strangers(environment: &Environment, findings: &mut Findings) {
    let (names, unreadable) = environment.overrides();
    for name in names {
        if !findings.variables.contains(name) {
            let why = "sets no key there is; `fencepost config print` shows all keys";
            findings.problems.push(Problem::new(name, why));
        }
    }
    findings.problems.extend(unreadable);
}

/// Where and what. The line itself may hold a secret and is not repeated.
fn syntax(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = text.as_bytes()[..start]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
        + 1;
    format!("line {line}: {}", error.message())
}

/// A mistake without a path is one in the file's syntax.
fn named(Problems(problems): Problems, file: &Path) -> Problems {
    let name = |problem: Problem| match problem.path.as_str() {
        "" => Problem::new(file.display(), problem.why),
        _ => problem,
    };
    Problems(problems.into_iter().map(name).collect())
}
