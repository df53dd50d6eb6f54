//! The least HTTP/1.1 that can ask a node: one kept connection, bytes out, a status and a body back. A client
//! library would cost the load generator more than the node spends on the request.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Larger than any answer to what is asked here.
const ANSWER_MAX: usize = 64 << 20;
/// Longer than a node may take to answer; then something is broken.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is read at once.
const CHUNK: usize = 16 << 10;

/// A kept connection to one address.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// The head of an answer: its status and where its body lies.
struct Head {
    status: u16,
    body: Range<usize>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        let buffer = Vec::with_capacity(CHUNK);
        Ok(Self { stream, buffer })
    }

    /// Sends a whole request and waits for its whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        let head = timeout(PATIENCE, self.converse(request))
            .await
            .with_context(|| format!("no answer within {PATIENCE:?}"))??;
        Ok((head.status, &self.buffer[head.body]))
    }

    async fn converse(&mut self, request: &[u8]) -> Result<Head> {
        let sent = self.stream.write_all(request).await;
        sent.context("sending a request")?;
        self.buffer.clear();
        let mut looked = 0;
        let head = loop {
            self.read_some().await?;
            if let Some(end) = end_of_head(&self.buffer, looked) {
                break head(&self.buffer[..end])?;
            }
            looked = self.buffer.len();
        };
        while self.buffer.len() < head.body.end {
            self.read_some().await?;
        }
        Ok(head)
    }

    async fn read_some(&mut self) -> Result<()> {
        self.buffer.reserve(CHUNK);
        let read = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(read > 0, "the connection was closed in the middle");
        ensure!(self.buffer.len() <= ANSWER_MAX, "an answer without end");
        Ok(())
    }
}

/// Where the head ends, with its empty line.
fn end_of_head(bytes: &[u8], looked: usize) -> Option<usize> {
    let from = looked.saturating_sub(3);
    let found = bytes[from..]
        .windows(4)
        .position(|four| four == b"\r\n\r\n");
    found.map(|at| from + at + 4)
}

fn head(bytes: &[u8]) -> Result<Head> {
    let text = std::str::from_utf8(bytes).context("the head of an answer is no text")?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
    let Some(status) = status else {
        bail!("no status in {first:?}");
    };
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.with_context(|| format!("an answer without its length: {text:?}"))?;
    let end = bytes.len().saturating_add(length);
    ensure!(end <= ANSWER_MAX, "an answer of {length} bytes");
    Ok(Head {
        status,
        body: bytes.len()..end,
    })
}

/// A request without a body.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// A request with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Asks on a connection of its own and reads the JSON that comes back with a good status.
pub(crate) async fn ask(address: SocketAddr, request: &[u8]) -> Result<serde_json::Value> {
    let mut connection = Connection::open(address).await?;
    let (status, body) = connection.exchange(request).await?;
    let text = String::from_utf8_lossy(body);
    ensure!((200..300).contains(&status), "status {status}: {text}");
    serde_json::from_slice(body).with_context(|| format!("no JSON: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_wherever_its_bytes_were_cut() -> Result<()> {
        let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nx: y\r\n\r\n{}";
        let end = answer.len() - 2;
        for cut in 0..=end {
            let found = end_of_head(&answer[..end], cut.min(end - 1));
            assert_eq!(found, Some(end), "cut at {cut}");
        }
        assert_eq!(end_of_head(&answer[..end - 1], 0), None);
        let read = head(&answer[..end])?;
        assert_eq!((read.status, read.body), (202, end..end + 2));
        Ok(())
    }

    #[test]
    fn an_answer_without_a_status_or_a_length_is_refused() {
        assert!(head(b"HTTP/1.1\r\ncontent-length: 2\r\n\r\n").is_err());
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(head(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n").is_err());
    }
}
