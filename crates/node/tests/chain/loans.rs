//! A thousand nonces that are lent by three nodes, while these are killed and started again. Their holders
//! use them, give them back, let them lapse or come late. In the end each nonce was used on the chain once, by
//! whoever has it, or is free; and what is free is lent again, lowest first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::postgres::{Database, shared};
use fencepost_testkit::wait;
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::calls::Calls;
use super::fleet::{CHAIN_ID, Chain, Fleet, accounts};
use super::holder::{Holder, Loan};
use super::ledger::id;
use super::member::Member;

const LOANS: usize = 1_000;
/// Every so many are asked for twice.
const TWICE: usize = 5;
/// Loans that nobody has time for.
const SHORT: usize = 150;
const MANAGED: usize = 50;
/// How many holders act at once.
const AT_ONCE: usize = 32;
/// Many look at once: more often, and the nodes would do nothing but answer them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Whoever changes it sees other holders do other things.
const SEED: u64 = 20_260_417;
const NAMES: [&str; 3] = ["a", "b", "c"];
const SECTIONS: &str = "[reservation]\nttl = \"10m\"\ngrace = \"1s\"\n[resubmit]\ninterval = \"1s\"\n\
    [confirmations]\nstale_receipt_timeout = \"1s\"\n";

/// Numbers that look random and are the same each time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// What a holder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Sends and says so.
    Spend,
    /// Gives it back.
    Recycle,
    /// Is never heard of again.
    Lapse,
    /// Says that it was used when its time is over, and only then sends.
    Late,
    /// Says so when the nonce is no longer its own.
    TooLate,
}

/// Loans, with the hashes by which they are used, where they are.
type Acts = Vec<(Loan, Option<String>)>;

struct Town {
    chain: Chain,
    signer: Address,
    holder: Holder,
    nodes: Vec<Member>,
    fleet: Fleet,
    _database: Database,
}

impl Town {
    async fn start() -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let signer = accounts(1).await?[0];
        let chain = Chain::start(CHAIN_ID, &[signer], Duration::from_millis(250)).await?;
        let more = "poll_interval = \"100ms\"\nfinality.confirmations = 2";
        let fleet = Fleet::new(database.url(), 1)?
            .leasing_shortly()
            .chain("main", CHAIN_ID, &[chain.url(0)], more)
            .with(SECTIONS);
        let nodes = try_join_all(NAMES.map(|name| fleet.start(name))).await?;
        Ok(Self {
            holder: Holder::new(&chain.url(0)).await?,
            chain,
            signer,
            nodes,
            fleet,
            _database: database,
        })
    }

    async fn lane(&self, calls: &Calls) -> Result<Value> {
        calls.get(&format!("/api/v1/signers/{}", self.signer)).await
    }

    /// Waits until a loan is at one of these states.
    async fn until(&self, calls: &Calls, loan: &Loan, states: &[&str]) -> Result<Value> {
        let path = format!("/api/v1/nonces/{}", loan.id);
        let there = wait::until("the loan moves", || async {
            let told = calls.get(&path).await?;
            let state = told["state"].as_str().unwrap_or_default();
            if states.contains(&state) {
                return Ok(Some(told));
            }
            sleep(BETWEEN_LOOKS).await;
            Ok(None)
        });
        there
            .await
            .with_context(|| format!("{loan:?} is not {states:?}"))
    }

    async fn reserve(&self, calls: &Calls, name: &str, ttl: u64) -> Result<Loan> {
        let body = json!({
            "signer": self.signer.to_string(),
            "requestId": name,
            "ttlSeconds": ttl,
        });
        let (status, told) = calls.post("/api/v1/nonces/reserve", &body).await?;
        ensure!(
            status == StatusCode::CREATED || status == StatusCode::OK,
            "{status} {told}"
        );
        Loan::of(&told)
    }

    /// What its holder does with a loan; returns the hash by which the nonce is used, if it is.
    async fn act(&self, calls: &Calls, loan: &Loan, fate: Fate) -> Result<Option<String>> {
        let signed = self
            .holder
            .sign(loan.nonce, Address::repeat_byte(0xee), 1)
            .await?;
        let hash = signed.hash.to_string();
        let used = json!({ "lockToken": loan.lock, "txHash": hash });
        let say = async || calls.post(&loan.path("submitted"), &used).await;
        match fate {
            Fate::Spend => {
                self.holder.send(&signed).await?;
                let (status, told) = say().await?;
                ensure!(status == StatusCode::OK, "{status} {told}");
                Ok(Some(hash))
            }
            Fate::Recycle => {
                let body = json!({ "lockToken": loan.lock });
                let (status, told) = calls.post(&loan.path("recycle"), &body).await?;
                ensure!(status == StatusCode::OK, "{status} {told}");
                ensure!(told["state"] == "RECYCLABLE", "{told}");
                Ok(None)
            }
            Fate::Lapse => Ok(None),
            Fate::Late => {
                runs_out(calls, loan).await?;
                let (status, told) = say().await?;
                if told["code"] == "lock_lost" {
                    return Ok(None);
                }
                ensure!(status == StatusCode::OK, "{status} {told}");
                self.holder.send(&signed).await?;
                Ok(Some(hash))
            }
            Fate::TooLate => {
                self.until(calls, loan, &["RECYCLABLE"]).await?;
                let (status, told) = say().await?;
                ensure!(status == StatusCode::CONFLICT, "{status} {told}");
                ensure!(told["code"] == "lock_lost", "{told}");
                Ok(None)
            }
        }
    }

    /// Each holder does what the dice say, some at once; whoever leads the lane is killed on the way, and is
    /// back at the end. Returns the loans with the hashes by which they are used.
    async fn chaos(&mut self, loans: Vec<Loan>, fates: &[Fate], dice: &mut Dice) -> Result<Acts> {
        let calls = Calls::new(&self.nodes)?;
        let leader = self.lane(&calls).await?["leader"]["node"].clone();
        let leader = NAMES.iter().position(|name| leader == **name);
        let leader = leader.context("a leader")?;
        let choices = u64::try_from(fates.len())?;
        let mut todo = Vec::new();
        for loan in loans {
            let fate = usize::try_from(dice.below(choices))?;
            todo.push((loan, fates[fate]));
        }
        let some = todo.len() / 4;
        let killed = async {
            calls.answered(some).await?;
            self.nodes[leader].kill()
        };
        let acts = stream::iter(todo)
            .map(async |(loan, fate)| {
                let used = self.act(&calls, &loan, fate).await;
                let used = used.with_context(|| format!("{fate:?} {loan:?}"))?;
                anyhow::Ok((loan, used))
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<Acts>();
        let (acts, ()) = tokio::try_join!(acts, killed)?;
        self.nodes[leader] = self.fleet.start(NAMES[leader]).await?;
        Ok(acts)
    }

    /// Transactions of ours; returns their ids with their nonces.
    async fn managed(&self, prefix: &str, count: usize) -> Result<Vec<(String, u64)>> {
        let request = |n: usize| {
            json!({
                "signer": self.signer.to_string(),
                "requestId": format!("{prefix} {n}"),
                "payload": { "to": Address::repeat_byte(0xdd).to_string(), "value": "1" },
            })
        };
        let requests: Vec<Value> = (0..count).map(request).collect();
        let accepted = self.nodes[0].post_all(&requests).await?;
        let calls = Calls::new(&self.nodes)?;
        let mut nonces = Vec::new();
        for tx in &accepted {
            let path = format!("/api/v1/tx/{}", id(tx));
            let nonce = wait::until("it has its nonce", || async {
                Ok(calls.get(&path).await?["nonce"].as_u64())
            });
            nonces.push((id(tx), nonce.await?));
        }
        Ok(nonces)
    }

    /// Borrows this many nonces, one after another.
    async fn borrow(&self, calls: &Calls, prefix: &str, count: usize) -> Result<Vec<Loan>> {
        let mut loans = Vec::new();
        for n in 0..count {
            loans.push(self.reserve(calls, &format!("{prefix} {n}"), 600).await?);
        }
        Ok(loans)
    }
}

/// Waits until its time is over; the grace after it is not.
async fn runs_out(calls: &Calls, loan: &Loan) -> Result<()> {
    let told = calls.get(&format!("/api/v1/nonces/{}", loan.id)).await?;
    let ends: Timestamp = told["expiresAt"].as_str().context("a time")?.parse()?;
    wait::until("its time is over", || async {
        Ok((Timestamp::now() > ends).then_some(()))
    })
    .await
}

/// A thousand at once, on all nodes; some are asked for twice at the same time.
async fn lend_all(town: &Town) -> Result<Vec<Loan>> {
    let calls = Calls::new(&town.nodes)?;
    let names = (0..LOANS).map(|n| format!("loan {n}"));
    let again = (0..LOANS).step_by(TWICE).map(|n| format!("loan {n}"));
    let all = names.chain(again).map(|name| {
        let (town, calls) = (&town, &calls);
        async move { anyhow::Ok((town.reserve(calls, &name, 600).await?, name)) }
    });
    let mut loans: BTreeMap<String, Loan> = BTreeMap::new();
    for (loan, name) in try_join_all(all).await? {
        let before = loans.insert(name, loan.clone());
        ensure!(before.is_none_or(|before| before == loan), "{loan:?}");
    }
    let nonces: BTreeSet<u64> = loans.values().map(|loan| loan.nonce).collect();
    ensure!(nonces.into_iter().eq(0..u64::try_from(LOANS)?), "{loans:?}");
    Ok(loans.into_values().collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_lent_nonces_are_each_used_once_or_free_whoever_dies_or_comes_late() -> Result<()>
{
    let mut dice = Dice(SEED);
    let mut town = Town::start().await?;
    let loans = lend_all(&town).await?;
    let mut acts = town
        .chaos(loans, &[Fate::Spend, Fate::Spend, Fate::Recycle], &mut dice)
        .await?;
    // What was given back is lent again, for too short a time, and some of it is ours.
    let calls = Calls::new(&town.nodes)?;
    let short = (0..SHORT).map(|n| {
        let (town, calls) = (&town, &calls);
        async move { town.reserve(calls, &format!("short {n}"), 1).await }
    });
    let (short, mut managed) =
        tokio::try_join!(try_join_all(short), town.managed("between", MANAGED))?;
    let late = [Fate::Lapse, Fate::Late, Fate::TooLate, Fate::Recycle];
    acts.extend(town.chaos(short, &late, &mut dice).await?);

    let calls = Calls::new(&town.nodes)?;
    for (loan, used) in &acts {
        let ends: &[&str] = match used {
            Some(_) => &["SUBMITTED", "USED"],
            None => &["RECYCLABLE"],
        };
        town.until(&calls, loan, ends).await?;
    }
    let free = free(&town.lane(&calls).await?)?;
    let last = town.managed("last", free.len()).await?;
    let given: Vec<u64> = last.iter().map(|(_, nonce)| *nonce).collect();
    ensure!(given == free, "{free:?} were free, {given:?} were given");
    managed.extend(last);
    each_once(&town, &calls, &acts, &managed).await?;
    lowest_first(&town, &calls, &mut dice).await
}

fn free(lane: &Value) -> Result<Vec<u64>> {
    let free = lane["freeNonces"].as_array().context("free nonces")?;
    free.iter()
        .map(|nonce| nonce.as_u64().context("a nonce"))
        .collect()
}

/// All end; each nonce has one owner, and is on the chain once, by its owner's hash.
async fn each_once(
    town: &Town,
    calls: &Calls,
    acts: &Acts,
    managed: &[(String, u64)],
) -> Result<()> {
    let mut owned: BTreeMap<u64, String> = BTreeMap::new();
    for (loan, used) in acts
        .iter()
        .filter_map(|(loan, used)| Some((loan, used.as_ref()?)))
    {
        let told = town.until(calls, loan, &["USED"]).await?;
        ensure!(told["txHash"] == *used, "{told}, not {used}");
        let other = owned.insert(loan.nonce, used.clone());
        ensure!(other.is_none(), "{loan:?} is also {other:?}");
    }
    for (id, nonce) in managed {
        let path = format!("/api/v1/tx/{id}");
        let tx = wait::until("it is confirmed", || async {
            let tx = calls.get(&path).await?;
            Ok((tx["state"] == "CONFIRMED").then_some(tx))
        });
        let hash = tx.await?["txHash"].as_str().context("a hash")?.to_owned();
        let other = owned.insert(*nonce, hash);
        ensure!(other.is_none(), "nonce {nonce} is also {other:?}");
    }
    let mined = town.chain.shared.lock().mined_of(town.signer);
    let mined: Vec<(u64, String)> = mined
        .into_iter()
        .map(|mined| (mined.nonce, mined.hash.to_string()))
        .collect();
    ensure!(mined.len() == owned.len(), "{} in blocks", mined.len());
    for (mined, owned) in mined.iter().zip(&owned) {
        ensure!((&mined.0, &mined.1) == owned, "{mined:?}, not {owned:?}");
    }
    let lane = town.lane(calls).await?;
    ensure!(lane["nextNonce"] == mined.len(), "{lane}");
    ensure!(
        lane["freeNonces"] == json!([]) && lane["stuck"] == 0,
        "{lane}"
    );
    Ok(())
}

/// What is given back in any order is lent in the order of nonces.
async fn lowest_first(town: &Town, calls: &Calls, dice: &mut Dice) -> Result<()> {
    let mut loans = town.borrow(calls, "before", 10).await?;
    let nonces: Vec<u64> = loans.iter().map(|loan| loan.nonce).collect();
    while !loans.is_empty() {
        let any = dice.below(u64::try_from(loans.len())?);
        let loan = loans.swap_remove(usize::try_from(any)?);
        town.act(calls, &loan, Fate::Recycle).await?;
    }
    ensure!(
        free(&town.lane(calls).await?)? == nonces,
        "{nonces:?} are free"
    );
    let again = town.borrow(calls, "after", 10).await?;
    let again: Vec<u64> = again.iter().map(|loan| loan.nonce).collect();
    ensure!(again == nonces, "{again:?}, not {nonces:?}");
    Ok(())
}
