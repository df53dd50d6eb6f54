//! How the nodes are. Each is asked once, by itself: what another node says is no answer for it.

use serde::Deserialize;
use serde_json::Value;

use crate::call::{Answer, Call, Effect};
use crate::client::Client;
use crate::error::{Error, Tries};

/// How a node that can work is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Readiness {
    /// The node's id; empty for a key without the scope read.
    #[serde(default)]
    pub node: String,
    /// How many signers it leads; 0 for a key without the scope read.
    #[serde(default)]
    pub leading: u64,
    /// How many signers of all nodes are paused, as last counted.
    #[serde(default)]
    pub paused: Option<u64>,
    /// How many signers of all nodes are held since a failover of the database, as last counted.
    #[serde(default)]
    pub held: Option<u64>,
    /// It is stopping.
    #[serde(default)]
    pub draining: bool,
    /// How the chains' endpoints are. A chain that is out of reach does not make the node unready.
    #[serde(default)]
    pub chains: Vec<ChainHealth>,
}

/// How a chain's endpoints are.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ChainHealth {
    /// The chain's configured name.
    pub name: String,
    /// In configured order.
    pub endpoints: Vec<EndpointHealth>,
}

/// How an endpoint is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct EndpointHealth {
    /// Its place in the configuration, from 0.
    pub position: u64,
    /// `ok`, `lagging`, `unreachable`, `wrong_chain` or `untried`.
    pub state: String,
    /// The newest block that it told.
    pub head: Option<u64>,
    /// What it says it runs.
    pub client: Option<String>,
}

/// One node and what it said.
#[derive(Debug)]
#[non_exhaustive]
pub struct NodeAnswer<T> {
    /// The node, as it was given to the client.
    pub url: String,
    /// What it said.
    pub answer: Result<T, Error>,
}

impl Client {
    /// Whether each node can work. One that cannot says `store_unavailable` or `stopping`.
    pub async fn readiness(&self) -> Vec<NodeAnswer<Readiness>> {
        self.each("readyz", |answer| answer.read(Effect::Read))
            .await
    }

    /// Whether each node's process lives; nothing else is looked at.
    pub async fn liveness(&self) -> Vec<NodeAnswer<()>> {
        self.each("livez", |_| Ok(())).await
    }

    /// What each node counts and times, as OpenMetrics.
    pub async fn metrics(&self) -> Vec<NodeAnswer<String>> {
        let text = |answer: Answer| Ok(String::from_utf8_lossy(&answer.body).into_owned());
        self.each("metrics", text).await
    }

    /// The description of the API, as OpenAPI 3.1.
    pub async fn openapi(&self) -> Result<Value, Error> {
        self.told(Call::root("openapi.json")).await
    }

    async fn each<T>(
        &self,
        path: &str,
        read: impl Fn(Answer) -> Result<T, Error>,
    ) -> Vec<NodeAnswer<T>> {
        let call = Call::root(path);
        let once = Tries {
            made: 1,
            unanswered: 0,
        };
        let mut all = Vec::new();
        for (node, url) in self.0.nodes.urls().iter().enumerate() {
            let asked = self.once(node, &call, self.0.request_timeout).await;
            let answer = asked.and_then(|answer| read(answer.after(once)));
            all.push(NodeAnswer {
                url: url.to_string(),
                answer: answer.map_err(|error| error.after(once)),
            });
        }
        all
    }
}
