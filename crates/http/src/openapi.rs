//! The description of the API, made from the routes and types themselves.

use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, LicenseBuilder, ObjectBuilder, OpenApi, OpenApiBuilder,
    PathItem, RefOr, Type,
};
use utoipa::{PartialSchema, ToSchema};

use crate::json::words::{State, WaitPoint};
use crate::limits::Limits;
use crate::problem::{Code, FieldError, Told};
use crate::routes::described;

/// Where the document is served.
pub(crate) const PATH: &str = "/openapi.json";

const ABOUT: &str = "Gives transactions of EVM chains their nonces, sends them, and tells how they ended. \
    Amounts are decimal digits or 0x-hex in, decimal digits out; nonces are numbers, times RFC 3339 in UTC. \
    Errors are RFC 9457 problems with a stable `code`; `/docs/problems` says what to do about each.";

/// What the routes are added to.
pub(crate) fn base() -> OpenApi {
    let license = LicenseBuilder::new()
        .name("Apache-2.0")
        .identifier(Some("Apache-2.0"));
    let info = InfoBuilder::new()
        .title("Fencepost")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license.build()));
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key. A node on a loopback address may need none",
        ));
    // These are named by hand: shared responses and parameters do not bring their types along.
    let components = ComponentsBuilder::new()
        .schema("Problem", Told::schema())
        .schema(Code::name(), Code::schema())
        .schema(FieldError::name(), FieldError::schema())
        .schema(State::name(), State::schema())
        .schema(WaitPoint::name(), WaitPoint::schema())
        .security_scheme("key", SecurityScheme::Http(key.build()));
    let tag = |name: &str, about: &str| {
        TagBuilder::new()
            .name(name)
            .description(Some(about))
            .build()
    };
    OpenApiBuilder::new()
        .info(info)
        .components(Some(components.build()))
        .tags(Some([
            tag(
                "transactions",
                "Have transactions sent and see where they stand",
            ),
            tag("completions", "Hear how they ended"),
            tag("reservations", "Have nonces for what you sign yourself"),
            tag("signers", "See and hold what sends them"),
            tag("audit", "See who did what, and what was refused"),
            tag("health", "Watch the node"),
        ]))
        .build()
}

/// Adds what is the same everywhere: every response names its request in the log.
pub(crate) fn finished(mut document: OpenApi) -> OpenApi {
    let id = HeaderBuilder::new()
        .description(Some(
            "The request's name in the log: the client's own, where it sent one",
        ))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build();
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(response) = response {
                    response
                        .headers
                        .insert("x-request-id".to_owned(), id.clone().into());
                }
            }
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut utoipa::openapi::path::Operation> {
    [&mut item.get, &mut item.post].into_iter().flatten()
}

/// The OpenAPI document of this version.
#[must_use]
pub fn openapi_json() -> String {
    let (_, document) = described(&Limits::default());
    let mut text = document.to_pretty_json().expect("a document is plain JSON");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn the_committed_document_is_the_one_of_this_code() {
        let path = Path::new("../../docs/openapi.json");
        let made = super::openapi_json();
        if std::env::var_os("FENCEPOST_BLESS").is_some() {
            std::fs::write(path, made).unwrap();
            return;
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == made,
            "{} is stale: run FENCEPOST_BLESS=1 cargo test -p fencepost-http",
            path.display()
        );
    }
}
