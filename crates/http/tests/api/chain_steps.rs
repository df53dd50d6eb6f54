//! What the chain will do to transactions, done by hand on the store.

use fencepost_app::ports::{Held, Key, LaneMoved, LaneMoves, Move, Record, Store};
use fencepost_domain::attempt::{self, Attempt, Outcome, SignedFees};
use fencepost_domain::ids::{Height, TxId};
use fencepost_domain::state::{Block, Execution, Inclusion};
use fencepost_domain::transition::Input;
use fencepost_domain::{B256, Bytes};
use serde_json::Value;
use uuid::Uuid;

use super::world::Server;

/// The id of a transaction in JSON.
pub(crate) fn id(transaction: &Value) -> TxId {
    TxId(Uuid::try_parse(transaction["txId"].as_str().unwrap()).unwrap())
}

/// The hash that the n-th attempt of these tests has.
pub(crate) fn hash(n: u8) -> B256 {
    B256::repeat_byte(n)
}

impl Server {
    pub(crate) async fn record(&self, tx: TxId) -> Record {
        self.store.find(&Key::Id(tx)).await.unwrap().unwrap()
    }

    async fn step(&self, tx: TxId, input: Input, with: impl FnOnce(Move) -> Move) {
        let record = self.record(tx).await;
        let held = self.held(tx).await;
        let transition = record.state.clone().apply(input).unwrap();
        let step = with(Move::of(&record, transition));
        let told = step.event.kind.is_told();
        let moves = [LaneMoves {
            held,
            moves: vec![step],
        }];
        let holder = self.node.holder();
        let answers = if told {
            self.store.complete(holder, &moves).await.unwrap()
        } else {
            self.store.apply(holder, &moves).await.unwrap()
        };
        assert!(
            matches!(answers[..], [LaneMoved::Done { .. }]),
            "{answers:?}"
        );
    }

    /// The lane of a transaction and the token of its leader.
    pub(crate) async fn held(&self, tx: TxId) -> Held {
        let record = self.record(tx).await;
        let view = self.store.lane(record.lane).await.unwrap().unwrap();
        Held {
            lane: view.id,
            token: view.token,
        }
    }

    /// It is signed, with these fees.
    pub(crate) async fn sign(&self, tx: TxId, n: u8, fees: SignedFees) {
        let attempt = Attempt {
            kind: attempt::Kind::Original,
            hash: hash(n),
            raw: Bytes::from(vec![n]),
            fees: Some(fees),
        };
        let sign = Input::Sign(attempt.kind, attempt.hash);
        self.step(tx, sign, |step| step.attempt(attempt)).await;
    }

    /// It is signed, sent, mined and final.
    pub(crate) async fn confirm(&self, tx: TxId, n: u8) {
        let fees = SignedFees {
            max_fee: 70,
            max_priority_fee: Some(7),
        };
        self.sign(tx, n, fees).await;
        let outcome = Outcome::Accepted;
        self.step(tx, Input::Sent(outcome), |step| step.sent(1, outcome))
            .await;
        let block = Block {
            number: Height::new(500).unwrap(),
            hash: hash(0xbb),
        };
        let at = Inclusion {
            block,
            hash: hash(n),
            by: attempt::Kind::Original,
            execution: Execution::Success,
        };
        let receipt = r#"{"status": "0x1", "logs": []}"#;
        self.step(tx, Input::Mined(at), |step| step.receipt(receipt))
            .await;
        self.step(tx, Input::Final, |step| step).await;
    }

    /// It is refused for good before anything was signed.
    pub(crate) async fn reject(&self, tx: TxId) {
        self.reject_for(tx, "it would revert").await;
    }

    /// The same, with these words.
    pub(crate) async fn reject_for(&self, tx: TxId, why: &str) {
        self.step(tx, Input::Reject, |step| step.error(why)).await;
    }

    /// A stranger's transaction has used the nonce of a reservation, finally.
    pub(crate) async fn used_by(&self, tx: TxId, stranger: B256) {
        self.step(tx, Input::TakenFinal(Some(stranger)), |step| step)
            .await;
    }
}
