//! Answers of the stuck policy that must be signed: any other answer is refused.

use std::time::Duration;

use fencepost_app::ports::{Action, Advice, Policy};
use fencepost_http::{HttpPolicy, PolicyMeters, PolicySecret, Secret};
use hmac::{Hmac, KeyInit, Mac};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::policy::{Asked, JSON, main_chain, plight, question, response};
use super::warnings::Warnings;

const SECRET: &str = "a secret of the two";
const CANCEL: &str = r#"{"action":"CANCEL"}"#;

/// As a business signs: the question's own signature is part of it.
fn signed(secret: &str, question: &str, body: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let digest = hex(&Sha256::digest(body.as_bytes()));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("fencepost answer 1\n{question}\n{digest}\n").as_bytes());
    format!("0x{}", hex(&mac.finalize().into_bytes()))
}

/// Asks once; the business answers CANCEL with the signature that `sign` makes of the question.
async fn decided(
    meters: &PolicyMeters,
    signed_answers: bool,
    sign: impl FnOnce(&Asked) -> Option<String> + Send + 'static,
) -> Advice {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/decide", listener.local_addr().unwrap());
    let business = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let asked = question(&mut stream).await;
        let header = sign(&asked).map(|text| format!("x-fencepost-signature: {text}\r\n"));
        let headers = format!("{JSON}{}", header.unwrap_or_default());
        stream
            .write_all(&response("200 OK", &headers, CANCEL))
            .await
            .unwrap();
    });
    let secret = PolicySecret {
        secret: Secret::new(SECRET.to_owned()),
        signed_answers,
    };
    let within = Duration::from_secs(30);
    let policy = HttpPolicy::new(url, within, Some(secret), &[main_chain()], meters.clone());
    let advice = policy.decide(&plight()).await;
    business.await.unwrap();
    advice
}

fn of_question(asked: &Asked) -> String {
    asked.header("x-fencepost-signature").unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_that_must_be_signed_and_is_not_is_refused_logged_and_counted() {
    let warnings = Warnings::watch();
    let mut registry = Registry::default();
    let meters = PolicyMeters::register(&mut registry);
    let good = decided(&meters, true, |asked| {
        Some(signed(SECRET, &of_question(asked), CANCEL))
    })
    .await;
    assert_eq!(good.action, Some(Action::Cancel));
    assert_eq!(warnings.take(), 0);
    type Forge = fn(&Asked) -> Option<String>;
    let forged: [(Forge, &str); 6] = [
        (|_| None, "is not signed"),
        (|_| Some("nonsense".to_owned()), "is not 0x with 64 hex"),
        // The question's own signature sent back.
        (|asked| Some(of_question(asked)), "is wrong"),
        (
            |asked| {
                Some(signed(
                    "another secret of theirs",
                    &of_question(asked),
                    CANCEL,
                ))
            },
            "is wrong",
        ),
        (
            |asked| Some(signed(SECRET, &of_question(asked), r#"{"action":"NOOP"}"#)),
            "is wrong",
        ),
        // A good answer to another question.
        (
            |_| Some(signed(SECRET, &format!("0x{}", "11".repeat(32)), CANCEL)),
            "is wrong",
        ),
    ];
    for (forge, why) in forged {
        let advice = decided(&meters, true, forge).await;
        assert_eq!(advice.action, None, "{why}");
        assert!(advice.reason.contains(why), "{why}: {}", advice.reason);
        assert_eq!(warnings.take(), 1, "{why}");
    }
    let mut metrics = String::new();
    encode(&mut metrics, &registry).unwrap();
    for line in [
        r#"fencepost_policy_answer_total{result="taken"} 1"#,
        r#"fencepost_policy_answer_total{result="invalid"} 0"#,
        r#"fencepost_policy_answer_total{result="unsigned"} 6"#,
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
}

#[tokio::test]
async fn an_unsigned_answer_is_taken_where_signatures_are_not_asked_for() {
    let meters = PolicyMeters::register(&mut Registry::default());
    let advice = decided(&meters, false, |_| None).await;
    assert_eq!(advice.action, Some(Action::Cancel));
}
