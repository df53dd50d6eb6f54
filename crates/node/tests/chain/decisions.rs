//! A business whose hook brings transactions of its own, on a real EVM: refused where they may not be signed, carried
//! out where they may, and asked when an operator wants it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use fencepost_domain::Address;
use fencepost_testkit::wait;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::care::{Care, careful, remedies, until_state};
use super::member::Member;

const OTHER: Address = Address::repeat_byte(0x5e);

/// What is said next, and what was asked.
#[derive(Default)]
struct Script {
    answers: VecDeque<Value>,
    asked: Vec<Value>,
}

struct Business {
    url: String,
    script: Arc<Mutex<Script>>,
    server: JoinHandle<()>,
}

impl Drop for Business {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Business {
    /// Says these in turn, and then that nothing is to be done.
    async fn open(answers: impl IntoIterator<Item = Value>) -> Result<Self> {
        let script = Arc::new(Mutex::new(Script {
            answers: answers.into_iter().collect(),
            asked: vec![],
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/stuck", listener.local_addr()?);
        let app = Router::new().route("/stuck", post(hear));
        let app = app.with_state(Arc::clone(&script));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Ok(Self {
            url,
            script,
            server,
        })
    }

    fn asked(&self) -> Vec<Value> {
        self.script.lock().unwrap().asked.clone()
    }

    fn sections(&self, after: &str, extra: &str) -> String {
        let stuck = careful("http", after, "10m");
        format!("{stuck}{extra}[stuck.http]\nurl = \"{}\"\n", self.url)
    }
}

async fn hear(State(script): State<Arc<Mutex<Script>>>, Json(asked): Json<Value>) -> Json<Value> {
    let mut script = script.lock().unwrap();
    script.asked.push(asked);
    let next = script.answers.pop_front();
    Json(next.unwrap_or_else(|| json!({ "action": "NOOP" })))
}

/// The remedies of a transaction, oldest first, once so many are over.
async fn rounds(node: &Member, id: &str, count: usize) -> Result<Vec<Value>> {
    let over = wait::until("the rounds are over", || async {
        let mut rows = remedies(node, id).await?;
        rows.reverse();
        let is_over = |row: &Value| row["state"] == "DONE" || row["state"] == "REFUSED";
        let over = rows.len() >= count && rows[..count].iter().all(is_over);
        Ok(over.then_some(rows))
    });
    over.await.with_context(|| format!("{:#?}", node.log()))
}

/// Goal: another payload is executed only where the operator has allowed that, is told as SUBSTITUTED, and the client's
/// own payload is not executed. Method: the business first answers with bytes for another nonce, then with a payment to
/// somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_the_business_brings_takes_the_place_of_the_clients() -> Result<()> {
    let own = json!({ "to": OTHER.to_string(), "value": "5", "gas": 21000 });
    let substitute = json!({
        "action": "REPLACE", "reason": "the invoice was changed", "transaction": own,
        "severity": "critical", "then": "track", "audit": { "ticket": "OPS-7" },
    });
    let bytes = "0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a0\
                 28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b\
                 3800ccf555c9f3dc64214b297fb1966a3b6d83";
    let strange = json!({ "action": "REPLACE", "rawTransaction": bytes });
    let business = Business::open([strange, substitute]).await?;
    let sections = business.sections("2s", "allow_other_payload = true\n");
    let care = Care::new(&sections).await?;
    let node = care.fleet.start("a").await?;
    let id = care.rich(&node, 0, 1).await?.remove(0);
    let rows = rounds(&node, &id, 2).await?;
    let reason = rows[0]["reason"].as_str().context("a reason")?;
    ensure!(
        rows[0]["action"] == "NOOP" && reason.contains("rawTransaction is signed by"),
        "{rows:?}"
    );
    let done = &rows[1];
    ensure!(
        done["action"] == "REPLACE" && done["state"] == "DONE",
        "{done}"
    );
    ensure!(
        done["severity"] == "critical" && done["then"] == "track",
        "{done}"
    );
    ensure!(done["node"] == "a" && done["token"] == 1, "{done}");
    let errors = node.logged("ERROR");
    let critical = errors.iter().find(|line| line["severity"] == "critical");
    let critical = critical.with_context(|| format!("{:#?}", node.log()))?;
    ensure!(
        critical["tx_id"] == *id && critical["token"] == "1" && critical["node_id"] == "a",
        "{critical}"
    );
    let _blocks = care.market.blocks();
    let tx = until_state(&node, &id, "FAILED_FINAL/SUBSTITUTED").await?;
    ensure!(tx["subState"] == "SUBSTITUTED", "{tx}");
    care.executed([0], false).await?;
    let paid = care.market.balance(OTHER).await?;
    ensure!(paid == 5, "{paid} was paid");
    let question = &business.asked()[0];
    ensure!(question["payload"]["value"] == "1000", "{question}");
    Ok(())
}

/// Goal: without the operator's permission the same answer changes nothing. An operator has the business asked about one
/// that is not stuck; a node without a policy refuses that.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_has_the_business_asked_and_other_payloads_are_refused() -> Result<()> {
    let own = json!({ "to": OTHER.to_string(), "value": "5" });
    let other = json!({ "action": "CANCEL", "transaction": own });
    let cancel = json!({ "action": "CANCEL", "reason": "not needed any more" });
    let business = Business::open([other, cancel]).await?;
    let care = Care::new(&business.sections("10m", "")).await?;
    let node = care.fleet.start("a").await?;
    let id = care.rich(&node, 0, 1).await?.remove(0);
    care.market.pooled(1).await?;
    let path = format!("/api/v1/tx/{id}/remedy");
    let ask = json!({ "action": "ASK", "reason": "the customer has called" });
    for round in 1..=2 {
        let (status, answer) = node.post_to(&path, &ask).await?;
        ensure!(status == 202, "{status} {answer}");
        rounds(&node, &id, round).await?;
    }
    let rows = rounds(&node, &id, 2).await?;
    let reason = rows[0]["reason"].as_str().context("a reason")?;
    ensure!(
        rows[0]["action"] == "NOOP" && reason.contains("stuck.allow_other_payload"),
        "{rows:?}"
    );
    ensure!(
        rows[1]["action"] == "CANCEL" && rows[1]["state"] == "DONE",
        "{rows:?}"
    );
    let asked = business.asked();
    ensure!(
        asked.len() == 2 && asked[0]["state"] == "TRACKING",
        "{asked:?}"
    );
    let _blocks = care.market.blocks();
    let tx = until_state(&node, &id, "FAILED_FINAL/CANCELLED").await?;
    ensure!(tx["subState"] == "CANCELLED", "{tx}");
    care.executed([0], false).await?;
    let paid = care.market.balance(OTHER).await?;
    ensure!(paid == 0, "{paid} was paid");

    let alone = Care::new(&careful("noop", "10m", "10m")).await?;
    let node = alone.fleet.start("a").await?;
    let id = alone.rich(&node, 0, 1).await?.remove(0);
    let (status, answer) = node
        .post_to(&format!("/api/v1/tx/{id}/remedy"), &ask)
        .await?;
    ensure!(
        status == 409 && answer["code"] == "no_policy",
        "{status} {answer}"
    );
    ensure!(remedies(&node, &id).await?.is_empty(), "nothing is stored");
    Ok(())
}
