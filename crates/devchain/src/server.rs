//! The chain over HTTP, and the only place with a clock: blocks by interval, late answers, cut connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::endpoint::EndpointId;
use crate::rpc::{Answer, Outcome};
use crate::shared::Shared;

/// How long accepting rests when the system has no more to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a connection may take until a request's head is there.
const SILENCE_MAX: Duration = Duration::from_secs(75);

/// How the server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Where it listens. Port 0 is any free one.
    pub listen: SocketAddr,
    /// How often a block is mined; none is only when asked for.
    pub block_interval: Option<Duration>,
    /// The largest body it reads.
    pub body_bytes_max: usize,
    /// How many connections it has at once. The next ones wait.
    pub connections_max: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            block_interval: None,
            body_bytes_max: 32 * 1024 * 1024,
            connections_max: 1_000,
        }
    }
}

/// A running server. It stops when this is dropped, and cuts what hangs.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

/// What every connection needs.
struct Desk {
    chain: Shared,
    body_bytes_max: usize,
    stop: watch::Receiver<bool>,
}

impl Server {
    /// Starts to serve a chain: its endpoints are at `/0`, `/1`, … and at `/<name>`, the first one also
    /// at `/`.
    pub async fn start(chain: Shared, config: ServerConfig) -> io::Result<Server> {
        let listener = TcpListener::bind(config.listen).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        if let Some(every) = config.block_interval {
            tokio::spawn(mine(chain.clone(), every, stopped.clone()));
        }
        let desk = Arc::new(Desk {
            chain,
            body_bytes_max: config.body_bytes_max,
            stop: stopped,
        });
        let serving = tokio::spawn(serve(listener, desk, config.connections_max));
        Ok(Server {
            address,
            stop,
            serving,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of an endpoint.
    #[must_use]
    pub fn url(&self, endpoint: EndpointId) -> String {
        format!("http://{}/{}", self.address, endpoint.0)
    }

    /// Stops, and returns when every connection is closed.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.serving).await {
            tracing::warn!(%error, "the dev chain's server did not end well");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

async fn mine(chain: Shared, every: Duration, mut stop: watch::Receiver<bool>) {
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    // A late block does not make the following ones hurry.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            _ = ticks.tick() => {
                chain.lock().mine(unix_seconds());
            }
        }
    }
}

async fn serve(listener: TcpListener, desk: Arc<Desk>, connections_max: usize) {
    let places = u32::try_from(connections_max.clamp(1, Semaphore::MAX_PERMITS));
    let places = places.unwrap_or(u32::MAX);
    let room = Arc::new(Semaphore::new(
        usize::try_from(places).unwrap_or(Semaphore::MAX_PERMITS),
    ));
    let mut stop = desk.stop.clone();
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                tokio::spawn(async move {
                    connection(stream, desk).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the dev chain could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Every connection ends by itself now; all places are free when they have.
    drop(room.acquire_many(places).await);
}

async fn connection(stream: TcpStream, desk: Arc<Desk>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let mut stop = desk.stop.clone();
    let service = service_fn(move |request| answer(request, Arc::clone(&desk)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = &mut connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
        }
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection broke");
            }
        }
    }
}

/// Answers one request. An error makes hyper cut the connection without a word.
async fn answer(
    request: Request<Incoming>,
    desk: Arc<Desk>,
) -> Result<Response<Full<Bytes>>, io::Error> {
    let Some(endpoint) = endpoint_at(&desk.chain, request.uri().path()) else {
        return Ok(plain(StatusCode::NOT_FOUND, "there is no such endpoint"));
    };
    if request.method() != Method::POST {
        let text = "JSON-RPC is posted";
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let body = Limited::new(request.into_body(), desk.body_bytes_max);
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Ok(plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the body is too large",
            ));
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    let Ok(body) = std::str::from_utf8(&body) else {
        return Ok(plain(StatusCode::BAD_REQUEST, "the body is no UTF-8"));
    };
    let outcome = {
        let mut chain = desk.chain.lock();
        chain.set_time(unix_seconds());
        chain.handle(endpoint, body)
    };
    let mut stop = desk.stop.clone();
    tokio::select! {
        biased;
        answered = carry(outcome) => answered,
        () = stopped(&mut stop) => Err(io::Error::other("the server stops")),
    }
}

async fn carry(outcome: Outcome) -> Result<Response<Full<Bytes>>, io::Error> {
    let Outcome { answer, delay } = outcome;
    if !delay.is_zero() {
        sleep(delay).await;
    }
    match answer {
        Answer::Reply { status, body } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            let mut response = plain(status, body);
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            Ok(response)
        }
        Answer::Hang => std::future::pending().await,
        Answer::Disconnect => Err(io::Error::other("a fault cuts the connection")),
    }
}

fn endpoint_at(chain: &Shared, path: &str) -> Option<EndpointId> {
    let name = path.trim_matches('/');
    let chain = chain.lock();
    let by_number = || {
        let number = if name.is_empty() { Ok(0) } else { name.parse() };
        let endpoint = EndpointId(number.ok()?);
        chain.stats(endpoint).ok().map(|_| endpoint)
    };
    chain.endpoint(name).or_else(by_number)
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

/// Resolves when the server is to stop, or is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
