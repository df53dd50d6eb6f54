//! Everything that can be read of a store, to show that something changed nothing.

use std::fmt::Debug;

use fencepost_app::ports::{
    Act, Acts, Feed, LaneView, PageQuery, READ_LIMIT_MAX, Record, Store, StoredAttempt, StoredEvent,
};
use fencepost_domain::ids::{FeedSeq, LaneSeq, Nonce, TxId};

/// All that the port shows, lease times included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dump {
    /// Every lane.
    pub lanes: Vec<LaneView>,
    /// Every transaction, newest id first.
    pub records: Vec<Record>,
    /// What waits, lane by lane.
    pub queues: Vec<Vec<TxId>>,
    /// What is unfinished, lane by lane.
    pub unfinished: Vec<Vec<TxId>>,
    /// Nonces that nobody holds, lane by lane, as many as one read gives.
    pub gaps: Vec<Vec<Nonce>>,
    /// What was done to each lane.
    pub lane_acts: Vec<Vec<Act>>,
    /// The remedies of each transaction.
    pub remedies: Vec<Vec<Act>>,
    /// Every transaction's events.
    pub histories: Vec<Vec<StoredEvent>>,
    /// Every attempt.
    pub attempts: Vec<StoredAttempt>,
    /// The whole feed.
    pub feed: Feed,
}

impl Dump {
    /// Reads it all, page by page.
    pub async fn of(store: &dyn Store) -> Self {
        let mut lanes = Vec::new();
        loop {
            let after = lanes.last().map(|view: &LaneView| view.id);
            let more = store.lanes(after, READ_LIMIT_MAX).await.unwrap();
            if more.is_empty() {
                break;
            }
            lanes.extend(more);
        }
        let records = records(store).await;
        let mut dump = Self {
            lanes,
            records,
            queues: Vec::new(),
            unfinished: Vec::new(),
            gaps: Vec::new(),
            lane_acts: Vec::new(),
            remedies: Vec::new(),
            histories: Vec::new(),
            attempts: Vec::new(),
            feed: store
                .completions(FeedSeq::default(), READ_LIMIT_MAX)
                .await
                .unwrap(),
        };
        dump.read_lanes(store).await;
        dump.read_transactions(store).await;
        dump
    }

    async fn read_lanes(&mut self, store: &dyn Store) {
        let ids = |records: Vec<Record>| records.into_iter().map(|each| each.tx).collect();
        for view in &self.lanes {
            let queue = store.queued(view.id, READ_LIMIT_MAX).await.unwrap();
            self.queues.push(ids(queue));
            let open = store.unfinished(view.id, None, READ_LIMIT_MAX).await;
            self.unfinished.push(ids(open.unwrap()));
            let gaps = store.gaps(view.id, Nonce::ZERO, READ_LIMIT_MAX).await;
            self.gaps.push(gaps.unwrap());
            self.lane_acts.push(acts(store, Acts::Lane(view.id)).await);
        }
    }

    async fn read_transactions(&mut self, store: &dyn Store) {
        let ids: Vec<_> = self.records.iter().map(|record| record.tx).collect();
        for ids in ids.chunks(READ_LIMIT_MAX) {
            self.attempts.extend(store.attempts(ids).await.unwrap());
        }
        for tx in ids {
            self.remedies.push(acts(store, Acts::Tx(tx)).await);
            let events = store.history(tx, LaneSeq::default(), READ_LIMIT_MAX).await;
            self.histories.push(events.unwrap());
        }
    }

    /// Fails unless everything is as it was, with the first thing that differs.
    pub fn assert_same(&self, before: &Self, what: &str) {
        if let Some(difference) = self.difference(before) {
            panic!("{what}: {difference}");
        }
    }

    /// The first thing that differs from what is expected, if anything does.
    #[must_use]
    pub fn difference(&self, expected: &Self) -> Option<String> {
        let feed = (self.feed.head, self.feed.epoch);
        let expected_feed = (expected.feed.head, expected.feed.epoch);
        first("lanes", &self.lanes, &expected.lanes)
            .or_else(|| first("transactions", &self.records, &expected.records))
            .or_else(|| first("queues", &self.queues, &expected.queues))
            .or_else(|| first("unfinished", &self.unfinished, &expected.unfinished))
            .or_else(|| first("gaps", &self.gaps, &expected.gaps))
            .or_else(|| first("acts on lanes", &self.lane_acts, &expected.lane_acts))
            .or_else(|| first("remedies", &self.remedies, &expected.remedies))
            .or_else(|| first("histories", &self.histories, &expected.histories))
            .or_else(|| first("attempts", &self.attempts, &expected.attempts))
            .or_else(|| {
                let told = &expected.feed.completions;
                first("the feed", &self.feed.completions, told)
            })
            .or_else(|| first("the feed's head", &[feed], &[expected_feed]))
    }

    /// Fails unless what must hold in every store, at any time, holds in this one.
    pub fn assert_sound(&self) {
        for view in &self.lanes {
            let of_lane = |record: &&Record| record.lane_id == view.id;
            let mut held: Vec<_> = self.records.iter().filter(of_lane).collect();
            held.retain(|record| record.state.nonce().is_some());
            held.sort_by_key(|record| record.state.nonce());
            for pair in held.windows(2) {
                assert_ne!(
                    pair[0].state.nonce(),
                    pair[1].state.nonce(),
                    "a nonce is held twice"
                );
            }
            let top = held.last().and_then(|record| record.state.nonce());
            assert!(
                top.is_none_or(|top| top < view.next_nonce),
                "held above the cursor"
            );
            for free in &view.free {
                assert!(
                    held.iter()
                        .all(|record| record.state.nonce() != Some(*free)),
                    "{free} is free and held"
                );
            }
            let ids: Vec<_> = self.records.iter().filter(of_lane).map(|r| r.tx).collect();
            let events = self.histories.iter().flatten();
            let mut told: Vec<_> = events.filter(|event| ids.contains(&event.tx)).collect();
            told.sort_by_key(|event| event.seq);
            let numbers: Vec<_> = told.iter().map(|event| event.seq.get()).collect();
            let expected: Vec<_> = (1..=view.lane_seq.get()).collect();
            assert_eq!(numbers, expected, "a lane's history has no holes");
        }
        let feed: Vec<_> = self.feed.completions.iter().map(|c| c.seq.get()).collect();
        let expected: Vec<_> = (1..=self.feed.head.get()).collect();
        assert_eq!(feed, expected, "the feed has no holes");
    }
}

/// The first element that differs between two lists.
fn first<T: Debug + PartialEq>(what: &str, found: &[T], expected: &[T]) -> Option<String> {
    let length = found.len().max(expected.len());
    let n = (0..length).find(|n| found.get(*n) != expected.get(*n))?;
    let (found, expected) = (found.get(n), expected.get(n));
    Some(format!(
        "{what}, number {n}\n   found: {found:?}\nexpected: {expected:?}"
    ))
}

async fn acts(store: &dyn Store, of: Acts) -> Vec<Act> {
    store.acts(of, None, READ_LIMIT_MAX).await.unwrap()
}

async fn records(store: &dyn Store) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let query = PageQuery {
            before: records.last().map(|record| record.tx),
            limit: READ_LIMIT_MAX,
            ..PageQuery::default()
        };
        let more = store.page(&query).await.unwrap();
        if more.is_empty() {
            return records;
        }
        records.extend(more);
    }
}
