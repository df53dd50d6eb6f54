//! Bytes to every endpoint, all at once. One acceptance is enough to go on; who is slower gets the
//! bytes all the same, in the background.

use std::sync::Arc;

use fencepost_domain::attempt::Outcome;
use fencepost_domain::rejection::{Rejection, Reply};
use fencepost_domain::{B256, Bytes, keccak256};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::classifier;
use crate::endpoint::{Endpoint, Order};
use crate::endpoints::Endpoints;
use crate::meters::Purpose;
use crate::rpc::{Call, quoted, value};
use crate::standing::Leave;

const HANGS: &str = "hangs with earlier sends";

/// The bytes as calls, with the hashes that must come back.
struct Parcel {
    calls: Vec<Call>,
    hashes: Vec<B256>,
}

impl Parcel {
    fn new(raws: &[Bytes]) -> Self {
        let call = |raw: &Bytes| Call::new("eth_sendRawTransaction", &[&quoted(raw)]);
        Self {
            calls: raws.iter().map(call).collect(),
            hashes: raws.iter().map(keccak256).collect(),
        }
    }

    fn len(&self) -> usize {
        self.calls.len()
    }
}

impl Endpoints {
    pub(crate) async fn send(&self, raws: &[Bytes]) -> Vec<Reply> {
        if raws.is_empty() {
            return Vec::new();
        }
        let until = self.until();
        let parcel = Arc::new(Parcel::new(raws));
        let mut replies: Vec<Vec<Reply>> = vec![Vec::new(); parcel.len()];
        let (tell, mut told) = mpsc::channel(self.all.len().max(1));
        for endpoint in &self.all {
            match self.dispatch(endpoint, &parcel, until, tell.clone()) {
                Dispatch::Gone | Dispatch::Unreached => {}
                Dispatch::Unasked(reply) => {
                    replies.iter_mut().for_each(|all| all.push(reply.clone()));
                }
            }
        }
        drop(tell);
        while !replies.iter().all(|all| is_taken(all)) {
            let Some(answers) = told.recv().await else {
                break;
            };
            for (all, answer) in replies.iter_mut().zip(answers) {
                all.extend(answer);
            }
        }
        replies.into_iter().map(Reply::together).collect()
    }

    fn dispatch(
        &self,
        endpoint: &Arc<Endpoint>,
        parcel: &Arc<Parcel>,
        until: Instant,
        tell: mpsc::Sender<Vec<Option<Reply>>>,
    ) -> Dispatch {
        let position = endpoint.position();
        let unasked = |why, text| {
            Dispatch::Unasked(Reply::rejected(why, format!("endpoint {position} {text}")))
        };
        match endpoint.leave() {
            Leave::Ask | Leave::Greet => {}
            // It is there and could take them: without its answer nothing is a refusal.
            Leave::Later => {
                return unasked(Rejection::RateLimited, "has asked to come again later");
            }
            Leave::Wait | Leave::Never => return Dispatch::Unreached,
        }
        let Ok(place) = endpoint.sends_queue.clone().try_acquire_owned() else {
            return unasked(Rejection::Unrecognised, HANGS);
        };
        let (endpoint, parcel) = (endpoint.clone(), parcel.clone());
        tokio::spawn(async move {
            let answers = deliver(&endpoint, &parcel, until).await;
            drop(place);
            // Nobody waits any more when others were faster.
            let _ = tell.send(answers).await;
        });
        Dispatch::Gone
    }
}

/// What was done with one endpoint.
enum Dispatch {
    /// Its answers will come.
    Gone,
    /// It could have been asked and was not.
    Unasked(Reply),
    /// It cannot be asked.
    Unreached,
}

fn is_taken(replies: &[Reply]) -> bool {
    replies
        .iter()
        .any(|reply| reply.outcome == Outcome::Accepted)
}

/// An answer for each, none where the endpoint cannot be reached and the bytes did not leave.
async fn deliver(endpoint: &Endpoint, parcel: &Parcel, until: Instant) -> Vec<Option<Reply>> {
    let Ok(_turn) = timeout_at(until, endpoint.sends.acquire()).await else {
        let text = format!("endpoint {} {HANGS}", endpoint.position());
        let reply = Reply::rejected(Rejection::Unrecognised, text);
        return vec![Some(reply); parcel.len()];
    };
    if endpoint.ready(until).await.is_err() {
        return vec![None; parcel.len()];
    }
    let dialect = endpoint.dialect();
    let answers = endpoint
        .ask(Purpose::Send, &parcel.calls, Order::Kept, until)
        .await;
    let replies = answers.into_iter().zip(&parcel.hashes);
    replies
        .map(|(answer, hash)| match answer {
            Ok(raw) => Some(taken(&raw, *hash)),
            Err(fault) => classifier::reply(dialect, &fault),
        })
        .collect()
}

/// Only the bytes' own hash says that these bytes were taken.
fn taken(raw: &RawValue, hash: B256) -> Reply {
    if value::hash(raw) == Some(hash) {
        Reply::accepted()
    } else {
        Reply::rejected(Rejection::Unrecognised, "it answered with another hash")
    }
}
