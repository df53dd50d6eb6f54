//! Reaching the one server that can be written to: the hosts of the URL in order, each within a bound of
//! its own, until one of them is the primary, lets us in, takes our settings and keeps commits.

mod admit;
mod survey;

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::ClientWrapper;
use fencepost_app::ports::StoreError;
use tokio::sync::{Mutex as Turn, Notify};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode as Encryption};
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{AsyncMessage, Client, Connection, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connect::{Look, Settings, inspect};
use crate::fault::loses_statements;
use crate::password::Password;
use crate::pool::Session;
use crate::pooler::TRANSACTION_MODE;
use crate::session::{self, Purpose};
use crate::target::{Place, Target};
use crate::tls::{self, SslMode, Tls};
use crate::witness::Memory;

/// The part of a statement's time within which a host must take a connection, where there are others to
/// try. Too short: a slow network is taken for a dead host. Too long: each new connection waits for a dead one.
const SILENT_PART: u32 = 4;

/// For so long a host that did not answer is tried after all others. Too long: a primary that is back
/// is found late where the others are up too; too short: a dead one is felt more often.
const SILENT_FOR: Duration = Duration::from_secs(20);

/// It may become the primary, or another host may be.
pub(crate) const STANDBY: &str = "the server is a standby";

/// Why a server cannot be used, in one line.
#[derive(Debug)]
pub(crate) struct Unreached {
    why: String,
    /// Waiting does not help: somebody must change something.
    unfit: bool,
    /// The host said nothing at all.
    silent: bool,
}

impl Unreached {
    pub(crate) const fn unfit(why: String) -> Self {
        Self {
            why,
            unfit: true,
            silent: false,
        }
    }

    pub(crate) const fn down(why: String) -> Self {
        Self {
            why,
            unfit: false,
            silent: false,
        }
    }

    fn silence(why: String) -> Self {
        Self {
            silent: true,
            ..Self::down(why)
        }
    }

    /// An error of the wire or of a statement, with all its causes.
    pub(crate) fn of(error: &tokio_postgres::Error) -> Self {
        let mut why = match error.as_db_error() {
            Some(db) if loses_statements(db.code()) => {
                return Self::unfit(TRANSACTION_MODE.to_owned());
            }
            Some(db) => return Self::down(format!("{}: {}", db.severity(), db.message())),
            None => error.to_string(),
        };
        let mut cause = error.source();
        while let Some(inner) = cause {
            why = format!("{why}: {inner}");
            cause = inner.source();
        }
        Self::down(why)
    }

    /// All hosts failed. Waiting helps if it may help with one of them.
    fn all(mut each: Vec<(String, Self)>) -> Self {
        let unfit = each.iter().all(|(_, why)| why.unfit);
        each.iter_mut()
            .for_each(|(place, why)| *place = format!("{place}: {why}"));
        let lines: Vec<String> = each.into_iter().map(|(line, _)| line).collect();
        Self {
            why: lines.join("; "),
            unfit,
            silent: false,
        }
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for Unreached {}

impl From<Unreached> for StoreError {
    fn from(unreached: Unreached) -> Self {
        if unreached.unfit {
            return Self::Unfit(unreached.why);
        }
        Self::Unavailable(unreached.into())
    }
}

/// How the writer is reached.
pub(crate) struct Reach {
    target: Target,
    tls: Tls,
    connector: MakeRustlsConnect,
    password: Password,
    statement_timeout: Duration,
    application_name: String,
    memory: Arc<Memory>,
    /// One session at a time writes down that there was a failover.
    noting: Arc<Turn<()>>,
    /// When each host was last found to be silent.
    silent: Mutex<Vec<Option<Instant>>>,
    /// When all hosts were last looked at.
    surveyed: Turn<Option<Instant>>,
}

/// What one new session is like.
pub(crate) struct Wanted<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) purpose: Purpose,
    /// Stands before the application's name.
    pub(crate) prefix: &'a str,
    /// Is told of each notification.
    pub(crate) heard: Option<Arc<Notify>>,
}

impl Reach {
    pub(crate) fn new(settings: &Settings, memory: Arc<Memory>) -> Result<Self, StoreError> {
        let target = Target::parse(&settings.url)
            .map_err(|why| StoreError::Unfit(format!("store.url {why}")))?;
        let tls = settings.tls.or(&target.tls);
        let connector = tls.connector().map_err(StoreError::Unfit)?;
        let silent = Mutex::new(vec![None; target.hosts.len()]);
        Ok(Self {
            target,
            tls,
            connector,
            password: settings.password.clone(),
            statement_timeout: settings.statement_timeout,
            application_name: settings.application_name.clone(),
            memory,
            noting: Arc::default(),
            silent,
            surveyed: Turn::default(),
        })
    }

    /// All hosts together get as long as one statement and a half.
    pub(crate) fn limit(&self) -> Duration {
        self.statement_timeout * 3 / 2
    }

    /// A session on the writer, set up and inspected.
    pub(crate) async fn session(&self, wanted: &Wanted<'_>) -> Result<Session, Unreached> {
        self.survey(wanted).await?;
        let order = self.order();
        let each = self.limit() / u32::try_from(order.len()).unwrap_or(u32::MAX);
        let mut failed = Vec::new();
        for n in order {
            let Some(place) = self.target.hosts.get(n) else {
                continue;
            };
            let session = match self.host(place, wanted, each).await {
                Ok((client, look)) => self.admit(client, look).await,
                Err(why) => Err(why),
            };
            match session {
                Ok(session) => {
                    self.note(n, None);
                    return Ok(session);
                }
                Err(why) => {
                    self.note(n, why.silent.then(Instant::now));
                    failed.push((place.show(), why));
                }
            }
        }
        Err(Unreached::all(failed))
    }

    /// As the URL has them, but what was silent a moment ago goes last.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.target.hosts.len()).collect();
        order.sort_by_key(|n| self.is_silent(*n));
        order
    }

    fn is_silent(&self, n: usize) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let since: Option<Instant> = silent.get(n).copied().flatten();
        since.is_some_and(|since| since.elapsed() < SILENT_FOR)
    }

    fn note(&self, n: usize, since: Option<Instant>) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = silent.get_mut(n) {
            *place = since;
        }
    }

    /// One host, at each of its addresses in turn: of those too, one may be the writer's.
    async fn host(
        &self,
        place: &Place,
        wanted: &Wanted<'_>,
        limit: Duration,
    ) -> Result<(ClientWrapper, Look), Unreached> {
        let addrs = match timeout(limit, addresses(place)).await {
            Ok(addrs) => addrs?,
            Err(_) => return Err(Unreached::silence("its name could not be looked up".into())),
        };
        let each = limit / u32::try_from(addrs.len().max(1)).unwrap_or(u32::MAX);
        let mut failed = None;
        for addr in addrs {
            // Boxed: the handshake takes many kilobytes, and each caller up the line would carry a place for them.
            let attempt = Box::pin(self.attempt(place, addr, wanted, each));
            match timeout(each, attempt).await {
                Ok(Ok(client)) => return Ok(client),
                // Of several addresses the last that said something says most.
                Ok(Err(why)) => failed = Some(why),
                Err(_) => {
                    let ms = each.as_millis();
                    let why = Unreached::silence(format!("no answer within {ms} ms"));
                    failed = failed.or(Some(why));
                }
            }
        }
        Err(failed.unwrap_or_else(|| Unreached::down("its name has no address".to_owned())))
    }

    async fn attempt(
        &self,
        place: &Place,
        addr: Option<IpAddr>,
        wanted: &Wanted<'_>,
        limit: Duration,
    ) -> Result<(ClientWrapper, Look), Unreached> {
        let client = self.connect(place, addr, wanted, limit).await?;
        let look = match wanted.purpose {
            Purpose::Probe => {
                refuse_standby(&client).await?;
                Look::Unmigrated
            }
            Purpose::Write | Purpose::Read | Purpose::Takeover | Purpose::Migrate => {
                let required = session::required(wanted.settings, wanted.purpose);
                session::apply(&client, &required).await?;
                inspect(&client, &self.memory).await?
            }
        };
        Ok((client, look))
    }

    async fn connect(
        &self,
        place: &Place,
        addr: Option<IpAddr>,
        wanted: &Wanted<'_>,
        limit: Duration,
    ) -> Result<ClientWrapper, Unreached> {
        let mut config = self.target.base.clone();
        let brief = self.statement_timeout / SILENT_PART;
        config
            .port(place.port)
            .application_name(format!("{}{}", wanted.prefix, self.application_name))
            .ssl_mode(self.encryption(place))
            .connect_timeout(if self.target.hosts.len() > 1 {
                brief
            } else {
                limit
            })
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(self.statement_timeout * 2);
        match (&place.host, addr) {
            (Host::Tcp(name), Some(addr)) => config.host(name).hostaddr(addr),
            (Host::Tcp(name), None) => config.host(name),
            (Host::Unix(directory), _) => config.host_path(directory),
        };
        if let Some(password) = self.password.read().await? {
            config.password(password);
        }
        let connected = config.connect(self.connector.clone()).await;
        let (client, connection) = connected.map_err(|error| self.refusal(&error))?;
        let wire = tokio::spawn(drive(connection, wanted.heard.clone()));
        Ok(ClientWrapper::new(client, wire))
    }

    /// As with libpq, a Unix socket is never encrypted.
    fn encryption(&self, place: &Place) -> Encryption {
        match (&place.host, self.tls.mode()) {
            (Host::Unix(_), _) | (Host::Tcp(_), SslMode::Disable) => Encryption::Disable,
            (Host::Tcp(_), SslMode::Prefer) => Encryption::Prefer,
            (Host::Tcp(_), SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => {
                Encryption::Require
            }
        }
    }

    fn refusal(&self, error: &tokio_postgres::Error) -> Unreached {
        if let Some(why) = tls::trouble(error, &self.tls) {
            return Unreached::unfit(why);
        }
        let Some(db) = error.as_db_error() else {
            let unreached = Unreached::of(error);
            if timed_out(error) {
                return Unreached::silence(unreached.why);
            }
            return unreached;
        };
        // Not let in: no such role or database, a wrong password, no rule for a connection such as this one.
        let code = db.code().code();
        if !code.starts_with("28") && code != "3D000" {
            return Unreached::of(error);
        }
        let hint = match (self.tls.mode(), &self.tls.cert) {
            (SslMode::Disable, _) => {
                " (store.sslmode = \"disable\": the connection is not encrypted)"
            }
            (_, None) if db.message().contains("certificate") => " (store.sslcert is not set)",
            (
                SslMode::Prefer | SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull,
                Some(_) | None,
            ) => "",
        };
        Unreached::unfit(format!(
            "the server refused the login: {}{hint}",
            db.message()
        ))
    }
}

async fn refuse_standby(client: &Client) -> Result<(), Unreached> {
    let sql = "SELECT pg_catalog.pg_is_in_recovery()";
    let answer = client.simple_query(sql).await;
    for message in answer.map_err(|error| Unreached::of(&error))? {
        if let SimpleQueryMessage::Row(row) = message
            && row.get(0) == Some("t")
        {
            return Err(Unreached::down(STANDBY.to_owned()));
        }
    }
    Ok(())
}

fn timed_out(error: &tokio_postgres::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        let io = inner.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
            return true;
        }
        cause = inner.source();
    }
    false
}

/// `None` where nothing is to be looked up: a Unix socket.
async fn addresses(place: &Place) -> Result<Vec<Option<IpAddr>>, Unreached> {
    let name = match (&place.host, place.addr) {
        (Host::Unix(_), _) => return Ok(vec![None]),
        (Host::Tcp(_), Some(addr)) => return Ok(vec![Some(addr)]),
        (Host::Tcp(name), None) => name,
    };
    let found = tokio::net::lookup_host((name.as_str(), place.port)).await;
    let found = found.map_err(|error| Unreached::down(error.to_string()))?;
    let mut addrs: Vec<_> = found.map(|addr| Some(addr.ip())).collect();
    addrs.dedup();
    Ok(addrs)
}

/// Carries a connection until it ends. Whoever waits for an answer on it is told of its end.
async fn drive<T>(mut connection: Connection<Socket, T>, heard: Option<Arc<Notify>>)
where
    T: TlsStream + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let (AsyncMessage::Notification(_), Some(heard)) = (message, &heard) {
            heard.notify_one();
        }
    }
}
