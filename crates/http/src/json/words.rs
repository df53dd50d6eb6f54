//! Words that come from a fixed list, and those lists as schemas.

use fencepost_app::ports::{Action, PauseReason, Progress};
use fencepost_domain::flat::Name;
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
        "EXPIRED",
        "REJECTED",
    ];
    perhaps(waits.chain(others).chain(whys))
}

/// What can be asked for.
pub(crate) fn action() -> Object {
    one_of(ASKED.map(Action::word))
}

/// What a policy may answer.
pub(crate) const ADVISED: [Action; 4] = [
    Action::Resubmit,
    Action::Replace,
    Action::Cancel,
    Action::Placeholder,
];

/// What an operator may ask for. Asking the policy is no one's wish but the leader's own.
pub(crate) const ASKED: [Action; 5] = [
    Action::Resubmit,
    Action::Replace,
    Action::Cancel,
    Action::Placeholder,
    Action::Fill,
];

pub(crate) fn progress() -> Object {
    one_of(Progress::ALL.map(Progress::word))
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
