//! What `serve` needs beyond a readable configuration: addresses of its signers, secrets that are
//! there, keys for callers from elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_app::directory::{InFlightLimit, Start};
use fencepost_app::recovery::rules::Rule;
use fencepost_app::settings::Settings;
use fencepost_domain::Address;
use fencepost_domain::ids::ChainId;
use fencepost_domain::seal;
use fencepost_http::{Access, ClusterSecret, PolicySecret, Secret};
use fencepost_signer::KeySpec;

use super::chain::Chain;
use super::environment::Environment;
use super::node::Node;
use super::problem::Problem;
use super::secret_file;
use super::signer::{Place, Signer};
use super::signing as keys;
use super::store::{RowSecrets, Store};
use super::stuck::Wanted;

/// Shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// What a node is served with.
pub(crate) struct Serving {
    /// Who is sent from, one for each `[[signer]]`.
    pub(crate) senders: Vec<Sender>,
    /// Their keys, one for each; none on a node that only gives nonces.
    pub(crate) keys: Option<Vec<KeySpec>>,
    pub(crate) access: Access,
    /// Where the keys of `access` come from.
    pub(crate) keys_file: Option<PathBuf>,
    /// How many refused calls the audit keeps a minute.
    pub(crate) audited_refusals: u32,
    pub(crate) cluster: Option<ClusterSecret>,
    /// What stored rows are sealed with.
    pub(crate) seals: seal::Secrets,
    /// Who decides about stuck transactions.
    pub(crate) policy: StuckPolicy,
}

/// Who decides about stuck transactions, with all that it needs.
pub(crate) enum StuckPolicy {
    /// Nobody.
    Noop,
    /// The first rule that fits.
    Rules(Vec<Rule>),
    /// Whoever answers there.
    Http {
        url: String,
        timeout: Duration,
        /// What questions, and perhaps answers, are signed with.
        secret: Option<PolicySecret>,
    },
}

/// A `[[signer]]`, before its key was opened.
pub(crate) struct Sender {
    /// Absent where only its key can tell.
    pub(crate) address: Option<Address>,
    pub(crate) chains: Vec<ChainId>,
    pub(crate) max_in_flight: Option<InFlightLimit>,
    pub(crate) start: Start,
}

/// What of a configuration is sound enough to be looked at.
pub(crate) struct Seen<'a> {
    pub(super) node: Option<&'a Node>,
    pub(super) store: &'a Store,
    pub(super) chains: Vec<&'a Chain>,
    pub(super) signers: &'a [Signer],
    pub(super) settings: &'a Settings,
    pub(super) policy: &'a Wanted,
    pub(super) keys_file: Option<&'a Path>,
    pub(super) hide_nonces: bool,
    pub(super) audited_refusals: u32,
}

impl Serving {
    /// Everything, or all that is missing.
    pub(super) fn prepare(
        config: &Seen<'_>,
        environment: &Environment,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        // Without any endpoint a node only gives nonces.
        let reaches = config.chains.iter().any(|chain| !chain.rpc.is_empty());
        let needs = reaches || config.settings.chain_query.is_some();
        for (place, chain) in config.chains.iter().enumerate() {
            if needs && chain.rpc.is_empty() {
                let why = "is needed to ask and to send; a node that only gives nonces has \
                           nonce.chain_query = false and no rpc at all";
                problems.push(Problem::new(format!("chain[{place}].rpc"), why));
            }
        }
        unaskable(config, problems);
        let senders = senders(config);
        let keys = needs.then(|| keys::read(config.signers, environment, problems));
        if !needs {
            nameless(config, problems);
        }
        let policy = policy(config.policy, environment, problems);
        if !config.node?.allow_readable_secrets {
            private(config, needs, problems);
        }
        let seals = seals(&config.store.row_secrets, environment, problems);
        let cluster = cluster(config.node?, environment, problems);
        let access = access(config.node?, config.keys_file, problems);
        Some(Self {
            senders,
            keys,
            access: access?.hiding_nonces(config.hide_nonces),
            keys_file: config.keys_file.map(Path::to_owned),
            audited_refusals: config.audited_refusals,
            cluster,
            seals,
            policy,
        })
    }
}

/// Every file that holds a secret is its owner's alone.
fn private(config: &Seen<'_>, opens_keys: bool, problems: &mut Vec<Problem>) {
    let signers = config.signers.iter().enumerate().filter(|_| opens_keys);
    for (place, signer) in signers {
        if let Some(Place::Keystore {
            file,
            password_file,
        }) = &signer.key
        {
            let of = |key: &str| format!("signer[{place}].{key}");
            secret_file::check(&of("key.keystore"), Path::new(file), problems);
            secret_file::check(&of("key.password_file"), Path::new(password_file), problems);
        }
    }
    if let Some(file) = config.keys_file {
        secret_file::check("auth.keys_file", file, problems);
    }
    secret_file::check_all(config.store.secret_files(), problems);
}

fn senders(config: &Seen<'_>) -> Vec<Sender> {
    let sender = |signer: &Signer| Sender {
        address: signer.address,
        chains: config
            .chains
            .iter()
            .filter(|chain| signer.chains.contains(&chain.name))
            .map(|chain| chain.id)
            .collect(),
        max_in_flight: signer.max_in_flight,
        start: signer.start.unwrap_or_else(|| usual_start(config.settings)),
    };
    config.signers.iter().map(sender).collect()
}

/// A lane begins where `nonce.mode` says, unless its signer says more.
fn usual_start(settings: &Settings) -> Start {
    settings
        .chain_query
        .map_or_else(Start::default, Start::Unset)
}

/// A start that only the chain can tell needs a chain that is asked.
fn unaskable(config: &Seen<'_>, problems: &mut Vec<Problem>) {
    for (place, signer) in config.signers.iter().enumerate() {
        if let Some(Start::Chain(_)) = signer.start
            && config.settings.chain_query.is_none()
        {
            let why = "cannot be found out with nonce.chain_query = false; give the first nonce";
            problems.push(Problem::new(format!("signer[{place}].start"), why));
        }
    }
}

/// A node that only gives nonces opens no keys, and must be told whose nonces.
fn nameless(config: &Seen<'_>, problems: &mut Vec<Problem>) {
    for (place, signer) in config.signers.iter().enumerate() {
        if signer.address.is_none() {
            let key = signer.key.as_ref().map_or("key", Place::key);
            let why = format!("is needed: without chain[…].rpc no keys are opened, not even {key}");
            problems.push(Problem::new(format!("signer[{place}].address"), why));
        }
    }
}

fn policy(wanted: &Wanted, environment: &Environment, problems: &mut Vec<Problem>) -> StuckPolicy {
    match wanted {
        Wanted::Noop => StuckPolicy::Noop,
        Wanted::Rules(rules) => StuckPolicy::Rules(rules.clone()),
        Wanted::Http(asked) => {
            let name = asked.secret_env.as_deref();
            let secret = secret("stuck.http.secret_env", name, environment, problems);
            StuckPolicy::Http {
                url: asked.url.clone(),
                timeout: asked.timeout,
                secret: secret.map(|secret| PolicySecret {
                    secret,
                    signed_answers: asked.signed_answers,
                }),
            }
        }
    }
}

fn seals(
    wanted: &RowSecrets,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> seal::Secrets {
    let mut secret = |key, name: &Option<String>| {
        let text = secret_text(key, name.as_deref(), environment, problems);
        text.map(|text| seal::Secret::new(text.as_bytes()))
    };
    seal::Secrets {
        current: secret("store.row_secret_env", &wanted.current),
        also: secret("store.row_secret_also_env", &wanted.also),
        accept_unsealed: wanted.accept_unsealed,
    }
}

/// What a variable that `key` names holds; none where it names none.
fn secret(
    key: &str,
    name: Option<&str>,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Option<Secret> {
    let text = secret_text(key, name, environment, problems);
    text.map(|text| Secret::new(text.to_owned()))
}

fn secret_text<'a>(
    key: &str,
    name: Option<&str>,
    environment: &'a Environment,
    problems: &mut Vec<Problem>,
) -> Option<&'a str> {
    let name = name?;
    let why = match environment.get(name) {
        None => format!("the variable {name} is not set"),
        Some(secret) if secret.len() < SECRET_BYTES_MIN => {
            format!("the variable {name} holds a secret of less than {SECRET_BYTES_MIN} bytes")
        }
        Some(secret) => return Some(secret),
    };
    problems.push(Problem::new(key, why));
    None
}

/// What calls between nodes are sealed with, and what else they may be sealed with.
fn cluster(
    node: &Node,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Option<ClusterSecret> {
    let name = node.cluster_secret_env.as_deref();
    let seals = secret("node.cluster_secret_env", name, environment, problems);
    let (key, name) = (
        "node.cluster_secret_accepted_env",
        node.cluster_secret_accepted_env.as_deref(),
    );
    if name.is_some() && node.cluster_secret_env.is_none() {
        problems.push(Problem::new(key, "needs node.cluster_secret_env beside it"));
    }
    let accepted = secret(key, name, environment, problems);
    Some(ClusterSecret::new(seals?, accepted))
}

fn access(node: &Node, keys_file: Option<&Path>, problems: &mut Vec<Problem>) -> Option<Access> {
    let Some(file) = keys_file else {
        let listen = node.listen;
        if listen.ip().is_loopback() {
            return Some(Access::open());
        }
        let why = format!(
            "is needed: node.listen ({listen}) can be reached from other machines, and without \
             keys anyone there could send from every signer"
        );
        problems.push(Problem::new("auth.keys_file", why));
        return None;
    };
    api_keys(file, problems)
}

fn api_keys(file: &Path, problems: &mut Vec<Problem>) -> Option<Access> {
    let shown = file.display();
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            problems.push(Problem::new(
                "auth.keys_file",
                format!("{shown} cannot be read: {error}"),
            ));
            return None;
        }
    };
    match Access::from_toml(&text) {
        Ok(access) => Some(access),
        Err(bad) => {
            let all = bad
                .iter()
                .map(|key| Problem::new("auth.keys_file", format!("{shown}: {key}")));
            problems.extend(all);
            None
        }
    }
}
