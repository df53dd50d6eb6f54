//! What lets a signer go on is not tried again once it may have been done: someone may have stopped it since.

use std::sync::{Arc, Mutex};

use fencepost_client::{Act, Error};
use serde_json::{Value, json};

use super::server::{ALICE, Server, Step, problem};

fn signer(paused: Option<&str>) -> Value {
    json!({
        "signer": ALICE, "chain": "main", "leader": null, "nextNonce": 0, "chainLatest": null,
        "chainPending": null, "inFlight": 0, "queued": 0, "oldestAgeSeconds": null, "stuck": 0, "gaps": [],
        "freeNonces": [], "paused": paused, "head": null,
    })
}

fn reconciled() -> Value {
    let same = json!({ "before": null, "after": null });
    json!({
        "signer": ALICE, "chain": "main", "dryRun": true, "nextNonce": { "before": 0, "after": 0 },
        "chainLatest": 0, "chainPending": 0, "droppedFreeNonces": [], "gaps": [], "paused": same,
    })
}

fn act() -> Act {
    Act::because("all well")
}

/// Operator A resumes and hears nothing; meanwhile B pauses because money is leaking. A's client must not undo
/// that by itself.
#[tokio::test]
async fn a_resume_that_was_not_answered_does_not_undo_the_pause_of_another() {
    let paused = Arc::new(Mutex::new(Some("OPERATOR")));
    let state = Arc::clone(&paused);
    let mut tries = 0;
    let server = Server::start(move |_| {
        tries += 1;
        let mut paused = state.lock().unwrap();
        *paused = None;
        if tries == 1 {
            // It is written, the answer is lost, and then B pauses.
            *paused = Some("OPERATOR");
            return Step::Cut;
        }
        Step::Say(200, signer(*paused))
    })
    .await;
    let told = server.client().resume(ALICE, &act()).await;
    assert!(told.unwrap_err().outcome_unknown());
    assert_eq!(*paused.lock().unwrap(), Some("OPERATOR"));
}

#[tokio::test]
async fn what_lets_a_signer_go_on_is_repeated_only_while_nothing_was_done() {
    for unanswered in [Step::Cut, problem(504, "outcome_unknown")] {
        let steps = || [problem(503, "store_unavailable"), unanswered.clone()];
        let check = |server: &Server, error: Error| {
            assert!(error.outcome_unknown(), "{error}");
            assert_eq!(server.count(), 2);
        };
        let server = Server::steps(steps()).await;
        let told = server.client().resume(ALICE, &act()).await;
        check(&server, told.unwrap_err());
        let server = Server::steps(steps()).await;
        let told = server.client().reconcile(ALICE, &act()).await;
        check(&server, told.unwrap_err());
    }
}

#[tokio::test]
async fn what_stops_a_signer_or_only_looks_is_repeated() {
    let paused = Step::Say(200, signer(Some("OPERATOR")));
    let server = Server::steps([Step::Cut, paused]).await;
    server.client().pause(ALICE, &act()).await.unwrap();
    assert_eq!(server.count(), 2);
    let server = Server::steps([Step::Cut, Step::Say(200, reconciled())]).await;
    server.client().reconcile_dry(ALICE, &act()).await.unwrap();
    assert_eq!(server.count(), 2);
    // Nothing is left open by a look that was never answered.
    let server = Server::start(|_| Step::Cut).await;
    let told = server.client().reconcile_dry(ALICE, &act()).await;
    assert!(!told.unwrap_err().outcome_unknown());
}
