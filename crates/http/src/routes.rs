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
mod audit;
mod reconcile;
mod import;
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
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::api::{Api, Served};
use crate::forward::{NUDGE_PATH, PATH, STORE_PATH};
use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::waiting::WAIT_SECONDS_MAX;
use crate::{envelope, openapi, refusal};

/// What load balancers and supervisors ask.
pub(crate) const HEALTH_PATHS: [&str; 2] = ["/livez", "/readyz"];

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
        .route(STORE_PATH, post(internal::store))
        .route(openapi::PATH, get(docs::openapi(&document)))
        .with_state(Arc::clone(&served))
        .merge(SwaggerUi::new("/docs").config(Config::new([openapi::PATH])))
        .method_not_allowed_fallback(not_allowed)
        .fallback(not_found)
        .layer(from_fn_with_state(served, envelope::wrap))
}

/// The routes that clients know, and their description.
pub(crate) fn described(limits: &Limits) -> (Router<Arc<Served>>, OpenApi) {
    let within = limits.request_timeout;
    let reads = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(page::list))
        .routes(routes!(read::by_request))
        .routes(routes!(read::by_nonce))
        .routes(routes!(read::by_hash))
        .routes(routes!(history::history))
        .routes(routes!(history::attempts))
        .routes(routes!(history::confirmations))
        .routes(routes!(signers::list))
        .routes(routes!(signers::one))
        .routes(routes!(import::export))
        .routes(routes!(acts::remedies))
        .routes(routes!(acts::audit))
        .routes(routes!(audit::audit))
        .routes(routes!(nonces::one))
        .layer(from_fn(deadline::within(within)));
    // Every wait of theirs is bounded where it is; they must not wait for clients that read.
    let health = OpenApiRouter::default()
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(docs::problems));
    let waits = OpenApiRouter::default()
        .routes(routes!(read::by_id))
        .routes(routes!(feed::completions))
        .layer(from_fn(deadline::within(
            within + Duration::from_secs(WAIT_SECONDS_MAX),
        )));
    // What changes anything has deadlines of its own: when they pass, the outcome is not known.
    let writes = OpenApiRouter::default()
        .routes(routes!(create::create))
        .routes(routes!(batch::batch))
        .routes(routes!(reserve::reserve))
        .routes(routes!(nonces::submitted))
        .routes(routes!(nonces::recycle))
        .routes(routes!(nonces::extend));
    let operates = OpenApiRouter::default()
        .routes(routes!(pause::pause))
        .routes(routes!(pause::resume))
        .routes(routes!(reconcile::reconcile))
        .routes(routes!(import::cursor))
        .routes(routes!(import::import))
        .routes(routes!(placeholder::placeholder))
        .routes(routes!(remedy::remedy))
        .layer(from_fn(refusal::watch));
    let all = reads
        .merge(health)
        .merge(waits)
        .merge(writes)
        .merge(operates);
    let (router, document) = all.split_for_parts();
    (router, openapi::finished(document))
}
