//! The problems that a route can answer with, as its OpenAPI description says.

use std::collections::BTreeMap;

use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

use super::{Code, MEDIA_TYPE};

/// Makes a type that declares these codes as responses of a route.
macro_rules! problems {
    ($name:ident: $($code:ident),+ $(,)?) => {
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::Response>,
            > {
                $crate::problem::declare(&[$($crate::problem::Code::$code),+])
            }
        }
    };
}
pub(crate) use problems;

/// One response for each status, which names its codes.
pub(crate) fn declare(codes: &[Code]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for code in codes {
        let status = code.status().as_u16().to_string();
        by_status.entry(status).or_default().push(code.word());
    }
    by_status
        .into_iter()
        .map(|(status, words)| {
            let content = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("Problem")))
                .build();
            let response = ResponseBuilder::new()
                .description(words.join(", "))
                .content(MEDIA_TYPE, content)
                .build();
            (status, response.into())
        })
        .collect()
}
