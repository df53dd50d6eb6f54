//! A crash between any two effects: the process dies at a fail point as if it were killed there, and is
//! started again, or another node takes over. Either way each payload is executed once, under one nonce,
//! by the only bytes that were ever stored for it or seen by the chain.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_devchain::GWEI;
use fencepost_domain::{Address, B256, U256};
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};
use super::ledger::{attempts, feed_without_holes, id, one_of_each};
use super::member::Member;

/// In the order of a transaction's life.
const POINTS: [&str; 14] = [
    "before_allocate",
    "after_allocate",
    "before_sign",
    "after_sign",
    "before_store",
    "after_store",
    "before_send",
    "after_send",
    "before_outcome",
    "after_outcome",
    "before_receipt",
    "after_receipt",
    "before_final",
    "after_final",
];
/// How many of them are tried at once: more would only wait for the machine.
const AT_ONCE: usize = 4;
const BLOCK: Duration = Duration::from_millis(250);
const ABORTED: i32 = 6;
/// More than one, so that a crash meets some that have come further than others.
const PAYLOADS: u8 = 3;

/// Who goes on after the crash.
#[derive(Clone, Copy, PartialEq)]
enum Heir {
    Itself,
    Another,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_at_any_step_finishes_everything_once_when_it_starts_again() -> Result<()>
{
    at_every_point(Heir::Itself).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_dies_at_any_step_is_replaced_and_everything_is_finished_once() -> Result<()> {
    at_every_point(Heir::Another).await
}

async fn at_every_point(heir: Heir) -> Result<()> {
    stream::iter(POINTS)
        .map(|point| async move { crash(point, heir).await.context(point) })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

async fn crash(point: &str, heir: Heir) -> Result<()> {
    let database = shared().await?.create_database().await?;
    let signer = accounts(1).await?[0];
    let chain = Chain::start(CHAIN_ID, &[signer], BLOCK).await?;
    let rpc = [chain.url(0)];
    let fleet = Fleet::new(database.url(), 1)?.leasing_shortly().chain(
        "main",
        CHAIN_ID,
        &rpc,
        "poll_interval = \"100ms\"\nfinality.confirmations = 2",
    );
    let mut dying = fleet.start_trapped("a", &format!("{point}:1")).await?;
    let other = match heir {
        Heir::Itself => None,
        Heir::Another => Some(fleet.start("b").await?),
    };
    let requests = requests(signer);
    // Whoever dies before it could answer leaves its client with nothing but the names.
    let told = dying.post_all(&requests).await.unwrap_or_default();
    dies_at(&mut dying, point).await?;
    // Whoever signs again what was signed before makes other bytes of it.
    chain.shared.lock().set_base_fee(Some(2 * GWEI));
    let heir = match other {
        Some(other) => other,
        None => fleet.start("a").await?,
    };
    let again = heir.post_all(&requests).await?;
    let ids: Vec<String> = again.iter().map(id).collect();
    if !told.is_empty() {
        let before: Vec<String> = told.iter().map(id).collect();
        ensure!(ids == before, "{before:?} were accepted, then {ids:?}");
    }
    feed_without_holes(&heir, ids.len()).await?;
    one_of_each(&heir, &chain, signer, &ids).await?;
    executed_once(&heir, &chain, signer, &ids).await?;
    goes_on(&heir, signer).await
}

/// Each pays somebody else, so that paying twice would be seen.
fn requests(signer: Address) -> Vec<Value> {
    let request = |n: u8| {
        json!({
            "signer": signer.to_string(),
            "requestId": format!("payload {n}"),
            "payload": { "to": payee(n).to_string(), "value": "1000" },
        })
    };
    (0..PAYLOADS).map(request).collect()
}

fn payee(n: u8) -> Address {
    Address::repeat_byte(0xa0 + n)
}

async fn dies_at(dying: &mut Member, point: &str) -> Result<()> {
    let ended = dying.ended().await?;
    ensure!(
        ended.signal() == Some(ABORTED),
        "{ended:?} {:?}",
        dying.log()
    );
    wait::until("its last words are read", || async {
        let last = format!("FENCEPOST_TRAP: {point}:1");
        Ok(dying.log().contains(&last).then_some(()))
    })
    .await
}

async fn executed_once(
    heir: &Member,
    chain: &Chain,
    signer: Address,
    ids: &[String],
) -> Result<()> {
    for n in 0..PAYLOADS {
        let paid = chain.shared.lock().state().balance(&payee(n));
        ensure!(paid == U256::from(1_000), "payload {n} paid {paid}");
    }
    let mut seen: BTreeMap<u64, B256> = BTreeMap::new();
    for sent in chain.shared.lock().sends_of(signer) {
        let first = *seen.entry(sent.nonce).or_insert(sent.hash);
        ensure!(first == sent.hash, "two sets of bytes for {}", sent.nonce);
    }
    for (nonce, id) in (0_u64..).zip(ids) {
        let sent = seen.get(&nonce).context("it was sent")?;
        let stored = attempts(heir, id).await?;
        ensure!(
            stored == [sent.to_string()],
            "{sent} was sent, {stored:?} stored"
        );
    }
    let page = heir.get(&format!("/api/v1/tx?signer={signer}")).await?;
    let stored = page["transactions"].as_array().context("a page")?.len();
    ensure!(stored == ids.len(), "{stored} are stored");
    let lane = heir.get(&format!("/api/v1/signers/{signer}")).await?;
    let untouched = lane["nextNonce"] == PAYLOADS && lane["paused"].is_null();
    ensure!(untouched && lane["freeNonces"] == json!([]), "{lane}");
    Ok(())
}

/// The lane is as good as before: the next one has the next nonce, and ends.
async fn goes_on(heir: &Member, signer: Address) -> Result<()> {
    let request = json!({
        "signer": signer.to_string(),
        "payload": { "to": payee(PAYLOADS).to_string(), "value": "1" },
    });
    let (_, tx) = heir.post(&request).await?;
    let told = feed_without_holes(heir, usize::from(PAYLOADS) + 1).await?;
    let last = told.last().context("an ending")?;
    ensure!(
        last["txId"] == tx["txId"] && last["nonce"] == PAYLOADS,
        "{last}, not {tx}"
    );
    Ok(())
}
