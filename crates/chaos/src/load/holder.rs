//! Somebody who borrows nonces, signs with the key itself and sends to the chain itself; who gives them back,
//! forgets them, or comes late.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use fencepost_app::ports::{Signed, Signer};
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::ids::{ChainId, Nonce};
use fencepost_domain::{Bytes, U256};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::call::{get, post};
use super::request::{payee, value};
use crate::dice::Dice;
use crate::note::{Answer, LoanWord, Meaning, Note, now};
use crate::world::World;
use crate::world::config::LOAN_GRACE_S;
use crate::world::lane::Chain;

const GWEI: u128 = 1_000_000_000;
/// How long a loan is asked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a holder tries to say what it did. Longer than any fault lasts.
const INSISTENCE: Duration = Duration::from_secs(100);

/// What a holder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Sends, then says so; with much time for it.
    SendThenSay,
    /// Names its hash before it sends.
    SayThenSend,
    Recycle,
    /// Is never heard of again.
    Vanish,
    /// Names its hash when its time is over, and sends only if it may.
    Late,
}

struct Loan {
    id: String,
    lock: String,
    nonce: u64,
}

/// Bytes that holders have sent, until their nonces are used: what a chain forgets is sent again.
#[derive(Default)]
pub(crate) struct Sent(Mutex<Vec<(usize, String, Bytes)>>);

impl Sent {
    fn list(&self) -> std::sync::MutexGuard<'_, Vec<(usize, String, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Holder {
    pub(crate) world: Arc<World>,
    pub(crate) sent: Arc<Sent>,
    pub(crate) lane: usize,
    pub(crate) dice: Dice,
    pub(crate) count: u64,
}

/// Sends what holders have sent again, for ever.
pub(crate) async fn send_again(world: Arc<World>, sent: Arc<Sent>) {
    loop {
        sleep(Duration::from_secs(2)).await;
        let waiting = sent.list().clone();
        for (lane, loan, raw) in waiting {
            let path = format!("/api/v1/nonces/{loan}");
            let node = usize::try_from(now() % 3).unwrap_or(0);
            let heard = get(&world, node, &path).await;
            if heard.body["state"] == "USED" {
                sent.list().retain(|(_, other, _)| *other != loan);
            } else {
                broadcast(&world, lane, &raw).await;
            }
        }
    }
}

/// A chain that has it already, or is away, is no matter: it is sent again.
async fn broadcast(world: &World, lane: usize, raw: &Bytes) {
    let _known_or_away = match world.lanes[lane].chain {
        Chain::Anvil => {
            let rpc = world.anvil.rpc().await;
            let sent = rpc.call("eth_sendRawTransaction", json!([raw.to_string()]));
            sent.await.map(drop)
        }
        Chain::Dev => world.dev.send(raw.clone()),
    };
}

impl Holder {
    /// Borrows until the world closes.
    pub(crate) async fn run(mut self) {
        while !self.world.closing.load(Ordering::Relaxed) {
            sleep(self.dice.millis(300, 2_500)).await;
            let (fate, ttl) = match self.dice.below(100) {
                0..30 => (Fate::SendThenSay, 120),
                30..60 => (Fate::SayThenSend, 30),
                60..82 => (Fate::Recycle, 30),
                82..91 => (Fate::Vanish, 2),
                _rest => (Fate::Late, 2),
            };
            if let Some(loan) = self.borrow(ttl).await
                && let Err(error) = self.act(&loan, fate, ttl).await
            {
                eprintln!("a holder could not act: {error:#}");
            }
        }
    }

    /// The same request id at another node each time.
    async fn borrow(&mut self, ttl: u64) -> Option<Loan> {
        self.count += 1;
        let of = self.world.lanes[self.lane];
        let request = format!("loan-{}-{}", self.lane, self.count);
        let body = json!({
            "signer": of.signer.to_string(), "chain": of.chain.name(),
            "requestId": request, "ttlSeconds": ttl,
        });
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let node = self.dice.index(self.world.nodes.len());
            let heard = post(&self.world, node, "/api/v1/nonces/reserve", &body).await;
            let nonce = heard.body["nonce"].as_u64();
            let done = heard.answer.meaning() == Meaning::Done;
            let text = |field: &str| heard.body[field].as_str().map(str::to_owned);
            let loan = text("reservationId").zip(text("lockToken")).zip(nonce);
            self.world.journal.note(&Note::Lent {
                at: now(),
                request: request.clone(),
                lane: self.lane,
                nonce,
                answer: heard.answer,
            });
            if done {
                return loan.map(|((id, lock), nonce)| Loan { id, lock, nonce });
            }
            sleep(self.dice.millis(100, 500)).await;
        }
        None
    }

    async fn act(&mut self, loan: &Loan, fate: Fate, ttl: u64) -> Result<()> {
        match fate {
            Fate::Vanish => {}
            Fate::Recycle => {
                self.say(loan, LoanWord::Recycle, None).await;
            }
            Fate::SendThenSay => {
                let signed = self.sign(loan).await?;
                self.send(loan, &signed).await;
                self.say(loan, LoanWord::Submitted, Some(&signed)).await;
            }
            Fate::SayThenSend | Fate::Late => {
                if fate == Fate::Late {
                    let within = self.dice.millis(0, LOAN_GRACE_S * 1_000);
                    sleep(Duration::from_secs(ttl) + within).await;
                }
                let signed = self.sign(loan).await?;
                let said = self.say(loan, LoanWord::Submitted, Some(&signed)).await;
                // In doubt it counts as said, and then a nonce that nobody uses holds up the lane.
                if said.meaning() != Meaning::Refused {
                    self.send(loan, &signed).await;
                }
            }
        }
        Ok(())
    }

    /// Signs a transfer, and notes it before anyone can have the bytes.
    async fn sign(&self, loan: &Loan) -> Result<Signed> {
        let of = self.world.lanes[self.lane];
        let value = value(&self.world);
        let transfer = Unsigned {
            chain: ChainId::new(of.chain.id())?,
            nonce: Nonce::new(loan.nonce)?,
            to: Some(payee(value).parse()?),
            value: U256::from(value),
            data: Bytes::new(),
            gas: 21_000,
            fees: SignedFees {
                max_fee: 100 * GWEI,
                max_priority_fee: Some(2 * GWEI),
            },
            access: None,
        };
        let signed = self.world.keys.sign(of.signer, &transfer).await;
        let signed = signed.context("a holder's key")?;
        self.world.journal.note(&Note::Signed {
            at: now(),
            loan: loan.id.clone(),
            lane: self.lane,
            nonce: loan.nonce,
            value,
            hash: signed.hash.to_string(),
        });
        Ok(signed)
    }

    async fn send(&self, loan: &Loan, signed: &Signed) {
        let entry = (self.lane, loan.id.clone(), signed.raw.clone());
        self.sent.list().push(entry);
        broadcast(&self.world, self.lane, &signed.raw).await;
    }

    /// Says it until somebody has heard it.
    async fn say(&mut self, loan: &Loan, word: LoanWord, signed: Option<&Signed>) -> Answer {
        let verb = match word {
            LoanWord::Submitted => "submitted",
            LoanWord::Recycle => "recycle",
        };
        let mut body = json!({ "lockToken": loan.lock });
        if let Some(signed) = signed {
            body["txHash"] = json!(signed.hash.to_string());
        }
        let path = format!("/api/v1/nonces/{}/{verb}", loan.id);
        let deadline = Instant::now() + INSISTENCE;
        loop {
            let node = self.dice.index(self.world.nodes.len());
            let answer = post(&self.world, node, &path, &body).await.answer;
            self.world.journal.note(&Note::LoanSaid {
                at: now(),
                loan: loan.id.clone(),
                word,
                answer: answer.clone(),
            });
            let is_told = match answer.meaning() {
                Meaning::Done => true,
                // Nothing was stored now; but a node that is busy says so, too.
                Meaning::Refused => answer.status != Some(503),
                Meaning::Doubt => false,
            };
            if is_told {
                return answer;
            }
            if Instant::now() > deadline {
                return Answer::default();
            }
            sleep(self.dice.millis(100, 600)).await;
        }
    }
}
