//! Reservations and placeholders at a node that does not lead: they need their nonces at once, and only the
//! leader gives any. What is known is told by every node all the same.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::lifecycle::accept::Verdict;
use fencepost_app::ports::{NewTx, Peers, Unforwarded};
use fencepost_domain::ids::Lane;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::chain_steps::id;
use super::reserving::{RESERVE, reserved, wish};
use super::sabotage::{Fault, Sabotage};
use super::world::{ALICE, Reply, Server, World, payment};

/// What comes of handing a request to the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leader {
    IsAway,
    IsSilent,
    HasLostIt,
    IsFull,
    HasNoStore,
    CannotSay,
}

impl Leader {
    fn answer(self) -> Result<Verdict, Unforwarded> {
        match self {
            Self::IsAway => Err(Unforwarded::NotSent("as the test says".into())),
            Self::IsSilent => Err(Unforwarded::Unanswered("as the test says".into())),
            Self::HasLostIt => Ok(Verdict::NotLeader(None)),
            Self::IsFull => Ok(Verdict::Overloaded),
            Self::HasNoStore => Ok(Verdict::Unavailable),
            Self::CannotSay => Ok(Verdict::Unknown),
        }
    }
}

/// What comes of one call after the other; the last of them of all further ones.
struct Script {
    then: Vec<Leader>,
    calls: AtomicUsize,
}

#[async_trait]
impl Peers for Script {
    async fn forward(
        &self,
        _: &str,
        _: Lane,
        _: &NewTx,
        _: Duration,
    ) -> Result<Verdict, Unforwarded> {
        let call = self.calls.fetch_add(1, Relaxed).min(self.then.len() - 1);
        self.then[call].answer()
    }

    async fn nudge(&self, _: &str, _: Lane, _: Duration) -> Result<(), Unforwarded> {
        Err(Unforwarded::NotSent("as the test says".into()))
    }
}

const ALL: [Leader; 6] = [
    Leader::IsAway,
    Leader::IsSilent,
    Leader::HasLostIt,
    Leader::IsFull,
    Leader::HasNoStore,
    Leader::CannotSay,
];

/// A node that reaches the leader like this.
async fn follower(world: &mut World, leader: Leader) -> Server {
    scripted(world, vec![leader]).await.0
}

async fn scripted(world: &mut World, then: Vec<Leader>) -> (Server, Arc<Script>) {
    let calls = AtomicUsize::new(0);
    let script = Arc::new(Script { then, calls });
    world.peers = Arc::clone(&script) as Arc<dyn Peers>;
    let server = world.server_at("n2", "http://127.0.0.1:2").await;
    (server, script)
}

async fn fill(server: &Server, body: &Value) -> Reply {
    let path = format!("/api/v1/signers/{ALICE}/placeholder");
    server.post(&path, body).await
}

fn expected(leader: Leader) -> (u16, String) {
    let (status, code) = match leader {
        Leader::IsAway | Leader::HasLostIt => (409, "not_leader"),
        Leader::IsFull => (503, "overloaded"),
        Leader::HasNoStore => (503, "store_unavailable"),
        Leader::IsSilent | Leader::CannotSay => (504, "outcome_unknown"),
    };
    (status, code.to_owned())
}

fn told(reply: &Reply) -> (u16, String) {
    (reply.status, reply.code())
}

/// I6: the same request id gives the same transaction, whatever has crashed in between.
#[tokio::test(start_paused = true)]
async fn what_is_known_is_told_by_a_node_that_does_not_lead() {
    let mut world = World::new();
    let first = world.server().await;
    let given_back = first.create(&payment(1)).await;
    first.create(&payment(2)).await;
    first.reject(id(&given_back)).await;
    let gap = json!({ "nonce": 0, "reason": "fill", "requestId": "b" });
    let filled = fill(&first, &gap).await;
    assert_eq!(filled.status, 202, "{}", filled.text());
    let lent = reserved(&first, &json!({ "requestId": "a" })).await;
    for leader in ALL {
        let other = follower(&mut world, leader).await;
        let began = Instant::now();
        let again = other
            .post(RESERVE, &wish(&json!({ "requestId": "a" })))
            .await;
        assert_eq!((again.status, again.json()), (200, lent.clone()));
        assert_eq!(began.elapsed(), Duration::ZERO, "{leader:?}");
        let again = fill(&other, &gap).await;
        assert_eq!((again.status, again.json()), (200, filled.json()));
        // A name that is another's is a conflict here as it is there.
        let conflict = other
            .post(RESERVE, &wish(&json!({ "requestId": "b" })))
            .await;
        assert_eq!(told(&conflict), (409, "idempotency_conflict".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_leader_cannot_do_now_is_told_as_what_it_is() {
    let mut world = World::new();
    let first = world.server().await;
    first.create(&payment(1)).await;
    for leader in ALL {
        let other = follower(&mut world, leader).await;
        let expected = expected(leader);
        for more in [json!({}), json!({ "requestId": "a" })] {
            let reply = other.post(RESERVE, &wish(&more)).await;
            assert_eq!(told(&reply), expected, "{leader:?}: {more}");
        }
        let reply = fill(&other, &json!({ "nonce": 0, "reason": "fill" })).await;
        assert_eq!(told(&reply), expected, "{leader:?}");
    }
    assert_eq!(first.rows().await.len(), 1);
}

/// Who is not the leader, or not there, is asked again; what may have been stored is not told as what came later.
#[tokio::test(start_paused = true)]
async fn asking_again_ends_with_the_first_answer_that_says_more() {
    for leader in ALL {
        let mut world = World::new();
        let first = world.server().await;
        first.create(&payment(1)).await;
        let passing = [Leader::IsAway, Leader::HasLostIt];
        for then in [vec![leader, Leader::IsAway], vec![Leader::IsAway, leader]] {
            let (other, script) = scripted(&mut world, then.clone()).await;
            let began = Instant::now();
            let reply = other.post(RESERVE, &wish(&json!({}))).await;
            let (waited, calls) = (began.elapsed(), script.calls.load(Relaxed));
            let patience = world.settings.forward_deadline;
            assert!(waited < patience, "{then:?}: {waited:?}");
            if then.iter().all(|each| passing.contains(each)) {
                assert_eq!(told(&reply), (409, "not_leader".to_owned()), "{then:?}");
                assert!(calls > 5 && waited * 2 > patience, "{then:?}: {calls}");
            } else {
                let until = then.iter().position(|each| !passing.contains(each));
                assert_eq!(Some(calls), until.map(|at| at + 1), "{then:?}");
                assert_eq!(told(&reply), expected(leader), "{then:?}");
            }
        }
        assert_eq!(first.rows().await.len(), 1);
    }
}

/// A look that fails proves nothing: what may have been stored is not told as if it were not.
#[tokio::test(start_paused = true)]
async fn a_known_name_that_cannot_be_looked_for_is_not_told_as_refused() {
    let (mut world, sabotage) = Sabotage::world();
    let first = world.server().await;
    first.create(&payment(1)).await;
    for leader in ALL {
        let other = follower(&mut world, leader).await;
        sabotage.fail("find", Fault::Away);
        let reply = other
            .post(RESERVE, &wish(&json!({ "requestId": "a" })))
            .await;
        sabotage.repair();
        let expected = match leader {
            Leader::IsSilent | Leader::CannotSay => (504, "outcome_unknown".to_owned()),
            Leader::IsAway | Leader::HasLostIt | Leader::IsFull | Leader::HasNoStore => {
                (503, "store_unavailable".to_owned())
            }
        };
        assert_eq!(told(&reply), expected, "{leader:?}");
    }
}
