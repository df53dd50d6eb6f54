//! Nonces that nobody holds and that others wait for. A nonce that was given back is one of them until it
//! is given out again: the chain takes nothing above it before.

use fencepost_app::ports::{LaneView, Store, StoreError};
use fencepost_domain::ids::Nonce;

/// The most gaps that are shown of one signer; more are as bad.
const GAPS_MAX: usize = 100;

/// The gaps of a lane, lowest first. What the chain has counted is used up; where it was not asked,
/// nothing but the given-back nonces is known below the oldest unfinished one.
pub(super) async fn gaps(
    store: &dyn Store,
    view: &LaneView,
    latest: Option<Nonce>,
) -> Result<Vec<Nonce>, StoreError> {
    let head = view.head.as_ref().and_then(|head| head.state.nonce());
    // Without anything unfinished nobody waits.
    let Some(head) = head else {
        return Ok(vec![]);
    };
    let known = view.free.first().map_or(head, |free| head.min(*free));
    let from = latest.unwrap_or(known);
    let mut unheld = store.gaps(view.id, from, GAPS_MAX).await?;
    // Whoever waits for one waits for all below it, so the last that someone waits for is searched for.
    let (mut awaited, mut end) = (unheld.partition_point(|gap| *gap < head), unheld.len());
    while awaited < end {
        let middle = awaited + (end - awaited) / 2;
        let above = store.unfinished(view.id, Some(unheld[middle]), 1).await?;
        if above.is_empty() {
            end = middle;
        } else {
            awaited = middle + 1;
        }
    }
    unheld.truncate(awaited);
    Ok(unheld)
}
