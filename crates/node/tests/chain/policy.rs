//! The business decides over HTTP, and answers badly: late, with an error, with fees that nobody may sign, with
//! words that nobody knows, with far too much. Nothing is signed for any of that. Then it answers well.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use fencepost_testkit::wait;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::care::{Care, careful, remedies, until_state};
use super::fleet::POLICY_SECRET;
use super::ledger::attempts;

/// The node waits this long for an answer.
const TIMEOUT: &str = "3s";
const TOO_LATE: Duration = Duration::from_secs(30);
/// The chain's ceiling is half of it.
const BEYOND: &str = "1000000000000";

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Late,
    Failing,
    Lying,
    Inventing,
    Endless,
    Good,
}

const MOODS: [Mood; 6] = [
    Mood::Late,
    Mood::Failing,
    Mood::Lying,
    Mood::Inventing,
    Mood::Endless,
    Mood::Good,
];

impl Mood {
    async fn answer(self) -> Response {
        let said = |status: u16, body: Body| {
            let answer = Response::builder().status(status);
            let answer = answer.header("content-type", "application/json");
            answer.body(body).unwrap()
        };
        let replace = json!({ "action": "REPLACE", "reason": "pay more" }).to_string();
        match self {
            Self::Late => {
                sleep(TOO_LATE).await;
                said(200, replace.into())
            }
            Self::Failing => said(500, replace.into()),
            Self::Lying => {
                let fees = json!({ "maxFeePerGas": BEYOND, "maxPriorityFeePerGas": "2000000000" });
                let lie = json!({ "action": "REPLACE", "fees": fees });
                said(200, lie.to_string().into())
            }
            Self::Inventing => said(200, json!({ "action": "PANIC" }).to_string().into()),
            Self::Endless => {
                let reason = "x".repeat(10 * 1024 * 1024);
                let much = json!({ "action": "REPLACE", "reason": reason });
                said(200, much.to_string().into())
            }
            Self::Good => said(200, replace.into()),
        }
    }

    /// What the audit says of it.
    const fn complaint(self) -> &'static str {
        match self {
            Self::Late => "it did not answer in time",
            Self::Failing => "it answered with status 500",
            Self::Lying => "maxFeePerGas",
            Self::Inventing => "action",
            Self::Endless => "its answer is above 393216 bytes",
            Self::Good => "pay more",
        }
    }
}

/// A question, as it was put.
#[derive(Debug, Clone)]
struct Question {
    headers: HeaderMap,
    body: Vec<u8>,
}

/// The business. Each question is answered in the next mood.
struct Business {
    url: String,
    asked: Arc<Mutex<Vec<Question>>>,
    server: JoinHandle<()>,
}

impl Drop for Business {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Business {
    async fn open() -> Result<Self> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/stuck", listener.local_addr()?);
        let app = Router::new().route("/stuck", post(hear));
        let app = app.with_state(Arc::clone(&asked));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Ok(Self { url, asked, server })
    }

    fn questions(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

async fn hear(
    State(asked): State<Arc<Mutex<Vec<Question>>>>,
    headers: HeaderMap,
    body: axum::body::Bytes,
) -> Response {
    let mood = {
        let mut asked = asked.lock().unwrap();
        let mood = MOODS[asked.len().min(MOODS.len() - 1)];
        let body = body.to_vec();
        asked.push(Question { headers, body });
        mood
    };
    mood.answer().await
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_business_answers_badly_is_nothing_done_and_a_good_answer_is_carried_out()
-> Result<()> {
    let business = Business::open().await?;
    let http = format!(
        "[stuck.http]\nurl = \"{}\"\ntimeout = \"{TIMEOUT}\"\nsecret_env = \"POLICY_SECRET\"\n",
        business.url
    );
    // Without blocks nothing moves, and nothing is sent again but by a remedy.
    let care = Care::new(&(careful("http", "2s", "10m") + &http)).await?;
    let node = care.fleet.start("a").await?;
    let id = care.rich(&node, 0, 1).await?.remove(0);
    let bad = MOODS.len() - 1;
    for round in 1..=bad {
        let rows = wait::until("the round is over", || async {
            let rows = remedies(&node, &id).await?;
            let over = rows.len() >= round && rows[rows.len() - round]["state"] == "DONE";
            Ok(over.then_some(rows))
        });
        let rows = rows
            .await
            .with_context(|| format!("{round}: {:#?}", node.log()))?;
        let row = &rows[rows.len() - round];
        let mood = MOODS[round - 1];
        nothing_done(row, round, mood).with_context(|| format!("{mood:?}"))?;
        if rows.len() == round {
            let hashes = attempts(&node, &id).await?;
            ensure!(hashes.len() == 1, "{mood:?}: {hashes:?}");
        }
    }
    let done = wait::until("the good answer is carried out", || async {
        let rows = remedies(&node, &id).await?;
        let newest = rows.first().context("a remedy")?.clone();
        let good = newest["round"] == MOODS.len() && newest["state"] == "DONE";
        Ok(good.then_some(newest))
    });
    let done = done.await.with_context(|| format!("{:#?}", node.log()))?;
    ensure!(
        done["action"] == "REPLACE" && done["reason"] == "pay more",
        "{done}"
    );
    let hashes = attempts(&node, &id).await?;
    ensure!(hashes.len() == 2, "{hashes:?}");

    let vain = node.logged("WARN");
    let vain = vain.iter().filter(|entry| {
        let message = entry["message"].as_str().unwrap_or_default();
        message.contains("asked in vain") && entry["tx_id"] == id
    });
    ensure!(vain.count() == bad, "{:#?}", node.log());
    let questions = business.questions();
    ensure!(
        questions.len() == MOODS.len(),
        "{} were asked",
        questions.len()
    );
    for (round, question) in (1_u64..).zip(&questions) {
        is_signed(question)?;
        let asked: Value = serde_json::from_slice(&question.body)?;
        ensure!(asked["txId"] == id && asked["round"] == round, "{asked}");
        ensure!(
            asked["subState"] == "NO_RECEIPT" && asked["nonce"] == 0,
            "{asked}"
        );
        ensure!(asked["hashes"] == json!([hashes[0]]), "{asked}");
    }
    let _blocks = care.market.blocks();
    let tx = until_state(&node, &id, "CONFIRMED").await?;
    ensure!(tx["txHash"] == *hashes[1], "{tx}");
    care.executed([0], true).await
}

fn nothing_done(row: &Value, round: usize, mood: Mood) -> Result<()> {
    ensure!(row["action"] == "NOOP" && row["round"] == round, "{row}");
    ensure!(row["by"] == "policy http" && row["fees"].is_null(), "{row}");
    let reason = row["reason"].as_str().context("a reason")?;
    ensure!(reason.contains(mood.complaint()), "{row}");
    Ok(())
}

/// As the documentation says that it is done.
fn is_signed(question: &Question) -> Result<()> {
    let header = |name: &str| {
        let value = question
            .headers
            .get(name)
            .with_context(|| name.to_owned())?;
        anyhow::Ok(value.to_str()?.to_owned())
    };
    let at = header("x-fencepost-timestamp")?;
    let digest = hex(&Sha256::digest(&question.body));
    let mut mac = Hmac::<Sha256>::new_from_slice(POLICY_SECRET.as_bytes())?;
    mac.update(format!("fencepost stuck 1\n{at}\n{digest}\n").as_bytes());
    let expected = format!("0x{}", hex(&mac.finalize().into_bytes()));
    ensure!(header("x-fencepost-signature")? == expected, "{question:?}");
    let age = jiff::Timestamp::now().as_second() - at.parse::<i64>()?;
    ensure!((0..120).contains(&age), "{age} seconds old");
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
