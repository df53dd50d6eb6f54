//! What is counted of the business's answers.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::Refused;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    result: &'static str,
}

/// Counts answers of the stuck policy over HTTP.
#[derive(Debug, Clone)]
pub struct PolicyMeters(Family<Answered, Counter>);

const TAKEN: &str = "taken";
const INVALID: &str = "invalid";
const UNSIGNED: &str = "unsigned";

impl PolicyMeters {
    /// Every word is there from the start: the first refusal is then an increase that alerts see.
    pub fn register(registry: &mut Registry) -> Self {
        let answers: Family<Answered, Counter> = Family::default();
        for result in [TAKEN, INVALID, UNSIGNED] {
            let _ = answers.get_or_create(&Answered { result });
        }
        registry.sub_registry_with_prefix("fencepost").register(
            "policy_answer",
            "Questions to the stuck policy over HTTP, by what its answer was",
            answers.clone(),
        );
        Self(answers)
    }

    pub(super) fn count(&self, refused: Option<&Refused>) {
        let result = match refused {
            None => TAKEN,
            Some(Refused::Invalid(_)) => INVALID,
            Some(Refused::Unsigned(_)) => UNSIGNED,
        };
        self.0.get_or_create(&Answered { result }).inc();
    }
}
