//! `fencepost dev`: a node with everything around it, for a first try. It is the node that `serve` runs,
//! with a configuration made here: an SQLite file, the usual test phrase, and a devchain or the chain that
//! was named.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_devchain::{
    Config as ChainConfig, Devchain, EndpointId, Server, ServerConfig, Shared,
};
use fencepost_domain::{Address, U256};
use fencepost_signer::{KeySource, KeySpec, Keyring};
use tempfile::TempDir;

use crate::cli::dev::Dev;
use crate::config::Config;
use crate::config::environment::Environment;
use crate::failure::Failure;
use crate::output::print;
use crate::serve::serve_then;

/// The phrase whose accounts anvil and hardhat fund. Everybody knows it.
pub(crate) const PHRASE: &str = "test test test test test test test test test test test junk";
const VARIABLE: &str = "FENCEPOST_DEV_MNEMONIC";
/// What each account begins with.
const ETHER: u64 = 10_000;
/// The built-in chain's id, the usual one of chains to try things with.
const CHAIN_ID: u64 = 31_337;

/// Runs it until it is told to stop.
pub(crate) async fn dev(options: Dev, environment: Environment) -> Result<(), Failure> {
    let signers = addresses(options.signers).await?;
    let (place, _kept) = place(&options)?;
    let (chain, url, id) = match &options.rpc {
        Some(url) => (None, url.clone(), chain_id(url).await?),
        None => {
            let (server, url) = chain(&options, &signers).await?;
            (Some(server), url, CHAIN_ID)
        }
    };
    let text = configuration(&options, &place, &url, id);
    let environment = environment.with(VARIABLE, PHRASE);
    let (config, serving) = Config::parse_to_serve(&text, &environment)?;
    let block_time = options.block_time;
    let served = serve_then(config, serving, |listening| {
        let built_in = options.rpc.is_none().then_some(block_time);
        print(&welcome(listening, built_in, &url, id, &signers))
    })
    .await;
    if let Some(chain) = chain {
        chain.stop().await;
    }
    served
}

/// The accounts of the phrase.
pub(crate) async fn addresses(count: u32) -> Result<Vec<Address>, Failure> {
    let source = KeySource::Mnemonic {
        phrase: PHRASE.into(),
        count,
    };
    let spec = KeySpec {
        source,
        address: None,
    };
    let opened = Keyring::open(vec![spec]).await;
    let keyring = opened.map_err(|_| Failure::new("no keys", "the test phrase gives none"))?;
    Ok(keyring.addresses().concat())
}

/// Where the store is, and what removes it at the end.
fn place(options: &Dev) -> Result<(PathBuf, Option<TempDir>), Failure> {
    match &options.store {
        Some(file) if options.rpc.is_none() && file.exists() => Err(Failure::Usage(format!(
            "--store {} exists, and the built-in chain begins anew: its transactions would never end; \
             remove it, or use --rpc",
            file.display()
        ))),
        Some(file) => Ok((file.clone(), None)),
        None => {
            let made = tempfile::Builder::new().prefix("fencepost-dev-").tempdir();
            let made = made.map_err(|error| Failure::new("no place for the store", error))?;
            Ok((made.path().join("fencepost.db"), Some(made)))
        }
    }
}

/// Starts the built-in chain.
async fn chain(options: &Dev, signers: &[Address]) -> Result<(Server, String), Failure> {
    let each = U256::from(ETHER) * U256::from(10).pow(U256::from(18));
    let shared = Shared::new(Devchain::new(ChainConfig {
        chain_id: CHAIN_ID,
        accounts: signers.iter().map(|signer| (*signer, each)).collect(),
        ..ChainConfig::default()
    }));
    let start = |listen: SocketAddr| {
        let config = ServerConfig {
            listen,
            block_interval: Some(options.block_time),
            ..ServerConfig::default()
        };
        Server::start(shared.clone(), config)
    };
    let mut listen = options.chain_listen;
    let started = match start(listen).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            listen.set_port(0);
            start(listen).await
        }
        other => other,
    };
    let doing = || format!("the chain cannot listen on {listen}");
    let server = started.map_err(|error| Failure::new(doing(), error))?;
    let url = server.url(EndpointId(0));
    Ok((server, url))
}

/// Asks a node for its chain's id.
async fn chain_id(url: &str) -> Result<u64, Failure> {
    let doing = "the node at --rpc cannot be asked for its chain id";
    let failed = |error: String| Failure::new(doing, error);
    let ask = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []});
    let client = crate::client::plain().map_err(|error| failed(error.to_string()))?;
    // The URL may hold a key, so it is not repeated.
    let bare = |error: reqwest::Error| failed(error.without_url().to_string());
    let asked = client.post(url).json(&ask).timeout(Duration::from_secs(5));
    let answer: serde_json::Value = asked
        .send()
        .await
        .map_err(bare)?
        .json()
        .await
        .map_err(bare)?;
    let told = answer["result"]
        .as_str()
        .and_then(|id| id.strip_prefix("0x"));
    let id = told.and_then(|id| u64::from_str_radix(id, 16).ok());
    id.ok_or_else(|| failed("its answer has no chain id".to_owned()))
}

/// What `serve` would be given.
fn configuration(options: &Dev, store: &std::path::Path, rpc: &str, id: u64) -> String {
    let listen = options.listen;
    let (count, confirmations) = (options.signers, options.confirmations);
    let store = toml::Value::String(format!("sqlite://{}", store.display()));
    let rpc = toml::Value::String(rpc.to_owned());
    // Twice in each block, so that a block is seen soon after it is there.
    let poll = humantime::format_duration(
        (options.block_time / 4).clamp(Duration::from_millis(50), Duration::from_secs(1)),
    );
    format!(
        "[node]\nid = \"dev\"\nlisten = \"{listen}\"\n\
         [store]\nurl = {store}\n\
         [[chain]]\nname = \"dev\"\nid = {id}\nrpc = [{rpc}]\npoll_interval = \"{poll}\"\n\
         finality.confirmations = {confirmations}\n\
         [[signer]]\nchains = [\"dev\"]\nkey.mnemonic_env = \"{VARIABLE}\"\nkey.count = {count}\n\
         [resubmit]\ninterval = \"5s\"\n[confirmations]\nstale_receipt_timeout = \"5s\"\n"
    )
}

fn welcome(
    listening: SocketAddr,
    block_time: Option<Duration>,
    rpc: &str,
    id: u64,
    signers: &[Address],
) -> String {
    let api = format!("http://{listening}");
    let chain = match block_time {
        Some(time) => {
            let time = humantime::format_duration(time);
            format!("{rpc}, id {id}, a block every {time}; {ETHER} ether for each signer")
        }
        None => format!("the one at --rpc, id {id}"),
    };
    let shown = signers.iter().take(4).map(|signer| format!("  {signer}\n"));
    let shown: String = shown.collect();
    let rest = signers.len().saturating_sub(4);
    let more = match rest {
        0 => String::new(),
        rest => format!("  … and {rest} more: fencepost signers list --url {api}\n"),
    };
    let first = signers[0];
    let to = signers.last().copied().unwrap_or(first);
    format!(
        "Fencepost is ready. The API is at {api}, its description at {api}/docs\n\
         Chain: {chain}\n\
         Signers:\n{shown}{more}\n\
         Send something:\n  \
         curl -s {api}/api/v1/tx -H 'content-type: application/json' -d \\\n    \
         '{{\"signer\":\"{first}\",\"requestId\":\"first\",\"payload\":{{\"to\":\"{to}\",\"value\":\"1000\"}}}}'\n\n\
         See how it ends:\n  \
         curl -s '{api}/api/v1/tx/completions?wait=30'\n\n\
         Ctrl-C ends it; nothing is kept."
    )
}
