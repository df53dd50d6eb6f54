//! `docs/migrating.md`, walked: a signer comes from another service that goes on sending, and goes back to it.
//! The commands are those of the page, in their order. In the end every nonce was used once, and everybody
//! was paid once.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fencepost_domain::Address;
use fencepost_testkit::anvil::Anvil;
use fencepost_testkit::postgres::shared;
use fencepost_testkit::wait;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::fleet::{CHAIN_ID, Fleet, accounts};
use super::holder::{Holder, Loan};
use super::ledger::id;
use super::member::Member;
use super::rpc::{Rpc, number};
use super::typed::{Typed, type_in};

const PAGE: &str = include_str!("../../../../docs/migrating.md");

/// The commands of the page that were not typed yet.
struct Page {
    lines: VecDeque<String>,
    file: PathBuf,
}

impl Page {
    fn open(signer: Address, file: &Path) -> Self {
        let commands = PAGE
            .lines()
            .filter_map(|line| line.trim().strip_prefix("$ fencepost "));
        let lines = commands.map(|line| {
            line.replace("SIGNER", &signer.to_string())
                .replace("FILE", &file.display().to_string())
        });
        Self {
            lines: lines.collect(),
            file: file.to_owned(),
        }
    }

    /// The next command, which must be this verb.
    fn line(&mut self, verb: &str) -> Result<String> {
        let line = self.lines.pop_front().context("the page is over")?;
        let expected = format!("signers {verb} ");
        ensure!(line.starts_with(&expected), "{line:?}, not {verb}");
        Ok(line)
    }

    /// Types the next command, which must be this verb.
    async fn next(&mut self, node: &Member, verb: &str) -> Result<Typed> {
        type_in(node, &self.line(verb)?).await
    }

    fn write(&self, file: &Value) -> Result<()> {
        Ok(std::fs::write(&self.file, file.to_string())?)
    }
}

/// Everybody is paid another amount.
fn payee(n: u64) -> Address {
    Address::left_padding_from(&(0xbee_0000 + n).to_be_bytes())
}

/// A transaction of the other service.
#[derive(Clone)]
struct Sent {
    nonce: u64,
    raw: String,
    hash: String,
}

/// Another service with a counter of its own.
struct Other {
    holder: Holder,
    signer: Address,
    next: u64,
    sent: Vec<Sent>,
}

impl Other {
    /// Signs the next payment, and perhaps sends it.
    async fn pay(&mut self, sends: bool) -> Result<()> {
        let nonce = self.next;
        let signed = self.holder.sign(nonce, payee(nonce), nonce + 1).await?;
        self.next += 1;
        self.sent.push(Sent {
            nonce,
            raw: signed.raw.to_string(),
            hash: signed.hash.to_string(),
        });
        if sends {
            self.holder.send(&signed).await?;
        }
        Ok(())
    }

    /// The file of the page: its newest five nonces are not final. Of one it has only the hash left.
    fn file(&self) -> Value {
        let from = self.sent.len().saturating_sub(5);
        let open = self.sent[from..].iter().enumerate().map(|(n, sent)| {
            let name = format!("old-{}", sent.nonce);
            match n {
                1 => json!({ "nonce": sent.nonce, "requestId": name, "txHash": sent.hash, "state": "SUBMITTED" }),
                _ => json!({ "nonce": sent.nonce, "requestId": name, "rawTransaction": sent.raw, "state": "TRACKING" }),
            }
        });
        let open: Vec<Value> = open.collect();
        json!({ "signer": self.signer.to_string(), "nextNonce": self.next, "open": open, "reason": "from the old service" })
    }
}

/// It goes on sending until it is told to stop.
async fn keep_paying(
    other: Arc<tokio::sync::Mutex<Other>>,
    stop: watch::Receiver<bool>,
) -> Result<()> {
    while !*stop.borrow() {
        other.lock().await.pay(true).await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn request(n: u64, signer: Address) -> Value {
    let payload = json!({ "to": payee(n).to_string(), "value": (n + 1).to_string() });
    json!({ "signer": signer.to_string(), "requestId": format!("new-{n}"), "payload": payload })
}

/// Every nonce of the signer is in one block, and everybody of these was paid once.
async fn settled(
    rpc: &Rpc,
    signer: Address,
    nonces: u64,
    paid: impl Iterator<Item = u64>,
) -> Result<()> {
    let mut seen = Vec::new();
    for height in 0..=rpc.head().await? {
        let block = rpc
            .call(
                "eth_getBlockByNumber",
                json!([format!("{height:#x}"), true]),
            )
            .await?;
        for tx in block["transactions"].as_array().context("a block")? {
            if tx["from"].as_str().and_then(|from| from.parse().ok()) == Some(signer) {
                seen.push(number(&tx["nonce"])?);
            }
        }
    }
    ensure!(
        seen == (0..nonces).collect::<Vec<_>>(),
        "{seen:?}, not 0 to {nonces}"
    );
    for n in paid {
        let balance = rpc
            .call("eth_getBalance", json!([payee(n).to_string(), "latest"]))
            .await?;
        ensure!(number(&balance)? == n + 1, "{n}: {balance}");
    }
    Ok(())
}

async fn until_count(rpc: &Rpc, signer: Address, count: u64) -> Result<()> {
    wait::until("the chain has them all", || async {
        let told = rpc
            .call(
                "eth_getTransactionCount",
                json!([signer.to_string(), "latest"]),
            )
            .await?;
        Ok((number(&told)? >= count).then_some(()))
    })
    .await
}

struct Town {
    rpc: Rpc,
    signer: Address,
    other: Arc<tokio::sync::Mutex<Other>>,
    node: Member,
    page: Page,
    /// Kept because they end when dropped.
    _kept: (
        Anvil,
        Fleet,
        fencepost_testkit::postgres::Database,
        tempfile::TempDir,
    ),
}

impl Town {
    async fn start() -> Result<Self> {
        let database = shared().await?.create_database().await?;
        let anvil = Anvil::start(&["--block-time", "1", "--slots-in-an-epoch", "1"]).await?;
        let signer = accounts(1).await?[0];
        let more = "poll_interval = \"250ms\"\nfinality.mode = \"finalized\"";
        let fleet = Fleet::new(database.url(), 1)?
            .leasing_shortly()
            .chain("main", CHAIN_ID, &[anvil.url().to_owned()], more)
            .with("[resubmit]\ninterval = \"1s\"\n");
        let node = fleet.start("a").await?;
        let home = tempfile::TempDir::new()?;
        let other = Other {
            holder: Holder::new(anvil.url()).await?,
            signer,
            next: 0,
            sent: vec![],
        };
        Ok(Self {
            rpc: Rpc::new(anvil.url()),
            signer,
            other: Arc::new(tokio::sync::Mutex::new(other)),
            node,
            page: Page::open(signer, &home.path().join("signer.json")),
            _kept: (anvil, fleet, database, home),
        })
    }

    /// "Way in": returns how many nonces the other service has given.
    async fn way_in(&mut self) -> Result<u64> {
        let (stop, stopped) = watch::channel(false);
        let paying = tokio::spawn(keep_paying(Arc::clone(&self.other), stopped));
        // 1: paused from the beginning; requests are answered, and nothing is stored.
        self.page
            .next(&self.node, "pause")
            .await?
            .shows(&["OPERATOR"])?;
        let (status, told) = self.node.post(&request(5_000, self.signer)).await?;
        ensure!(
            status == StatusCode::LOCKED && told["code"] == "signer_paused",
            "{told}"
        );
        wait::until("it has sent some", || async {
            Ok((self.other.lock().await.next >= 8).then_some(()))
        })
        .await?;
        // 2: the rehearsal, while it goes on.
        let before = self.lane().await?;
        self.rehearse().await?;
        let lane = self.lane().await?;
        let is_same = lane["nextNonce"] == before["nextNonce"] && lane["inFlight"] == 0;
        ensure!(is_same, "a rehearsal changes nothing: {before} {lane}");
        // 3: the hand-over point. One it has signed and never sent, one it has given and not signed.
        stop.send(true)?;
        paying.await??;
        let mut other = self.other.lock().await;
        other.pay(false).await?;
        let mut file = other.file();
        let lent = other.next;
        let item = json!({ "nonce": lent, "requestId": "old-lent", "state": "RESERVED" });
        file["open"].as_array_mut().context("open")?.push(item);
        file["nextNonce"] = json!(lent + 1);
        drop(other);
        self.page.write(&file)?;
        // 4: the import; a stale file would be refused.
        self.page
            .next(&self.node, "import")
            .await?
            .shows(&["RESERVED", "gaps"])?;
        let took = self
            .page
            .next(&self.node, "import")
            .await?
            .shows(&["lockToken"])?;
        ensure!(took.out.contains("old-lent"), "{took:?}");
        // Its answer is lost: the same file is answered with the same lock tokens.
        let again = format!("signers import {} --reason again", self.page.file.display());
        let again = type_in(&self.node, &again).await?.shows(&["lockToken"])?;
        let told = |typed: &Typed| {
            let mut lines = typed.out.lines();
            let line = lines.find(|line| line.contains("old-lent"));
            line.map(str::to_owned)
        };
        ensure!(
            told(&took).is_some() && told(&again) == told(&took),
            "{again:?}"
        );
        // 5: it goes on, and the holder of the lent nonce uses it.
        self.page
            .next(&self.node, "resume")
            .await?
            .shows(&["next: "])?;
        self.page
            .next(&self.node, "show")
            .await?
            .shows(&["nextNonce"])?;
        self.spend(lent, &took).await?;
        Ok(lent + 1)
    }

    /// The page says "repeat it until nothing is refused": a file that the chain has overtaken is written again.
    async fn rehearse(&mut self) -> Result<()> {
        let line = self.page.line("import")?;
        wait::until("a rehearsal is not overtaken", || async {
            self.page.write(&self.other.lock().await.file())?;
            let typed = type_in(&self.node, &line).await?;
            if typed.err.contains("the chain has used all nonces below") {
                return Ok(None);
            }
            typed.shows(&["TRACKING"]).map(Some)
        })
        .await?;
        Ok(())
    }

    /// The holder of the nonce that was given and not signed uses it now.
    async fn spend(&self, nonce: u64, took: &Typed) -> Result<()> {
        let line = took.out.lines().find(|line| line.contains("old-lent"));
        let words: Vec<&str> = line.context("its line")?.split_whitespace().collect();
        let uuids: Vec<&str> = words.into_iter().filter(|word| word.len() == 36).collect();
        let [id, lock] = uuids[..] else {
            anyhow::bail!("{took:?}");
        };
        let loan = Loan {
            id: id.to_owned(),
            lock: lock.to_owned(),
            nonce,
        };
        let other = self.other.lock().await;
        let paid = (payee(nonce), nonce + 1);
        other.holder.spend(&self.node, &loan, paid).await?;
        Ok(())
    }

    /// "Back again": returns the next nonce of the file.
    async fn back(&mut self) -> Result<u64> {
        // 1: everything that was taken is signed.
        wait::until("all is signed", || async {
            let lane = self.lane().await?;
            Ok((lane["queued"] == 0 && lane["inFlight"] == 0).then_some(()))
        })
        .await?;
        let late: Vec<Value> = (0..3).map(|n| request(20_000 + n, self.signer)).collect();
        let late = self.node.post_all(&late).await?;
        for tx in &late {
            wait::until("it is signed", || async {
                let tx = self.node.tx(&id(tx)).await?;
                Ok(tx["txHash"].is_string().then_some(()))
            })
            .await?;
        }
        self.page
            .next(&self.node, "show")
            .await?
            .shows(&["nextNonce"])?;
        self.page
            .next(&self.node, "pause")
            .await?
            .shows(&["OPERATOR"])?;
        // 2: the file has what is not final, with its bytes.
        self.page.next(&self.node, "export").await?;
        let file: Value = serde_json::from_str(&std::fs::read_to_string(&self.page.file)?)?;
        let open = file["open"].as_array().context("open")?;
        for item in open {
            ensure!(
                item["state"] == "TRACKING" || item["state"] == "SUBMITTED",
                "{item}"
            );
            ensure!(item["txHash"].is_string(), "{item}");
        }
        let next = file["nextNonce"].as_u64().context("nextNonce")?;
        ensure!(
            open.iter().all(|item| item["nonce"].as_u64() < Some(next)),
            "{file}"
        );
        ensure!(
            self.page.lines.is_empty(),
            "not typed: {:?}",
            self.page.lines
        );
        Ok(next)
    }

    async fn lane(&self) -> Result<Value> {
        self.node
            .get(&format!("/api/v1/signers/{}", self.signer))
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signer_comes_from_another_service_that_goes_on_sending_and_goes_back() -> Result<()> {
    let mut town = Town::start().await?;
    let given = town.way_in().await?;
    // Callers try again under the same names.
    let requests: Vec<Value> = (0..10).map(|n| request(10_000 + n, town.signer)).collect();
    let taken = town.node.post_all(&requests).await?;
    for (n, tx) in (given..).zip(&taken) {
        ensure!(tx["nonce"] == n, "{tx}, not {n}");
    }
    // Six of the other service were open, and one of those is used by its holder.
    let told = town.node.completions(16).await?;
    let named = |name: &str| told.iter().find(|told| told["requestId"] == name);
    for n in given - 6..given - 1 {
        let told = named(&format!("old-{n}")).with_context(|| format!("old-{n}"))?;
        ensure!(
            told["state"] == "CONFIRMED" || told["state"] == "USED",
            "{told}"
        );
    }
    ensure!(
        named("old-lent").context("lent")?["state"] == "USED",
        "{told:?}"
    );
    until_count(&town.rpc, town.signer, given + 10).await?;
    let paid = (0..given).chain((0..10).map(|n| 10_000 + n));
    settled(&town.rpc, town.signer, given + 10, paid).await?;

    let next = town.back().await?;
    ensure!(next == given + 13, "{next}, not {given} and 13");
    // 3: the other service goes on where the file says.
    let mut other = town.other.lock().await;
    other.next = next;
    for _ in 0..3 {
        other.pay(true).await?;
    }
    drop(other);
    // 4: what Fencepost had in flight ends there, though it is paused.
    town.node.completions(19).await?;
    until_count(&town.rpc, town.signer, next + 3).await?;
    let old = (0..given).chain(next..next + 3);
    let new = (0..10)
        .map(|n| 10_000 + n)
        .chain((0..3).map(|n| 20_000 + n));
    settled(&town.rpc, town.signer, next + 3, old.chain(new)).await?;
    let lane = town.lane().await?;
    ensure!(
        lane["paused"] == "OPERATOR" && lane["nextNonce"] == next,
        "{lane}"
    );
    Ok(())
}
