//! What the chain will do to transactions, done by hand on the store.

use alloy_primitives::{B256, Bytes};
use fencepost_app::ports::{Held, Key, LaneMoved, LaneMoves, Move, Store};
use fencepost_domain::attempt::{self, Attempt, Outcome, SignedFees};
use fencepost_domain::ids::{Height, TxId};
use fencepost_domain::state::{Block, Execution, Inclusion, Why};
use fencepost_domain::transition::Input;
use uuid::Uuid;

use super::world::World;

/// The hash that the n-th attempt of these tests has.
pub(crate) fn hash(n: u8) -> B256 {
    B256::repeat_byte(n)
}

impl World {
    async fn step(&self, tx: Uuid, input: Input, with: impl FnOnce(Move) -> Move) {
        let found = self.store.find(&Key::Id(TxId(tx))).await.unwrap();
        let record = found.unwrap();
        let view = self.store.lane(record.lane).await.unwrap().unwrap();
        let held = Held {
            lane: view.id,
            token: view.token,
        };
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

    /// It is signed and sent.
    pub(crate) async fn sent(&self, tx: Uuid, n: u8) {
        let attempt = Attempt {
            kind: attempt::Kind::Original,
            hash: hash(n),
            raw: Bytes::from(vec![n]),
            fees: Some(SignedFees {
                max_fee: 70,
                max_priority_fee: Some(7),
            }),
        };
        let sign = Input::Sign(attempt.kind, attempt.hash);
        self.step(tx, sign, |step| step.attempt(attempt)).await;
        let outcome = Outcome::Accepted;
        self.step(tx, Input::Sent(outcome), |step| step.sent(1, outcome))
            .await;
    }

    /// It is signed, sent, mined and final.
    pub(crate) async fn confirm(&self, tx: Uuid, n: u8) {
        self.sent(tx, n).await;
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

    /// It is sent, and in no block for too long.
    pub(crate) async fn stick(&self, tx: Uuid, n: u8) {
        self.sent(tx, n).await;
        let why = Input::Stick(Why::NoReceipt);
        self.step(tx, why, |step| step.error("nobody mines it"))
            .await;
    }

    /// A stranger's transaction has used the nonce of a reservation, finally.
    pub(crate) async fn used_by(&self, tx: Uuid, stranger: B256) {
        self.step(tx, Input::TakenFinal(Some(stranger)), |step| step)
            .await;
    }

    /// What a holder has named is in a final block, and went like this.
    pub(crate) async fn used(&self, tx: Uuid, n: u8, execution: Execution) {
        let at = Inclusion {
            block: Block {
                number: Height::new(500).unwrap(),
                hash: hash(0xbb),
            },
            hash: hash(n),
            by: attempt::Kind::External,
            execution,
        };
        let receipt = match execution {
            Execution::Success => r#"{"status": "0x1", "logs": []}"#,
            Execution::Reverted => r#"{"status": "0x0", "logs": []}"#,
        };
        self.step(tx, Input::Mined(at), |step| step.receipt(receipt))
            .await;
        self.step(tx, Input::Final, |step| step).await;
    }
}
