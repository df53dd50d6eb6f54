//! One open WebSocket: subscribing, and what is read from it. Bounded in bytes per second, and never silent for long without being
//! noticed.

use std::borrow::Cow;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::{Lost, WsLimits};
use crate::rpc::{self, Call, Fault};
use crate::transport::Response;

/// The only call that is made on a connection.
const CALL_ID: u64 = 1;
/// Short messages count as this many bytes: each costs time however short it is.
const MESSAGE_BYTES_MIN: usize = 1024;
const SECOND: Duration = Duration::from_secs(1);

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// There is a new block.
    Head,
    /// Anything else, garbage included.
    Other,
}

pub(super) struct Session<S> {
    socket: WebSocketStream<S>,
    limits: WsLimits,
    is_pinged: bool,
    /// Bytes that were read in the second that ends then.
    read_bytes: usize,
    second_ends: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Subscribes to new heads and waits for the answer.
    pub(super) async fn subscribe(
        socket: WebSocketStream<S>,
        limits: WsLimits,
    ) -> Result<Self, Lost> {
        let mut session = Self {
            socket,
            limits,
            is_pinged: false,
            read_bytes: 0,
            second_ends: Instant::now() + SECOND,
        };
        let call = Call::new("eth_subscribe", &["\"newHeads\""]);
        let text = rpc::single(&call, CALL_ID);
        let sent = session.socket.send(Message::text(text)).await;
        sent.map_err(Lost::Broken)?;
        loop {
            let Message::Text(text) = session.message().await? else {
                continue;
            };
            match answer(text.as_str()) {
                Some(Ok(())) => return Ok(session),
                Some(Err(fault)) => return Err(Lost::Refused(fault)),
                None => {}
            }
        }
    }

    /// The next message.
    pub(super) async fn next(&mut self) -> Result<Said, Lost> {
        match self.message().await? {
            Message::Text(text) if is_head(text.as_str()) => Ok(Said::Head),
            Message::Text(_)
            | Message::Binary(_)
            | Message::Ping(_)
            | Message::Pong(_)
            | Message::Close(_)
            | Message::Frame(_) => Ok(Said::Other),
        }
    }

    /// The next message, of whatever kind; pings the endpoint while it is silent.
    async fn message(&mut self) -> Result<Message, Lost> {
        self.pause_flood().await;
        let ping_after = self.limits.ping_after;
        loop {
            let message = match timeout(ping_after, self.socket.next()).await {
                Ok(Some(message)) => message.map_err(Lost::Broken)?,
                Ok(None) => return Err(Lost::Closed),
                Err(_) if self.is_pinged => return Err(Lost::Silent(ping_after * 2)),
                Err(_) => {
                    self.is_pinged = true;
                    let ping = self.socket.send(Message::Ping(Bytes::new()));
                    match timeout(ping_after, ping).await {
                        Ok(sent) => sent.map_err(Lost::Broken)?,
                        Err(_) => return Err(Lost::Silent(ping_after * 2)),
                    }
                    continue;
                }
            };
            if message.is_close() {
                return Err(Lost::Closed);
            }
            self.is_pinged = false;
            self.read_bytes += message.len().max(MESSAGE_BYTES_MIN);
            return Ok(message);
        }
    }

    /// Once this second's share was read, the rest stays in the endpoint's send buffer until the second is over.
    async fn pause_flood(&mut self) {
        if self.read_bytes >= self.limits.bytes_per_second_max {
            sleep_until(self.second_ends).await;
        }
        let now = Instant::now();
        if now >= self.second_ends {
            self.read_bytes = 0;
            self.second_ends = now + SECOND;
        }
    }
}

/// The answer to our call, if the text is that. What cannot be read is none: the wait for it has an end.
fn answer(text: &str) -> Option<Result<(), Fault>> {
    let response = Response {
        status: 200,
        body: text.into(),
    };
    match rpc::read_single(&response, CALL_ID) {
        Ok(_) => Some(Ok(())),
        Err(fault @ Fault::Node { .. }) => Some(Err(fault)),
        Err(_) => None,
    }
}

/// Whether the text is a notification of a subscription. We have only one, and what it says is not read.
fn is_head(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Notification<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    serde_json::from_str::<Notification<'_>>(text)
        .is_ok_and(|notification| notification.method == "eth_subscription")
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;
    use crate::heads::connect::config;

    const HEAD: &str = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x1","result":{"number":"0x1"}}}"#;

    async fn pair(limits: WsLimits) -> (Session<DuplexStream>, WebSocketStream<DuplexStream>) {
        let (ours, theirs) = duplex(1024 * 1024);
        let ours = WebSocketStream::from_raw_socket(ours, Role::Client, Some(config(limits)));
        let theirs = WebSocketStream::from_raw_socket(theirs, Role::Server, None);
        let (ours, theirs) = tokio::join!(ours, theirs);
        let session = Session {
            socket: ours,
            limits,
            is_pinged: false,
            read_bytes: 0,
            second_ends: Instant::now() + SECOND,
        };
        (session, theirs)
    }

    #[test]
    fn only_notifications_of_subscriptions_are_heads() {
        let check = |text: &str, expected| assert_eq!(is_head(text), expected, "{text}");
        check(HEAD, true);
        check(r#"{"method":"eth_subscription"}"#, true);
        check(r#"{"method":"eth_\u0073ubscription","params":7}"#, true);
        check(r#"{"method":"eth_subscribe"}"#, false);
        check(r#"{"method":["eth_subscription"]}"#, false);
        check(r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#, false);
        for garbage in ["", "{", "null", "[]", "7", "\u{0}", "eth_subscription"] {
            check(garbage, false);
        }
    }

    #[test]
    fn an_answer_is_told_from_all_else() {
        let check = |text: &str, expected: Option<bool>| {
            assert_eq!(
                answer(text).map(|answer| answer.is_ok()),
                expected,
                "{text}"
            );
        };
        check(r#"{"jsonrpc":"2.0","id":1,"result":"0xcd"}"#, Some(true));
        check(r#"{"id":"1","result":"0xcd"}"#, Some(true));
        let refused = r#"{"id":1,"error":{"code":-32601,"message":"notifications not supported"}}"#;
        check(refused, Some(false));
        check(
            r#"{"id":null,"error":{"code":-32600,"message":"no"}}"#,
            Some(false),
        );
        check(r#"{"id":2,"result":"0xcd"}"#, None);
        check(HEAD, None);
        check("garbage", None);
    }

    /// The other end does not read, so it answers no ping.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_silent_after_a_ping_is_lost() {
        let limits = WsLimits::default();
        let (mut session, _theirs) = pair(limits).await;
        let began = Instant::now();
        let lost = session.next().await.unwrap_err();
        assert!(matches!(lost, Lost::Silent(_)), "{lost}");
        assert_eq!(began.elapsed(), limits.ping_after * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_answers_pings_is_kept_for_hours() {
        let (mut session, mut theirs) = pair(WsLimits::default()).await;
        // Reading is what answers pings.
        let pings = tokio::spawn(async move {
            let mut pings = 0;
            while let Some(Ok(message)) = theirs.next().await {
                pings += u32::from(message.is_ping());
            }
            pings
        });
        let listening = async {
            loop {
                assert_eq!(session.next().await.unwrap(), Said::Other);
            }
        };
        let hour = Duration::from_hours(1);
        assert!(timeout(hour, listening).await.is_err(), "it ended");
        drop(session);
        assert!(pings.await.unwrap() > 200);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_read_in_a_second_than_its_share() {
        let limits = WsLimits {
            bytes_per_second_max: 10 * MESSAGE_BYTES_MIN,
            ..WsLimits::default()
        };
        let (mut session, mut theirs) = pair(limits).await;
        for _ in 0..35 {
            theirs.send(Message::text(HEAD)).await.unwrap();
        }
        let began = Instant::now();
        let mut times = Vec::new();
        for _ in 0..35 {
            assert_eq!(session.next().await.unwrap(), Said::Head);
            times.push(began.elapsed().as_secs());
        }
        let in_second = |second| times.iter().filter(|time| **time == second).count();
        assert_eq!([0, 1, 2, 3].map(in_second), [10, 10, 10, 5], "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_too_long_ends_the_connection() {
        let limits = WsLimits {
            message_bytes_max: 1_000,
            ..WsLimits::default()
        };
        let (mut session, mut theirs) = pair(limits).await;
        theirs.send(Message::text("x".repeat(1_000))).await.unwrap();
        assert_eq!(session.next().await.unwrap(), Said::Other);
        theirs.send(Message::text("x".repeat(1_001))).await.unwrap();
        let lost = session.next().await.unwrap_err();
        assert!(matches!(lost, Lost::Broken(_)), "{lost}");
    }
}
