//! Serving connections: bounded in number, each bounded in how long it may stay silent, and ended in
//! order when the node stops.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::api::Api;
use crate::patience::Patient;
use crate::routes::router;

/// How long a connection may take until a request's head is there, the time between two requests
/// included. Shorter than the idle time of a load balancer: it would send into closed connections.
const SILENCE_MAX: Duration = Duration::from_secs(75);
/// How long accepting rests when the system has no more to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` resolves, then accepts no more and returns when every request in hand has its
/// answer. Long polls end by themselves when the node is draining.
pub async fn serve(
    api: Api,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let write_timeout = api.limits.write_timeout;
    let room = Arc::new(Semaphore::new(api.limits.connections.max(1)));
    let router = router(api);
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = graceful.watch(connection(stream, write_timeout, router.clone()));
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection broke");
                    }
                    drop(place);
                });
            }
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "accepting connections failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

fn connection(
    stream: TcpStream,
    write_timeout: Duration,
    router: Router,
) -> http1::Connection<TokioIo<Patient<TcpStream>>, TowerToHyperService<Router>> {
    // Answers are written whole; waiting for more to send with them would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE_MAX)
        .serve_connection(
            TokioIo::new(Patient::new(stream, write_timeout)),
            TowerToHyperService::new(router),
        )
}

/// Whether only one client is concerned, and the next can be accepted at once.
fn is_of_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}
