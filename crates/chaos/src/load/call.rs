//! One HTTP call to one node, and what its answer means.

use reqwest::Method;
use serde_json::Value;

use crate::note::Answer;
use crate::world::World;

/// An answer with its body, which is null where there was none.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) answer: Answer,
    pub(crate) body: Value,
}

impl Heard {
    fn nothing() -> Self {
        Self {
            answer: Answer::default(),
            body: Value::Null,
        }
    }
}

/// The answer that a body makes together with its status.
pub(crate) fn answer(status: u16, body: &Value) -> Answer {
    let text = |field: &str| body[field].as_str().map(str::to_owned);
    Answer {
        status: Some(status),
        code: text("code"),
        tx: text("txId").or_else(|| text("reservationId")),
    }
}

/// Whatever goes wrong on the way, and an answer that cannot be read, is no answer.
pub(crate) async fn call(
    world: &World,
    node: usize,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> Heard {
    let url = format!("{}{path}", world.nodes[node].url());
    let mut request = world.http.request(method, url);
    if let Some(body) = body {
        request = request.json(body);
    }
    let Ok(response) = request.send().await else {
        return Heard::nothing();
    };
    let status = response.status().as_u16();
    match response.json::<Value>().await {
        Ok(body) => Heard {
            answer: answer(status, &body),
            body,
        },
        Err(_) => Heard::nothing(),
    }
}

pub(crate) async fn get(world: &World, node: usize, path: &str) -> Heard {
    call(world, node, Method::GET, path, None).await
}

pub(crate) async fn post(world: &World, node: usize, path: &str, body: &Value) -> Heard {
    call(world, node, Method::POST, path, Some(body)).await
}
