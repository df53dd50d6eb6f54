//! The stable codes of everything that can go wrong, each with its status, its title and what the
//! caller should do. `docs/problems.md` is made of this table, and a test compares them.

use axum::http::StatusCode;
use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:ident, $title:literal, $meaning:literal, $advice:literal;)+) => {
        /// What went wrong, as programs tell it apart.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code {
            $(#[doc = $title] $variant,)+
        }

        impl Code {
            /// Every code, in the order of its status.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that clients compare.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The status that goes with it, always the same.
            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            /// A few words, always the same.
            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// What it means; also the detail where there is nothing more to say.
            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }

            /// What the caller should do.
            pub(crate) const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)+ }
            }
        }
    };
}

codes! {
    Malformed = "malformed", BAD_REQUEST, "The body is not JSON",
        "The body is not JSON in UTF-8, or its nesting is too deep. Nothing was stored.",
        "Send a JSON object. Sending the same bytes again gives the same answer.";
    Unauthorized = "unauthorized", UNAUTHORIZED, "A valid key is required",
        "The request carries no API key, or one that is not known here. Nothing was stored.",
        "Send `Authorization: Bearer <key>` with a key of this cluster.";
    Forbidden = "forbidden", FORBIDDEN, "The key does not allow this",
        "The key lacks the scope for this route, or does not cover this signer; or a node without keys was asked under a name that is not its machine's own, or by a web page that is not its own. Nothing was stored.",
        "Use a key with the scope (`submit`, `read` or `operate`) and the signer, or have this one extended. A node without keys is asked as `localhost` or by a loopback address.";
    NotFound = "not_found", NOT_FOUND, "There is no such thing",
        "There is no such route, or no such transaction that this key may see.",
        "Check the path and the id. A transaction that was acknowledged is found under its txId by every node.";
    UnknownChain = "unknown_chain", NOT_FOUND, "There is no such chain",
        "No chain of that name is configured on this node. Nothing was stored.",
        "Use a configured name; `GET /api/v1/signers` shows them.";
    UnknownSigner = "unknown_signer", NOT_FOUND, "There is no such signer",
        "This signer is not configured on this chain. Nothing was stored.",
        "Use a configured signer; `GET /api/v1/signers` shows them.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The route has no such method",
        "The route exists, but not with this method. The `Allow` header names those it has.",
        "Use one of the methods in `Allow`.";
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The body did not arrive in time",
        "The body was not there when the time for it was over. Nothing was stored.",
        "Send it again, at once and whole.";
    IdempotencyConflict = "idempotency_conflict", CONFLICT, "The request id belongs to another request",
        "The signer has a transaction under this request id with another payload, or a reservation, or another number of reservations, or a placeholder for another nonce. Nothing was stored and nothing was spent. `txId` names the transaction that has the id.",
        "Use a new request id for a new request. To ask what became of the old one, read it by its txId.";
    NotLeader = "not_leader", CONFLICT, "Another node leads the signer",
        "This node does not lead the signer and is configured not to hand requests on (`routing.not_leader = \"reject\"`), or no leader was found within `routing.deadline` (5 s at most) and the request is one that cannot wait longer: a reservation or a placeholder. Nothing was stored.",
        "Try again after `Retry-After`, here or at another node, with the same request id.";
    InFlightLimit = "in_flight_limit", CONFLICT, "The signer has as many in flight as it may",
        "The signer's `max_in_flight` is reached, or others wait for their turn before this request, and a reservation never waits in the signer's queue. Nothing was stored.",
        "Try again after `Retry-After` with the same request id: a place is free when a transaction or reservation of the signer is mined, or has ended where `in_flight_until = \"final\"`. `POST /api/v1/tx` waits for its turn instead.";
    NonceNotOpen = "nonce_not_open", CONFLICT, "Nobody can fill this nonce",
        "The nonce is held by a transaction or a reservation, or was never given. Nothing was stored.",
        "Look at `gaps` of the signer: those are the nonces that a placeholder can fill. `GET /api/v1/tx/by-nonce` tells who holds one.";
    SignerNotPaused = "signer_not_paused", CONFLICT, "The signer is not paused",
        "Cursors are set and nonces taken over on a paused signer only: otherwise a nonce could be given meanwhile. Nothing was changed.",
        "Pause the signer (`POST /api/v1/signers/{signer}/pause`), do it, and resume it.";
    NonceHeld = "nonce_held", CONFLICT, "A nonce above is held",
        "A transaction or a reservation holds a nonce at or above the next one that was asked for, or has used it. Nothing was changed.",
        "Ask for a next nonce above it. `GET /api/v1/tx/by-nonce` tells who holds one.";
    TooManyOpen = "too_many_open", CONFLICT, "Too many nonces are open",
        "More nonces are open than an import takes, or their signed bytes are longer than its body may be.",
        "Leave the signer paused until some have ended, and ask again.";
    AlreadyFinal = "already_final", CONFLICT, "It has ended",
        "The transaction or reservation has ended, and nothing but a reorg of the chain moves it any more. Nothing was changed.",
        "Read it to see how it ended.";
    RemedyRunning = "remedy_running", CONFLICT, "Another remedy is not done yet",
        "Something was asked for this transaction before, by an operator or by the stuck policy, and is not over. Nothing was stored.",
        "Look at `GET /api/v1/tx/{txId}/remedies`, and ask again when the running one is over.";
    NoPolicy = "no_policy", CONFLICT, "There is no stuck policy to ask",
        "This node has `stuck.policy = \"noop\"`, so ASK has no one to ask. Nothing was stored.",
        "Configure `stuck.policy = \"http\"` or `\"rules\"` on every node, or choose an action yourself.";
    LockLost = "lock_lost", CONFLICT, "The nonce is not yours any more",
        "The lock token is not the one of this reservation, or the nonce was given back and may be someone else's by now. `detail` says whether the hash was recorded all the same.",
        "Do not send anything with this nonce. If it was sent already, watch it: whoever has the nonce now may lose it. Reserve a new nonce for the next transaction.";
    HashDiffers = "hash_differs", CONFLICT, "Another hash was named before",
        "The holder of this reservation has named another hash, or this hash belongs to another transaction. Nothing was changed; whatever is mined with this nonce is found all the same.",
        "If you replaced your transaction, there is nothing to do: any hash with this nonce uses the reservation.";
    AlreadySubmitted = "already_submitted", CONFLICT, "It was sent already",
        "The holder has said that it sent a transaction with this nonce. It may be mined at any time, so the nonce is neither given back nor lent for longer. Nothing was changed.",
        "Wait for it, or replace it with a transaction of the same nonce and higher fees.";
    ChainDisagrees = "chain_disagrees", CONFLICT, "The chain's endpoints do not agree",
        "The configured endpoints of the chain count the signer's transactions differently, and the cursor would follow one of them. Nothing was changed.",
        "Try again when they have caught up with each other; `/readyz` shows how they are. Remove one that stays behind from the configuration.";
    NoncesExhausted = "nonces_exhausted", CONFLICT, "The signer has no nonces left",
        "The signer's next nonce is beyond what can be stored. Nothing was stored.",
        "Use another signer. This is not expected to happen to a signer that only sends transactions.";
    FeedReset = "feed_reset", GONE, "The feed does not reach that far",
        "`after` is beyond the newest completion: the reader has seen a feed whose end was lost when the database was failed over, and `epoch` has grown. Or it is before the oldest one: what lies between was retired. `beginsAfter` is where the feed begins.",
        "Compare the epoch, read again from the last number you are sure of, or from `beginsAfter` where that is higher, and treat what comes as the truth.";
    TooLarge = "too_large", PAYLOAD_TOO_LARGE, "The body is too large",
        "The body, or one request of a batch, is above its limit. Nothing of it was stored.",
        "Send less: 256 KiB for a request and 8 MiB for a batch, where nothing else is configured.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is not declared as JSON",
        "The request has no `Content-Type: application/json`, without which any web page could have a browser send it. Nothing was stored.",
        "Send the header; parameters such as `charset=utf-8` may follow.";
    InvalidRequest = "invalid_request", UNPROCESSABLE_ENTITY, "Fields are wrong",
        "One or more fields are wrong; `errors` names each of them. Nothing was stored.",
        "Correct the fields. Sending the same again gives the same answer.";
    PreflightReverted = "preflight_reverted", UNPROCESSABLE_ENTITY, "It would be reverted",
        "The request has no gas limit, and a node that was asked to estimate it says that it would be reverted now. `detail` has the reason. Nothing was stored and no nonce was spent.",
        "Correct the call, or send it with a gas limit to have it sent all the same. `submit.preflight = false` turns this look off.";
    SignerPaused = "signer_paused", LOCKED, "The signer is paused",
        "The signer gives no nonces now: an operator paused it, or something was found that a person must look at. Nothing was stored.",
        "Try again later with the same request id; `GET /api/v1/signers/{signer}` shows whether it still is.";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests",
        "The key has used up its rate; or, for a request without a valid key, the address it comes from has (`api.keyless_per_second`). Nothing was stored.",
        "Wait for `Retry-After`. A batch counts as many times as it has requests, and is let in when all of them would be, or the rate of a whole second is unused.";
    InternalError = "internal_error", INTERNAL_SERVER_ERROR, "A mistake in this program",
        "Something happened that was thought impossible. The log has it under the `x-request-id` of this response.",
        "If the request was to store something, ask with the same request id what became of it. Please report it.";
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "Too much waits already",
        "The worker of this signer, or the signer's queue, or the node itself takes no more now; `detail` says which. Nothing was stored.",
        "Try again after `Retry-After` with the same request id, and not faster than answers come.";
    StoreUnavailable = "store_unavailable", SERVICE_UNAVAILABLE, "The store cannot be used now",
        "The database cannot be reached or refuses to work. Nothing was stored.",
        "Try again after `Retry-After` with the same request id. `/readyz` tells when it is back.";
    ChainUnavailable = "chain_unavailable", SERVICE_UNAVAILABLE, "The chain cannot be asked now",
        "No endpoint of the chain answers, or this node has none. Nothing was changed.",
        "Try again after `Retry-After`, here or at a node with endpoints. `/readyz` shows how they are.";
    Stopping = "stopping", SERVICE_UNAVAILABLE, "The node is stopping",
        "The node finishes what it has and takes nothing new. Only `/readyz` answers with this.",
        "Send requests to another node.";
    TimedOut = "timed_out", SERVICE_UNAVAILABLE, "The answer took too long",
        "The answer was not there when the time for it was over. Nothing was changed.",
        "Try again after `Retry-After`.";
    OutcomeUnknown = "outcome_unknown", GATEWAY_TIMEOUT, "It cannot be said what became of it",
        "The request may have been stored, or may still be: the answer of the database or of another node was lost. If it is stored, it is stored once, under `txId`.",
        "Send it again with the same request id: that is always safe, and its answer says what became of both. Without a request id, read `txId`: once it is there it stays, and while it is not it may still come, so a new request could be a second one. `notAfter` bounds until when it can get a nonce.";
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("What went wrong, as programs tell it apart"))
            .enum_values(Some(Self::ALL.iter().map(|code| code.word())))
            .into()
    }
}

impl ToSchema for Code {}
