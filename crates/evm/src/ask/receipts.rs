//! Receipts: of one block as one endpoint says, and wherever they are.

use std::collections::HashMap;
use std::sync::Arc;

use fencepost_app::ports::{Receipt, Source};
use fencepost_domain::B256;
use fencepost_domain::state::Block;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::receipt;
use crate::endpoint::{Endpoint, Feature, Order};
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Answer, Call, Fault, quoted, value};

/// More than this in one block are read with all of the block's receipts, which is one small call and
/// one long answer.
const SINGLES_MAX: usize = 8;

impl Endpoints {
    /// Where a block is too much for the time that there is, none for those that are left: something came of it, and
    /// who asks again gets the next ones. Asked all or nothing, a slow endpoint would never get past the block.
    pub(crate) async fn receipts_in(
        &self,
        source: Source,
        block: Block,
        hashes: &[B256],
    ) -> Result<Vec<Option<Receipt>>, Unasked> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let until = self.until();
        let endpoint = self.at(source, until).await?;
        let found = self.found_in(endpoint, block, hashes, until).await;
        let mut found = found.map_err(|fault| self.fault(endpoint, fault))?;
        for receipt in &mut found {
            receipt.take_if(|receipt| receipt.block != block);
        }
        endpoint.add_reasons(&mut found, until).await;
        Ok(found)
    }

    async fn found_in(
        &self,
        endpoint: &Endpoint,
        block: Block,
        hashes: &[B256],
        until: Instant,
    ) -> Result<Vec<Option<Receipt>>, Fault> {
        // Whatever it is, the next pass should be read elsewhere.
        let blamed = |fault: Fault| {
            endpoint.fails(&fault);
            fault
        };
        if hashes.len() > SINGLES_MAX && endpoint.has(Feature::BlockReceipts) {
            match whole_block(endpoint, block, hashes, halfway(until)).await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(Fault::TimedOut) => {
                    endpoint.is_slow_with(Feature::BlockReceipts);
                    // It is there, but another one may be quicker.
                    if let Some(other) = self.second(endpoint.position()) {
                        self.read_from(&other);
                        return Err(Fault::TimedOut);
                    }
                }
                Err(fault) => return Err(blamed(fault)),
            }
        }
        let enough = halfway(until);
        let mut found = Vec::with_capacity(hashes.len());
        while found.len() < hashes.len() && (found.is_empty() || Instant::now() < enough) {
            let left = &hashes[found.len()..];
            // As many as go out together: an endpoint that is slow with them is asked for fewer the next time.
            let portion = &left[..left.len().min(endpoint.together())];
            let (more, fault) = portion_in(endpoint, portion, until).await;
            found.extend(more);
            match fault {
                None => {}
                Some(Fault::NoTime | Fault::TimedOut) if !found.is_empty() => break,
                Some(fault) => return Err(blamed(fault)),
            }
        }
        found.resize(hashes.len(), None);
        Ok(found)
    }

    /// The reader may be a replica that has not seen the block yet: what it has not is asked of
    /// another, if there is one.
    pub(crate) async fn receipts(&self, hashes: &[B256]) -> Result<Vec<Option<Receipt>>, Unasked> {
        if hashes.is_empty() {
            return Ok(Vec::new());
        }
        let until = self.until();
        let question = |endpoint: Arc<Endpoint>| async move {
            let found = self.found(&endpoint, hashes, until).await?;
            Ok((endpoint, found))
        };
        let (reader, mut found) = self.read(until, question).await?;
        let missing = |found: &[Option<Receipt>]| -> Vec<usize> {
            (0..found.len())
                .filter(|place| found[*place].is_none())
                .collect()
        };
        let places = missing(&found);
        if let (false, Some(second)) = (places.is_empty(), self.second(reader.position())) {
            let again: Vec<_> = places.iter().map(|place| hashes[*place]).collect();
            // What the first has told stands, however the second does.
            if let Ok(more) = self.found(&second, &again, until).await {
                places
                    .into_iter()
                    .zip(more)
                    .for_each(|(place, receipt)| found[place] = receipt);
            }
        }
        reader.add_reasons(&mut found, until).await;
        Ok(found)
    }

    /// One at a time; an error of the node about one is no word about the others, and no proof of
    /// anything.
    async fn found(
        &self,
        endpoint: &Endpoint,
        hashes: &[B256],
        until: Instant,
    ) -> Result<Vec<Option<Receipt>>, Fault> {
        let answers = singles(endpoint, hashes, until).await;
        let is_silent =
            |answer: &Answer| matches!(answer, Err(fault) if !matches!(fault, Fault::Node { .. }));
        if answers.iter().all(is_silent) {
            return Err(answers
                .into_iter()
                .find_map(Result::err)
                .unwrap_or(Fault::Unanswered));
        }
        let unknown = answers.iter().filter(|answer| answer.is_err()).count();
        if unknown > 0 {
            self.meters.receipts_unknown(unknown);
        }
        let read = |(answer, hash): (Answer, &B256)| receipt::read(&answer.ok()?, *hash);
        Ok(answers.into_iter().zip(hashes).map(read).collect())
    }

    fn second(&self, reader: usize) -> Option<Arc<Endpoint>> {
        let mut others = self
            .all
            .iter()
            .filter(|endpoint| endpoint.position() != reader);
        let is_fit = |endpoint: &&Arc<Endpoint>| {
            let standing = endpoint.standing();
            standing.is_good() && !standing.is_lagging()
        };
        others.find(is_fit).cloned()
    }
}

/// When half of what is left until then is over.
fn halfway(until: Instant) -> Instant {
    let now = Instant::now();
    now + until.saturating_duration_since(now) / 2
}

/// One by one, up to the first that there is no answer to, and why there is none. Nobody is blamed yet.
async fn portion_in(
    endpoint: &Endpoint,
    hashes: &[B256],
    until: Instant,
) -> (Vec<Option<Receipt>>, Option<Fault>) {
    let calls = calls(hashes);
    let answers = endpoint.ask_in_passing(Purpose::Receipts, &calls, until);
    let read = |(answer, hash): (Answer, &B256)| {
        let raw = answer?;
        if value::is_null(&raw) {
            return Ok(None);
        }
        let strange = Fault::Garbled("no receipt of this transaction");
        receipt::read(&raw, *hash).map(Some).ok_or(strange)
    };
    let mut found = Vec::with_capacity(hashes.len());
    for answer in answers.await.into_iter().zip(hashes) {
        match read(answer) {
            Ok(receipt) => found.push(receipt),
            Err(fault) => return (found, Some(fault)),
        }
    }
    (found, None)
}

/// All receipts of the block at once; none where the endpoint does not do that. There are nodes to which a block with
/// a thousand transactions is nothing, and one with eight thousand half a minute's work.
async fn whole_block(
    endpoint: &Endpoint,
    block: Block,
    hashes: &[B256],
    soon: Instant,
) -> Result<Option<Vec<Option<Receipt>>>, Fault> {
    let call = Call::new("eth_getBlockReceipts", &[&quoted(block.hash)]);
    let answers = endpoint
        .ask_in_passing(Purpose::Receipts, &[call], soon)
        .await;
    let raw = match answers.into_iter().next().unwrap_or(Err(Fault::Unanswered)) {
        Ok(raw) => raw,
        Err(fault) if fault.is_of_method() => {
            endpoint.lacks(Feature::BlockReceipts);
            return Ok(None);
        }
        // Too many for one answer.
        Err(Fault::TooLarge(_)) => {
            endpoint.is_slow_with(Feature::BlockReceipts);
            return Ok(None);
        }
        // An error of this method only.
        Err(fault @ Fault::Node { .. }) if !fault.is_limit() => return Ok(None),
        Err(fault) => return Err(fault),
    };
    // It does not have the block by this name. It may have the receipts, and is asked for them one by one.
    if value::is_null(&raw) {
        return Ok(None);
    }
    let strange = Fault::Garbled("no list of receipts");
    let list: Vec<&RawValue> = value::thing(&raw).ok_or(strange)?;
    let by_hash: HashMap<B256, &RawValue> = list
        .into_iter()
        .filter_map(|raw| Some((receipt::of(raw)?, raw)))
        .collect();
    let read = |hash: &B256| receipt::read(by_hash.get(hash)?, *hash);
    Ok(Some(hashes.iter().map(read).collect()))
}

async fn singles(endpoint: &Endpoint, hashes: &[B256], until: Instant) -> Vec<Answer> {
    endpoint
        .ask(Purpose::Receipts, &calls(hashes), Order::Free, until)
        .await
}

fn calls(hashes: &[B256]) -> Vec<Call> {
    let call = |hash: &B256| Call::new("eth_getTransactionReceipt", &[&quoted(hash)]);
    hashes.iter().map(call).collect()
}
