//! Answers of different stores made comparable: times are left out, and what a store names itself,
//! lanes and remedies, is called by its number in order of making.

use fencepost_app::ports::{
    Acquired, Act, AskedRemedy, Claimed, ClaimedRemedies, Completion, Enqueued, LaneCreated,
    LaneMoved, LaneView, Leader, Orphan, Record, RemedyId, Settled, Stored, StoredAttempt,
    StoredEvent,
};
use fencepost_domain::ids::LaneId;
use jiff::Timestamp;

use crate::dump::Dump;

/// What a store has named, in order of making.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) lanes: Vec<LaneId>,
    pub(super) remedies: Vec<RemedyId>,
}

impl Names {
    fn lane(&self, id: &mut LaneId) {
        let number = self.lanes.iter().position(|lane| lane == id);
        *id = LaneId(i64::try_from(number.unwrap()).unwrap());
    }

    fn remedy(&self, id: &mut RemedyId) {
        *id = RemedyId(i64::try_from(self.remedy_number(*id)).unwrap());
    }

    pub(super) fn remedy_number(&self, id: RemedyId) -> usize {
        let mut remedies = self.remedies.iter();
        remedies.position(|remedy| *remedy == id).unwrap()
    }
}

/// Something that can be told without times and names.
pub(super) trait Plain {
    fn plain(&mut self, names: &Names);
}

fn no_time(at: &mut Timestamp) {
    *at = Timestamp::UNIX_EPOCH;
}

fn no_times<const N: usize>(times: [&mut Option<Timestamp>; N]) {
    for at in times.into_iter().flatten() {
        no_time(at);
    }
}

impl<T: Plain> Plain for Vec<T> {
    fn plain(&mut self, names: &Names) {
        for each in self {
            each.plain(names);
        }
    }
}

impl<T: Plain> Plain for Option<T> {
    fn plain(&mut self, names: &Names) {
        if let Some(inner) = self {
            inner.plain(names);
        }
    }
}

impl<T: Plain> Plain for Box<T> {
    fn plain(&mut self, names: &Names) {
        (**self).plain(names);
    }
}

impl Plain for LaneId {
    fn plain(&mut self, names: &Names) {
        names.lane(self);
    }
}

impl Plain for Record {
    fn plain(&mut self, names: &Names) {
        names.lane(&mut self.lane_id);
        no_time(&mut self.created_at);
        no_time(&mut self.updated_at);
        no_times([
            &mut self.first_submit_at,
            &mut self.last_submit_at,
            &mut self.confirmed_at,
        ]);
        if let Some(terms) = &mut self.reservation {
            no_time(&mut terms.expires_at);
        }
    }
}

impl Plain for Leader {
    fn plain(&mut self, _: &Names) {
        no_time(&mut self.expires_at);
    }
}

impl Plain for LaneView {
    fn plain(&mut self, names: &Names) {
        names.lane(&mut self.id);
        self.leader.plain(names);
        self.head.plain(names);
        no_times([&mut self.oldest_at]);
    }
}

impl Plain for Orphan {
    fn plain(&mut self, names: &Names) {
        names.lane(&mut self.id);
    }
}

impl Plain for StoredEvent {
    fn plain(&mut self, _: &Names) {
        no_time(&mut self.at);
    }
}

impl Plain for StoredAttempt {
    fn plain(&mut self, _: &Names) {
        no_time(&mut self.at);
    }
}

impl Plain for Completion {
    fn plain(&mut self, _: &Names) {
        no_time(&mut self.at);
    }
}

impl Plain for Acquired {
    fn plain(&mut self, names: &Names) {
        match self {
            Self::Led(leader) => leader.plain(names),
            Self::Leading(_) | Self::Ghost(_) | Self::Busy | Self::UnknownLane => {}
        }
    }
}

impl Plain for LaneCreated {
    fn plain(&mut self, names: &Names) {
        match self {
            Self::Done { txs, .. } => txs.plain(names),
            Self::Refused(_) => {}
        }
    }
}

impl Plain for Stored {
    fn plain(&mut self, names: &Names) {
        match self {
            Self::New { at, .. } => no_time(at),
            Self::Known(record) | Self::Conflict(record) => record.plain(names),
        }
    }
}

impl Plain for Enqueued {
    fn plain(&mut self, names: &Names) {
        match self {
            Self::Queued { at } => no_time(at),
            Self::Known(record) | Self::Conflict(record) => record.plain(names),
            Self::Full | Self::UnknownLane => {}
        }
    }
}

impl Plain for LaneMoved {
    fn plain(&mut self, _: &Names) {
        match self {
            // A store may stop at the first reason it finds.
            Self::Stale(txs) => txs.clear(),
            Self::Done(_)
            | Self::Fenced
            | Self::Paused(_)
            | Self::KnownHash(_)
            | Self::Busy
            | Self::UnknownLane => {}
        }
    }
}

impl Plain for Claimed {
    fn plain(&mut self, names: &Names) {
        self.records.plain(names);
        self.fenced.plain(names);
    }
}

impl Plain for AskedRemedy {
    fn plain(&mut self, names: &Names) {
        match self {
            Self::Asked(id) | Self::Running(id) => names.remedy(id),
            Self::RoundTaken { .. } | Self::AlreadyFinal | Self::NotFound => {}
        }
    }
}

impl Plain for ClaimedRemedies {
    fn plain(&mut self, names: &Names) {
        self.fenced.plain(names);
        for remedy in &mut self.remedies {
            names.remedy(&mut remedy.id);
            remedy.record.plain(names);
        }
    }
}

impl Plain for Act {
    fn plain(&mut self, names: &Names) {
        // Acts on lanes have ids of the same row of numbers, which nobody is told when they are done.
        match self.tx {
            Some(_) => names.remedy(&mut self.id),
            None => self.id = RemedyId(0),
        }
        no_time(&mut self.asked_at);
        no_times([&mut self.closed_at]);
    }
}

impl Plain for Settled {
    fn plain(&mut self, names: &Names) {
        match self {
            Self::Done(record) => record.plain(names),
            Self::LockLost { .. } | Self::Refused(_) | Self::NotFound => {}
        }
    }
}

impl Plain for Dump {
    fn plain(&mut self, names: &Names) {
        self.lanes.plain(names);
        self.records.plain(names);
        self.lane_acts.plain(names);
        self.remedies.plain(names);
        self.histories.plain(names);
        self.attempts.plain(names);
        self.feed.completions.plain(names);
    }
}
