//! A TCP proxy that loses, delays and cuts on demand: the network between a client and PostgreSQL.
//! Every fault strikes the connections that are open at that moment; those made later are sound, so
//! that a client can come back and find out what happened. How bytes move is in `link`.

mod link;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::wait::PATIENCE;
use link::{Faults, Link, SEEN_BYTES_MAX};

/// Ended connections that are remembered; a request that came in over an older one is not found.
const ENDED_MAX: usize = 100;

/// A proxy on a port of its own. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Moves when there is news for those who wait.
    news: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    accepting: bool,
    /// What each connection remembers of its requests.
    seen_bytes_max: usize,
    /// Open ones and, for those who ask too late, the last that have ended.
    links: Vec<Arc<Link>>,
}

impl Proxy {
    /// Listens on a free port and forwards to the target.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        Self::listen(target, SEEN_BYTES_MAX).await
    }

    /// The same, for a long run under load: requests are not remembered, and so [`Self::wait_for_request`]
    /// finds none.
    pub async fn start_forgetful(target: SocketAddr) -> Result<Self> {
        Self::listen(target, 0).await
    }

    async fn listen(target: SocketAddr, seen_bytes_max: usize) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let state = Mutex::new(State {
            target,
            accepting: true,
            seen_bytes_max,
            links: Vec::new(),
        });
        let shared = Arc::new(Shared {
            state,
            news: watch::Sender::new(()),
        });
        let acceptor = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self {
            addr,
            shared,
            acceptor,
        })
    }

    /// Where clients connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// From now on, connections are made to another target: a failover.
    pub fn retarget(&self, target: SocketAddr) {
        self.shared.state().target = target;
    }

    /// What the server answers from now on is lost; what the client says still arrives.
    pub fn swallow_replies(&self) {
        self.swallow_after(0);
    }

    /// Lets this many more bytes of each connection's replies through, and loses the rest.
    pub fn swallow_after(&self, bytes: usize) {
        self.shared
            .strike(|faults| faults.replies_left = Some(bytes));
    }

    /// Keeps what clients say until [`Self::release_requests`]. It is delivered then even if the
    /// client has gone: a statement that arrives late.
    pub fn hold_requests(&self) {
        self.truncate_next_request(0);
    }

    /// Lets this many more bytes of each connection's requests through, then holds the rest: a
    /// statement half sent.
    pub fn truncate_next_request(&self, bytes: usize) {
        self.shared
            .strike(|faults| faults.requests_left = Some(bytes));
    }

    /// How many bytes of requests are held now, for letting a part of them through.
    pub fn held_bytes(&self) -> usize {
        let links = &self.shared.state().links;
        links.iter().map(|link| link.held_bytes()).sum()
    }

    /// Delivers what was held, and holds no more.
    pub fn release_requests(&self) {
        self.shared.strike(|faults| faults.requests_left = None);
    }

    /// Closes all connections, on both sides. What was held is lost.
    pub fn cut(&self) {
        self.shared.strike(|faults| faults.cut = true);
    }

    /// Closes all connections on the client's side only: the server hears nothing of it, and goes on
    /// with what it was told. Like a router that forgets.
    pub fn forsake(&self) {
        self.shared.strike(|faults| faults.forsaken = true);
    }

    /// Closes new connections as soon as they are made.
    pub fn refuse(&self) {
        self.shared.state().accepting = false;
    }

    /// Undoes [`Self::refuse`].
    pub fn accept(&self) {
        self.shared.state().accepting = true;
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared
            .state()
            .links
            .iter()
            .filter(|link| !link.has_ended())
            .count()
    }

    /// Returns when the bytes have come in from some client, whether or not they may pass. Looks at all
    /// that has come in so far; what is found is forgotten with all before it, so that a second call
    /// waits for a second occurrence.
    pub async fn wait_for_request(&self, bytes: &[u8]) -> Result<()> {
        let text = String::from_utf8_lossy(bytes);
        self.wait(&format!("a request with {text:?}"), |links| {
            links.iter().any(|link| link.find_request(bytes))
        })
        .await
    }

    /// Returns when a reply has been lost: the server has done its part, and nobody has heard of it.
    pub async fn wait_for_lost_reply(&self) -> Result<()> {
        self.wait("a reply is lost", |links| {
            links.iter().any(|link| link.has_lost_reply())
        })
        .await
    }

    /// Returns when no connection is left.
    pub async fn wait_until_idle(&self) -> Result<()> {
        self.wait("all connections are closed", |links| {
            links.iter().all(|link| link.has_ended())
        })
        .await
    }

    async fn wait(&self, what: &str, happened: impl Fn(&[Arc<Link>]) -> bool) -> Result<()> {
        let mut news = self.shared.news.subscribe();
        let happens = async {
            while !happened(&self.shared.state().links) {
                news.changed().await?;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, happens)
            .await
            .with_context(|| format!("in vain: {what}"))?
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn strike(&self, fault: impl Fn(&mut Faults)) {
        for link in &self.state().links {
            link.faults.send_modify(&fault);
        }
    }
}

impl State {
    fn forget_old_links(&mut self) {
        let ended = self.links.iter().filter(|link| link.has_ended()).count();
        let mut surplus = ended.saturating_sub(ENDED_MAX);
        self.links.retain(|link| {
            let forget = surplus > 0 && link.has_ended();
            surplus -= usize::from(forget);
            !forget
        });
    }
}

/// Owns the tasks of all links, so that they end with the proxy.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut links = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while links.try_join_next().is_some() {}
        let (link, target) = {
            let mut state = shared.state();
            if !state.accepting {
                continue;
            }
            state.forget_old_links();
            let link = Arc::new(Link::new(shared.news.clone(), state.seen_bytes_max));
            state.links.push(link.clone());
            (link, state.target)
        };
        links.spawn(async move {
            if let Ok(server) = TcpStream::connect(target).await {
                link.run(client, server).await;
            }
            link.end();
        });
    }
}
