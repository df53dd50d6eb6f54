//! A signer that is in use elsewhere comes here, or goes back: its cursor, and the nonces that were given
//! and are not final. Only a paused lane takes them over; whoever leads it next reads it anew.

mod export;
mod repeat;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use fencepost_domain::ids::{Lane, LaneId, LockToken, Nonce, RequestId, TxId};
use fencepost_domain::{B256, Bytes, raw};
use uuid::Uuid;

pub use export::Export;

use crate::directory::Seat;
use crate::node::Node;
use crate::ports::{
    Audit, ChainUnavailable, CountMode, CursorMove, CursorMoved, Held, Import, Imported, LaneView,
    Loan, OpenBody, OpenTx, READ_LIMIT_MAX, StoreError, Unimportable,
};

/// The most gaps that an import tells.
const GAPS_MAX: usize = 100;

/// How long an imported reservation lasts where the file does not say: as long as any may at once. A person passes its
/// lock token on. Shorter, and the nonce is given to another transaction while its first holder still signs with it;
/// longer, and a nonce that its holder has forgotten blocks the later ones for longer.
pub const TTL: Duration = Duration::from_hours(24);

/// How far a nonce is, as another service says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenState {
    /// Given, nothing sent.
    Reserved,
    /// Sent by someone who keeps the bytes.
    Submitted,
    /// Sent; we go on with it.
    Tracking,
}

impl OpenState {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Reserved, Self::Submitted, Self::Tracking];

    /// The word that the API shows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Reserved => "RESERVED",
            Self::Submitted => "SUBMITTED",
            Self::Tracking => "TRACKING",
        }
    }

    /// Reads the word back.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// One open nonce, as a file tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenNonce {
    /// The nonce.
    pub nonce: Nonce,
    /// The client's own name for it.
    pub request_id: Option<RequestId>,
    /// The hash that was sent.
    pub hash: Option<B256>,
    /// The bytes that were sent.
    pub raw: Option<Bytes>,
    /// How far it is.
    pub state: OpenState,
    /// How long a reservation lasts; [`TTL`] where it is not said.
    pub ttl: Option<Duration>,
}

/// One thing that is wrong with one open nonce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadItem {
    /// Its place in the list.
    pub at: usize,
    /// The field, as clients write it.
    pub field: &'static str,
    /// What is wrong.
    pub why: String,
}

/// What an import came to, or would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Where the cursor stood.
    pub from: Nonce,
    /// Where it stands.
    pub next_nonce: Nonce,
    /// What the chain has in blocks, where it can be asked.
    pub latest: Option<Nonce>,
    /// The same with what waits in the pools.
    pub pending: Option<Nonce>,
    /// Nonces below the cursor that nobody holds and that the chain has not used, lowest first.
    pub gaps: Vec<Nonce>,
    /// What was taken over, in the order of the list.
    pub open: Vec<TakenOver>,
    /// All of it had been taken over before, and nothing was written.
    pub is_repeated: bool,
}

/// One nonce that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    /// The transaction or reservation that it is.
    pub tx: TxId,
    /// The nonce.
    pub nonce: Nonce,
    /// The client's own name for it.
    pub request_id: Option<RequestId>,
    /// What the holder of a reservation must show.
    pub lock: Option<LockToken>,
    /// How far it is.
    pub state: OpenState,
    /// The hash that is followed.
    pub hash: Option<B256>,
}

impl From<&OpenTx> for TakenOver {
    fn from(open: &OpenTx) -> Self {
        Self {
            tx: open.tx,
            nonce: open.nonce,
            request_id: open.request_id.clone(),
            lock: match &open.body {
                OpenBody::Reserved(loan) | OpenBody::Submitted(loan, _) => Some(loan.lock),
                OpenBody::Tracking(..) => None,
            },
            state: match &open.body {
                OpenBody::Reserved(_) => OpenState::Reserved,
                OpenBody::Submitted(..) => OpenState::Submitted,
                OpenBody::Tracking(..) => OpenState::Tracking,
            },
            hash: open.hash(),
        }
    }
}

/// Why nothing was taken over. Nothing was changed, unless the store's error says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Unimported {
    /// There is no such lane.
    #[error("there is no such lane")]
    UnknownLane,
    /// Only a paused lane takes over anything.
    #[error("the lane is not paused")]
    NotPaused,
    /// A transaction holds a nonce at or above the new cursor.
    #[error("nonce {0} is held")]
    Holds(Nonce),
    /// The chain has used nonces at or above the new cursor.
    #[error("the chain has used all nonces below {0}")]
    CursorUsed(Nonce),
    /// These items cannot be taken.
    #[error("some of the open nonces cannot be taken")]
    Items(Vec<BadItem>),
    /// The chain cannot be asked which nonces are used.
    #[error("the chain cannot be asked")]
    Chain(#[source] ChainUnavailable),
    /// The store failed.
    #[error("the store failed")]
    Store(#[source] StoreError),
}

impl Node {
    /// Takes over what another service has given, all or nothing, or only tells what it would come to.
    pub async fn import(
        &self,
        seat: Seat,
        next_nonce: Nonce,
        items: &[OpenNonce],
        dry_run: bool,
        audit: &Audit,
    ) -> Result<ImportReport, Unimported> {
        let counts = self.import_counts(seat.lane).await?;
        let latest = counts.map(|(latest, _)| latest);
        if let Some(latest) = latest.filter(|latest| next_nonce < *latest) {
            return Err(Unimported::CursorUsed(latest));
        }
        let open = self.judge(seat.lane, next_nonce, latest, items)?;
        let view = self
            .store
            .lane(seat.lane)
            .await
            .map_err(Unimported::Store)?;
        let view = view.ok_or(Unimported::UnknownLane)?;
        let import = Import {
            next_nonce,
            open,
            dry_run,
        };
        let gaps = self.gaps_after(&view, &import, latest).await?;
        let report = |from, open, is_repeated| ImportReport {
            from,
            next_nonce,
            latest,
            pending: counts.map(|(_, pending)| pending),
            gaps,
            open,
            is_repeated,
        };
        let answer = self.store.import(seat.id, &import, audit).await;
        match answer.map_err(Unimported::Store)? {
            Imported::Done { from } => {
                if !dry_run {
                    let (lane, token) = (seat.id, view.token);
                    self.log_imported(Held { lane, token }, (from, next_nonce), &import.open);
                    self.left(seat.id);
                }
                let open = import.open.iter().map(TakenOver::from).collect();
                Ok(report(from, open, false))
            }
            Imported::Refused(clashes) => {
                let known = self.known_already(&view, &import, &clashes).await;
                if let Some(open) = known.map_err(Unimported::Store)? {
                    return Ok(report(next_nonce, open, true));
                }
                let bad = clashes.into_iter().map(|(at, why)| clash(at, why));
                Err(Unimported::Items(bad.collect()))
            }
            Imported::Holds(nonce) => Err(Unimported::Holds(nonce)),
            Imported::NotPaused => Err(Unimported::NotPaused),
            Imported::UnknownLane => Err(Unimported::UnknownLane),
        }
    }

    /// Sets the cursor of a paused lane, never below what any endpoint has seen used.
    pub async fn set_cursor(
        &self,
        seat: Seat,
        to: Nonce,
        audit: &Audit,
    ) -> Result<CursorMoved, Unimported> {
        let counts = self.import_counts(seat.lane).await?;
        if let Some((latest, _)) = counts.filter(|(latest, _)| to < *latest) {
            return Err(Unimported::CursorUsed(latest));
        }
        let set = CursorMove::Set { to };
        let moved = self.store.move_cursor(seat.id, &set, audit).await;
        let moved = moved.map_err(Unimported::Store)?;
        if let CursorMoved::Now { from, to } = moved {
            // The token stands in the lane's row, which no leader holds any longer.
            let view = self.store.lane(seat.lane).await.ok().flatten();
            let held = self.last_held(seat.id);
            let token = view.map_or(held.token, |view| view.token);
            self.log_cursor(Held { token, ..held }, from, to);
            self.left(seat.id);
        }
        Ok(moved)
    }

    /// What the chain counts in blocks, and with the pools. The highest counts: one endpoint that has seen a
    /// nonce used is enough to give it to nobody.
    async fn import_counts(&self, lane: Lane) -> Result<Option<(Nonce, Nonce)>, Unimported> {
        let Some(chain) = &self.chain else {
            return Ok(None);
        };
        let (latest, pending) = tokio::join!(
            chain.count(lane, CountMode::Latest),
            chain.count(lane, CountMode::Pending)
        );
        let latest = latest.map_err(Unimported::Chain)?.highest;
        let pending = pending.map_err(Unimported::Chain)?.highest;
        Ok(Some((latest, pending.max(latest))))
    }

    fn judge(
        &self,
        lane: Lane,
        next_nonce: Nonce,
        latest: Option<Nonce>,
        items: &[OpenNonce],
    ) -> Result<Vec<OpenTx>, Unimported> {
        let mut seen = Seen::default();
        let (mut open, mut bad) = (Vec::new(), Vec::new());
        for (at, item) in items.iter().enumerate() {
            let before = bad.len();
            let mut add = |field, why: String| bad.push(BadItem { at, field, why });
            if item.nonce >= next_nonce {
                add("nonce", format!("is not below nextNonce {next_nonce}"));
            }
            if let Some(field) = seen.again(item) {
                add(field, "stands in the list twice".to_owned());
            }
            if item.state == OpenState::Reserved
                && let Some(latest) = latest.filter(|latest| item.nonce < *latest)
            {
                let why = format!("is used: the chain has used all below {latest}");
                add("nonce", why);
            }
            match self.body(lane, item) {
                Ok(body) if before == bad.len() => {
                    let mut item = OpenTx {
                        tx: TxId(Uuid::now_v7()),
                        seal: None,
                        nonce: item.nonce,
                        request_id: item.request_id.clone(),
                        body,
                    };
                    item.seal = item.row().sealed(&self.settings.seals, lane).seal;
                    open.push(item);
                }
                Ok(_) => {}
                Err((field, why)) => bad.push(BadItem { at, field, why }),
            }
        }
        if bad.is_empty() {
            Ok(open)
        } else {
            Err(Unimported::Items(bad))
        }
    }

    /// What an item becomes. Whoever has bytes lets us go on with them; of a hash alone we can only follow
    /// what becomes of it, as of a reservation whose holder has named it.
    fn body(&self, lane: Lane, item: &OpenNonce) -> Result<OpenBody, (&'static str, String)> {
        let loan = Loan {
            lock: LockToken(Uuid::new_v4()),
            ttl: item.ttl.unwrap_or(TTL),
            grace: self.settings.lending.grace,
        };
        let wrong = |field, why: &str| Err((field, why.to_owned()));
        if item.ttl.is_some() && item.state != OpenState::Reserved {
            return wrong("ttlSeconds", "only a RESERVED nonce expires");
        }
        match (item.state, item.hash, &item.raw) {
            (OpenState::Reserved, None, None) => Ok(OpenBody::Reserved(loan)),
            (OpenState::Reserved, ..) => wrong(
                "state",
                "must be SUBMITTED or TRACKING: something is said to be sent",
            ),
            (OpenState::Submitted, Some(hash), None) => Ok(OpenBody::Submitted(loan, hash)),
            (OpenState::Submitted, _, Some(_)) => {
                wrong("state", "must be TRACKING where there is a rawTransaction")
            }
            (OpenState::Submitted, None, None) => wrong("txHash", "is required"),
            (OpenState::Tracking, None, None) => {
                wrong("rawTransaction", "is required, or at least txHash")
            }
            (OpenState::Tracking, Some(hash), None) => Ok(OpenBody::Submitted(loan, hash)),
            (OpenState::Tracking, hash, Some(bytes)) => {
                let read = raw::read(bytes, lane, item.nonce);
                let (payload, attempt) = read.map_err(|why| ("rawTransaction", why.to_string()))?;
                if hash.is_some_and(|hash| hash != attempt.hash) {
                    let why = format!(
                        "is not the hash of rawTransaction, which is {}",
                        attempt.hash
                    );
                    return Err(("txHash", why));
                }
                Ok(OpenBody::Tracking(payload, attempt))
            }
        }
    }

    /// Nonces that nobody will hold, from the chain's count up to the new cursor. Without a chain they are
    /// looked for above the lowest open one.
    async fn gaps_after(
        &self,
        view: &LaneView,
        import: &Import,
        latest: Option<Nonce>,
    ) -> Result<Vec<Nonce>, Unimported> {
        let open: BTreeSet<Nonce> = import.open.iter().map(|open| open.nonce).collect();
        let from = latest.or_else(|| open.first().copied());
        let from = from.unwrap_or(import.next_nonce);
        let here = self.store.gaps(view.id, from, READ_LIMIT_MAX).await;
        let here = here.map_err(Unimported::Store)?;
        let above = from.max(view.next_nonce).get()..import.next_nonce.get();
        let above = above.filter_map(|nonce| Nonce::new(nonce).ok());
        let gaps = here.into_iter().chain(above);
        let gaps = gaps.filter(|nonce| *nonce < import.next_nonce && !open.contains(nonce));
        Ok(gaps.take(GAPS_MAX).collect())
    }

    /// The store has taken the lane from whoever led it. If that were us, we would find out by the next
    /// renewal; knowing it now, the lane is adopted anew at once.
    fn left(&self, lane: LaneId) {
        if let Some(held) = self.leases.held(lane) {
            self.leases.lose(held);
        }
    }
}

/// What stood in the list before.
#[derive(Default)]
struct Seen<'a> {
    nonces: HashSet<Nonce>,
    names: HashSet<&'a RequestId>,
    hashes: HashSet<B256>,
}

impl<'a> Seen<'a> {
    /// The field that an earlier item has with the same value.
    fn again(&mut self, item: &'a OpenNonce) -> Option<&'static str> {
        let is_new_nonce = self.nonces.insert(item.nonce);
        let name = item.request_id.as_ref();
        let is_new_name = name.is_none_or(|name| self.names.insert(name));
        let raw = item.raw.as_ref();
        let hash = item.hash.or_else(|| raw.map(fencepost_domain::keccak256));
        let is_new_hash = hash.is_none_or(|hash| self.hashes.insert(hash));
        match (is_new_nonce, is_new_name, is_new_hash) {
            (false, ..) => Some("nonce"),
            (true, false, _) => Some("requestId"),
            (true, true, false) => Some("txHash"),
            (true, true, true) => None,
        }
    }
}

fn clash(at: usize, why: Unimportable) -> BadItem {
    let (field, why) = match why {
        Unimportable::NonceHeld(tx) => ("nonce", format!("is held by transaction {tx}")),
        Unimportable::NonceUsed => (
            "nonce",
            "is used by a transaction that was deleted".to_owned(),
        ),
        Unimportable::RequestKnown(tx) => ("requestId", format!("belongs to transaction {tx}")),
        Unimportable::HashKnown(tx) => ("txHash", format!("belongs to transaction {tx}")),
    };
    BadItem { at, field, why }
}
