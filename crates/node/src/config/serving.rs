//! What `serve` needs beyond a readable configuration: addresses of its signers, secrets that are
//! there, keys for callers from elsewhere.

use std::path::Path;
use std::time::Duration;

use fencepost_app::recovery::rules::Rule;
use fencepost_app::settings::Settings;
use fencepost_domain::Address;
use fencepost_domain::ids::ChainId;
use fencepost_http::{Access, Secret};
use fencepost_signer::KeySpec;

use super::chain::Chain;
use super::environment::Environment;
use super::node::Node;
use super::problem::Problem;
use super::signer::{Place, Signer};
use super::signing as keys;
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
    pub(crate) cluster: Option<Secret>,
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
        /// What questions are signed with.
        secret: Option<Secret>,
    },
}

/// A `[[signer]]`, before its key was opened.
pub(crate) struct Sender {
    /// Absent where only its key can tell.
    pub(crate) address: Option<Address>,
    pub(crate) chains: Vec<ChainId>,
    pub(crate) max_in_flight: Option<usize>,
}

/// What of a configuration is sound enough to be looked at.
pub(crate) struct Seen<'a> {
    pub(super) node: Option<&'a Node>,
    pub(super) chains: Vec<&'a Chain>,
    pub(super) signers: &'a [Signer],
    pub(super) settings: &'a Settings,
    pub(super) policy: &'a Wanted,
    pub(super) keys_file: Option<&'a Path>,
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
        let senders = senders(config);
        let keys = needs.then(|| keys::read(config.signers, environment, problems));
        if !needs {
            nameless(config, problems);
        }
        let policy = policy(config.policy, environment, problems);
        let name = config.node?.cluster_secret_env.as_deref();
        let cluster = secret("node.cluster_secret_env", name, environment, problems);
        let access = access(config.node?, config.keys_file, problems);
        Some(Self {
            senders,
            keys,
            access: access?,
            cluster,
            policy,
        })
    }
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
    };
    config.signers.iter().map(sender).collect()
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
            StuckPolicy::Http {
                url: asked.url.clone(),
                timeout: asked.timeout,
                secret: secret("stuck.http.secret_env", name, environment, problems),
            }
        }
    }
}

/// What a variable that `key` names holds; none where it names none.
fn secret(
    key: &str,
    name: Option<&str>,
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Option<Secret> {
    let name = name?;
    let why = match environment.get(name) {
        None => format!("the variable {name} is not set"),
        Some(secret) if secret.len() < SECRET_BYTES_MIN => {
            format!("the variable {name} holds a secret of less than {SECRET_BYTES_MIN} bytes")
        }
        Some(secret) => return Some(Secret::new(secret.to_owned())),
    };
    problems.push(Problem::new(key, why));
    None
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
