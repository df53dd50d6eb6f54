//! Nonces lent to those who sign and send by themselves. [`Client::with_nonce`] does all of this in order;
//! these are its single steps.

use std::fmt;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::call::{Answer, Call, Effect};
use crate::client::Client;
use crate::error::Error;
use crate::send::minted;
use crate::transaction::State;

/// What the holder of a lent nonce shows with every call. Whoever has it can give the nonce away, so it is not
/// shown in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LockToken(String);

impl LockToken {
    /// A token that was stored before.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text, to be stored.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockToken(…)")
    }
}

/// A nonce to be lent. **One value is one reservation**: it has its request id from the beginning, so asking
/// again with the same value gives the same nonce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewReservation {
    signer: Address,
    #[serde(skip_serializing_if = "Option::is_none")]
    chain: Option<String>,
    request_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<u64>,
}

impl NewReservation {
    /// Of this signer, under a new request id.
    #[must_use]
    pub fn new(signer: Address) -> Self {
        Self {
            signer,
            chain: None,
            request_id: minted(),
            ttl_seconds: None,
        }
    }

    /// Under a name of your own.
    #[must_use]
    pub fn named(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = request_id.into();
        self
    }

    /// On this chain; may be left out while the cluster has only one.
    #[must_use]
    pub fn chain(mut self, name: impl Into<String>) -> Self {
        self.chain = Some(name.into());
        self
    }

    /// For this long, in whole seconds; as long as the nodes are configured to lend where nothing is said.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl_seconds = Some(ttl.as_secs());
        self
    }

    /// Its request id.
    #[must_use]
    pub fn request_id(&self) -> &str {
        &self.request_id
    }
}

/// A lent nonce, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Reservation {
    /// Its id.
    pub reservation_id: Uuid,
    /// Whose nonce it is.
    pub signer: Address,
    /// The chain's configured name.
    pub chain: String,
    /// The holder's own name for it.
    pub request_id: Option<String>,
    /// The nonce. Once the reservation is RECYCLABLE it is another's, or will be.
    pub nonce: Option<u64>,
    /// What its holder shows. Reading a reservation by its id does not tell it.
    pub lock_token: Option<LockToken>,
    /// RESERVED, SUBMITTED, USED or RECYCLABLE.
    pub state: State,
    /// What has used the nonce, once something has: it need not be its holder's. Until then, what its holder named.
    pub tx_hash: Option<B256>,
    /// What its holder named, whatever has used the nonce.
    pub named_hash: Option<B256>,
    /// Until when it is lent, by the database's clock; none where it no longer matters.
    pub expires_at: Option<Timestamp>,
}

impl Reservation {
    /// The nonce is used for good, by another transaction than this one, which can never be executed then.
    pub(crate) fn is_used_by_another_than(&self, hash: B256) -> bool {
        self.state == State::Used && self.tx_hash != Some(hash)
    }
}

#[derive(Serialize)]
struct Many<'a> {
    #[serde(flatten)]
    reservation: &'a NewReservation,
    count: u32,
}

#[derive(Deserialize)]
struct Reservations {
    reservations: Vec<Reservation>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settle<'a> {
    lock_token: &'a LockToken,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_hash: Option<B256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_seconds: Option<u64>,
}

impl<'a> Settle<'a> {
    const fn by(lock_token: &'a LockToken) -> Self {
        Self {
            lock_token,
            tx_hash: None,
            ttl_seconds: None,
        }
    }
}

impl Client {
    /// Lends a nonce: the smallest that was given back, else the next. Tried again under the same request id.
    /// Sign for it and send before it expires, then name the hash ([`Client::submitted`]), or give it back
    /// ([`Client::recycle`]) if nothing was sent; later nonces of the signer wait for it.
    pub async fn reserve(&self, reservation: &NewReservation) -> Result<Reservation, Error> {
        let (answer, effect) = self.reserve_answer(reservation).await?;
        answer.read(effect)
    }

    /// The same, with the status that tells a new one from a known one.
    pub(crate) async fn reserve_answer(
        &self,
        reservation: &NewReservation,
    ) -> Result<(Answer, Effect), Error> {
        let call = Call::post(["nonces", "reserve"], reservation, Effect::Idempotent);
        Ok((self.ask(&call).await?, call.effect))
    }

    /// Lends several nonces at once, up to 100, all or none. Tried again under the same request id. Where only some
    /// could be lent the outcome is unknown, and asking again completes them; where they never can be, those are
    /// given back and the id is used up: `idempotency_conflict` then says to take another.
    pub async fn reserve_many(
        &self,
        reservation: &NewReservation,
        count: u32,
    ) -> Result<Vec<Reservation>, Error> {
        let many = Many { reservation, count };
        let call = Call::post(["nonces", "reserve"], &many, Effect::Idempotent);
        Ok(self.told::<Reservations>(call).await?.reservations)
    }

    /// A reservation by its id, without its lock token.
    pub async fn reservation(&self, id: Uuid) -> Result<Reservation, Error> {
        self.told(Call::get(["nonces", &id.to_string()])).await
    }

    /// Names what was sent with a lent nonce; from then on it is followed on chain. Tried again: naming the same
    /// hash twice is naming it once. A 409 `lock_lost` means that the nonce was given back before, and another
    /// transaction may have it by now; its detail says whether the hash was recorded all the same.
    pub async fn submitted(
        &self,
        id: Uuid,
        lock: &LockToken,
        hash: B256,
    ) -> Result<Reservation, Error> {
        let settle = Settle {
            tx_hash: Some(hash),
            ..Settle::by(lock)
        };
        self.settle(id, "submitted", &settle).await
    }

    /// Gives a lent nonce back. **Only if nothing was sent with it**, not even perhaps: someone else is given the
    /// nonce next. Tried again: giving back twice is giving back once.
    pub async fn recycle(&self, id: Uuid, lock: &LockToken) -> Result<Reservation, Error> {
        self.settle(id, "recycle", &Settle::by(lock)).await
    }

    /// Lends a nonce for longer: this long from now on, in whole seconds. Tried again: the last time counts.
    pub async fn extend(
        &self,
        id: Uuid,
        lock: &LockToken,
        ttl: Duration,
    ) -> Result<Reservation, Error> {
        let settle = Settle {
            ttl_seconds: Some(ttl.as_secs()),
            ..Settle::by(lock)
        };
        self.settle(id, "extend", &settle).await
    }

    async fn settle(
        &self,
        id: Uuid,
        verb: &str,
        settle: &Settle<'_>,
    ) -> Result<Reservation, Error> {
        let id = id.to_string();
        let path = ["nonces", &id, verb];
        self.told(Call::post(path, settle, Effect::Idempotent))
            .await
    }
}
