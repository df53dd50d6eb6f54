//! Serving connections: bounded in number, each bounded in how long it may stay silent, and ended in
//! order when the node stops.

mod places;

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::api::Api;
use crate::limits::Limits;
use crate::patience::Patient;
use crate::routes::router;

pub(crate) use places::Activity;
use places::{Place, Places};

/// Connections beyond [`Limits::connections`] that answer health checks only.
pub const SPARE_CONNECTIONS: usize = places::SPARE;

/// How long accepting rests when the system has no more to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` resolves, then accepts no more and returns when every request in hand has its
/// answer. Long polls end by themselves when the node is draining.
pub async fn serve(
    api: Api,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let limits = api.limits.clone();
    let places = Places::new(limits.connections, api.meters.clone());
    let router = router(api);
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    let mut failing = false;
    loop {
        let accepted = async {
            let (stream, from) = listener.accept().await?;
            io::Result::Ok((stream, from.ip(), places.take().await))
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, from, place)) => {
                failing = false;
                let connection = connection(stream, from, &place, &limits, router.clone());
                tokio::spawn(carry(graceful.watch(connection), place));
            }
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "accepting connections failed; trying again");
                }
                failing = true;
                // Most likely there are no descriptors left.
                places.make_room();
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

/// Carries a connection to its end, or until another one needs its place.
async fn carry(connection: impl Future<Output = hyper::Result<()>>, place: Place) {
    tokio::select! {
        biased;
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
        }
        () = place.activity.closed() => place.count_closed(),
    }
}

fn connection(
    stream: TcpStream,
    from: IpAddr,
    place: &Place,
    limits: &Limits,
    router: Router,
) -> http1::Connection<TokioIo<Patient<TcpStream>>, Routes> {
    // Answers are written whole; waiting for more to send with them would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let stream = Patient::new(stream, limits.write_timeout, Arc::clone(&place.activity));
    let routes = Routes {
        inner: TowerToHyperService::new(router),
        activity: Arc::clone(&place.activity),
        peer: Peer {
            address: from,
            is_spare: place.is_spare,
        },
    };
    http1::Builder::new()
        .timer(TokioTimer::new())
        // The time until the next head is there, the time between two requests included.
        .header_read_timeout(limits.idle_timeout)
        .serve_connection(TokioIo::new(stream), routes)
}

/// The other end of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// The connection has a place for health checks only.
    pub(crate) is_spare: bool,
}

/// The routes as one connection calls them.
struct Routes {
    inner: TowerToHyperService<Router>,
    activity: Arc<Activity>,
    peer: Peer,
}

impl Service<Request<Incoming>> for Routes {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.activity.begin();
        request.extensions_mut().insert(self.peer);
        let answer = self.inner.call(request);
        let activity = Arc::clone(&self.activity);
        Box::pin(async move {
            let answer = answer.await;
            activity.end();
            answer
        })
    }
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
