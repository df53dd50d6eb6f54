//! Who used a nonce: the block in which the account's count passed it, found by halving, and the
//! transaction in that block. Every answer comes from one endpoint, so that they fit together; where
//! they do not, the chain moved meanwhile and nothing is told.

use std::sync::Arc;

use fencepost_app::ports::{BlockBody, Consumer};
use fencepost_domain::Address;
use fencepost_domain::ids::Nonce;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::blocks;
use crate::endpoint::{Endpoint, Order};
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Answer, Call, Fault, quoted, value};

/// How many blocks are looked back, further as long as the nonce was used there already. A node that prunes has
/// the states of its newest 128 blocks, and some of them pass while we ask: a deeper look fails there, and nobody
/// asks for one unless what used the nonce is that old. Twenty questions are enough for all of it.
const DEPTHS: [u64; 4] = [120, 960, 7_680, 61_440];

impl Endpoints {
    pub(crate) async fn consumer(
        &self,
        signer: Address,
        nonce: Nonce,
    ) -> Result<Option<Consumer>, Unasked> {
        let until = self.until();
        let one = |endpoint: Arc<Endpoint>| {
            let search = Search {
                endpoint,
                signer,
                nonce,
                until,
            };
            async move { search.run().await }
        };
        self.read(until, one).await
    }
}

/// One question to one endpoint.
struct Search {
    endpoint: Arc<Endpoint>,
    signer: Address,
    nonce: Nonce,
    until: Instant,
}

impl Search {
    async fn run(&self) -> Result<Option<Consumer>, Fault> {
        let Some(height) = self.height().await? else {
            return Ok(None);
        };
        let Some((body, place)) = self.full_block(height).await? else {
            return Ok(None);
        };
        let block = body.block;
        if let Some(place) = place {
            let hash = body.txs.get(place).copied();
            return Ok(Some(Consumer { block, hash }));
        }
        // Not every nonce is used by a transaction of its account: an EIP-7702 authorization uses one
        // in somebody else's. But the block may also be another by now than the counts were of.
        let is_here = self.is_used_in(&body).await?;
        Ok(is_here.then_some(Consumer { block, hash: None }))
    }

    /// The lowest block with a count above the nonce, if the one below it is known to have none: else
    /// it may have been used in any older one.
    async fn height(&self) -> Result<Option<u64>, Fault> {
        let head = value::u64(&self.ask(Call::new("eth_blockNumber", &[])).await?);
        let head = head.ok_or(Fault::Garbled("no block number"));
        let head = head.inspect_err(|fault| self.endpoint.fails(fault))?;
        if !self.is_past(&self.ask(self.count(head)).await?)? {
            return Ok(None);
        }
        let Some((mut low, mut high, mut is_certain)) = self.range(head).await? else {
            return Ok(None);
        };
        while low < high {
            let middle = low + (high - low) / 2;
            match self.is_past_there(self.ask(self.count(middle)).await)? {
                Some(true) => high = middle,
                Some(false) => (low, is_certain) = (middle + 1, true),
                None => (low, is_certain) = (middle + 1, false),
            }
        }
        Ok(is_certain.then_some(high))
    }

    /// Where to search: from one block above the highest that was asked for and is not known to have used it,
    /// and whether it is known not to have; up to the lowest that has. None if that is too long ago.
    async fn range(&self, head: u64) -> Result<Option<(u64, u64, bool)>, Fault> {
        let mut high = head;
        for depth in DEPTHS {
            let there = head.saturating_sub(depth);
            match self.is_past_there(self.ask(self.count(there)).await)? {
                Some(true) if there == 0 => return Ok(None),
                Some(true) => high = there,
                Some(false) => return Ok(Some((there + 1, high, true))),
                None => return Ok(Some((there + 1, high, false))),
            }
        }
        Ok(None)
    }

    /// Whether the count is above the nonce after a block; none where the endpoint cannot tell. It has
    /// just told the same of its newest block, so that an error is about this one: its state is pruned,
    /// whatever words the client has for it.
    fn is_past_there(&self, answer: Answer) -> Result<Option<bool>, Fault> {
        match answer {
            Ok(raw) if value::is_null(&raw) => Ok(None),
            Ok(raw) => self.is_past(&raw).map(Some),
            Err(fault) if matches!(fault, Fault::Node { .. }) && !fault.is_limit() => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    fn is_past(&self, raw: &RawValue) -> Result<bool, Fault> {
        let count = value::u64(raw).and_then(|n| Nonce::new(n).ok());
        let count = count.ok_or(Fault::Garbled("no count that an account can have"));
        let count = count.inspect_err(|fault| self.endpoint.fails(fault))?;
        Ok(count > self.nonce)
    }

    /// The block and the transaction's place in it; none where the endpoint has no such block any more.
    async fn full_block(&self, height: u64) -> Result<Option<(BlockBody, Option<usize>)>, Fault> {
        let number = quoted(format!("{height:#x}"));
        let call = Call::new("eth_getBlockByNumber", &[&number, "true"]);
        let raw = match self.ask(call).await {
            Ok(raw) if value::is_null(&raw) => return Ok(None),
            Ok(raw) => raw,
            Err(fault) if blocks::is_absent(&fault) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let body = blocks::body(&raw).filter(|body| body.block.number.get() == height);
        let body = body.ok_or(blocks::STRANGE);
        let body = body.inspect_err(|fault| self.endpoint.fails(fault))?;
        Ok(Some((body, self.place(&raw))))
    }

    /// Where in the block the signer's transaction with the nonce is; nowhere in one that tells only
    /// hashes.
    fn place(&self, raw: &RawValue) -> Option<usize> {
        #[derive(Deserialize)]
        struct Full<'a> {
            #[serde(borrow)]
            transactions: Vec<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct Sent<'a> {
            from: &'a str,
            nonce: &'a str,
        }
        let full: Full<'_> = value::thing(raw)?;
        full.transactions.into_iter().position(|tx| {
            value::thing::<Sent<'_>>(tx).is_some_and(|sent| {
                sent.from.parse() == Ok(self.signer)
                    && value::narrow(sent.nonce) == Some(self.nonce.get())
            })
        })
    }

    /// Whether the count passes the nonce in this very block: it still has its height after the counts
    /// around it were told.
    async fn is_used_in(&self, body: &BlockBody) -> Result<bool, Fault> {
        let height = body.block.number.get();
        let Some(below) = height.checked_sub(1) else {
            return Ok(false);
        };
        let calls = [self.count(below), self.count(height)];
        let answers = self
            .endpoint
            .ask(Purpose::Consumer, &calls, Order::Free, self.until)
            .await;
        let around: Result<Vec<_>, Fault> = answers
            .into_iter()
            .map(|answer| self.is_past_there(answer))
            .collect();
        if around? != [Some(false), Some(true)] {
            return Ok(false);
        }
        let number = format!("{height:#x}");
        let again = self.ask(blocks::by_number(&number)).await?;
        Ok(blocks::header(&again) == Some(body.block))
    }

    fn count(&self, height: u64) -> Call {
        let params = [quoted(self.signer), quoted(format!("{height:#x}"))];
        Call::new("eth_getTransactionCount", &[&params[0], &params[1]])
    }

    async fn ask(&self, call: Call) -> Answer {
        self.endpoint
            .ask_one(Purpose::Consumer, call, self.until)
            .await
    }
}
