//! A key elsewhere, against a small service that speaks as Web3Signer does: it hashes the bytes that it
//! is given, signs with a real key, and misbehaves on demand.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

mod remote {
    pub(crate) mod service;
}

use std::time::Duration;

use alloy_consensus::TxEnvelope;
use alloy_consensus::transaction::SignerRecoverable;
use alloy_eips::Decodable2718;
use fencepost_app::ports::{Signer, Unsignable};
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::ids::{ChainId, Nonce};
use fencepost_domain::{Address, Bytes, U256};
use fencepost_signer::{KeySource, KeySpec, Keyring, Limits};
use futures::future::join_all;

use remote::service::{Account, Answer, Listing, Service};

/// Long enough that a busy machine never meets it: only what truly hangs is late.
const PATIENT: Duration = Duration::from_secs(60);

fn limits(remote_calls: usize, remote_deadline: Duration) -> Limits {
    Limits {
        remote_calls,
        remote_deadline,
        ..Limits::default()
    }
}

async fn keyring(url: &str, account: Address, limits: Limits) -> Keyring {
    let source = KeySource::Remote { url: url.into() };
    let spec = KeySpec {
        source,
        address: Some(account),
    };
    Keyring::open_within(vec![spec], limits).await.unwrap()
}

async fn patient(service: &Service, account: Address) -> Keyring {
    keyring(&service.url, account, limits(32, PATIENT)).await
}

fn transfer(tip: Option<u128>) -> Unsigned {
    Unsigned {
        chain: ChainId::new(1337).unwrap(),
        nonce: Nonce::new(7).unwrap(),
        to: Some(Address::repeat_byte(0x11)),
        value: U256::from(5),
        data: Bytes::from_static(b"call"),
        gas: 50_000,
        fees: SignedFees {
            max_fee: 9,
            max_priority_fee: tip,
        },
        access: None,
    }
}

fn unusable(told: Result<fencepost_app::ports::Signed, Unsignable>) -> String {
    match told {
        Err(Unsignable::Unusable(why)) => why,
        other => panic!("not unusable: {other:?}"),
    }
}

#[tokio::test]
async fn a_signature_is_asked_by_public_key_and_is_the_same_as_one_made_here() {
    let ours = Account::new(0x21);
    let keys = vec![Account::new(0x22).public(), ours.public()];
    let service = Service::start(Listing::Keys(keys), Answer::Sign(ours)).await;
    let there = patient(&service, ours.address()).await;
    let source = KeySource::Private("21".repeat(32).into());
    let here = Keyring::open(vec![KeySpec {
        source,
        address: None,
    }])
    .await
    .unwrap();
    for tip in [None, Some(1)] {
        let signed = there.sign(ours.address(), &transfer(tip)).await.unwrap();
        assert_eq!(
            signed,
            here.sign(ours.address(), &transfer(tip)).await.unwrap()
        );
        let read = TxEnvelope::decode_2718_exact(&signed.raw).unwrap();
        assert_eq!(read.recover_signer().unwrap(), ours.address());
    }
    let sign = format!("sign {}", ours.public());
    assert_eq!(
        service.asked(),
        ["list", &sign, &sign],
        "the list is read once"
    );
}

#[tokio::test]
async fn a_service_that_does_not_list_our_key_is_asked_by_address() {
    let ours = Account::new(0x23);
    let lists = [
        (Listing::Status(404), true),
        (Listing::Status(503), false),
        (Listing::Keys(vec![Account::new(1).public()]), true),
        (Listing::Text("<html>".into()), true),
        (Listing::Text("\"0x00\",".repeat(1_000_000)), true),
    ];
    for (listing, lasting) in lists {
        let service = Service::start(listing, Answer::Sign(ours)).await;
        let keyring = patient(&service, ours.address()).await;
        for _ in 0..2 {
            keyring.sign(ours.address(), &transfer(None)).await.unwrap();
        }
        let sign = format!("sign {:#x}", ours.address());
        let expected = match lasting {
            true => vec!["list", &sign, &sign],
            false => vec!["list", &sign, "list", &sign],
        };
        assert_eq!(service.asked(), expected);
    }
}

#[tokio::test]
async fn every_form_of_a_right_signature_is_taken_and_made_the_same() {
    let ours = Account::new(0x24);
    let service = Service::start(Listing::Status(404), Answer::Sign(ours)).await;
    let keyring = patient(&service, ours.address()).await;
    let plain = keyring
        .sign(ours.address(), &transfer(Some(1)))
        .await
        .unwrap();
    for answer in [
        Answer::HighS(ours),
        Answer::Parity(ours),
        Answer::Eip155(ours, 1337),
    ] {
        service.answer(answer);
        assert_eq!(
            keyring
                .sign(ours.address(), &transfer(Some(1)))
                .await
                .unwrap(),
            plain
        );
    }
}

#[tokio::test]
async fn what_another_key_signed_is_not_believed() {
    let (ours, other) = (Account::new(0x25), Account::new(0x26));
    let service = Service::start(Listing::Keys(vec![ours.public()]), Answer::Sign(other)).await;
    let keyring = patient(&service, ours.address()).await;
    let why = unusable(keyring.sign(ours.address(), &transfer(Some(1))).await);
    assert!(why.contains(&other.address().to_string()), "{why}");
    // The service is mended: the next call looks for the key again and succeeds.
    service.answer(Answer::Sign(ours));
    keyring
        .sign(ours.address(), &transfer(Some(1)))
        .await
        .unwrap();
    assert_eq!(
        service.asked().iter().filter(|ask| *ask == "list").count(),
        2
    );
}

#[tokio::test]
async fn only_what_is_said_of_the_transaction_is_a_refusal() {
    let ours = Account::new(0x27);
    let service = Service::start(Listing::Status(404), Answer::Sign(ours)).await;
    let keyring = patient(&service, ours.address()).await;
    for status in [403, 422] {
        service.answer(Answer::Status(status, "over the\nlimit".into()));
        match keyring.sign(ours.address(), &transfer(None)).await {
            Err(Unsignable::Refused(why)) => {
                assert!(
                    why.contains(&status.to_string()) && why.contains("over the limit"),
                    "{why}"
                );
            }
            other => panic!("{status}: {other:?}"),
        }
    }
    for status in [204, 302, 400, 401, 404, 405, 408, 409, 429, 500, 502, 503] {
        service.answer(Answer::Status(status, String::new()));
        let why = unusable(keyring.sign(ours.address(), &transfer(None)).await);
        assert!(why.contains(&status.to_string()), "{why}");
    }
    service.answer(Answer::Status(500, "x".repeat(100_000)));
    let why = unusable(keyring.sign(ours.address(), &transfer(None)).await);
    assert!(why.len() < 300, "an error page is not a log line: {why}");
    service.answer(Answer::Sign(ours));
    keyring.sign(ours.address(), &transfer(None)).await.unwrap();
}

#[tokio::test]
async fn a_key_that_was_unknown_is_looked_for_again() {
    let ours = Account::new(0x28);
    let service = Service::start(Listing::Keys(vec![]), Answer::Status(404, String::new())).await;
    let keyring = patient(&service, ours.address()).await;
    unusable(keyring.sign(ours.address(), &transfer(None)).await);
    service.list(Listing::Keys(vec![ours.public()]));
    service.answer(Answer::Sign(ours));
    keyring.sign(ours.address(), &transfer(None)).await.unwrap();
    let asked = service.asked();
    assert_eq!(asked.last().unwrap(), &format!("sign {}", ours.public()));
}

#[tokio::test]
async fn an_answer_that_is_no_signature_or_too_long_is_not_read_as_one() {
    let ours = Account::new(0x29);
    let service = Service::start(Listing::Status(404), Answer::Sign(ours)).await;
    let keyring = patient(&service, ours.address()).await;
    let texts = [
        (String::new(), "not a signature"),
        ("OK".to_owned(), "not a signature"),
        (format!("0x{}", "00".repeat(65)), "not a signature"),
        (format!("0x{}", "ff".repeat(65)), "not a signature"),
        (format!("0x{}", "11".repeat(2_000)), "not a signature"),
        ("0x".to_owned() + &"11".repeat(20_000), "more than"),
    ];
    for (text, word) in texts {
        service.answer(Answer::Text(text));
        let why = unusable(keyring.sign(ours.address(), &transfer(None)).await);
        assert!(why.contains(word), "{why}");
    }
}

#[tokio::test]
async fn a_service_that_never_answers_is_given_up_at_the_deadline() {
    let ours = Account::new(0x2a);
    let cases = [
        (Listing::Hang, Answer::Sign(ours)),
        (Listing::Status(404), Answer::Hang),
    ];
    for (listing, answer) in cases {
        let service = Service::start(listing, answer).await;
        let limits = limits(1, Duration::from_millis(150));
        let keyring = keyring(&service.url, ours.address(), limits).await;
        // The second waits for the first's call, and that wait is part of its time too.
        let tx = transfer(None);
        let both = join_all([
            keyring.sign(ours.address(), &tx),
            keyring.sign(ours.address(), &tx),
        ]);
        let told = tokio::time::timeout(PATIENT, both)
            .await
            .expect("each has a deadline");
        for told in told {
            assert!(unusable(told).contains("150ms"));
        }
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_told_so() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "http://operator:password@{}/",
        listener.local_addr().unwrap()
    );
    drop(listener);
    let account = Account::new(0x2b).address();
    let keyring = keyring(&url, account, limits(32, PATIENT)).await;
    let why = unusable(keyring.sign(account, &transfer(None)).await);
    assert!(why.contains("refused"), "{why}");
    assert!(
        !why.contains("operator") && !why.contains("password"),
        "{why}"
    );
}

#[tokio::test]
async fn a_url_may_have_a_path_and_credentials() {
    let ours = Account::new(0x2c);
    let service = Service::start(Listing::Keys(vec![ours.public()]), Answer::Sign(ours)).await;
    for path in ["base", "base/"] {
        let url = service.url.replace("http://", "http://operator:p%40ss@") + "/" + path;
        let keyring = keyring(&url, ours.address(), limits(32, PATIENT)).await;
        keyring.sign(ours.address(), &transfer(None)).await.unwrap();
        // "operator:p@ss" in base 64.
        assert_eq!(service.credentials().unwrap(), "Basic b3BlcmF0b3I6cEBzcw==");
    }
}

/// Every call but those of the limit waits here, not at the service; when places come free, all are
/// answered.
#[tokio::test]
async fn no_more_calls_are_in_flight_than_the_limit() {
    let ours = Account::new(0x2d);
    let service = Service::start(Listing::Status(404), Answer::Gated(ours)).await;
    let keyring = keyring(&service.url, ours.address(), limits(3, PATIENT)).await;
    let tx = transfer(None);
    let calls = join_all((0..12).map(|_| keyring.sign(ours.address(), &tx)));
    let opening = async {
        for _ in 0..12 {
            service.waiting_at_gate().await;
            // Round trips of our own give a call beyond the limit the time to arrive.
            service.ping(5).await;
            assert!(service.in_flight() <= 3, "{}", service.in_flight());
            service.let_one_pass();
        }
    };
    let (signed, ()) = tokio::join!(calls, opening);
    assert!(signed.iter().all(Result::is_ok));
    assert_eq!(service.most_in_flight(), 3);
}

#[tokio::test]
async fn a_key_that_hangs_delays_no_other() {
    let (slow, quick) = (Account::new(0x2e), Account::new(0x2f));
    let hanging = Service::start(Listing::Status(404), Answer::Gated(slow)).await;
    let answering = Service::start(Listing::Status(404), Answer::Sign(quick)).await;
    let spec = |service: &Service, account: Account| KeySpec {
        source: KeySource::Remote {
            url: service.url.as_str().into(),
        },
        address: Some(account.address()),
    };
    let local = KeySource::Private("30".repeat(32).into());
    let specs = vec![
        spec(&hanging, slow),
        spec(&answering, quick),
        KeySpec {
            source: local,
            address: None,
        },
    ];
    let keyring = Keyring::open_within(specs, limits(4, PATIENT))
        .await
        .unwrap();
    let here = keyring.addresses()[2][0];
    let tx = transfer(None);
    let mut stuck = Box::pin(join_all((0..50).map(|_| keyring.sign(slow.address(), &tx))));
    let others = async {
        hanging.waiting_at_gate().await;
        keyring.sign(quick.address(), &tx).await.unwrap();
        keyring.sign(here, &tx).await.unwrap();
    };
    tokio::select! {
        _ = &mut stuck => panic!("nobody opened the gate"),
        () = others => {}
    }
}
