//! Five hundred transactions on a real EVM: transfers, calls and calls that are reverted, over five
//! signers and two nodes. Afterwards chain and store agree on everything.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::shared;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::ledger::{attempts, feed_without_holes, id};
use super::member::Member;
use super::rpc::{Rpc, number};

const SIGNERS: u32 = 5;
const COUNT: usize = 500;
/// How many questions are put at once while both sides are compared.
const AT_ONCE: usize = 8;

/// A contract that counts, for each word it is called with, how often that was; a word that begins
/// with 0xfd is reverted. The first nine bytes return the rest.
const COUNTER: &str = "0x601b8060093d393df3\
    600035806000\
    1a60fd14601557\
    80546001019055005b60006000fd";

/// What a transaction is there for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Purpose {
    Transfer,
    Count,
    Revert,
}

impl Purpose {
    fn of(n: usize) -> Self {
        match n % 5 {
            0 | 2 => Self::Transfer,
            4 => Self::Revert,
            _ => Self::Count,
        }
    }
}

/// The word that the n-th call is made with; no two are the same.
fn word(n: usize) -> String {
    let first = match Purpose::of(n) {
        Purpose::Revert => "fd",
        Purpose::Transfer | Purpose::Count => "01",
    };
    format!("0x{first}{n:062x}")
}

fn payee(n: usize) -> Result<Address> {
    Ok(format!("0x{:040x}", 0xabc_0000 + n).parse()?)
}

fn request(n: usize, signers: &[Address], contract: &Value) -> Result<Value> {
    let payload = match Purpose::of(n) {
        Purpose::Transfer => json!({ "to": payee(n)?.to_string(), "value": (n + 1).to_string() }),
        Purpose::Count => json!({ "to": contract, "data": word(n) }),
        // Given, because nobody can estimate what is reverted.
        Purpose::Revert => json!({ "to": contract, "data": word(n), "gas": "100000" }),
    };
    Ok(json!({
        "signer": signers[n % signers.len()].to_string(),
        "requestId": format!("request {n}"),
        "payload": payload,
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn chain_and_store_agree_on_everything_that_was_sent() -> Result<()> {
    let database = shared().await?.create_database().await?;
    // With epochs of one slot a block is final when two are on top of it.
    let anvil = Anvil::start(&["--block-time", "1", "--slots-in-an-epoch", "1"]).await?;
    let rpc = Rpc::new(anvil.url());
    let signers = accounts(SIGNERS).await?;
    let more = "poll_interval = \"250ms\"\nfinality.mode = \"finalized\"";
    let fleet = Fleet::new(database.url(), SIGNERS)?;
    let fleet = fleet.chain("main", CHAIN_ID, &[anvil.url().to_owned()], more);
    let nodes = [fleet.start("a").await?, fleet.start("b").await?];

    let contract = deploy(&nodes[0], signers[0]).await?;
    let requests: Result<Vec<Value>> = (0..COUNT)
        .map(|n| request(n, &signers, &contract))
        .collect();
    let requests = requests?;
    let mut ids = Vec::new();
    for (n, part) in requests.chunks(COUNT / 4).enumerate() {
        let accepted = nodes[n % 2].post_all(part).await?;
        ids.extend(accepted.iter().map(id));
    }
    let told = feed_without_holes(&nodes[1], COUNT + 1).await?;
    let told: HashMap<String, Value> = told.into_iter().map(|told| (id(&told), told)).collect();

    let compared = stream::iter(ids.iter().enumerate()).map(|(n, id)| {
        let (node, rpc, told) = (&nodes[n % 2], &rpc, &told);
        let (request, contract) = (&requests[n], &contract);
        async move {
            let told = told.get(id).context("it was not told")?;
            let place = agree(node, rpc, n, id, request, told).await;
            executed(rpc, n, contract).await?;
            place.with_context(|| format!("the {n}-th"))
        }
    });
    let places: Vec<Place> = compared.buffered(AT_ONCE).try_collect().await?;
    in_order(&rpc, &signers, &places).await
}

/// Through Fencepost itself; returns the contract's address.
async fn deploy(node: &Member, signer: Address) -> Result<Value> {
    let payload = json!({ "data": COUNTER });
    let (status, tx) = node
        .post(&json!({ "signer": signer.to_string(), "payload": payload }))
        .await?;
    ensure!(status.is_success(), "{tx}");
    feed_without_holes(node, 1).await?;
    let tx = node.tx(&id(&tx)).await?;
    ensure!(tx["state"] == "CONFIRMED", "{tx}");
    Ok(tx["receipt"]["contractAddress"].clone())
}

/// Where a transaction is on the chain.
#[derive(Debug)]
struct Place {
    nonce: u64,
    block: u64,
    index: u64,
}

/// What the API, the feed and the chain say of one transaction is the same.
async fn agree(
    node: &Member,
    rpc: &Rpc,
    n: usize,
    id: &str,
    request: &Value,
    told: &Value,
) -> Result<Place> {
    let tx = node.tx(id).await?;
    let hash = &tx["txHash"];
    let receipt = rpc.receipt(hash).await?;
    let mined = rpc.call("eth_getTransactionByHash", json!([hash])).await?;
    let place = Place {
        nonce: number(&mined["nonce"])?,
        block: number(&receipt["blockNumber"])?,
        index: number(&receipt["transactionIndex"])?,
    };
    let (status, state, sub_state) = match Purpose::of(n) {
        Purpose::Revert => ("0x0", "FAILED_FINAL", json!("REVERTED")),
        Purpose::Transfer | Purpose::Count => ("0x1", "CONFIRMED", Value::Null),
    };
    ensure!(receipt["status"] == status, "{receipt}");
    for answer in [&tx, told] {
        ensure!(
            answer["state"] == state && answer["subState"] == sub_state,
            "{answer}"
        );
        ensure!(
            answer["nonce"] == place.nonce && answer["blockNumber"] == place.block,
            "{answer}"
        );
        ensure!(
            answer["txHash"] == *hash && answer["requestId"] == request["requestId"],
            "{answer}"
        );
    }
    ensure!(tx["blockHash"] == receipt["blockHash"], "{tx} {receipt}");
    ensure!(
        attempts(node, id).await? == [hash.as_str().unwrap_or_default()],
        "{tx}"
    );
    let same = |ours: &Value, theirs: &Value| match (ours.as_str(), theirs.as_str()) {
        (Some(ours), Some(theirs)) => ours.eq_ignore_ascii_case(theirs),
        (_, _) => false,
    };
    let payload = &request["payload"];
    ensure!(same(&request["signer"], &mined["from"]), "{mined}");
    ensure!(same(&payload["to"], &mined["to"]), "{mined}");
    if payload["data"].is_string() {
        ensure!(same(&payload["data"], &mined["input"]), "{mined}");
    }
    Ok(place)
}

/// Each payload has had its effect once, or none when it was reverted.
async fn executed(rpc: &Rpc, n: usize, contract: &Value) -> Result<()> {
    let (had, expected) = match Purpose::of(n) {
        Purpose::Transfer => {
            let balance = json!([payee(n)?.to_string(), "latest"]);
            let balance = rpc.call("eth_getBalance", balance).await?;
            (number(&balance)?, u64::try_from(n + 1)?)
        }
        Purpose::Count => (counted(rpc, n, contract).await?, 1),
        Purpose::Revert => (counted(rpc, n, contract).await?, 0),
    };
    ensure!(had == expected, "the {n}-th, {:?}: {had}", Purpose::of(n));
    Ok(())
}

async fn counted(rpc: &Rpc, n: usize, contract: &Value) -> Result<u64> {
    let slot = json!([contract, word(n), "latest"]);
    let count = rpc.call("eth_getStorageAt", slot).await?;
    let count = count.as_str().and_then(|word| word.get(word.len() - 16..));
    Ok(u64::from_str_radix(count.context("a word")?, 16)?)
}

/// The nonces of each signer are in the order of the requests, and on the chain in the order of nonces.
async fn in_order(rpc: &Rpc, signers: &[Address], places: &[Place]) -> Result<()> {
    for (s, signer) in signers.iter().enumerate() {
        let theirs: Vec<&Place> = places.iter().skip(s).step_by(signers.len()).collect();
        // The first signer's first nonce made the contract.
        let first = u64::from(s == 0);
        for (nonce, place) in (first..).zip(&theirs) {
            ensure!(place.nonce == nonce, "{place:?} where {nonce} should be");
        }
        let ordered = theirs
            .windows(2)
            .all(|pair| (pair[0].block, pair[0].index) < (pair[1].block, pair[1].index));
        ensure!(ordered, "{theirs:?}");
        let count = json!([signer.to_string(), "latest"]);
        let count = number(&rpc.call("eth_getTransactionCount", count).await?)?;
        ensure!(
            count == first + u64::try_from(theirs.len())?,
            "{signer}: {count}"
        );
    }
    Ok(())
}
