//! A lane that does not move, on a real EVM: nodes that soon call it stuck, transactions that pay too little
//! or enough, and what the API tells of all that.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::postgres::{Database, shared};
use fencepost_testkit::wait;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::ledger::id;
use super::market::{GWEI, Market};
use super::member::Member;

const FINALITY: &str = "poll_interval = \"100ms\"\nfinality.confirmations = 2\n";
/// Tests of this kind wait for seconds, many at once: more often, and the machine would do nothing else.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// In gwei.
const LITTLE: u64 = 2;
const ENOUGH: u64 = 300;

/// Nodes that call a lane stuck after so long, and send the same bytes again after so long. What is sent again
/// before it is stuck may be refused, for anvil takes nothing that pays less than the next block costs,
/// and then the reason would be another one.
pub(crate) fn careful(policy: &str, after: &str, resubmit: &str) -> String {
    format!(
        "[resubmit]\ninterval = \"{resubmit}\"\n[confirmations]\nstale_receipt_timeout = \"1s\"\n\
         [stuck]\nafter = \"{after}\"\npolicy = \"{policy}\"\n"
    )
}

/// A fleet on a chain.
pub(crate) struct Care {
    pub(crate) market: Market,
    pub(crate) signer: Address,
    pub(crate) fleet: Fleet,
    _database: Database,
}

impl Care {
    /// With these sections.
    pub(crate) async fn new(sections: &str) -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let market = Market::open().await?;
        let signer = accounts(1).await?[0];
        let fleet = Fleet::new(database.url(), 1)?
            .chain("main", CHAIN_ID, &[market.url()], FINALITY)
            .with(sections);
        Ok(Self {
            market,
            signer,
            fleet,
            _database: database,
        })
    }

    /// The payload of the n-th pays somebody of its own, so that paying twice would be seen.
    fn request(&self, n: u8, gwei: u64) -> Value {
        json!({
            "signer": self.signer.to_string(),
            "requestId": format!("payload {n}"),
            "payload": {
                "to": payee(n).to_string(),
                "value": "1000",
                "gas": "21000",
                "maxFeePerGas": (gwei * GWEI).to_string(),
                "maxPriorityFeePerGas": "1000000000",
            },
        })
    }

    /// A head that pays too little once blocks are dear, and some behind it that pay enough; all of them are
    /// in the pool. Returns their ids.
    pub(crate) async fn poor_head(&self, node: &Member, behind: u8) -> Result<Vec<String>> {
        let mut requests = vec![self.request(0, LITTLE)];
        requests.extend((1..=behind).map(|n| self.request(n, ENOUGH)));
        let accepted = node.post_all(&requests).await?;
        self.market.pooled(u64::from(behind) + 1).await?;
        Ok(accepted.iter().map(id).collect())
    }

    /// Some that pay enough; their payees are those from `first` on.
    pub(crate) async fn rich(&self, node: &Member, first: u8, count: u8) -> Result<Vec<String>> {
        let requests = (first..first + count).map(|n| self.request(n, ENOUGH));
        let accepted = node.post_all(&requests.collect::<Vec<_>>()).await?;
        Ok(accepted.iter().map(id).collect())
    }

    pub(crate) async fn lane(&self, node: &Member) -> Result<Value> {
        node.get(&format!("/api/v1/signers/{}", self.signer)).await
    }

    /// Each of these payloads was executed once, or none of them was.
    pub(crate) async fn executed(
        &self,
        payloads: impl IntoIterator<Item = u8>,
        once: bool,
    ) -> Result<()> {
        for n in payloads {
            let paid = self.market.balance(payee(n)).await?;
            ensure!(paid == u64::from(once) * 1_000, "payload {n} paid {paid}");
        }
        Ok(())
    }
}

pub(crate) fn payee(n: u8) -> Address {
    Address::repeat_byte(0x40 + n)
}

/// Waits until a transaction stands there: `STUCK/GAP`, or `CONFIRMED`.
pub(crate) async fn until_state(node: &Member, id: &str, words: &str) -> Result<Value> {
    let last = std::cell::RefCell::new(Value::Null);
    let stands = wait::until(words, || async {
        let tx = node.tx(id).await?;
        *last.borrow_mut() = tx.clone();
        if is(&tx, words) {
            return Ok(Some(tx));
        }
        sleep(BETWEEN_LOOKS).await;
        Ok(None)
    })
    .await;
    stands.with_context(|| format!("{} {:#?}", last.borrow(), node.log()))
}

/// Whether something stands at `STUCK/GAP`, or `CONFIRMED`.
pub(crate) fn is(told: &Value, words: &str) -> bool {
    let (state, sub) = words
        .split_once('/')
        .map_or((words, None), |(state, sub)| (state, Some(sub)));
    told["state"] == state && told["subState"].as_str() == sub
}

/// What was asked for and done to a transaction, newest first.
pub(crate) async fn remedies(node: &Member, id: &str) -> Result<Vec<Value>> {
    let answer = node.get(&format!("/api/v1/tx/{id}/remedies")).await?;
    Ok(answer["remedies"].as_array().context("remedies")?.clone())
}

/// What the feed tells so far: its numbers have no holes.
pub(crate) async fn feed(node: &Member) -> Result<Vec<Value>> {
    let path = "/api/v1/tx/completions?after=0&limit=1000";
    let answer = node.get(path).await?;
    let told = answer["completions"].as_array().context("completions")?;
    for (seq, completion) in (1_u64..).zip(told) {
        ensure!(completion["seq"] == seq, "number {seq}: {completion}");
    }
    Ok(told.clone())
}

/// How often the feed tells this of a transaction.
pub(crate) async fn told(node: &Member, id: &str, words: &str) -> Result<usize> {
    let told = feed(node).await?;
    let of = |told: &&Value| told["txId"] == id && is(told, words);
    Ok(told.iter().filter(of).count())
}
