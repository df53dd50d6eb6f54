//! The configuration of a node: short times, so that what takes minutes elsewhere takes seconds here.

use fencepost_testkit::postgres::Database;

use super::anvil::AnvilChain;
use super::dev::DevChain;
use super::lane::{Chain, SIGNERS};
use super::node::Ways;

pub(crate) const PHRASE: &str = "test test test test test test test test test test test junk";
pub(crate) const PHRASE_VARIABLE: &str = "CHAOS_PHRASE";
pub(crate) const SECRET_VARIABLE: &str = "CHAOS_CLUSTER_SECRET";

pub(crate) const LEASE_MS: u64 = 3_000;
pub(crate) const SKEW_MS: u64 = 100;
/// Blocks on top of a transaction's until it is final. Reorgs are never so deep.
pub(crate) const CONFIRMATIONS: u64 = 6;
/// What has waited for less is not stuck.
pub(crate) const STUCK_AFTER_S: u64 = 20;
/// … unless it was sent so often.
pub(crate) const STUCK_ATTEMPTS: u64 = 10;
pub(crate) const LOAN_GRACE_S: u64 = 3;

/// The text of a node's file.
pub(crate) fn text(
    name: &str,
    node: usize,
    database: &Database,
    ways: &Ways,
    chains: (&AnvilChain, &DevChain),
) -> String {
    let store = database.url_through(ways.store.addr());
    let anvil = [format!("http://{}", chains.0.way(node).addr())];
    let chain = |chain: Chain, rpc: &[String]| {
        format!(
            "[[chain]]\nname = \"{}\"\nid = {}\nrpc = {rpc:?}\npoll_interval = \"400ms\"\n\
             finality.confirmations = {CONFIRMATIONS}\n",
            chain.name(),
            chain.id(),
        )
    };
    format!(
        "[node]\nid = \"{name}\"\nlisten = \"127.0.0.1:0\"\ncluster_secret_env = \"{SECRET_VARIABLE}\"\n\
         [store]\nurl = \"{store}\"\nstatement_timeout = \"1400ms\"\nrow_secret_env = \"{SECRET_VARIABLE}\"\n{}{}\
         [[signer]]\nchains = [\"anvil\", \"dev\"]\nkey.mnemonic_env = \"{PHRASE_VARIABLE}\"\n\
         key.count = {SIGNERS}\n\
         [lease]\nduration = \"{LEASE_MS}ms\"\nrenew_interval = \"500ms\"\n\
         clock_skew_allowance = \"{SKEW_MS}ms\"\n\
         [submit]\nwindow = 128\n[resubmit]\ninterval = \"4s\"\n\
         [confirmations]\nstale_receipt_timeout = \"5s\"\npublish = true\n\
         [stuck]\nafter = \"{STUCK_AFTER_S}s\"\nmax_attempts = {STUCK_ATTEMPTS}\n\
         [reservation]\nttl = \"60s\"\ngrace = \"{LOAN_GRACE_S}s\"\n",
        chain(Chain::Anvil, &anvil),
        chain(Chain::Dev, &chains.1.urls(node)),
    )
}
