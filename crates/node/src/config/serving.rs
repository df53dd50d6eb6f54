//! What `serve` needs beyond a readable configuration: addresses of its signers, secrets that are
//! there, keys for callers from elsewhere. Limits of this version are told here too.

use std::path::Path;

use fencepost_app::settings::Settings;
use fencepost_domain::ids::Lane;
use fencepost_http::{Access, Secret};

use super::chain::Chain;
use super::environment::Environment;
use super::node::Node;
use super::problem::Problem;
use super::signer::Signer;

/// Shorter secrets can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// What a node is served with.
pub(crate) struct Serving {
    /// The lanes this node may lead, each with its limit of transactions in flight.
    pub(crate) lanes: Vec<(Lane, Option<usize>)>,
    pub(crate) access: Access,
    pub(crate) cluster: Option<Secret>,
}

/// What of a configuration is sound enough to be looked at.
pub(crate) struct Seen<'a> {
    pub(super) node: Option<&'a Node>,
    pub(super) chains: Vec<&'a Chain>,
    pub(super) signers: &'a [Signer],
    pub(super) settings: &'a Settings,
    pub(super) keys_file: Option<&'a Path>,
}

impl Serving {
    /// Everything, or all that is missing.
    pub(super) fn prepare(
        config: &Seen<'_>,
        environment: &Environment,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        if config.settings.chain_query.is_some() {
            let why = "this version cannot ask a chain yet; set it to false";
            problems.push(Problem::new("nonce.chain_query", why));
        }
        let lanes = lanes(config, problems);
        let cluster = cluster(config.node?, environment, problems);
        let access = access(config.node?, config.keys_file, problems);
        Some(Self {
            lanes,
            access: access?,
            cluster,
        })
    }
}

fn lanes(config: &Seen<'_>, problems: &mut Vec<Problem>) -> Vec<(Lane, Option<usize>)> {
    let mut lanes = Vec::new();
    for (place, signer) in config.signers.iter().enumerate() {
        let Some(address) = signer.address else {
            problems.push(without_address(place, signer));
            continue;
        };
        for chain in &config.chains {
            if signer.chains.contains(&chain.name) {
                let lane = Lane {
                    chain: chain.id,
                    signer: address,
                };
                lanes.push((lane, signer.max_in_flight));
            }
        }
    }
    lanes
}

fn without_address(place: usize, signer: &Signer) -> Problem {
    match signer.key {
        Some(key @ "key.mnemonic_env") => Problem::new(
            format!("signer[{place}].{key}"),
            "this version reads no keys; write each address down as a [[signer]] of its own",
        ),
        Some(key) => Problem::new(
            format!("signer[{place}].address"),
            format!("is needed: this version reads no keys and cannot find the address of {key}"),
        ),
        None => Problem::new(format!("signer[{place}].address"), "is needed"),
    }
}

fn cluster(node: &Node, environment: &Environment, problems: &mut Vec<Problem>) -> Option<Secret> {
    let name = node.cluster_secret_env.as_deref()?;
    let why = match environment.get(name) {
        None => format!("the variable {name} is not set"),
        Some(secret) if secret.len() < SECRET_BYTES_MIN => {
            format!("the variable {name} holds a secret of less than {SECRET_BYTES_MIN} bytes")
        }
        Some(secret) => return Some(Secret::new(secret.to_owned())),
    };
    problems.push(Problem::new("node.cluster_secret_env", why));
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
    keys(file, problems)
}

fn keys(file: &Path, problems: &mut Vec<Problem>) -> Option<Access> {
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
