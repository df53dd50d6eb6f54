//! `[node]`: who this node is and where it is reached.

use std::net::SocketAddr;
use std::time::Duration;

use fencepost_app::ports::check::URL_BYTES_MAX;
use fencepost_domain::ids::NodeId;
use url::Url;

use super::endpoint::is_loopback;
use super::section::Section;
use super::value::Text;

/// A stop that takes longer than this is not graceful for anyone.
const DRAIN_MAX: Duration = Duration::from_mins(10);

/// Who this node is.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) listen: SocketAddr,
    /// Where others reach it; none is where it listens.
    pub(crate) advertise: Option<String>,
    /// The variable that holds the cluster's secret.
    pub(crate) cluster_secret_env: Option<String>,
    /// How long a graceful stop may take.
    pub(crate) drain_limit: Duration,
}

impl Node {
    pub(super) fn read(from: &mut Section<'_>) -> Option<Self> {
        let id = id(from);
        let listen = SocketAddr::from(([127, 0, 0, 1], 8700));
        let listen = from.text("listen", listen);
        let advertise = from.text("advertise", String::new());
        let secret = from.text("cluster_secret_env", String::new());
        let drain_limit = from.duration(
            "drain_limit",
            Duration::from_secs(10),
            Duration::ZERO..=DRAIN_MAX,
        );
        if let Err(why) = reachable(&advertise) {
            from.refuse("advertise", why);
        }
        Some(Self {
            id: id?,
            listen,
            advertise: some(advertise),
            cluster_secret_env: some(secret),
            drain_limit,
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
