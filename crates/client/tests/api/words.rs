//! That the client knows every word and every route of the server it is built with.

use fencepost_app::ports;
use fencepost_client::{
    Action, AttemptKind, Code, EventKind, Kind, OpenState, PauseReason, RemedyState, SendOutcome,
    State, SubState,
};
use fencepost_domain::flat::Name;
use fencepost_domain::state::{Kind as TxKind, Wait, Why};
use fencepost_domain::{attempt, event};
use serde_json::Value;

/// Every word is read as a variant of its own, and written back as it was.
macro_rules! knows {
    ($ours:ident: $words:expr) => {
        for word in $words {
            let read = $ours::from(word);
            assert!(!matches!(read, $ours::Other(_)), "{word}");
            assert_eq!(read.word(), word);
        }
    };
}

fn description() -> Value {
    serde_json::from_str(&fencepost_http::openapi_json()).unwrap()
}

#[test]
fn every_word_is_known() {
    knows!(State: Name::ALL.iter().map(|each| each.word()));
    knows!(Kind: TxKind::ALL.iter().map(|each| each.word()));
    knows!(SubState: Wait::ALL.iter().map(|each| each.word()));
    knows!(SubState: Why::ALL.iter().map(|each| each.word()));
    knows!(EventKind: event::Kind::ALL.iter().map(|each| each.word()));
    knows!(AttemptKind: attempt::Kind::ALL.iter().map(|each| each.word()));
    knows!(SendOutcome: attempt::Outcome::ALL.iter().map(|each| each.word()));
    knows!(PauseReason: ports::PauseReason::ALL.iter().map(|each| each.word()));
    knows!(Action: ports::Action::ALL.iter().map(|each| each.word()));
    knows!(OpenState: fencepost_app::import::OpenState::ALL.iter().map(|each| each.word()));
    knows!(RemedyState: ports::Progress::ALL.iter().map(|each| each.word()));
}

#[test]
fn every_code_and_sub_state_of_the_description_is_known() {
    let description = description();
    let schemas = &description["components"]["schemas"];
    let words = |schema: &Value| -> Vec<String> {
        let listed = schema["enum"].as_array().unwrap().iter();
        listed
            .filter_map(|word| word.as_str().map(str::to_owned))
            .collect()
    };
    let codes = words(&schemas["Code"]);
    assert!(codes.len() > 20, "{codes:?}");
    knows!(Code: codes.iter().map(|word| &**word));
    let subs = words(&schemas["Transaction"]["properties"]["subState"]);
    assert!(subs.len() > 10, "{subs:?}");
    knows!(SubState: subs.iter().map(|word| &**word));
}

/// The routes that the client has a method for.
const ROUTES: &[&str] = &[
    "/api/v1/tx",
    "/api/v1/tx/batch",
    "/api/v1/tx/by-request",
    "/api/v1/tx/by-nonce",
    "/api/v1/tx/by-hash/{hash}",
    "/api/v1/tx/completions",
    "/api/v1/tx/{txId}",
    "/api/v1/tx/{txId}/history",
    "/api/v1/tx/{txId}/attempts",
    "/api/v1/tx/{txId}/confirmations",
    "/api/v1/tx/{txId}/remedies",
    "/api/v1/tx/{txId}/remedy",
    "/api/v1/signers",
    "/api/v1/signers/{signer}",
    "/api/v1/signers/{signer}/audit",
    "/api/v1/signers/{signer}/pause",
    "/api/v1/signers/{signer}/resume",
    "/api/v1/signers/{signer}/reconcile",
    "/api/v1/signers/{signer}/placeholder",
    "/api/v1/signers/{signer}/cursor",
    "/api/v1/signers/{signer}/import",
    "/api/v1/signers/{signer}/export",
    "/api/v1/audit",
    "/api/v1/nonces/reserve",
    "/api/v1/nonces/{id}",
    "/api/v1/nonces/{id}/submitted",
    "/api/v1/nonces/{id}/recycle",
    "/api/v1/nonces/{id}/extend",
    "/livez",
    "/readyz",
    "/metrics",
    // A page for people.
    "/docs/problems",
];

#[test]
fn every_route_of_the_description_has_its_method() {
    let description = description();
    let paths = description["paths"].as_object().unwrap();
    assert!(paths.len() > 10);
    let missing: Vec<_> = paths
        .keys()
        .filter(|path| !ROUTES.contains(&&***path))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
