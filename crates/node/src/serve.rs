//! `fencepost serve`: a node from its first line to its last.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencepost_app::drive::Running;
use fencepost_app::node::Node;
use fencepost_domain::ids::Incarnation;
use fencepost_http::Api;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::Config;
use crate::config::serving::Serving;
use crate::failure::Failure;
use crate::keyring;
use crate::reload::{self, Reloaded};
use crate::signals::Signals;
use crate::telemetry;
use crate::wiring::{Wired, wire};

/// How many new connections the kernel keeps until they are accepted. The kernel cuts it to what the system allows
/// (net.core.somaxconn). A connection that finds the queue full is dropped, and its client waits a second or more
/// before it tries again.
const BACKLOG: u32 = i32::MAX.unsigned_abs();

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
    telemetry::name(&config.node.id);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let (keyring, lanes) = keyring::open(&serving.senders, serving.keys.take()).await?;
    let mut signals = Signals::listen().map_err(|error| Failure::new("no signals", error))?;
    // Before the store is joined: a process that finds its port taken must not make a ghost of the
    // one that has it.
    let (listener, listening) = bind(config.node.listen)?;
    let advertise = config.node.advertise.clone();
    let url = advertise.unwrap_or_else(|| format!("http://{listening}"));
    let (store, drain_limit) = (config.store.place.word(), config.node.drain_limit);
    let keys = serving.keys_file.take();
    let keys = keys.map(|file| Reloaded::keys(file, serving.access.clone()));
    let _reloading = reload::start(keys.into_iter().collect())?;
    let wired = wire(config, serving, keyring, &lanes, url.clone());
    let Wired { node, running, api } = tokio::select! {
        wired = wired => wired?,
        () = signals.next() => return Ok(()),
    };
    let unserved = |error| Failure::new("the HTTP server cannot be started", error);
    let mut http = Http::start(api, listener).map_err(unserved)?;
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

fn bind(listen: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let bound = || {
        let socket = match listen {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(listen)?;
        let listener = socket.listen(BACKLOG)?;
        let listening = listener.local_addr()?;
        Ok((listener, listening))
    };
    let failed = |error: std::io::Error| Failure::new(format!("cannot listen on {listen}"), error);
    bound().map_err(failed)
}

/// The HTTP server, on threads of its own: requests, however many, never delay the loops that renew leases, nor the
/// connections of the store, which run on the threads that this one was started from.
struct Http {
    task: JoinHandle<std::io::Result<()>>,
    stop: Option<oneshot::Sender<()>>,
    runtime: Option<Runtime>,
}

impl Http {
    fn start(api: Api, listener: TcpListener) -> std::io::Result<Self> {
        // The listener belongs to the runtime that accepts from it.
        let listener = listener.into_std()?;
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.thread_name("http").enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let task = runtime.spawn(async {
            let listener = TcpListener::from_std(listener)?;
            fencepost_http::serve(api, listener, stopped).await
        });
        Ok(Self {
            task,
            stop: Some(stop),
            runtime: Some(runtime),
        })
    }

    /// Accepts no more, and waits as long as `limit` for what is in hand.
    async fn stop(&mut self, limit: Duration) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if !self.task.is_finished() && timeout(limit, &mut self.task).await.is_err() {
            tracing::warn!(?limit, "connections are cut that did not end in time");
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
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
async fn stop(node: &Arc<Node>, running: Running, mut http: Http, limit: Duration) {
    node.drain();
    tokio::join!(running.stop(limit), http.stop(limit));
}
