//! All routes, and what every one of them has around it.

mod create;
mod batch;
mod read;
mod page;
mod history;
mod feed;
mod signers;
mod gaps;
mod pause;
mod acts;
mod reconcile;
mod placeholder;
mod remedy;
mod reserve;
mod nonces;
mod holder;
mod health;
mod docs;
mod internal;
mod deadline;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::post;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::api::{Api, Served};
use crate::forward::{NUDGE_PATH, PATH};
use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::{envelope, openapi};

/// The longest wait of a long poll, beyond what any answer may take.
const WAIT_SECONDS_MAX: u64 = 30;
/// The most that a list holds.
const LIST_MAX: u64 = 1_000;

/// The API as a service.
pub fn router(api: Api) -> Router {
    let served = Arc::new(Served::from(api));
    let (routes, document) = described(&served.limits);
    let not_found = async || Problem::new(Code::NotFound);
    let not_allowed = async || Problem::new(Code::MethodNotAllowed);
    routes
        .route(PATH, post(internal::tx))
        .route(NUDGE_PATH, post(internal::nudge))
        .with_state(served)
        .merge(SwaggerUi::new("/docs").url("/openapi.json", document))
        .method_not_allowed_fallback(not_allowed)
        .fallback(not_found)
        .layer(from_fn(envelope::wrap))
}

/// The routes that clients know, and their description.
pub(crate) fn described(limits: &Limits) -> (Router<Arc<Served>>, OpenApi) {
    let within = limits.request_timeout;
    let reads = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(page::list))
        .routes(routes!(read::by_request))
        .routes(routes!(read::by_nonce))
        .routes(routes!(read::by_hash))
        .routes(routes!(read::by_id))
        .routes(routes!(history::history))
        .routes(routes!(history::attempts))
        .routes(routes!(history::confirmations))
        .routes(routes!(signers::list))
        .routes(routes!(signers::one))
        .routes(routes!(acts::remedies))
        .routes(routes!(acts::audit))
        .routes(routes!(nonces::one))
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(docs::problems))
        .layer(from_fn(deadline::within(within)));
    let feed = OpenApiRouter::default()
        .routes(routes!(feed::completions))
        .layer(from_fn(deadline::within(
            within + Duration::from_secs(WAIT_SECONDS_MAX),
        )));
    // What changes anything has deadlines of its own: when they pass, the outcome is not known.
    let writes = OpenApiRouter::default()
        .routes(routes!(create::create))
        .routes(routes!(batch::batch))
        .routes(routes!(pause::pause))
        .routes(routes!(pause::resume))
        .routes(routes!(reconcile::reconcile))
        .routes(routes!(placeholder::placeholder))
        .routes(routes!(remedy::remedy))
        .routes(routes!(reserve::reserve))
        .routes(routes!(nonces::submitted))
        .routes(routes!(nonces::recycle))
        .routes(routes!(nonces::extend));
    let (router, document) = reads.merge(feed).merge(writes).split_for_parts();
    (router, openapi::finished(document))
}
