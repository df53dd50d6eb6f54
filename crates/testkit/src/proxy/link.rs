//! One connection through the proxy: two pumps, and the faults that they obey.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

/// Beyond this a held client is no longer read, and feels the back pressure.
const HELD_BYTES_MAX: usize = 16 << 20;

/// Requests remembered for those who wait for one; a pattern further back than this is not found.
pub(super) const SEEN_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Bytes to the server that may still pass before the rest is held; `None` is all.
    pub(super) requests_left: Option<usize>,
    /// Bytes to the client that may still pass before the rest is lost; `None` is all.
    pub(super) replies_left: Option<usize>,
    /// The client's side is closed; the server's stays open.
    pub(super) forsaken: bool,
    pub(super) cut: bool,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) faults: watch::Sender<Faults>,
    traffic: Mutex<Traffic>,
    news: watch::Sender<()>,
    seen_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Traffic {
    requests: Vec<u8>,
    held_bytes: usize,
    reply_lost: bool,
    ended: bool,
}

impl Link {
    pub(super) fn new(news: watch::Sender<()>, seen_bytes_max: usize) -> Self {
        Self {
            faults: watch::Sender::default(),
            traffic: Mutex::default(),
            news,
            seen_bytes_max,
        }
    }

    /// Lasts until the server closes or the link is cut. Not until the client closes: what it has said
    /// before is still to be delivered.
    pub(super) async fn run(&self, client: TcpStream, server: TcpStream) {
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let mut faults = self.faults.subscribe();
        tokio::select! {
            _ = faults.wait_for(|faults| faults.cut) => {}
            () = self.pump_replies(from_server, to_client) => {}
            () = async {
                self.pump_requests(from_client, to_server).await;
                std::future::pending().await
            } => {}
        }
    }

    async fn pump_requests(&self, mut client: OwnedReadHalf, mut server: OwnedWriteHalf) {
        let mut faults = self.faults.subscribe();
        let mut held = Vec::new();
        let mut client_is_there = true;
        loop {
            let count = self.take(|faults| &mut faults.requests_left, held.len());
            if server.write_all(&held[..count]).await.is_err() {
                return;
            }
            held.drain(..count);
            self.note(|traffic| traffic.held_bytes = held.len());
            if held.is_empty() && !client_is_there {
                // The server reads to the end and still answers: closing outright could destroy what
                // it has not read yet.
                let _ = server.shutdown().await;
                return;
            }
            let before = held.len();
            tokio::select! {
                _ = faults.changed() => {
                    if faults.borrow_and_update().forsaken {
                        drop(client);
                        // The server must not hear of it, so its half stays as it is.
                        return std::future::pending().await;
                    }
                }
                read = client.read_buf(&mut held), if client_is_there && before < HELD_BYTES_MAX => {
                    client_is_there = read.is_ok_and(|count| count > 0);
                    self.saw_request(&held, before);
                }
            }
        }
    }

    async fn pump_replies(&self, mut server: OwnedReadHalf, client: OwnedWriteHalf) {
        let mut faults = self.faults.subscribe();
        let mut client = Some(client);
        let mut reply = Vec::new();
        loop {
            tokio::select! {
                _ = faults.wait_for(|faults| faults.forsaken), if client.is_some() => {
                    client = None;
                    continue;
                }
                read = server.read_buf(&mut reply) => {
                    if !read.is_ok_and(|count| count > 0) {
                        return;
                    }
                }
            }
            let count = self.take(|faults| &mut faults.replies_left, reply.len());
            let written = match &mut client {
                Some(client) => client.write_all(&reply[..count]).await.is_ok(),
                None => false,
            };
            // A server whose client has gone is still heard out, or it might not finish.
            if count < reply.len() || !written {
                self.note(|traffic| traffic.reply_lost = true);
            }
            reply.clear();
        }
    }

    /// How many of these bytes may pass; they are then used up.
    fn take(&self, left: impl Fn(&mut Faults) -> &mut Option<usize>, wanted: usize) -> usize {
        let mut granted = wanted;
        self.faults.send_if_modified(|faults| {
            if let Some(left) = left(faults) {
                granted = wanted.min(*left);
                *left -= granted;
            }
            // Nobody else need be told.
            false
        });
        granted
    }

    fn saw_request(&self, held: &[u8], before: usize) {
        self.note(|traffic| {
            traffic.held_bytes = held.len();
            if self.seen_bytes_max == 0 {
                return;
            }
            let requests = &mut traffic.requests;
            requests.extend_from_slice(&held[before..]);
            let surplus = requests.len().saturating_sub(self.seen_bytes_max);
            requests.drain(..surplus);
        });
    }

    pub(super) fn end(&self) {
        self.note(|traffic| traffic.ended = true);
    }

    /// Finds and forgets.
    pub(super) fn find_request(&self, pattern: &[u8]) -> bool {
        let requests = &mut self.traffic().requests;
        let found = requests
            .windows(pattern.len())
            .position(|window| window == pattern);
        if let Some(start) = found {
            requests.drain(..start + pattern.len());
        }
        found.is_some()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.traffic().held_bytes
    }

    pub(super) fn has_lost_reply(&self) -> bool {
        self.traffic().reply_lost
    }

    pub(super) fn has_ended(&self) -> bool {
        self.traffic().ended
    }

    fn note(&self, change: impl FnOnce(&mut Traffic)) {
        change(&mut self.traffic());
        self.news.send_replace(());
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
