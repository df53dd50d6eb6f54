//! Borrowing a nonce for a closure that signs and sends by itself. What may have been sent is never given back;
//! what was not sent is never kept longer than it must.

use std::time::Duration;

use alloy_primitives::{Address, B256};
use tokio::time::{sleep, timeout};

use crate::client::Client;
use crate::error::Error;
use crate::failure::{NonceError, WithNonceError};
use crate::loan::{Lent, Loan};
use crate::problem::Code;
use crate::reservation::{NewReservation, Reservation};
use crate::retry::jittered;
use crate::transaction::State;

/// A nonce with which something was sent, and named. What becomes of it is for [`Client::wait`] to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// What was sent with it.
    pub hash: B256,
    /// The reservation. `client.wait(reservation.reservation_id, …)` follows it on chain.
    pub reservation: Reservation,
    /// An earlier call under the same request id has named it; the closure was not run.
    pub was_known: bool,
}

/// What asking for a nonce came to.
enum Borrowed {
    Lent(Lent),
    Spent(Spent),
}

impl Client {
    /// Borrows a nonce of a signer, runs the closure with it, and settles it by what the closure says:
    ///
    /// - `Ok(hash)`: the hash is named, and the nodes follow it on chain. Naming is tried again until it is
    ///   answered; if that cannot be, [`WithNonceError::Untold`] has all that is needed to do it later.
    /// - [`NonceError::Permanent`]: nothing was sent; the nonce is given back, and the error returned. Where an
    ///   earlier run was retryable, or an earlier call under the same request id was lent the nonce, something may
    ///   have been: then it is left to expire ([`WithNonceError::LeftToExpire`]).
    /// - [`NonceError::Retryable`]: the nonce is kept, and after a pause the closure is run again with the same
    ///   one, as often as the [`Loan`] says. The reservation is extended when less than half of it is left.
    ///
    /// The closure is never begun later than the margin before the reservation's end, and is cut off there. The
    /// time is measured here, from before the nonce was asked for, so that no clock can lengthen it.
    ///
    /// If the closure panics, or the future of this call is dropped, nothing is given back, for it may have sent:
    /// the reservation expires by itself, and the nodes look at the chain before they lend the nonce again.
    ///
    /// ```no_run
    /// # use alloy_primitives::{Address, B256};
    /// # use fencepost_client::{Client, Lent, Loan, NonceError};
    /// # async fn pay(
    /// #     client: Client,
    /// #     signer: Address,
    /// #     sign_and_send: impl AsyncFn(u64) -> Result<B256, std::io::Error>,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let loan = Loan::default().named("invoice-4711");
    /// let spent = client
    ///     .with_nonce(signer, &loan, async |lent: Lent| {
    ///         // The same bytes each time, and unless it is certain that they never left, a retryable error.
    ///         sign_and_send(lent.nonce).await.map_err(NonceError::Retryable)
    ///     })
    ///     .await?;
    /// println!("sent as {}", spent.hash);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn with_nonce<E, F, R>(
        &self,
        signer: Address,
        loan: &Loan,
        mut run: F,
    ) -> Result<Spent, WithNonceError<E>>
    where
        F: FnMut(Lent) -> R,
        R: Future<Output = Result<B256, NonceError<E>>>,
    {
        let mut lent = match self.borrow(signer, loan).await? {
            Borrowed::Lent(lent) => lent,
            Borrowed::Spent(spent) => return Ok(spent),
        };
        let mut last = None;
        loop {
            self.prepare(&mut lent, loan, &mut last).await?;
            lent.run += 1;
            let running = run(lent.clone());
            let error = match timeout(lent.remaining(), running).await {
                Ok(Ok(hash)) => return self.name(lent, hash).await,
                Ok(Err(NonceError::Permanent(error))) => {
                    let is_unsent = last.is_none() && !lent.was_known;
                    return Err(self.given_up(lent, error, is_unsent).await);
                }
                Ok(Err(NonceError::Retryable(error))) => error,
                Err(_) => {
                    let lent = Box::new(lent);
                    return Err(WithNonceError::CutOff { lent });
                }
            };
            if lent.run >= loan.runs {
                let lent = Box::new(lent);
                return Err(WithNonceError::Exhausted { error, lent });
            }
            last = Some(error);
            sleep(pause(loan.pause, lent.run)).await;
        }
    }

    /// Asks for a nonce.
    async fn borrow<E>(&self, signer: Address, loan: &Loan) -> Result<Borrowed, WithNonceError<E>> {
        let wanted = loan.reservation(signer);
        let not_lent = |source| WithNonceError::NotLent {
            request_id: wanted.request_id().to_owned(),
            source,
        };
        loan.check().map_err(not_lent)?;
        let term = loan.term();
        let (answer, effect) = self.reserve_answer(&wanted).await.map_err(not_lent)?;
        let reservation: Reservation = answer.read(effect).map_err(not_lent)?;
        let was_known = answer.status == 200;
        let is_sent = reservation.state == State::Submitted || reservation.state == State::Used;
        // That the nonce is used does not mean that it was used for this: only what was named is.
        if let Some(named) = reservation.named_hash.filter(|_| is_sent) {
            return spent(named, reservation, was_known).map(Borrowed::Spent);
        }
        if reservation.state != State::Reserved {
            let reservation = Box::new(reservation);
            return Err(WithNonceError::Ended { reservation });
        }
        // An id of the caller's may name a reservation that is older than this call, and nobody here knows by how
        // much: it has no term until it is extended. Under an id of this call's own only a lost answer is known.
        let was_known = was_known && loan.is_named();
        let term = (!was_known).then_some(term);
        let lent = lent(&wanted, reservation).map(|lent| Lent {
            was_known,
            term,
            ..lent
        });
        match lent {
            Some(lent) => Ok(Borrowed::Lent(lent)),
            None => Err(not_lent(
                answer.strange("no nonce or no lock token", effect),
            )),
        }
    }

    /// Sees to it that the closure can run: extends the reservation where less than half of it is left. Where it
    /// cannot run any more, its last error is told.
    async fn prepare<E>(
        &self,
        lent: &mut Lent,
        loan: &Loan,
        last: &mut Option<E>,
    ) -> Result<(), WithNonceError<E>> {
        let term = loan.term();
        if lent.remaining() >= term.usable() / 2 {
            return Ok(());
        }
        let extended = self.extend(lent.reservation_id, &lent.lock_token, loan.time());
        let refused = match extended.await {
            Ok(reservation) => {
                lent.term = Some(term);
                lent.expires_at = reservation.expires_at;
                None
            }
            Err(error) => match lost(lent, None, error, &NOT_OURS) {
                Ok(lost) => return Err(lost),
                Err(error) => Some(error),
            },
        };
        if lent.remaining().is_zero() {
            return Err(WithNonceError::TooLate {
                error: last.take(),
                lent: Box::new(lent.clone()),
                source: refused,
            });
        }
        Ok(())
    }

    /// Names what the closure has sent.
    async fn name<E>(&self, lent: Lent, hash: B256) -> Result<Spent, WithNonceError<E>> {
        let told = self.submitted(lent.reservation_id, &lent.lock_token, hash);
        match told.await {
            Ok(reservation) => spent(hash, reservation, false),
            Err(error) => Err(match lost(&lent, Some(hash), error, &[Code::LockLost]) {
                Ok(lost) => lost,
                Err(source) => WithNonceError::Untold {
                    hash,
                    lent: Box::new(lent),
                    source,
                },
            }),
        }
    }

    /// Gives a nonce back, but only if it is certain that nothing was sent with it: a closure knows that of its
    /// own run, and of no other.
    async fn given_up<E>(&self, lent: Lent, error: E, is_unsent: bool) -> WithNonceError<E> {
        if !is_unsent {
            let lent = Box::new(lent);
            return WithNonceError::LeftToExpire { error, lent };
        }
        let returned = self.recycle(lent.reservation_id, &lent.lock_token).await;
        WithNonceError::GivenUp {
            error,
            lent: Box::new(lent),
            unreturned: returned.err(),
        }
    }
}

/// A reservation whose holder has named this, unless something else is known to have used its nonce.
fn spent<E>(
    hash: B256,
    reservation: Reservation,
    was_known: bool,
) -> Result<Spent, WithNonceError<E>> {
    if reservation.is_used_by_another_than(hash) {
        return Err(WithNonceError::UsedByAnother {
            named: hash,
            reservation: Box::new(reservation),
        });
    }
    Ok(Spent {
        hash,
        reservation,
        was_known,
    })
}

/// What is needed of a reservation to use it.
fn lent(wanted: &NewReservation, reservation: Reservation) -> Option<Lent> {
    Some(Lent {
        nonce: reservation.nonce?,
        reservation_id: reservation.reservation_id,
        signer: reservation.signer,
        chain: reservation.chain,
        request_id: wanted.request_id().to_owned(),
        lock_token: reservation.lock_token?,
        expires_at: reservation.expires_at,
        run: 0,
        was_known: false,
        term: None,
    })
}

/// What a node says of a reservation that cannot be extended because someone has settled it under our request
/// id, or because it is over. The closure must not run with such a nonce.
const NOT_OURS: [Code; 4] = [
    Code::LockLost,
    Code::AlreadySubmitted,
    Code::AlreadyFinal,
    Code::NotFound,
];

/// The failure of a call that says one of these: the nonce is no longer ours. Any other error is handed back.
fn lost<E>(
    lent: &Lent,
    hash: Option<B256>,
    error: Error,
    codes: &[Code],
) -> Result<WithNonceError<E>, Error> {
    let problem = error.saying(codes)?;
    Ok(WithNonceError::LockLost {
        hash,
        lent: Box::new(lent.clone()),
        problem,
    })
}

/// How long to wait after this many runs.
fn pause((first, max): (Duration, Duration), runs: u32) -> Duration {
    let doublings = runs.saturating_sub(1).min(16);
    jittered(first.saturating_mul(1 << doublings).min(max))
}
