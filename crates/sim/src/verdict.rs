//! The last look: store, chain, feed and what clients were told are one story.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_app::ports::{Completion, PageQuery, Record, Store};
use fencepost_domain::attempt::Kind;
use fencepost_domain::ids::{FeedSeq, LaneSeq, Nonce};
use fencepost_domain::state::{Failed, State};

use crate::checks::Checker;
use crate::ledger::Told;
use crate::world::World;

/// More rows than any run has.
const ALL: usize = 1_000;

/// Looks at everything once more, from the beginning.
pub(crate) async fn check(world: &World) {
    world.look_at_chain().await;
    let rows = rows(world).await;
    told(world, &rows);
    on_chain(world, &rows);
    nonces(world, &rows).await;
    feed(world, &rows).await;
    histories(world, &rows).await;
}

/// All rows, read afresh: they are those that were seen when they were written.
async fn rows(world: &World) -> Vec<Record> {
    let query = PageQuery {
        limit: ALL,
        ..PageQuery::default()
    };
    let mut rows = Vec::new();
    loop {
        let before = rows.last().map(|row: &Record| row.tx);
        let page = world.store.page(&PageQuery { before, ..query }).await;
        let page = page.expect("it is asked directly");
        let is_last = page.len() < ALL;
        rows.extend(page);
        if is_last {
            break;
        }
    }
    let seen = world.checker().rows.len();
    if rows.len() != seen {
        let facts = format!("{} rows are there, {seen} were seen", rows.len());
        world.violate("rows never vanish", facts);
    }
    rows
}

/// I6: what was acked is there, what was refused is not.
fn told(world: &World, rows: &[Record]) {
    let there: BTreeSet<_> = rows.iter().map(|row| row.tx).collect();
    let ledger = world.ledger();
    let refused = ledger
        .tries
        .iter()
        .filter(|(_, told)| **told == Told::Refused);
    let stored = refused.map(|(tx, _)| *tx).find(|tx| there.contains(tx));
    let lost = ledger.acked().find(|tx| !there.contains(tx));
    drop(ledger);
    if let Some(tx) = stored {
        world.violate("I6 refused is not stored", format!("{tx:?} is there"));
    }
    if let Some(tx) = lost {
        world.violate("I6 acked is stored", format!("{tx:?} is not there"));
    }
}

/// The first row that says something else than the chain does, if there is one.
pub(crate) fn untrue(world: &World) -> Option<String> {
    let checker = world.checker();
    let mut rows = checker.rows.values();
    rows.find_map(|row| contradiction(&checker, row))
}

fn contradiction(checker: &Checker, row: &Record) -> Option<String> {
    let at = match &row.state {
        State::Confirmed(done) => Some(done.at),
        State::Failed(
            Failed::Reverted(_, at)
            | Failed::Cancelled(Some((_, at)))
            | Failed::Placeholder(_, at)
            | Failed::Substituted(_, at),
        ) => Some(*at),
        State::Used(used) => used.at,
        State::Failed(
            Failed::Cancelled(None)
            | Failed::NonceTaken { .. }
            | Failed::Expired
            | Failed::Rejected { .. },
        )
        | State::Queued(_)
        | State::Allocated(_)
        | State::Tracking(_)
        | State::Stuck(_)
        | State::Reserved(_)
        | State::Submitted(_)
        | State::Recyclable(_) => None,
    };
    let at = at?;
    let found = checker.mirror.mined(&at.hash);
    let is_there = found.is_some_and(|(block, _)| block.hash == at.block.hash);
    (!is_there).then(|| format!("its block does not count: {row:?}"))
}

/// Each transaction of our signers on the chain is a row's or known to be another's, and each row that says
/// so is there.
fn on_chain(world: &World, rows: &[Record]) {
    let checker = world.checker();
    let used = checker.mirror.used();
    let mut broken = Vec::new();
    for row in rows {
        let Some(nonce) = row.state.nonce() else {
            continue;
        };
        let place = (row.lane.signer, nonce.get());
        let by = used.get(&place).map(|mined| mined.tx.hash);
        let own = by
            .and_then(|hash| checker.known(&hash))
            .filter(|known| known.tx == row.tx);
        let is_true = match &row.state {
            State::Confirmed(_) => {
                own.is_some_and(|known| matches!(known.kind, Kind::Original | Kind::Replacement))
            }
            State::Failed(Failed::NonceTaken { .. }) => by.is_some() && own.is_none(),
            State::Failed(_) => own.is_some(),
            State::Used(_) => by.is_some(),
            State::Queued(_)
            | State::Allocated(_)
            | State::Tracking(_)
            | State::Stuck(_)
            | State::Reserved(_)
            | State::Submitted(_)
            | State::Recyclable(_) => true,
        };
        if !is_true {
            broken.push(format!("the chain has {by:?} there: {row:?}"));
        }
    }
    drop(checker);
    for facts in broken {
        world.violate("store and chain tell one story", facts);
    }
}

/// Each nonce below the cursor is used on the chain, held, or free; where a cursor followed the chain, or
/// free ones were forgotten for it, they may also be nobody's.
async fn nonces(world: &World, rows: &[Record]) {
    let views = world
        .store
        .lanes(None, ALL)
        .await
        .expect("it is asked directly");
    for view in views {
        let held: BTreeSet<u64> = rows
            .iter()
            .filter(|row| row.lane == view.lane)
            .filter_map(|row| row.state.nonce().map(Nonce::get))
            .collect();
        let free: BTreeSet<u64> = view.free.iter().map(|nonce| nonce.get()).collect();
        let lost = {
            let checker = world.checker();
            let used = checker.mirror.used();
            let is_used = |nonce: u64| used.contains_key(&(view.lane.signer, nonce));
            let known =
                |nonce: &u64| held.contains(nonce) || free.contains(nonce) || is_used(*nonce);
            let excused = |nonce: &u64| checker.followed(view.id, *nonce);
            (0..view.next_nonce.get()).find(|nonce| !known(nonce) && !excused(nonce))
        };
        if let Some(nonce) = lost {
            let facts = format!("nonce {nonce} is nobody's: {view:?}");
            world.violate("no nonce is lost", facts);
        }
    }
}

/// I11: the feed is whole, is what readers saw, and ends with how things are.
async fn feed(world: &World, rows: &[Record]) {
    let mut all: Vec<Completion> = Vec::new();
    loop {
        let after = all.last().map_or(FeedSeq::ZERO, |row| row.seq);
        let feed = world.store.completions(after, ALL).await;
        let feed = feed.expect("it is asked directly");
        if feed.completions.is_empty() {
            break;
        }
        all.extend(feed.completions);
    }
    let whole = all.iter().zip(1..).all(|(row, n)| row.seq.get() == n);
    let seen = world.ledger().feed.clone();
    if !whole || !all.starts_with(&seen) {
        let facts = format!("{} rows, of which readers saw {}", all.len(), seen.len());
        world.violate("I11 the feed has no holes", facts);
    }
    let last: BTreeMap<_, _> = all.iter().map(|row| (row.tx, row)).collect();
    for row in rows {
        // A nonce that was given back has ended nothing, and what is not told is not in the feed.
        if !row.state.is_told() {
            continue;
        }
        let told = last
            .get(&row.tx)
            .map(|told| (told.state, told.sub_state.as_deref()));
        if told != Some((row.state.name(), row.state.sub())) {
            let facts = format!("the feed says {told:?}: {row:?}");
            world.violate("I11 the feed tells how it ended", facts);
        }
    }
}

/// Events of a lane are numbered without holes.
async fn histories(world: &World, rows: &[Record]) {
    let mut seqs: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for row in rows {
        let events = world.store.history(row.tx, LaneSeq::default(), ALL).await;
        let events = events.expect("it is asked directly");
        world.compare_list(row).await;
        let of = seqs.entry(row.lane_id).or_default();
        of.extend(events.iter().map(|event| event.seq.get()));
    }
    let views = world
        .store
        .lanes(None, ALL)
        .await
        .expect("it is asked directly");
    for view in views {
        let mut seqs = seqs.remove(&view.id).unwrap_or_default();
        seqs.sort_unstable();
        if !seqs.iter().copied().eq(1..=view.lane_seq.get()) {
            let facts = format!("{} events of {}", seqs.len(), view.lane_seq);
            world.violate("a lane's events have no holes", facts);
        }
    }
}
