//! The story: clients post, the chain takes blocks back, the node is killed, and all of it has to end well.
//! Here things happen and are written down; whether they were as promised is found out in `promises`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::api::Api;
use super::chain::{BLOCK_TIME, Chain, REORG_DEPTH};
use super::clients::{Board, post_all, read_feed};
use super::facts::{Crash, Facts, Reorg};
use super::node::{Home, Node};
use super::request::Request;
use super::screen::{Far, Screen};
use crate::failure::Failure;

/// How long all may take from the first request on. Two thirds of it are for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the node is away: a supervisor needs a moment, and clients shall notice.
const AWAY: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How many known ids are posted with another payload.
const MISUSES: usize = 3;

/// How it went: what is known, and how long things took.
pub(super) struct Told {
    pub(super) facts: Facts,
    pub(super) ready_after: Duration,
    pub(super) lasted: Duration,
}

/// What has to be remembered of a reorg until it is over.
struct Undone {
    reorg: Reorg,
    at: Instant,
    sends: BTreeMap<String, u64>,
}

/// All that the story is played with.
pub(super) struct Story<'a> {
    chain: &'a Chain,
    home: &'a Home,
    screen: &'a Screen,
    http: reqwest::Client,
    node: Node,
    api: Api,
    board: Board,
    requests: Vec<Request>,
    until: Instant,
    undone: Option<Undone>,
}

/// Plays it. The node ends with it.
pub(super) async fn play(
    chain: &Chain,
    home: &Home,
    screen: &Screen,
    requests: Vec<Request>,
) -> Result<Told, Failure> {
    let http = crate::client::plain().map_err(|error| Failure::new("no HTTP client", error))?;
    let began = Instant::now();
    let starting = screen.spin("a chain is there; the node starts");
    let node = Node::start(home, &http, None).await?;
    let ready_after = began.elapsed();
    let (pid, listen) = (node.pid(), node.listen());
    let ready = seconds(ready_after);
    starting.done(&format!(
        "node {pid} is ready after {ready}: http://{listen}"
    ));
    let mut story = Story {
        chain,
        home,
        screen,
        api: Api::new(http.clone(), listen),
        http,
        node,
        board: Board::default(),
        requests,
        until: Instant::now() + PATIENCE,
        undone: None,
    };
    let facts = story.acts().await?;
    Ok(Told {
        facts,
        ready_after,
        lasted: screen.elapsed(),
    })
}

impl Story<'_> {
    async fn acts(&mut self) -> Result<Facts, Failure> {
        let asked = self.requests.len();
        let signers = self.chain.signers().len();
        self.screen.say(&format!(
            "{asked} requests over {signers} signers are posted, each of them twice"
        ));
        let mut clients = JoinSet::new();
        let (api, board) = (self.api.clone(), self.board.clone());
        clients.spawn(read_feed(api.clone(), board.clone()));
        clients.spawn(post_all(api, board, self.requests.clone(), self.until));

        let total = u64::try_from(asked).unwrap_or(u64::MAX);
        if self.until(|far| far.mined >= total.div_ceil(3)).await? {
            self.undo().await?;
        }
        let mut crash = None;
        // What the reorg undid is not counted as mined, so that much is really done by then.
        if self
            .until(|far| far.mined >= total / 2 && far.accepted > far.told)
            .await?
        {
            crash = Some(self.crash().await?);
        }
        let board = self.board.clone();
        let settled = |far: Far| far.told >= total && board.with(|heard| heard.settled >= asked);
        let whole = self.until(settled).await?;
        self.screen.end(self.far());
        if !whole {
            let limit = humantime::format_duration(PATIENCE);
            self.screen
                .say(&format!("not all have ended after {limit}: given up"));
        }
        self.collect(crash).await
    }

    /// Looks until something is so; not so where it takes too long.
    async fn until(&mut self, so: impl Fn(Far) -> bool) -> Result<bool, Failure> {
        loop {
            let far = self.far();
            self.screen.show(far);
            self.look_at_undone();
            if let Some(status) = self.node.ended()? {
                let doing = "the node has ended by itself";
                return Err(Failure::new(doing, status.to_string()));
            }
            if Instant::now() > self.until {
                return Ok(false);
            }
            if so(far) {
                return Ok(true);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    fn far(&self) -> Far {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (accepted, told) = self
            .board
            .with(|heard| (heard.accepted(), heard.told().len()));
        Far {
            accepted: number(accepted),
            mined: self.chain.mined_count(),
            told: number(told),
        }
    }

    /// Takes blocks back, as soon as the node has seen what is in them.
    async fn undo(&mut self) -> Result<(), Failure> {
        while self.undone.is_none() && self.until(|_| true).await? {
            self.undone = self.try_undo().await?;
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Undoes what is in the newest blocks and the API calls mined. What the node has not seen yet is spared:
    /// it could only be sent again when that is due, and this is not the story of that.
    async fn try_undo(&self) -> Result<Option<Undone>, Failure> {
        let seen = self.api.mined(&self.chain.newest()?).await?;
        let sends = self.chain.sends();
        let told = self.board.with(|heard| heard.told_hashes());
        let gone = self.chain.reorg(&seen)?;
        if gone.is_empty() {
            return Ok(None);
        }
        let count = gone.len();
        self.screen.say(&format!(
            "REORG: the newest {REORG_DEPTH} blocks are replaced, {count} mined transactions are gone"
        ));
        let reorg = Reorg {
            depth: REORG_DEPTH,
            told: gone.intersection(&told).cloned().collect(),
            gone,
            noticed: BTreeSet::new(),
            sent_again: BTreeSet::new(),
            back_after: None,
        };
        let at = Instant::now();
        Ok(Some(Undone { reorg, at, sends }))
    }

    /// Whether what was undone is back.
    fn look_at_undone(&mut self) {
        let Some(Undone { reorg, at, .. }) = &mut self.undone else {
            return;
        };
        if reorg.back_after.is_none() && self.chain.has_mined(&reorg.gone) {
            let after = at.elapsed();
            reorg.back_after = Some(after);
            let (gone, after) = (reorg.gone.len(), seconds(after));
            self.screen
                .say(&format!("… all {gone} are back in blocks after {after}"));
        }
    }

    /// Kills the node while clients post, and starts another.
    async fn crash(&mut self) -> Result<Crash, Failure> {
        let signers = self.api.signers().await?;
        let tokens = signers
            .into_iter()
            .map(|it| (it.signer, it.token))
            .collect();
        let before = self.node.pid();
        let killed = Timestamp::now();
        let status = self.node.kill();
        let status = status.map_err(|error| Failure::new("the node cannot be killed", error))?;
        let open = self.board.with(|heard| heard.open());
        let count = open.len();
        self.screen.say(&format!(
            "CRASH: kill -9 of node {before} with {count} transactions under way"
        ));
        let restarting = self.screen.spin("… clients go on; another node starts");
        sleep(AWAY).await;
        let (known, at) = (Some(self.node.listen()), Instant::now());
        self.node = Node::start(self.home, &self.http, known).await?;
        self.api.moved(self.node.listen());
        let ready_after = at.elapsed();
        let (after, ready) = (self.node.pid(), seconds(ready_after));
        restarting.done(&format!("… node {after} is ready after {ready}"));
        let told_after = self.first_told(killed).await?;
        Ok(Crash {
            pids: (before, after),
            signal: status.signal(),
            open,
            tokens,
            retries: 0,
            ready_after,
            told_after,
        })
    }

    /// Waits for the first completion that was written after some time: how long after.
    async fn first_told(&mut self, killed: Timestamp) -> Result<Option<Duration>, Failure> {
        let board = self.board.clone();
        let first = || {
            let written = board.with(|heard| {
                let written = heard.feed.iter().filter_map(|row| row.at.parse().ok());
                written.filter(|at: &Timestamp| *at > killed).min()
            });
            written.and_then(|at| Duration::try_from(at.duration_since(killed)).ok())
        };
        self.until(|_| first().is_some()).await?;
        let first = first();
        if let Some(after) = first {
            let after = seconds(after);
            self.screen.say(&format!(
                "… and tells the first final one {after} after the kill"
            ));
        }
        Ok(first)
    }

    /// Asks the API and the chain for everything.
    async fn collect(&mut self, crash: Option<Crash>) -> Result<Facts, Failure> {
        let _checking = self.screen.spin("the chain and the API are compared");
        // Longer than a block, so that what should not come any more could have come.
        sleep(BLOCK_TIME * 2).await;
        let misuses = self.misuse().await;
        let (mined, sends) = (self.chain.mined()?, self.chain.sends());
        let mut hashes: BTreeSet<String> = sends.keys().cloned().collect();
        hashes.extend(mined.iter().map(|tx| tx.hash.clone()));
        let known = self.api.owners(&hashes).await?;
        let reorg = match self.undone.take() {
            Some(undone) => Some(self.aftermath(undone, &sends, &known).await?),
            None => None,
        };
        let (answers, feed, retries) = self.board.with(|heard| {
            let heard = std::mem::take(heard);
            (heard.answers, heard.feed, heard.retries)
        });
        Ok(Facts {
            requests: std::mem::take(&mut self.requests),
            answers,
            misuses,
            stored: self.api.stored().await?,
            signers: self.api.signers().await?,
            feed,
            feed_again: self.api.feed().await?,
            mined,
            sent: sends.into_keys().collect(),
            known,
            reorg,
            crash: crash.map(|crash| Crash { retries, ..crash }),
        })
    }

    /// Uses known ids for other payloads: the statuses of the answers.
    async fn misuse(&self) -> Vec<u16> {
        let mut statuses = Vec::new();
        for request in self.requests.iter().take(MISUSES) {
            let until = Instant::now() + PATIENCE / 4;
            let answered = self.api.post(&request.misused(), until).await;
            statuses.extend(answered.map(|answered| answered.status));
        }
        statuses
    }

    /// What became of what a reorg undid.
    async fn aftermath(
        &self,
        undone: Undone,
        sends: &BTreeMap<String, u64>,
        owners: &BTreeMap<String, String>,
    ) -> Result<Reorg, Failure> {
        let Undone {
            reorg,
            sends: before,
            ..
        } = undone;
        let owner = |hash: &String| owners.get(hash).cloned();
        let forked = self
            .api
            .forked(&reorg.gone.iter().filter_map(owner).collect())
            .await?;
        let noticed = |hash: &&String| owner(hash).is_some_and(|id| forked.contains(&id));
        let again = |hash: &&String| sends.get(*hash) > before.get(*hash);
        Ok(Reorg {
            noticed: reorg.gone.iter().filter(noticed).cloned().collect(),
            sent_again: reorg.gone.iter().filter(again).cloned().collect(),
            ..reorg
        })
    }
}

/// A time as people read it.
pub(super) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
