//! How many instructions one create costs, from the bytes of its body to the bytes of its answer: read, validated,
//! routed to its lane's worker, put into a batch, answered. Signatures and the database have no part in it: the store
//! answers by itself.
//!
//! This machine's counters are not asked, which few machines let anybody do: valgrind counts. The same program runs with
//! some requests and with twice as many, so that what is done once does not count.

mod answering;

use std::env;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use fencepost_app::ports::Clock;
use fencepost_app::settings::Settings;
use fencepost_domain::Address;
use fencepost_domain::ids::Lane;
use fencepost_http::{Access, Api, ChainInfo, Limits, router};
use fencepost_sqlite::SqliteStore;
use futures::future::try_join_all;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use crate::alone::Hands;
use crate::figures::{Figures, per};
use crate::node::{CEILINGS, CHAIN, Outside, URL, chain_id};
use answering::Answering;

/// The argument with which this program puts requests and does nothing else.
pub(crate) const PUT: &str = "--put";
/// How many are put the first time. Fewer, and what varies from run to run is seen; more only takes longer.
const REQUESTS: u64 = 2_000;
const SIGNERS: u8 = 16;
/// How many requests are under way at once, so that workers find batches on their desks.
const AT_ONCE: usize = 64;

/// Counts the instructions of one create.
pub(crate) fn measure() -> Result<Figures> {
    let some = instructions(REQUESTS)?;
    let twice = instructions(2 * REQUESTS)?;
    let more = twice.checked_sub(some);
    let more = more.context("twice as many requests took fewer instructions")?;
    Ok([("instructions".to_owned(), per(more, REQUESTS)?)].into())
}

fn instructions(requests: u64) -> Result<u64> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe()?)
        .args([PUT, &requests.to_string()])
        .stdin(Stdio::null())
        .output()
        .context("starting valgrind, which must be installed")?;
    let told = String::from_utf8_lossy(&ran.stderr);
    ensure!(
        ran.status.success(),
        "counting instructions: {}\n{told}",
        ran.status
    );
    let count = told
        .lines()
        .find_map(|line| line.split("Collected : ").nth(1));
    let count = count.with_context(|| format!("valgrind does not say how many: {told}"))?;
    Ok(count.trim().parse()?)
}

/// Puts so many requests to a node, `2 * REQUESTS` at most: what valgrind looks at.
pub(crate) async fn put(requests: u64) -> Result<()> {
    let mut lanes = Vec::new();
    for n in 1..=SIGNERS {
        lanes.push(Lane {
            chain: chain_id()?,
            signer: Address::repeat_byte(n),
        });
    }
    let settings = Settings {
        // No chain is asked where an account stands.
        chain_query: None,
        ..Settings::default()
    };
    let hands = Arc::new(Hands::new());
    let rest = SqliteStore::in_memory(settings.lease, Arc::clone(&hands) as Arc<dyn Clock>)?;
    let store = Answering {
        rest,
        hands: Arc::clone(&hands),
    };
    let outside = Outside {
        store: Arc::new(store),
        hands,
        lanes,
        chain: None,
        signer: None,
        settings,
    };
    let working = outside.start().await?;
    let router = router(Api {
        node: Arc::clone(&working.node),
        url: URL.to_owned(),
        chains: vec![ChainInfo {
            name: CHAIN.to_owned(),
            id: chain_id()?,
            ceilings: CEILINGS,
        }],
        access: Access::open(),
        cluster: None,
        registry: Arc::new(working.registry),
        meters: fencepost_http::Meters::default(),
        limits: Limits::default(),
    });
    // As many are made in every run: what a client does is not ours to count.
    let bodies: Result<Vec<String>> = (0..2 * REQUESTS).map(body).collect();
    let bodies = &bodies?[..usize::try_from(requests)?];
    for some in bodies.chunks(AT_ONCE) {
        try_join_all(some.iter().map(|body| create(&router, body))).await?;
    }
    drop(working.running);
    Ok(())
}

fn body(n: u64) -> Result<String> {
    let signer = u8::try_from(n % u64::from(SIGNERS))? + 1;
    let body = json!({
        "signer": Address::repeat_byte(signer).to_string(),
        "requestId": format!("request-{n:08}"),
        "payload": {
            "to": "0x4242424242424242424242424242424242424242",
            "value": "1000000000000000",
            "data": format!("0xa9059cbb{}", "ab".repeat(64)),
            "gas": "60000",
            "maxFeePerGas": "2000000000",
            "maxPriorityFeePerGas": "1000000000",
        },
    });
    Ok(body.to_string())
}

async fn create(router: &Router, body: &str) -> Result<()> {
    let request = Request::post("/api/v1/tx")
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))?;
    let answer = router.clone().oneshot(request).await?;
    let status = answer.status();
    let told = answer.into_body().collect().await?.to_bytes();
    if status != 202 {
        bail!(
            "a create was refused: {status} {}",
            String::from_utf8_lossy(&told)
        );
    }
    Ok(())
}
