//! A connection whose other side must take what it is sent, and end what it begins to ask. One that asks and never
//! reads, or sends a request byte by byte, would keep its place for ever.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::server::Activity;

/// How long the head of a request may take from its first byte on, however long a connection may be idle before it.
const HEAD_MAX: Duration = Duration::from_secs(75);

/// A stream that fails when nothing of what is to be written goes out for too long.
pub(crate) struct Patient<S> {
    stream: S,
    limit: Duration,
    /// Runs while something waits to be written.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Counts the heads that are complete, and hears of every byte.
    activity: Arc<Activity>,
    /// As many complete heads as we have seen.
    seen: u64,
    /// Nothing of the next request has come since the last answer.
    between: bool,
    /// Runs while a head is half there.
    head: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    pub(crate) const fn new(stream: S, limit: Duration, activity: Arc<Activity>) -> Self {
        Self {
            stream,
            limit,
            waiting: None,
            activity,
            seen: 0,
            between: true,
            head: None,
        }
    }

    /// Lets a read pass unless a head takes too long.
    fn hear(
        &mut self,
        context: &mut Context<'_>,
        read: Poll<io::Result<()>>,
        bytes: usize,
    ) -> Poll<io::Result<()>> {
        let heads = self.activity.heads();
        if bytes > 0 {
            self.activity.touch();
        }
        if heads != self.seen {
            (self.seen, self.between, self.head) = (heads, false, None);
        }
        if bytes > 0 && std::mem::replace(&mut self.between, false) {
            self.head = Some(Box::pin(sleep(HEAD_MAX)));
        }
        if let (Poll::Pending, Some(head)) = (&read, &mut self.head) {
            ready!(head.as_mut().poll(context));
            head.as_mut().reset(Instant::now());
            let why = "the head of a request does not end";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
        }
        read
    }

    /// Lets a write pass that has got on, and one that has not as long as it may.
    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.activity.touch();
            self.waiting = None;
            if self.head.is_none() {
                self.between = true;
            }
            return written;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(waiting.as_mut().poll(context));
        // Whoever asks once more is told the same.
        waiting.as_mut().reset(Instant::now());
        let why = "the other side does not take what it is sent";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.hear(context, read, buffer.filled().len() - before)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.judge(context, written)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.judge(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let shut = Pin::new(&mut this.stream).poll_shutdown(context);
        this.judge(context, shut)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.judge(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn activity() -> Arc<Activity> {
        Arc::new(Activity::since(Instant::now()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_gets_on_may_take_for_ever_and_one_that_does_not_fails() {
        let (ours, mut theirs) = duplex(4);
        let mut ours = Patient::new(ours, Duration::from_secs(30), activity());
        let began = Instant::now();
        let slow = tokio::spawn(async move {
            let mut byte = [0];
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut byte).await.unwrap();
            }
            theirs
        });
        ours.write_all(b"twelve bytes").await.unwrap();
        let _theirs = slow.await.unwrap();
        assert_eq!(began.elapsed(), Duration::from_secs(160));
        let error = ours.write_all(b"four more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), Duration::from_secs(190));
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_is_dripped_fails_and_an_idle_connection_does_not() {
        let (ours, mut theirs) = duplex(64);
        let activity = activity();
        let mut ours = Patient::new(ours, Duration::from_secs(30), Arc::clone(&activity));
        let mut buffer = [0; 8];
        // One whole request after an hour, and its answer.
        let hour = Duration::from_secs(3_600);
        let silent = tokio::time::timeout(hour, ours.read(&mut buffer)).await;
        assert!(silent.is_err(), "an idle connection is not ours to end");
        theirs.write_all(b"GET /\r\n").await.unwrap();
        assert_eq!(ours.read(&mut buffer).await.unwrap(), 7);
        activity.begin();
        let silent = tokio::time::timeout(hour, ours.read(&mut buffer)).await;
        assert!(
            silent.is_err(),
            "a request that is waited for has no head to come"
        );
        ours.write_all(b"answer").await.unwrap();
        // The next one never ends.
        let began = Instant::now();
        let dripping = tokio::spawn(async move {
            while theirs.write_all(b"G").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        });
        let error = loop {
            if let Err(error) = ours.read(&mut buffer).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), HEAD_MAX);
        drop(ours);
        dripping.await.unwrap();
    }
}
