//! Having many transactions sent at once, each with a result of its own.

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::call::{Call, Effect};
use crate::client::Client;
use crate::error::{Error, Tries};
use crate::point::Wait;
use crate::problem::Problem;
use crate::retry::Course;
use crate::send::{Accepted, NewTransaction};
use crate::transaction::Transaction;

/// The most requests of a batch.
pub const BATCH_MAX: usize = 1_000;

#[derive(Serialize)]
struct Batch<'a> {
    requests: Vec<&'a NewTransaction>,
}

#[derive(Deserialize)]
struct Results {
    results: Vec<Told>,
}

#[derive(Deserialize)]
struct Told {
    status: u16,
    transaction: Option<Transaction>,
    problem: Option<Problem>,
}

/// What became of one request so far.
type Outcome = Result<Accepted, Problem>;

/// One request of a batch on its way.
#[derive(Clone, Default)]
struct Item {
    tries: Tries,
    outcome: Option<Outcome>,
}

impl Client {
    /// Has up to [`BATCH_MAX`] transactions sent; there are as many results, in order. Each is stored or refused
    /// by itself, and those of one signer get their nonces in order.
    ///
    /// Tried again as [`Client::send`]: the whole batch while it is not answered, then those of it that were
    /// refused for a cause that passes. One that had to be tried again can get its nonce after later ones.
    /// Each refusal says by [`Error::outcome_unknown`] whether the request may be stored all the same.
    pub async fn send_batch(
        &self,
        requests: &[NewTransaction],
    ) -> Result<Vec<Result<Accepted, Error>>, Error> {
        self.send_all(requests, None).await
    }

    /// The same, answered when every one that is stored has come this far or the time is over.
    pub async fn send_batch_and_wait(
        &self,
        requests: &[NewTransaction],
        wait: Wait,
    ) -> Result<Vec<Result<Accepted, Error>>, Error> {
        self.send_all(requests, Some(wait)).await
    }

    async fn send_all(
        &self,
        requests: &[NewTransaction],
        wait: Option<Wait>,
    ) -> Result<Vec<Result<Accepted, Error>>, Error> {
        if requests.len() > BATCH_MAX {
            let why = format!("{} requests, of {BATCH_MAX} at most", requests.len());
            return Err(Error::Unsendable(why));
        }
        let mut course = Course::new(self.0.retry, None);
        let mut items = vec![Item::default(); requests.len()];
        let mut due: Vec<usize> = (0..requests.len()).collect();
        while !due.is_empty() {
            let asked = due.iter().map(|at| &requests[*at]).collect();
            match self.batch(asked, wait, &course).await {
                Ok((outcomes, tries)) => {
                    for (at, outcome) in due.iter().zip(outcomes) {
                        items[*at].hear(outcome, tries);
                    }
                }
                Err(error) if items.iter().any(|item| item.outcome.is_none()) => return Err(error),
                // What was said before stands, but one more try of it may have been stored.
                Err(error) => {
                    let tries = error.tries();
                    due.iter().for_each(|at| items[*at].count(tries));
                    break;
                }
            }
            due.retain(|at| items[*at].is_passing());
            let asked = due.iter().filter_map(|at| items[*at].retry_after()).max();
            if due.is_empty() {
                break;
            }
            match course.next(asked) {
                Some(pause) => sleep(pause).await,
                None => break,
            }
        }
        Ok(items.into_iter().filter_map(Item::finish).collect())
    }

    async fn batch(
        &self,
        requests: Vec<&NewTransaction>,
        wait: Option<Wait>,
        course: &Course,
    ) -> Result<(Vec<Outcome>, Tries), Error> {
        let count = requests.len();
        let batch = Batch { requests };
        let call = Call::post(["tx", "batch"], &batch, Effect::Idempotent)
            .awaiting(wait)
            .by(course.by());
        let answer = self.ask(&call).await?;
        let told: Results = answer.read(call.effect)?;
        let outcomes: Option<Vec<Outcome>> = told.results.into_iter().map(Told::read).collect();
        match outcomes.filter(|outcomes| outcomes.len() == count) {
            Some(outcomes) => Ok((outcomes, answer.tries)),
            None => Err(answer.strange("there is not one result for each request", call.effect)),
        }
    }
}

impl Told {
    fn read(self) -> Option<Outcome> {
        match (self.transaction, self.problem) {
            (Some(transaction), None) => Some(Ok(Accepted::new(self.status, transaction))),
            (None, Some(problem)) => Some(Err(problem)),
            (Some(_), Some(_)) | (None, None) => None,
        }
    }
}

impl Item {
    fn count(&mut self, tries: Tries) {
        self.tries = self.tries.plus(tries);
    }

    fn hear(&mut self, outcome: Outcome, tries: Tries) {
        self.count(tries);
        let open = matches!(&outcome, Err(problem) if !problem.is_nothing_done());
        self.tries.unanswered += u32::from(open);
        self.outcome = Some(outcome);
    }

    fn problem(&self) -> Option<&Problem> {
        match &self.outcome {
            Some(Err(problem)) => Some(problem),
            Some(Ok(_)) | None => None,
        }
    }

    fn is_passing(&self) -> bool {
        self.problem().is_some_and(Problem::is_passing)
    }

    fn retry_after(&self) -> Option<std::time::Duration> {
        self.problem().and_then(Problem::retry_after)
    }

    fn finish(self) -> Option<Result<Accepted, Error>> {
        let tries = self.tries;
        self.outcome.map(|outcome| {
            outcome.map_err(|problem| Error::Problem {
                problem: Box::new(problem),
                tries,
            })
        })
    }
}
