//! One budget of bytes for all bodies and answers that the process has in hand. Every request holds its share until its answer is
//! written; what would go beyond the budget is refused before it is read. An answer to a write is never refused: the write is done.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::meters::{Meters, Refused};
use crate::problem::{Code, Problem};

tokio::task_local! {
    /// The share of the request that is being answered.
    static SHARE: Arc<Share>;
}

/// A body is held as text and as what was read from it.
const BODY_TIMES: usize = 2;
/// Answers up to this size are copied into the connection's buffer at once.
const SMALL: usize = 16 * 1024;

/// What all requests together may hold.
pub(crate) struct Budget {
    bytes_max: usize,
    held: AtomicUsize,
    meters: Meters,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize, meters: Meters) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            held: AtomicUsize::new(0),
            meters,
        })
    }

    fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.show();
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.show();
    }

    fn show(&self) {
        let held = i64::try_from(self.held.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        self.meters.memory.set(held);
    }
}

/// What one request holds. Dropping it gives it back.
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        if bytes > 0 {
            self.budget.give_back(bytes);
        }
    }
}

impl Share {
    pub(crate) fn of(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            bytes: AtomicUsize::new(0),
        })
    }

    /// Holds so many more, however many are held.
    fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.budget.add(bytes);
    }

    fn shrink(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.give_back(bytes);
    }

    /// The same within the budget.
    fn try_grow(&self, bytes: usize) -> Result<(), Problem> {
        self.grow(bytes);
        if self.budget.held.load(Ordering::Relaxed) <= self.budget.bytes_max {
            return Ok(());
        }
        self.shrink(bytes);
        self.budget.meters.refused(Refused::Memory);
        let why = "The node has as many bytes of requests and answers in hand as it may (api.memory_max_mib). Nothing was stored.";
        Err(Problem::new(Code::Overloaded).detail(why))
    }
}

/// Answers a request that holds this share.
pub(crate) async fn held<F: Future>(share: &Arc<Share>, work: F) -> F::Output {
    SHARE.scope(Arc::clone(share), work).await
}

/// The share of the request that is being answered, for work that outlives the request.
pub(crate) fn current() -> Option<Arc<Share>> {
    SHARE.try_with(Arc::clone).ok()
}

/// Room for a body of at most so many bytes that is about to be read.
pub(crate) struct Room {
    share: Option<Arc<Share>>,
    bytes: usize,
}

impl Room {
    pub(crate) fn take(bytes_max: usize) -> Result<Self, Problem> {
        let (share, bytes) = (current(), bytes_max.saturating_mul(BODY_TIMES));
        if let Some(share) = &share {
            share.try_grow(bytes)?;
        }
        Ok(Self { share, bytes })
    }

    /// The body was shorter.
    pub(crate) fn keep(self, body: &Bytes) {
        if let Some(share) = &self.share {
            let kept = body.len().saturating_mul(BODY_TIMES);
            share.shrink(self.bytes.saturating_sub(kept));
        }
    }
}

/// Counts an answer until it is written. One that does not fit is refused if nothing was changed.
pub(crate) fn count(share: &Arc<Share>, method: &Method, response: Response) -> Response {
    let size = response.body().size_hint().exact().unwrap_or_default();
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size <= SMALL {
        return response;
    }
    if !method.is_safe() {
        share.grow(size);
    } else if let Err(problem) = share.try_grow(size) {
        return problem.into_response();
    }
    let share = Arc::clone(share);
    response.map(|inner| Body::new(Counted { inner, share }))
}

/// An answer, and what it holds until it is written.
struct Counted {
    inner: Body,
    share: Arc<Share>,
}

/// The connection takes the bytes out of the answer long before it has written them, so it is the bytes that hold the share.
struct Written {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(context));
        let held = |bytes| {
            let _share = Arc::clone(&this.share);
            Bytes::from_owner(Written { bytes, _share })
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(bytes: usize) -> Response {
        vec![b'x'; bytes].into_response()
    }

    #[tokio::test]
    async fn a_read_beyond_the_budget_is_refused_and_a_write_is_answered() {
        let budget = Budget::new(100_000, Meters::default());
        let [first, second, third] = [(); 3].map(|()| Share::of(&budget));
        let kept = count(&first, &Method::GET, answer(60_000));
        assert_eq!(kept.status(), 200);
        let refused = count(&second, &Method::GET, answer(60_000));
        assert_eq!(refused.status(), 503);
        assert!(refused.headers().contains_key("retry-after"));
        let small = count(&second, &Method::GET, answer(SMALL));
        assert_eq!(small.status(), 200, "small answers are always given");
        let stored = count(&third, &Method::POST, answer(60_000));
        assert_eq!(stored.status(), 200, "what was stored is said");
        let body = held(&second, async { Room::take(10).map(drop) }).await;
        assert_eq!(body.unwrap_err().code(), Code::Overloaded);
        drop((first, kept, third, stored));
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
        assert_eq!(count(&second, &Method::GET, answer(60_000)).status(), 200);
    }

    #[tokio::test]
    async fn a_body_holds_what_it_has_and_not_what_it_might_have_had() {
        let budget = Budget::new(1_000_000, Meters::default());
        let share = Share::of(&budget);
        held(&share, async {
            let room = Room::take(100_000).unwrap();
            assert_eq!(budget.held.load(Ordering::Relaxed), 200_000);
            room.keep(&Bytes::from_static(b"short"));
            assert_eq!(budget.held.load(Ordering::Relaxed), 10);
        })
        .await;
        drop(share);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}
