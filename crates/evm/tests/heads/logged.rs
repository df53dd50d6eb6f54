//! What the log says: one line when announcements stop, one when they are back, and never more of the URL than its host.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_evm::{WsEndpoint, WsLimits};
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use super::server::{Peer, Server, Watched, limits};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// What this thread logs from now on, until the guard is dropped. The tests' tasks run on it.
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// Our lines, without what libraries trace.
    fn lines(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let ours = text.lines().filter(|line| line.contains("fencepost_evm"));
        ours.map(str::to_owned).collect()
    }

    fn is_discreet(&self) -> bool {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        !text.contains("SECRET")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_endpoint_that_fails_for_long_is_logged_once_and_once_when_it_is_back() {
    let (log, _logging) = Log::start();
    let server = Server::start().await;
    let url = format!("ws://SECRET:SECRET@127.0.0.1:{}/SECRET?SECRET", server.port);
    let endpoint = WsEndpoint::new(&url).unwrap().with_limits(WsLimits {
        stable_after: Duration::ZERO,
        ..limits()
    });
    let watched = Watched::start(endpoint);
    for _ in 0..20 {
        drop(server.connection().await);
    }
    let mut peer = Peer::open(server.connection().await).await;
    assert_eq!(log.lines().len(), 1, "{:#?}", log.lines());
    assert!(log.lines()[0].contains("WARN"), "{:#?}", log.lines());
    peer.answer().await;
    watched.until_woken().await;
    peer.announce(1).await;
    watched.until_woken().await;
    peer.until_read().await;
    peer.close().await;
    for _ in 0..20 {
        drop(server.connection().await);
    }
    let lines = log.lines();
    let levels: Vec<_> = lines
        .iter()
        .map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(levels, ["WARN", "INFO", "WARN"].map(Some), "{lines:#?}");
    for line in &lines {
        let known = line.contains("chain=\"main\"") && line.contains("host=\"127.0.0.1\"");
        assert!(known, "{line}");
    }
    assert!(log.is_discreet(), "{lines:#?}");
}

#[tokio::test]
async fn an_endpoint_that_breaks_again_and_again_does_not_fill_the_log() {
    let (log, _logging) = Log::start();
    let server = Server::start().await;
    let watched = Watched::start(server.endpoint(limits()));
    for _ in 0..20 {
        let mut peer = server.subscriber().await;
        watched.until_woken().await;
        peer.announce(1).await;
        watched.until_woken().await;
        peer.close().await;
    }
    drop(server.connection().await);
    // It was well once, and has not been for long since.
    assert_eq!(log.lines().len(), 2, "{:#?}", log.lines());
    assert!(log.is_discreet(), "{:#?}", log.lines());
}
