//! What the API tells of transactions that have ended, held against what the chain has of them.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use serde_json::Value;

use super::fleet::Chain;
use super::member::Member;

/// Reads the feed until it has told of `count`: its numbers have no holes, and it tells of each
/// transaction once.
pub(crate) async fn feed_without_holes(member: &Member, count: usize) -> Result<Vec<Value>> {
    let told = member.completions(count).await?;
    ensure!(told.len() == count, "{} were told, not {count}", told.len());
    let mut seen = HashSet::new();
    for (seq, completion) in (1_u64..).zip(&told) {
        ensure!(completion["seq"] == seq, "number {seq}: {completion}");
        ensure!(completion["corrects"].is_null(), "{completion}");
        ensure!(seen.insert(completion["txId"].to_string()), "{completion}");
    }
    Ok(told)
}

/// Every nonce of the signer is in a block once, in order, with the hash that the store tells, and each
/// transaction was signed once.
pub(crate) async fn one_of_each(
    member: &Member,
    chain: &Chain,
    signer: Address,
    ids: &[String],
) -> Result<()> {
    let mined = chain.shared.lock().mined_of(signer);
    ensure!(mined.len() == ids.len(), "{} in blocks", mined.len());
    for ((nonce, id), mined) in (0_u64..).zip(ids).zip(mined) {
        let tx = member.tx(id).await?;
        ensure!(mined.nonce == nonce, "{mined:?} where {nonce} should be");
        ensure!(tx["state"] == "CONFIRMED" && tx["nonce"] == nonce, "{tx}");
        ensure!(
            tx["txHash"] == mined.hash.to_string(),
            "{mined:?}, but {tx}"
        );
    }
    Ok(())
}

/// The hashes of all bytes that were signed for a transaction.
pub(crate) async fn attempts(member: &Member, id: &str) -> Result<Vec<String>> {
    let answer = member.get(&format!("/api/v1/tx/{id}/attempts")).await?;
    let attempts = answer["attempts"].as_array().context("attempts")?;
    let hash = |attempt: &Value| attempt["txHash"].as_str().map(str::to_owned);
    attempts
        .iter()
        .map(|attempt| hash(attempt).context("a hash"))
        .collect()
}

pub(crate) fn id(tx: &Value) -> String {
    tx["txId"].as_str().unwrap_or_default().to_owned()
}
