//! The policy that an operator writes as a list of rules: the first that fits decides.

use std::time::Duration;

use async_trait::async_trait;
use fencepost_domain::attempt::SignedFees;
use fencepost_domain::state::Why;

use crate::ports::{Action, Advice, Plight, Policy};

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Only for these reasons; none is any.
    pub reasons: Vec<Why>,
    /// Only if the newest error has one of these texts in it, whatever their case; none is any.
    pub errors: Vec<String>,
    /// Not if the newest error has one of these in it.
    pub errors_not: Vec<String>,
    /// Once the lane has waited so long for it. Of this and the next two one is enough; with none of
    /// them given the rule waits for nothing.
    pub after: Option<Duration>,
    /// Once it was sent so often.
    pub attempts_min: Option<u32>,
    /// Once so many of the lane wait.
    pub backlog_min: Option<u64>,
    /// What is to be done; none is NOOP, which keeps later rules from being looked at.
    pub action: Option<Action>,
    /// By how many percent more a replacement pays; none is the chain's setting.
    pub bump_percent: Option<u32>,
    /// No replacement is made of what pays this already.
    pub max_fee: Option<u128>,
    /// In how many rounds of a transaction at most; none is no limit.
    pub rounds_max: Option<u32>,
}

impl Rule {
    fn fits(&self, plight: &Plight) -> bool {
        let error = plight.last_error.as_deref().unwrap_or_default();
        let error = error.to_lowercase();
        let has = |texts: &[String]| {
            texts
                .iter()
                .any(|text| error.contains(&text.to_lowercase()))
        };
        let known =
            self.reasons.is_empty() || plight.why.is_some_and(|why| self.reasons.contains(&why));
        let worded = self.errors.is_empty() || has(&self.errors);
        known && worded && !has(&self.errors_not) && self.is_due(plight) && self.is_left(plight)
    }

    fn is_due(&self, plight: &Plight) -> bool {
        let marks = [
            self.after.map(|after| plight.age >= after),
            self.attempts_min
                .map(|least| plight.submit_attempts >= least),
            self.backlog_min.map(|least| plight.backlog >= least),
        ];
        let mut given = marks.into_iter().flatten().peekable();
        given.peek().is_none() || given.any(|passed| passed)
    }

    fn is_left(&self, plight: &Plight) -> bool {
        let rounds = self.rounds_max.is_none_or(|most| plight.round <= most);
        let dear = |fees: SignedFees| self.max_fee.is_some_and(|most| fees.max_fee >= most);
        let replaces = self.action == Some(Action::Replace);
        rounds && !(replaces && plight.fees.is_some_and(dear))
    }
}

/// Decides by rules.
#[derive(Debug, Clone, Default)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    fn first(&self, plight: &Plight) -> Option<(usize, &Rule)> {
        let mut rules = self.0.iter().enumerate();
        rules.find(|(_, rule)| rule.fits(plight))
    }
}

#[async_trait]
impl Policy for Rules {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn is_worth_asking(&self, plight: &Plight) -> bool {
        self.first(plight)
            .is_some_and(|(_, rule)| rule.action.is_some())
    }

    async fn decide(&self, plight: &Plight) -> Advice {
        let Some((at, rule)) = self.first(plight) else {
            return Advice::noop("no rule fits");
        };
        Advice {
            action: rule.action,
            bump_percent: rule.bump_percent,
            fee_max: rule.max_fee,
            ..Advice::noop(format!("rule {} fits", at + 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_domain::Address;
    use fencepost_domain::flat::Name;
    use fencepost_domain::ids::{ChainId, Lane, Nonce, TxId};
    use fencepost_domain::state::Kind;
    use uuid::Uuid;

    use super::*;

    fn plight() -> Plight {
        Plight {
            chain: "main".to_owned(),
            lane: Lane {
                chain: ChainId::new(1).unwrap(),
                signer: Address::ZERO,
            },
            tx: TxId(Uuid::nil()),
            kind: Kind::Managed,
            nonce: Nonce::ZERO,
            request_id: None,
            meta: None,
            hashes: vec![],
            fees: Some(SignedFees {
                max_fee: 100,
                max_priority_fee: Some(1),
            }),
            newest: None,
            payload: None,
            state: Name::Stuck,
            sub_state: Some(Why::NoReceipt.word()),
            why: Some(Why::NoReceipt),
            submit_attempts: 3,
            last_error: Some("Transaction Underpriced".to_owned()),
            age: Duration::from_secs(60),
            backlog: 5,
            gaps: vec![],
            round: 2,
        }
    }

    #[tokio::test]
    async fn the_first_rule_that_fits_decides() {
        let check = async |rules: Vec<Rule>, expected: Option<Action>| {
            let rules = Rules(rules);
            let advice = rules.decide(&plight()).await;
            assert_eq!(advice.action, expected, "{rules:?}");
            assert_eq!(rules.is_worth_asking(&plight()), expected.is_some());
        };
        let replace = || Rule {
            action: Some(Action::Replace),
            ..Rule::default()
        };
        let done = Some(Action::Replace);
        check(vec![], None).await;
        check(vec![replace()], done).await;
        check(vec![Rule::default(), replace()], None).await;
        let with = |change: fn(&mut Rule)| {
            let mut rule = replace();
            change(&mut rule);
            vec![rule]
        };
        check(with(|rule| rule.reasons = vec![Why::NoReceipt]), done).await;
        check(with(|rule| rule.reasons = vec![Why::Gap]), None).await;
        check(
            with(|rule| rule.errors = vec!["underpriced".to_owned()]),
            done,
        )
        .await;
        check(with(|rule| rule.errors = vec!["funds".to_owned()]), None).await;
        check(
            with(|rule| rule.errors_not = vec!["UNDER".to_owned()]),
            None,
        )
        .await;
        check(
            with(|rule| rule.errors_not = vec!["funds".to_owned()]),
            done,
        )
        .await;
        check(
            with(|rule| rule.after = Some(Duration::from_secs(60))),
            done,
        )
        .await;
        check(
            with(|rule| rule.after = Some(Duration::from_secs(61))),
            None,
        )
        .await;
        check(with(|rule| rule.attempts_min = Some(3)), done).await;
        check(with(|rule| rule.attempts_min = Some(4)), None).await;
        check(with(|rule| rule.backlog_min = Some(6)), None).await;
        let either = |rule: &mut Rule| {
            rule.after = Some(Duration::from_secs(61));
            rule.backlog_min = Some(5);
        };
        check(with(either), done).await;
        check(with(|rule| rule.rounds_max = Some(2)), done).await;
        check(with(|rule| rule.rounds_max = Some(1)), None).await;
        check(with(|rule| rule.max_fee = Some(101)), done).await;
        check(with(|rule| rule.max_fee = Some(100)), None).await;
        let cancel = |rule: &mut Rule| {
            rule.action = Some(Action::Cancel);
            rule.max_fee = Some(100);
        };
        check(with(cancel), Some(Action::Cancel)).await;
    }
}
