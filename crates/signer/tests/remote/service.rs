//! The service: two routes of Web3Signer's `eth1` API, on a port of the system's choosing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use alloy_primitives::{Signature, U256, hex};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use fencepost_domain::{Address, keccak256};
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use tokio::sync::Semaphore;

const ORDER: U256 = alloy_primitives::uint!(
    0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256
);

/// The account whose private key is one byte, 32 times.
#[derive(Clone, Copy)]
pub(crate) struct Account(SecretKey);

impl Account {
    pub(crate) fn new(byte: u8) -> Self {
        Self(SecretKey::from_byte_array([byte; 32]).unwrap())
    }

    /// As Web3Signer writes it: 64 bytes, without the mark of a form.
    pub(crate) fn public(self) -> String {
        let public = PublicKey::from_secret_key(SECP256K1, &self.0);
        hex::encode_prefixed(&public.serialize_uncompressed()[1..])
    }

    pub(crate) fn address(self) -> Address {
        let public = hex::decode(self.public()).unwrap();
        Address::from_raw_public_key(&public)
    }

    fn sign(self, data: &[u8]) -> Signature {
        let message = Message::from_digest(keccak256(data).0);
        SECP256K1.sign_ecdsa_recoverable(message, &self.0).into()
    }
}

/// What is answered to a question for the list.
#[derive(Clone)]
pub(crate) enum Listing {
    Keys(Vec<String>),
    Text(String),
    Status(u16),
    Hang,
}

/// What is answered to a question for a signature.
#[derive(Clone)]
pub(crate) enum Answer {
    /// As Web3Signer does: v is 27 or 28.
    Sign(Account),
    Parity(Account),
    Eip155(Account, u64),
    HighS(Account),
    /// As `Sign`, but only when the test lets it pass.
    Gated(Account),
    Text(String),
    Status(u16, String),
    Hang,
}

struct Inner {
    listing: Mutex<Listing>,
    answer: Mutex<Answer>,
    asked: Mutex<Vec<String>>,
    credentials: Mutex<Option<String>>,
    arrived: Semaphore,
    gate: Semaphore,
    in_flight: AtomicUsize,
    most: AtomicUsize,
}

pub(crate) struct Service {
    pub(crate) url: String,
    inner: Arc<Inner>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Service {
    pub(crate) async fn start(listing: Listing, answer: Answer) -> Self {
        let inner = Arc::new(Inner {
            listing: Mutex::new(listing),
            answer: Mutex::new(answer),
            asked: Mutex::default(),
            credentials: Mutex::default(),
            arrived: Semaphore::new(0),
            gate: Semaphore::new(0),
            in_flight: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        });
        let routes = Router::new()
            .route("/api/v1/eth1/publicKeys", get(list))
            .route("/api/v1/eth1/sign/{name}", post(sign))
            .route("/upcheck", get(|| async { "OK" }));
        let app = Router::new().nest("/base", routes.clone()).merge(routes);
        let app = app.with_state(inner.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, inner, server }
    }

    pub(crate) fn list(&self, listing: Listing) {
        *self.inner.listing.lock().unwrap() = listing;
    }

    pub(crate) fn answer(&self, answer: Answer) {
        *self.inner.answer.lock().unwrap() = answer;
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.inner.asked.lock().unwrap().clone()
    }

    pub(crate) fn credentials(&self) -> Option<String> {
        self.inner.credentials.lock().unwrap().clone()
    }

    /// Returns when one more call than before has come to the gate.
    pub(crate) async fn waiting_at_gate(&self) {
        self.inner.arrived.acquire().await.unwrap().forget();
    }

    pub(crate) fn let_one_pass(&self) {
        self.inner.gate.add_permits(1);
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.inner.in_flight.load(Ordering::SeqCst)
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.inner.most.load(Ordering::SeqCst)
    }

    pub(crate) async fn ping(&self, times: usize) {
        for _ in 0..times {
            let url = format!("{}/upcheck", self.url);
            let answer = reqwest::get(url).await.unwrap();
            assert_eq!(answer.text().await.unwrap(), "OK");
        }
    }
}

async fn list(State(inner): State<Arc<Inner>>) -> Response {
    inner.asked.lock().unwrap().push("list".to_owned());
    let listing = inner.listing.lock().unwrap().clone();
    match listing {
        Listing::Keys(keys) => serde_json::to_string(&keys).unwrap().into_response(),
        Listing::Text(text) => text.into_response(),
        Listing::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Listing::Hang => std::future::pending().await,
    }
}

async fn sign(
    State(inner): State<Arc<Inner>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    inner.asked.lock().unwrap().push(format!("sign {name}"));
    let credentials = headers.get(header::AUTHORIZATION);
    *inner.credentials.lock().unwrap() = credentials.map(|it| it.to_str().unwrap().to_owned());
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let data = hex::decode(body["data"].as_str().unwrap()).unwrap();
    let answer = inner.answer.lock().unwrap().clone();
    match answer {
        Answer::Sign(account) => written(account.sign(&data), 27),
        Answer::Parity(account) => written(account.sign(&data), 0),
        Answer::Eip155(account, chain) => written(account.sign(&data), chain * 2 + 35),
        Answer::HighS(account) => {
            let low = account.sign(&data);
            written(Signature::new(low.r(), ORDER - low.s(), !low.v()), 27)
        }
        Answer::Gated(account) => {
            let now = inner.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
            inner.most.fetch_max(now, Ordering::SeqCst);
            inner.arrived.add_permits(1);
            inner.gate.acquire().await.unwrap().forget();
            inner.in_flight.fetch_sub(1, Ordering::SeqCst);
            written(account.sign(&data), 27)
        }
        Answer::Text(text) => text.into_response(),
        Answer::Status(status, text) => {
            (StatusCode::from_u16(status).unwrap(), text).into_response()
        }
        Answer::Hang => std::future::pending().await,
    }
}

fn written(signature: Signature, base: u64) -> Response {
    let v = (base + u64::from(signature.v())).to_be_bytes();
    let zeros = v.iter().take(7).take_while(|byte| **byte == 0).count();
    let (r, s) = (
        signature.r().to_be_bytes::<32>(),
        signature.s().to_be_bytes::<32>(),
    );
    hex::encode_prefixed([&r, &s, &v[zeros..]].concat()).into_response()
}
