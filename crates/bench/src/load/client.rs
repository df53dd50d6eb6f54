//! One connection's worth of load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::template::{Name, Template};
use super::{Shape, Slice};
use crate::http::Connection;

/// How many answered requests a connection can repeat. Fewer would be found in the pages last touched.
const OLD_MAX: usize = 64;

/// So much of a refusal's text is kept.
const REFUSAL_MAX: usize = 300;

/// What one connection did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) accepted: u64,
    /// … of which so many in the window.
    pub(super) steady: f64,
    fresh: u64,
    refused: u64,
    /// What the last refusal said.
    refusal: Option<String>,
    pub(super) latencies: Vec<Duration>,
    pub(super) early: Vec<Duration>,
    pub(super) lags: Vec<Duration>,
}

impl Tally {
    /// Its time is the generator's, not its own.
    pub(super) fn slice(self) -> Slice {
        Slice {
            accepted: self.accepted,
            steady: (self.steady, Duration::ZERO),
            fresh: self.fresh,
            refused: self.refused,
            refusal: self.refusal,
            latencies: self.latencies,
            early: self.early,
            lags: self.lags,
            ..Slice::default()
        }
    }
}

pub(super) struct Client {
    connection: Connection,
    template: Template,
    signers: Arc<[String]>,
    /// Places of its own signers, which it sends from in turn.
    own: Vec<usize>,
    turn: usize,
    run: u32,
    number: usize,
    sent: u64,
    duplicates: u64,
    /// Some that were answered, to be repeated.
    old: Vec<Name>,
}

impl Client {
    pub(super) async fn open(
        node: SocketAddr,
        number: usize,
        run: u32,
        own: Vec<usize>,
        template: Template,
        shape: &Shape,
    ) -> Result<Self> {
        Ok(Self {
            connection: Connection::open(node).await?,
            template,
            signers: Arc::clone(&shape.signers),
            // Connections begin at different signers, so that all are used from the start.
            turn: number % own.len().max(1),
            own,
            run,
            number,
            sent: 0,
            duplicates: shape.duplicates,
            old: Vec::new(),
        })
    }

    /// Posts one call and reads its answer.
    pub(super) async fn post(&mut self, tally: &mut Tally) -> Result<()> {
        let (mut fresh, mut last_new) = (0, None);
        for item in 0..self.template.len() {
            self.sent += 1;
            // Evenly among the others, and of different ones in turn.
            let repeats = self.sent * self.duplicates % 100 < self.duplicates;
            let which = usize::try_from(self.sent / 10)? % OLD_MAX;
            let name = match self.old.get(which).filter(|_| repeats) {
                Some(old) => *old,
                None => {
                    self.turn = (self.turn + 1) % self.own.len();
                    fresh += 1;
                    let name = Name {
                        signer: self.own[self.turn],
                        number: self.sent,
                    };
                    last_new = Some(name);
                    name
                }
            };
            let signer = &self.signers[name.signer];
            self.template
                .set(item, signer, self.run, self.number, name.number);
        }
        let items = u64::try_from(self.template.len())?;
        let exchanged = self.connection.exchange(self.template.bytes()).await;
        let (status, body) = match &tally.refusal {
            // A node that refuses may close the connection after it.
            Some(refusal) => exchanged.with_context(|| format!("after a refusal: {refusal}"))?,
            None => exchanged?,
        };
        if !matches!(status, 200 | 202) {
            tally.refused += items;
            let text = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_MAX)]);
            tally.refusal = Some(format!("{status} {text}"));
            return Ok(());
        }
        let refused = match items {
            1 => 0,
            _ => count(body, b"\"problem\":"),
        };
        tally.refused += refused;
        tally.accepted += items - refused;
        tally.fresh += fresh;
        if let Some(name) = last_new.filter(|_| refused == 0) {
            self.remember(name);
        }
        Ok(())
    }

    fn remember(&mut self, name: Name) {
        if self.old.len() < OLD_MAX {
            self.old.push(name);
        } else {
            let place = usize::try_from(name.number).unwrap_or(0) % OLD_MAX;
            self.old[place] = name;
        }
    }
}

/// How often a text is in an answer.
fn count(body: &[u8], text: &[u8]) -> u64 {
    memchr::memmem::find_iter(body, text).fold(0, |sum, _| sum + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_items_of_a_batch_are_counted() {
        let body = br#"{"results":[{"status":409,"problem":{}},{"status":202},{"status":503,"problem":{}}]}"#;
        assert_eq!(count(body, b"\"problem\":"), 2);
    }
}
