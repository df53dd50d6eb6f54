//! A small run in which all is well, and what tests do to it: two transfers of one lane, acknowledged, mined
//! and told.

use super::{Line, check};
use crate::facts::{AttemptRow, CompletionRow, Evidence, LaneRow, Mined, Rows, ToldRow, TxRow};
use crate::note::{Answer, FeedRow, LaneSample, LoanWord, Micros, Note, Purpose};
use crate::world::config::CONFIRMATIONS;

pub(super) struct Case {
    pub(super) notes: Vec<Note>,
    pub(super) rows: Rows,
    pub(super) mined: Vec<Mined>,
}

pub(super) fn accepted(tx: &str) -> Answer {
    Answer {
        status: Some(202),
        code: None,
        tx: Some(tx.into()),
    }
}

pub(super) fn refused(status: u16) -> Answer {
    Answer {
        status: Some(status),
        ..Answer::default()
    }
}

pub(super) fn silence() -> Answer {
    Answer::default()
}

impl Case {
    pub(super) fn calm() -> Self {
        let mut case = Self {
            notes: vec![],
            rows: Rows::default(),
            mined: vec![],
        };
        for (nonce, request) in ["first", "second"].into_iter().enumerate() {
            case.transfer(u64::try_from(nonce).unwrap(), request);
        }
        case.rows.lanes.push(LaneRow {
            lane: 0,
            token: 1,
            cursor: 2,
            events_last: 8,
            events: 8,
        });
        case.rows.feed_head = 2;
        case
    }

    fn transfer(&mut self, nonce: u64, request: &str) {
        let (tx, hash, value) = (format!("tx-{nonce}"), format!("0x{nonce}"), nonce + 1);
        self.notes.push(Note::Asked {
            at: 0,
            request: request.into(),
            lane: 0,
            value,
            purpose: Purpose::Transfer,
        });
        self.tell(request, accepted(&tx));
        self.rows.txs.push(TxRow {
            tx: tx.clone(),
            kind: "managed".into(),
            request: Some(request.into()),
            payload_hash: Some(format!("payload {nonce}")),
            nonce: Some(nonce),
            state: "CONFIRMED".into(),
            mined: Some(hash.clone()),
            sends: 1,
            ..TxRow::default()
        });
        self.rows.attempts.push(AttemptRow {
            tx: tx.clone(),
            kind: "ORIGINAL".into(),
            hash: hash.clone(),
            nonce: Some(nonce),
            value: Some(value),
        });
        self.rows.completions.push(CompletionRow {
            row: FeedRow {
                seq: nonce + 1,
                tx,
                state: "CONFIRMED".into(),
                sub: None,
                hash: Some(hash.clone()),
                corrects: None,
            },
            at: 0,
        });
        let block = format!("block {nonce}");
        self.told(nonce, &block);
        self.mined.push(Mined {
            lane: 0,
            nonce,
            hash,
            value,
            ok: true,
            next: Some(format!("{block} + 1")),
            block,
        });
    }

    /// Its receipt, and then as many blocks as make it final.
    fn told(&mut self, nonce: u64, block: &str) {
        let receipt = ToldRow {
            tx: format!("tx-{nonce}"),
            kind: "receipt".into(),
            block: Some(block.into()),
            ..ToldRow::default()
        };
        let above = (1..=CONFIRMATIONS).map(|above| format!("{block} + {above}"));
        let confirmations: Vec<String> = [block.to_owned()].into_iter().chain(above).collect();
        self.rows.told.push(receipt.clone());
        self.rows.told.push(ToldRow {
            kind: "confirmations".into(),
            block: confirmations.last().cloned(),
            confirmations,
            ..receipt
        });
    }

    pub(super) fn lines(&self) -> Vec<Line> {
        let evidence = Evidence {
            notes: &self.notes,
            rows: &self.rows,
            mined: &self.mined,
        };
        let found = check(&evidence).0;
        found.into_iter().map(|violation| violation.line).collect()
    }

    /// Exactly these.
    #[track_caller]
    pub(super) fn finds(&self, expected: &[Line]) {
        assert_eq!(self.lines(), expected);
    }

    /// This one, with whatever else follows from it.
    #[track_caller]
    pub(super) fn finds_some(&self, expected: Line) {
        let lines = self.lines();
        assert!(lines.contains(&expected), "{lines:?}");
    }

    pub(super) fn tell(&mut self, request: &str, answer: Answer) {
        self.tell_at(0, request, answer);
    }

    pub(super) fn tell_at(&mut self, at: Micros, request: &str, answer: Answer) {
        self.notes.push(Note::Told {
            at,
            sent: 0,
            request: request.into(),
            node: 0,
            answer,
        });
    }

    pub(super) fn forget_told(&mut self, of: &str) {
        self.notes
            .retain(|note| !matches!(note, Note::Told { request, .. } if request == of));
    }

    pub(super) fn contradict(&mut self, request: &str, answer: Answer) {
        self.notes.push(Note::Conflict {
            at: 0,
            request: request.into(),
            value: 500,
            answer,
        });
    }

    pub(super) fn sample(&mut self, lane: usize, token: u64, cursor: u64, feed: u64) {
        self.notes.push(Note::Sampled {
            at: 0,
            lanes: vec![LaneSample {
                lane,
                token,
                cursor,
                owner: None,
                paused: None,
            }],
            feed,
            epoch: 1,
        });
    }

    pub(super) fn look(&mut self, tx: &str, state: &str, sub: Option<&str>) {
        self.notes.push(Note::Looked {
            at: 0,
            reader: 0,
            tx: tx.into(),
            state: state.into(),
            sub: sub.map(Into::into),
        });
    }

    /// A reader had these rows on a page after this number.
    pub(super) fn feed(&mut self, after: u64, places: &[usize]) {
        let rows = places
            .iter()
            .map(|place| self.rows.completions[*place].row.clone())
            .collect();
        self.notes.push(Note::Fed {
            at: 0,
            reader: 0,
            node: 0,
            after,
            epoch: 1,
            goes_on: true,
            rows,
        });
    }

    pub(super) fn see(&mut self, block: &str, at: Micros) {
        let hash = block.into();
        self.notes.push(Note::Block { at, hash });
    }

    pub(super) fn remedy(&mut self, tx: &str, action: &str, answer: Answer) {
        self.notes.push(Note::Remedy {
            at: 0,
            tx: tx.into(),
            action: action.into(),
            answer,
        });
    }

    /// A transaction is, and was told, as ended like this.
    pub(super) fn end(&mut self, place: usize, state: &str, sub: Option<&str>) {
        let row = &mut self.rows.txs[place];
        (row.state, row.sub) = (state.into(), sub.map(Into::into));
        let told = &mut self.rows.completions[place].row;
        (told.state, told.sub) = (state.into(), sub.map(Into::into));
    }

    /// A transaction was told as stuck before it ended.
    pub(super) fn stick(&mut self, place: usize, sub: &str, at: Micros) {
        let mut end = self.rows.completions[place].clone();
        end.row.seq = 3;
        self.rows.completions.push(end);
        self.rows.feed_head = 3;
        let told = &mut self.rows.completions[place];
        told.row.state = "STUCK".into();
        told.row.sub = Some(sub.into());
        told.at = at;
    }

    pub(super) fn lie(&mut self, target: &str, at: Micros, until: Micros) {
        self.fault("dev_lie", target, at, until);
    }

    pub(super) fn fault(&mut self, kind: &str, target: &str, at: Micros, until: Micros) {
        self.notes.push(Note::Fault {
            at,
            until,
            kind: kind.into(),
            target: target.into(),
            done: true,
        });
    }

    /// A loan whose holder was heard.
    pub(super) fn lend(&mut self, state: &str, word: LoanWord) {
        self.notes.push(Note::Lent {
            at: 0,
            request: "loan".into(),
            lane: 0,
            nonce: Some(2),
            answer: accepted("loan-0"),
        });
        self.notes.push(Note::LoanSaid {
            at: 0,
            loan: "loan-0".into(),
            word,
            answer: refused(200),
        });
        self.rows.txs.push(TxRow {
            tx: "loan-0".into(),
            kind: "reserved".into(),
            request: Some("loan".into()),
            given_back: Some(2),
            state: state.into(),
            ..TxRow::default()
        });
        self.rows.lanes[0].cursor = 3;
        self.rows.free.push((0, 2));
    }
}
