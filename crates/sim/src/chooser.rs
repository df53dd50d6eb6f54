//! Who decides about stuck transactions: nobody, a list of rules, or someone in any mood.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use fencepost_app::ports::{Action, Advice, Instead, Noop, Plight, Policy};
use fencepost_app::recovery::rules::{Rule, Rules};
use fencepost_domain::Address;
use fencepost_domain::decision::{After, Severity};
use fencepost_domain::request::Payload;
use fencepost_domain::state::Why;
use tokio::time::sleep;

use crate::gate::Gate;
use crate::profile::Chooser;
use crate::rng::Rng;
use crate::world::World;

/// Where a payload goes that the policy brings: nobody else sends there.
const ELSEWHERE: Address = Address::repeat_byte(0xe5);

/// The policy of one node.
pub(crate) fn policy(
    world: &Arc<World>,
    gate: &Arc<Gate>,
    who: &str,
    start: u64,
) -> Arc<dyn Policy> {
    match world.profile.chooser {
        Chooser::Noop => Arc::new(Noop),
        Chooser::Rules => {
            let action = *world.rng("rules").pick(&[
                Action::Resubmit,
                Action::Replace,
                Action::Cancel,
                Action::Placeholder,
            ]);
            Arc::new(Rules(vec![Rule {
                action: Some(action),
                rounds_max: Some(3),
                ..Rule::default()
            }]))
        }
        Chooser::Moody => Arc::new(Moody {
            luck: Mutex::new(world.rng(&format!("policy {who} {start}"))),
            gate: Arc::clone(gate),
        }),
    }
}

/// Says anything, after any time.
struct Moody {
    luck: Mutex<Rng>,
    gate: Arc<Gate>,
}

#[async_trait]
impl Policy for Moody {
    fn name(&self) -> &'static str {
        "moody"
    }

    fn is_worth_asking(&self, plight: &Plight) -> bool {
        plight.round <= 4
    }

    async fn decide(&self, plight: &Plight) -> Advice {
        let (delay, advice) = {
            let mut luck = self.luck.lock().expect("nothing panics while it is held");
            let longest = if luck.chance(100) { 3_000 } else { 30 };
            let action = match luck.below(5) {
                0 => None,
                1 => Some(Action::Resubmit),
                2 => Some(Action::Replace),
                3 => Some(Action::Cancel),
                _ => Some(Action::Placeholder),
            };
            let signs = matches!(
                action,
                Some(Action::Replace | Action::Cancel | Action::Placeholder)
            );
            let other = signs && plight.why != Some(Why::Gap) && luck.chance(300);
            let after = match luck.below(6) {
                0 => Some(After::Track),
                1 => Some(After::Stuck),
                _ => None,
            };
            let advice = Advice {
                action,
                instead: other.then(|| Instead::Payload(Payload::nothing(ELSEWHERE))),
                severity: luck.chance(200).then_some(Severity::Warning),
                after,
                ..Advice::noop("the mood of the day")
            };
            (luck.millis(0, longest), advice)
        };
        self.gate.pass().await;
        sleep(delay.max(Duration::from_millis(1))).await;
        self.gate.pass().await;
        advice
    }
}
