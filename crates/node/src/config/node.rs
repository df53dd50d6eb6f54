//! `[node]`: who this node is and where it is reached.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_app::ports::check::URL_BYTES_MAX;
use fencepost_domain::ids::NodeId;
use url::Url;

use super::endpoint::is_loopback;
use super::section::Section;
use super::value::Text;

/// A stop that takes longer than this is not graceful for anyone.
const DRAIN_MAX: Duration = Duration::from_mins(10);

/// Less, and clients that keep their connections find them closed; more than any load balancer's own, and connections
/// that nobody uses keep their places.
const IDLE: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(2);

/// Who this node is.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) listen: SocketAddr,
    /// Where others reach it; none is where it listens.
    pub(crate) advertise: Option<String>,
    /// The variable that holds the cluster's secret.
    pub(crate) cluster_secret_env: Option<String>,
    /// The variable that holds a second secret, accepted while the first is replaced.
    pub(crate) cluster_secret_accepted_env: Option<String>,
    /// How long a graceful stop may take.
    pub(crate) drain_limit: Duration,
    /// How long a connection may be idle between two requests.
    pub(crate) idle_timeout: Duration,
    /// Where the node keeps its state; none is beside the configuration.
    pub(crate) state_dir: Option<PathBuf>,
    /// Files with secrets may be readable by other users of the machine.
    pub(crate) allow_readable_secrets: bool,
    /// The process may be dumped and traced.
    pub(crate) allow_core_dumps: bool,
}

impl Node {
    pub(super) fn read(from: &mut Section<'_>) -> Option<Self> {
        let id = id(from);
        let listen = SocketAddr::from(([127, 0, 0, 1], 8700));
        let listen = from.text("listen", listen);
        let advertise = from.text("advertise", String::new());
        let secret = from.text("cluster_secret_env", String::new());
        let accepted = from.text("cluster_secret_accepted_env", String::new());
        let drain_limit = from.duration(
            "drain_limit",
            Duration::from_secs(10),
            Duration::ZERO..=DRAIN_MAX,
        );
        let idle_timeout = from.duration("idle_timeout", Duration::from_secs(620), IDLE);
        let state_dir = from.text("state_dir", String::new());
        let allow_readable_secrets = from.flag("allow_readable_secrets", false);
        let allow_core_dumps = from.flag("allow_core_dumps", false);
        if let Err(why) = reachable(&advertise) {
            from.refuse("advertise", why);
        }
        Some(Self {
            id: id?,
            listen,
            advertise: some(advertise),
            cluster_secret_env: some(secret),
            cluster_secret_accepted_env: some(accepted),
            drain_limit,
            idle_timeout,
            state_dir: some(state_dir).map(PathBuf::from),
            allow_readable_secrets,
            allow_core_dumps,
        })
    }
}

impl Node {
    /// Whether the address that other nodes are told is this machine's own name for itself.
    pub(super) fn is_reached_by_loopback(&self) -> bool {
        let Some(url) = &self.advertise else {
            return self.listen.ip().is_loopback();
        };
        Url::parse(url).is_ok_and(|url| is_loopback(&url))
    }
}

fn id(from: &mut Section<'_>) -> Option<NodeId> {
    let mut id = from.text("id", String::new());
    if id.is_empty() {
        id = gethostname::gethostname().to_string_lossy().into_owned();
    }
    from.show("id", id.clone().into());
    let made = NodeId::new(id);
    made.map_err(|error| from.refuse("id", error.to_string()))
        .ok()
}

/// An empty text is a key that was left out.
fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn reachable(url: &str) -> Result<(), String> {
    if url.is_empty() {
        return Ok(());
    }
    let parsed = Url::parse(url).map_err(|error| format!("{url:?} is no URL: {error}"))?;
    let plain = parsed.path() == "/" && parsed.query().is_none() && parsed.username().is_empty();
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host().is_none() || !plain {
        return Err(format!(
            "{url:?} must be http:// or https:// with a host, a port and no more"
        ));
    }
    if url.len() > URL_BYTES_MAX {
        return Err(format!("is longer than {URL_BYTES_MAX} bytes"));
    }
    Ok(())
}

impl Text for SocketAddr {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|_| format!("{text:?} is no IP address with a port such as 127.0.0.1:8700"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}
