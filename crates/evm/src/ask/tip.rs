//! The newest of the chain, as one endpoint says: its newest block, and the tags where it has them.

use std::sync::Arc;

use fencepost_app::ports::{BlockBody, Source, Tip};
use fencepost_domain::ids::Height;
use tokio::time::Instant;

use super::blocks;
use crate::endpoint::{Endpoint, Feature, Order};
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Answer, Fault, value};

impl Endpoints {
    /// Of the endpoint that is read from; if that fails or turns out to lag, of the next.
    pub(crate) async fn tip(self: &Arc<Self>) -> Result<Tip, Unasked> {
        let until = self.until();
        let mut tried = Vec::new();
        let mut behind: Option<Tip> = None;
        let mut failed = None;
        loop {
            let endpoint = match self.reader(&tried, until).await {
                Ok(endpoint) => endpoint,
                Err(nobody) => return behind.ok_or(failed.unwrap_or(nobody)),
            };
            tried.push(endpoint.position());
            match self.tip_of(endpoint, until).await {
                Ok(tip) if endpoint.standing().is_lagging() => {
                    // The best of those that lag, should all of them.
                    let is_better = |other: &Tip| tip.head.block.number > other.head.block.number;
                    if behind.as_ref().is_none_or(is_better) {
                        behind = Some(tip);
                    }
                }
                Ok(tip) => {
                    self.look_around(endpoint);
                    return Ok(tip);
                }
                Err(fault) => failed = failed.or(Some(self.fault(endpoint, fault))),
            }
        }
    }

    async fn tip_of(&self, endpoint: &Endpoint, until: Instant) -> Result<Tip, Fault> {
        let tags = [(Feature::Safe, "safe"), (Feature::Finalized, "finalized")];
        let tags = tags.map(|(feature, tag)| endpoint.has(feature).then_some((feature, tag)));
        let names = tags.iter().flatten().map(|(_, tag)| *tag);
        let calls: Vec<_> = ["latest"]
            .into_iter()
            .chain(names)
            .map(blocks::by_number)
            .collect();
        let answers = endpoint.ask(Purpose::Tip, &calls, Order::Free, until).await;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Err(Fault::Unanswered));
        let head = head(next()).inspect_err(|fault| endpoint.fails(fault))?;
        let [safe, finalized] = tags.map(|tag| {
            let (feature, _) = tag?;
            tagged(endpoint, feature, next(), head.block.number)
        });
        endpoint.saw_head(head.block.number.get(), self.best_head(endpoint));
        Ok(Tip {
            source: Source(endpoint.position()),
            head,
            safe,
            finalized,
        })
    }
}

fn head(answer: Answer) -> Result<BlockBody, Fault> {
    blocks::body(&answer?).ok_or(Fault::Garbled("no newest block"))
}

/// What nodes say to a parameter that they do not know. Any other error may pass, and a tag that is not asked
/// for is finality that stands still.
const UNKNOWN_TAG: [i64; 3] = [-32_600, -32_601, -32_602];

/// The height behind a tag. A node that does not know the tag is not asked for it for some time; one
/// that only has no such block yet is. A tag above the newest block was told by another replica, and
/// says nothing of the block beside it.
fn tagged(endpoint: &Endpoint, feature: Feature, answer: Answer, head: Height) -> Option<Height> {
    match answer {
        Ok(raw) if value::is_null(&raw) => None,
        Ok(raw) => {
            let height = blocks::header(&raw)?.number;
            (height <= head).then_some(height)
        }
        Err(fault) => {
            let is_refused =
                matches!(&fault, Fault::Node { code, .. } if UNKNOWN_TAG.contains(code));
            if is_refused && !fault.is_limit() && !blocks::is_absent(&fault) {
                endpoint.lacks(feature);
            }
            None
        }
    }
}
