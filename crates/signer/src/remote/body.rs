//! Reading what a service answers, and no more than that.

use fencepost_app::ports::Unsignable;
use reqwest::Response;

use super::{unreached, unusable};

/// How much of an error page is worth repeating in a log line.
const WORDS_MAX: usize = 200;

/// The whole body as text, unless it is longer than it may be.
pub(super) async fn text(response: Response, bytes_max: usize) -> Result<String, Unsignable> {
    let (body, whole) = read(response, bytes_max).await?;
    if !whole {
        return Err(unusable(format!(
            "its answer has more than {bytes_max} bytes"
        )));
    }
    String::from_utf8(body).map_err(|_| unusable("its answer is not text"))
}

/// The first printable words of an error page, for the operator; nothing if there are none.
pub(super) async fn words(response: Response, bytes_max: usize) -> String {
    let (body, _) = read(response, bytes_max).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let words: String = text.trim().chars().take(WORDS_MAX).map(clean).collect();
    match words.is_empty() {
        true => words,
        false => format!(": {words}"),
    }
}

/// The body's first bytes, and whether that is all of it.
pub(super) async fn read(
    mut response: Response,
    bytes_max: usize,
) -> Result<(Vec<u8>, bool), Unsignable> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreached)? {
        if body.len() + chunk.len() > bytes_max {
            body.extend_from_slice(&chunk[..bytes_max - body.len()]);
            return Ok((body, false));
        }
        body.extend_from_slice(&chunk);
    }
    Ok((body, true))
}
