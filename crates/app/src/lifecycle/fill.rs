//! Filling: what the client left open is chosen, fees and gas, and the key signs the whole. Outside the worker:
//! it asks the chain and the key, and writes nothing.

use fencepost_domain::U256;
use fencepost_domain::attempt::{Attempt, Kind, SignedFees, Unsigned};
use fencepost_domain::fee;
use fencepost_domain::gas;
use fencepost_domain::ids::{Nonce, TxId};
use fencepost_domain::request::{Fees, Payload};
use fencepost_domain::seal::{Content, Proof};
use fencepost_domain::state::{self, Why};
use futures::{StreamExt, stream};

use crate::causes::Causes;
use crate::directory::Seat;
use crate::lane::entry::Entry;
use crate::node::Node;
use crate::ports::{Chain, ChainUnavailable, Estimate, Record, RemedyId, Signer, Unsignable};

/// How many of a lane are asked of the key at once.
const AT_ONCE: usize = 8;

/// What became of one transaction that was to be signed.
#[derive(Debug)]
pub(crate) struct Filled {
    pub(super) nonce: Nonce,
    pub(super) tx: TxId,
    pub(super) is_head: bool,
    /// The remedy that these bytes carry out, if they do.
    pub(super) errand: Option<RemedyId>,
    pub(super) result: Result<Attempt, Unfilled>,
}

/// Why there are no bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unfilled {
    /// No endpoint of the chain answers.
    Unreachable(String),
    /// The chain cannot say, or not now.
    Later(String),
    /// It would be reverted now.
    Reverted(String),
    /// The signer cannot pay for it.
    NoFunds(String),
    /// Nothing above the older fees is below our ceilings.
    AtCap,
    /// The signer says no for good.
    Refused(String),
    /// The key cannot be used.
    Key(String),
    /// The stored row is not the one that was accepted.
    Tampered(String),
}

/// A stored row whose content is signed.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    kind: state::Kind,
    payload: Option<Payload>,
    proof: Proof,
    /// It was changed when it was last looked at: it is read again.
    is_stale: bool,
}

impl Row {
    pub(crate) fn of(record: &Record) -> Self {
        Self {
            kind: record.kind,
            payload: record.payload.clone(),
            proof: record.proof,
            is_stale: false,
        }
    }

    pub(super) fn of_entry(entry: &Entry) -> Self {
        Self {
            kind: entry.kind,
            payload: entry.payload.clone(),
            proof: entry.proof,
            is_stale: entry.stuck() == Some(Why::Tampered),
        }
    }
}

/// One transaction to be signed.
pub(super) struct Draft {
    pub(super) nonce: Nonce,
    pub(super) tx: TxId,
    /// All below it was in blocks when it was asked for.
    pub(super) is_head: bool,
    pub(super) payload: Option<Payload>,
    /// The row that the payload is from; none where the payload is of our own making.
    pub(super) row: Option<Row>,
    pub(super) kind: Kind,
    pub(super) errand: Option<Terms>,
    /// Bytes that a decision has brought: nothing is left to sign.
    pub(super) ready: Option<Attempt>,
}

/// On which terms bytes take the place of others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) remedy: RemedyId,
    /// What somebody wants paid.
    pub(crate) fees: Option<SignedFees>,
    /// What the newest bytes pay.
    pub(crate) older: Option<SignedFees>,
}

/// Fills and signs a batch of a lane, in order.
pub(super) async fn fill(
    node: &Node,
    chain: &dyn Chain,
    signer: &dyn Signer,
    seat: Seat,
    drafts: Vec<Draft>,
) -> Vec<Filled> {
    stream::iter(drafts)
        .map(|draft| async move {
            Filled {
                nonce: draft.nonce,
                tx: draft.tx,
                is_head: draft.is_head,
                errand: draft.errand.map(|terms| terms.remedy),
                result: fill_one(node, chain, signer, seat, draft).await,
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await
}

async fn fill_one(
    node: &Node,
    chain: &dyn Chain,
    signer: &dyn Signer,
    seat: Seat,
    mut draft: Draft,
) -> Result<Attempt, Unfilled> {
    if let Some(ready) = draft.ready {
        return Ok(ready);
    }
    if let Some(row) = draft.row.take() {
        let is_stale = row.is_stale;
        let row = checked(node, seat, draft.tx, row).await?;
        if is_stale {
            draft.payload = row.payload;
        }
    }
    let fees = match draft.errand {
        None => first_fees(node, chain, seat, draft.payload.as_ref()).await?,
        Some(terms) => fees_over(node, chain, seat, terms).await?,
    };
    let lane = seat.lane;
    let (payload, gas) = match draft.payload {
        None => {
            let nothing = Payload::nothing(lane.signer);
            let gas = estimate_nothing(chain, seat, &nothing).await?;
            (nothing, gas)
        }
        Some(payload) => {
            let gas = match payload.gas() {
                Some(gas) => gas,
                None => estimate(chain, seat, &payload).await?,
            };
            (payload, gas)
        }
    };
    let unsigned = Unsigned {
        chain: lane.chain,
        nonce: draft.nonce,
        to: payload.to(),
        value: payload.value().unwrap_or(U256::ZERO),
        data: payload.given_data().cloned().unwrap_or_default(),
        gas,
        fees,
        access: payload.given_access().map(<[_]>::to_vec),
    };
    let signed = signer.sign(seat.lane.signer, &unsigned).await;
    let signed = signed.map_err(|error| match error {
        Unsignable::Refused(why) => Unfilled::Refused(why),
        Unsignable::Unusable(why) => Unfilled::Key(why),
    })?;
    Ok(Attempt {
        kind: draft.kind,
        hash: signed.hash,
        raw: signed.raw,
        fees: Some(fees),
    })
}

/// The row, if it is what was accepted for this lane. Every signature over a row's content comes through here.
async fn checked(node: &Node, seat: Seat, tx: TxId, mut row: Row) -> Result<Row, Unfilled> {
    if row.is_stale {
        let found = node.store.find_many(&[tx]).await;
        let found = found.map_err(|error| Unfilled::Later(Causes(&error).to_string()))?;
        let gone = || Unfilled::Tampered("the stored row is gone".to_owned());
        row = Row::of(found.first().ok_or_else(gone)?);
    }
    let content = Content {
        tx,
        lane: seat.lane,
        kind: row.kind,
        payload: row.payload.as_ref(),
    };
    let checked = node.settings.seals.check(&content, row.proof);
    checked.map_err(|why| Unfilled::Tampered(why.to_string()))?;
    Ok(row)
}

/// Signs a payload that a policy has brought for the nonce of another. Of a row that was changed no policy has anything signed
/// but what uses its nonce up: it may have been shown the changed payload.
pub(crate) async fn sign_instead(
    node: &Node,
    seat: Seat,
    (nonce, tx, row): (Nonce, TxId, &Row),
    (kind, payload): (Kind, Payload),
    terms: Terms,
) -> Result<Attempt, Unfilled> {
    let (Some(chain), Some(signer)) = (&node.chain, &node.signer) else {
        return Err(Unfilled::Key(
            "this node has no chain or no keys".to_owned(),
        ));
    };
    let draft = Draft {
        nonce,
        tx,
        is_head: false,
        payload: Some(payload),
        row: executes(kind).then(|| row.clone()),
        kind,
        errand: Some(terms),
        ready: None,
    };
    fill_one(node, &**chain, &**signer, seat, draft).await
}

/// Whether bytes of this kind execute what a client or a policy wants, and not only use a nonce up.
pub(super) const fn executes(kind: Kind) -> bool {
    match kind {
        Kind::Original | Kind::Replacement | Kind::Substitute | Kind::External => true,
        Kind::Cancel | Kind::Placeholder => false,
    }
}

/// The fees of a payload's first bytes.
async fn first_fees(
    node: &Node,
    chain: &dyn Chain,
    seat: Seat,
    payload: Option<&Payload>,
) -> Result<SignedFees, Unfilled> {
    let asked = payload.map_or(Fees::Ours, Payload::fees);
    let quote = match asked {
        // Nothing is left to choose.
        Fees::Legacy { .. }
        | Fees::Dynamic {
            max_fee: Some(_),
            max_priority_fee: Some(_),
        } => fee::Quote {
            base_fee: None,
            tip: 0,
        },
        Fees::Ours | Fees::Dynamic { .. } => {
            chain.quote(seat.lane.chain).await.map_err(unreachable)?
        }
    };
    Ok(fee::choose(asked, quote, node.ceilings(seat.lane.chain)))
}

/// The fees of bytes that take the place of others: what somebody wants, if nodes take that, or the
/// smallest bump that the chain asks for.
async fn fees_over(
    node: &Node,
    chain: &dyn Chain,
    seat: Seat,
    terms: Terms,
) -> Result<SignedFees, Unfilled> {
    let (ceilings, percent) = (
        node.ceilings(seat.lane.chain),
        node.bump_percent(seat.lane.chain),
    );
    let above = |fees: SignedFees| {
        fees.max_fee > ceilings.max_fee || fees.max_priority_fee > Some(ceilings.max_priority_fee)
    };
    if terms.fees.is_some_and(above) {
        return Err(Unfilled::Refused(
            "the fees are above the chain's ceilings".to_owned(),
        ));
    }
    let Some(older) = terms.older else {
        return match terms.fees {
            Some(fees) => Ok(fees),
            None => first_fees(node, chain, seat, None).await,
        };
    };
    if let Some(fees) = terms.fees {
        let least = fee::least_over(older, fee::BUMP_PERCENT_MIN);
        return if fee::is_over(fees, least) {
            Ok(fees)
        } else {
            let tip = least.max_priority_fee.unwrap_or(least.max_fee);
            Err(Unfilled::Refused(format!(
                "the fees are too low: nodes ask for at least {} and a tip of {tip}",
                least.max_fee
            )))
        };
    }
    let quote = chain.quote(seat.lane.chain).await.map_err(unreachable)?;
    fee::bump(older, percent, quote, ceilings).ok_or(Unfilled::AtCap)
}

async fn estimate(chain: &dyn Chain, seat: Seat, payload: &Payload) -> Result<u64, Unfilled> {
    match chain
        .estimate(seat.lane, payload)
        .await
        .map_err(unreachable)?
    {
        Estimate::Gas(gas) => {
            let least = gas::least(payload.to().is_none(), payload.data(), payload.access());
            Ok(gas.max(least))
        }
        Estimate::Reverted(why) => Err(Unfilled::Reverted(
            why.unwrap_or_else(|| "execution reverted".to_owned()),
        )),
        Estimate::NoFunds(why) => Err(Unfilled::NoFunds(why)),
        Estimate::Refused(why) => Err(Unfilled::Later(why)),
    }
}

/// Some chains ask for more than the least for a transfer of nothing, and so does a signer whose account has
/// code. Whatever a node has against it, the nonce is to be used up: what it cannot tell is the least.
async fn estimate_nothing(
    chain: &dyn Chain,
    seat: Seat,
    nothing: &Payload,
) -> Result<u64, Unfilled> {
    match estimate(chain, seat, nothing).await {
        Ok(gas) => Ok(gas),
        Err(Unfilled::Unreachable(why)) => Err(Unfilled::Unreachable(why)),
        Err(why) => {
            let gas = gas::least(false, &[], &[]);
            tracing::warn!(signer = %seat.lane.signer, ?why, gas, "a node cannot tell what a transfer of nothing needs");
            Ok(gas)
        }
    }
}

fn unreachable(error: ChainUnavailable) -> Unfilled {
    Unfilled::Unreachable(Causes(&error).to_string())
}
