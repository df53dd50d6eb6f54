//! `fencepost serve`: a node from its first line to its last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencepost_app::drive::Running;
use fencepost_app::node::Node;
use fencepost_domain::ids::Incarnation;
use fencepost_http::Api;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::Config;
use crate::config::serving::Serving;
use crate::failure::Failure;
use crate::keyring;
use crate::signals::Signals;
use crate::wiring::{Wired, wire};

/// Runs a node until it is told to stop or cannot go on.
pub(crate) async fn serve(config: Config, serving: Serving) -> Result<(), Failure> {
    serve_then(config, serving, |_| Ok(())).await
}

/// The same; `ready` is called when requests are answered, with the address that is listened on.
pub(crate) async fn serve_then(
    config: Config,
    mut serving: Serving,
    ready: impl FnOnce(SocketAddr) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let (keyring, lanes) = keyring::open(&serving.senders, serving.keys.take()).await?;
    let mut signals = Signals::listen().map_err(|error| Failure::new("no signals", error))?;
    // Before the store is joined: a process that finds its port taken must not make a ghost of the
    // one that has it.
    let (listener, listening) = bind(config.node.listen).await?;
    let advertise = config.node.advertise.clone();
    let url = advertise.unwrap_or_else(|| format!("http://{listening}"));
    let (store, drain_limit) = (config.store.place.word(), config.node.drain_limit);
    let wired = wire(config, serving, keyring, &lanes, url.clone());
    let Wired { node, running, api } = tokio::select! {
        wired = wired => wired?,
        () = signals.next() => return Ok(()),
    };
    let mut http = Http::start(api, listener);
    let (node_id, lanes) = (node.holder().node.as_str(), node.directory().len());
    tracing::info!(%listening, url, node_id, store, lanes, "ready");
    ready(listening)?;
    let end = tokio::select! {
        () = signals.next() => End::Asked,
        later = node.ghosted() => End::Ghost(later),
        ended = &mut http.task => End::Unserved(served(ended)),
    };
    let outcome = match end {
        // Nothing is given up: what is led under this id is the other process's.
        End::Ghost(later) => return Err(Failure::Ghost(later)),
        End::Asked => Ok(()),
        End::Unserved(failure) => Err(failure),
    };
    tracing::info!("stopping");
    tokio::select! {
        () = stop(&node, running, http, drain_limit) => {}
        () = signals.next() => tracing::warn!("asked to stop twice: the node ends at once"),
    }
    tracing::info!("stopped");
    outcome
}

/// Why a node ends.
enum End {
    /// Someone said so.
    Asked,
    /// A later start of its own id has joined.
    Ghost(Incarnation),
    /// Nobody can reach it any more.
    Unserved(Failure),
}

async fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = async {
        let listener = TcpListener::bind(listen).await?;
        let listening = listener.local_addr()?;
        Ok((listener, listening))
    };
    let failed = |error: std::io::Error| Failure::new(format!("cannot listen on {listen}"), error);
    bound.await.map_err(failed)
}

/// The HTTP server.
struct Http {
    task: JoinHandle<std::io::Result<()>>,
    stop: oneshot::Sender<()>,
}

impl Http {
    fn start(api: Api, listener: TcpListener) -> Self {
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let task = tokio::spawn(fencepost_http::serve(api, listener, stopped));
        Self { task, stop }
    }
}

fn served(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> Failure {
    let doing = "the HTTP server has ended";
    match ended {
        Ok(Ok(())) => Failure::new(doing, "nobody asked it to"),
        Ok(Err(error)) => Failure::new(doing, error),
        Err(error) => Failure::new(doing, error),
    }
}

/// Stops accepting, finishes what is in hand, gives the leases up. The leases do not wait for clients
/// that are slow to take their answers; those have the rest of the limit.
async fn stop(node: &Arc<Node>, running: Running, http: Http, limit: Duration) {
    node.drain();
    let _ = http.stop.send(());
    let answered = async {
        if !http.task.is_finished() && timeout(limit, http.task).await.is_err() {
            tracing::warn!(?limit, "connections are cut that did not end in time");
        }
    };
    tokio::join!(running.stop(limit), answered);
}
