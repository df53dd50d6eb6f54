//! Remedies have no request id, so what may be repeated depends on what is asked for.

use fencepost_client::{Action, Code, Fees, NewRemedy};
use serde_json::json;
use uuid::Uuid;

use super::server::{Server, Step, problem, stored};

fn wish(action: Action) -> NewRemedy {
    NewRemedy::new(action, "it must go on")
}

fn replacement() -> NewRemedy {
    wish(Action::Replace).fees(Fees::Dynamic {
        max_fee_per_gas: 30,
        max_priority_fee_per_gas: 2,
    })
}

#[tokio::test]
async fn what_may_sign_twice_is_not_repeated_once_it_was_not_answered() {
    let risky = [
        Action::Cancel,
        Action::Replace,
        Action::Placeholder,
        Action::from("NEW"),
    ];
    for action in risky {
        for unanswered in [Step::Cut, problem(504, "outcome_unknown")] {
            let server = Server::steps([problem(503, "overloaded"), unanswered]).await;
            let asked = server.client();
            let error = asked
                .remedy(Uuid::nil(), &wish(action.clone()))
                .await
                .unwrap_err();
            assert_eq!(server.count(), 2, "{action}");
            assert!(error.outcome_unknown(), "{action}");
        }
    }
}

#[tokio::test]
async fn what_is_harmless_twice_is_repeated_and_what_comes_of_it_is_told_as_it_is() {
    for remedy in [wish(Action::Resubmit), replacement()] {
        let server = Server::steps([Step::Cut, stored(202)]).await;
        server.client().remedy(Uuid::nil(), &remedy).await.unwrap();
        assert_eq!(server.count(), 2);
        let server = Server::steps([Step::Cut, problem(409, "remedy_running")]).await;
        let error = server
            .client()
            .remedy(Uuid::nil(), &remedy)
            .await
            .unwrap_err();
        assert_eq!(error.code(), Some(&Code::RemedyRunning));
        // The one that runs may be ours.
        assert!(error.outcome_unknown());
    }
}

#[tokio::test]
async fn a_remedy_is_spelled_as_the_api_has_it() {
    let server = Server::start(|_| stored(202)).await;
    let remedy = replacement().audit(json!({ "ticket": "OPS-7" }));
    server.client().remedy(Uuid::nil(), &remedy).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.what, format!("POST /api/v1/tx/{}/remedy", Uuid::nil()));
    let expected = json!({
        "action": "REPLACE", "reason": "it must go on", "audit": { "ticket": "OPS-7" },
        "fees": { "maxFeePerGas": "30", "maxPriorityFeePerGas": "2" },
    });
    assert_eq!(seen.json(), expected);
}
