//! Words that come from a fixed list, and those lists as schemas.

use fencepost_app::import::OpenState;
use fencepost_app::ports::{Action, PauseReason, Progress};
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::flat::Name;
use fencepost_domain::point::Point;
use fencepost_domain::state::{Kind, Wait, Why};
use fencepost_domain::{attempt, event};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words))
        .build()
}

/// The same, or nothing.
fn perhaps(words: impl IntoIterator<Item = &'static str>) -> Object {
    let words = words.into_iter().map(serde_json::Value::from);
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .enum_values(Some(words.chain([serde_json::Value::Null])))
        .build()
}

pub(crate) fn kind() -> Object {
    one_of(Kind::ALL.iter().map(|kind| kind.word()))
}

pub(crate) fn state() -> Object {
    one_of(Name::ALL.iter().map(|state| state.word()))
}

/// Those that a lent nonce has.
pub(crate) fn reservation() -> Object {
    let lent = [
        Name::Reserved,
        Name::Submitted,
        Name::Used,
        Name::Recyclable,
    ];
    one_of(lent.iter().map(|state| state.word()))
}

/// A state, as a parameter.
pub(crate) struct State;

impl PartialSchema for State {
    fn schema() -> RefOr<Schema> {
        state().into()
    }
}

impl ToSchema for State {}

/// What is waited for, as a parameter.
pub(crate) struct WaitPoint;

impl PartialSchema for WaitPoint {
    fn schema() -> RefOr<Schema> {
        one_of(Point::ALL.iter().map(|point| point.word())).into()
    }
}

impl ToSchema for WaitPoint {}

/// Sub-states are a list of their own for each state; a word may stand in several of them.
pub(crate) fn sub_state() -> Object {
    let waits = Wait::ALL.iter().map(|wait| wait.word());
    let whys = Why::ALL.iter().map(|why| why.word());
    let others = [
        "SIGNED",
        "BROADCAST",
        "AMBIGUOUS",
        "MINED",
        "REORGED",
        "REVERTED",
        "CANCELLED",
        "PLACEHOLDER",
        "SUBSTITUTED",
        "EXPIRED",
        "REJECTED",
    ];
    perhaps(waits.chain(others).chain(whys))
}

/// How far an open nonce of another service is.
pub(crate) fn open_state() -> Object {
    one_of(OpenState::ALL.map(OpenState::word))
}

/// No endpoint can be asked where an account stands.
pub(crate) const CHAIN_UNREACHABLE: &str = "CHAIN_UNREACHABLE";
/// Endpoints give different counts of an account.
pub(crate) const ENDPOINTS_DISAGREE: &str = "ENDPOINTS_DISAGREE";
/// The chain has used the configured first nonce.
pub(crate) const START_USED: &str = "START_USED";

/// Why a signer cannot begin.
pub(crate) fn waiting() -> Object {
    one_of([CHAIN_UNREACHABLE, ENDPOINTS_DISAGREE, START_USED])
}

/// What can be asked for.
pub(crate) fn action() -> Object {
    one_of(ASKED.map(|(word, _)| word))
}

/// What a policy may answer.
pub(crate) const ADVISED: [Action; 4] = [
    Action::Resubmit,
    Action::Replace,
    Action::Cancel,
    Action::Placeholder,
];

/// What an operator may ask for, in the API's words. ASK is stored as the question that the policy answers.
pub(crate) const ASKED: [(&str, Action); 6] = [
    (Action::Resubmit.word(), Action::Resubmit),
    (Action::Replace.word(), Action::Replace),
    (Action::Cancel.word(), Action::Cancel),
    (Action::Placeholder.word(), Action::Placeholder),
    (Action::Fill.word(), Action::Fill),
    ("ASK", Action::Decide),
];

pub(crate) fn progress() -> Object {
    one_of(Progress::ALL.map(Progress::word))
}

pub(crate) fn severity() -> Object {
    perhaps(Severity::ALL.iter().map(|each| each.word()))
}

pub(crate) fn after() -> Object {
    perhaps(After::ALL.iter().map(|each| each.word()))
}

pub(crate) fn paused() -> Object {
    perhaps(PauseReason::ALL.iter().map(|reason| reason.word()))
}

pub(crate) fn event() -> Object {
    one_of(event::Kind::ALL.iter().map(|kind| kind.word()))
}

pub(crate) fn attempt() -> Object {
    one_of(attempt::Kind::ALL.iter().map(|kind| kind.word()))
}

pub(crate) fn outcome() -> Object {
    perhaps(attempt::Outcome::ALL.iter().map(|outcome| outcome.word()))
}
