//! `[[chain]]`: the chains we send on.

use std::collections::HashSet;
use std::time::Duration;

use fencepost_domain::finality::Rule;
use fencepost_domain::ids::ChainId;
use fencepost_domain::request::Ceilings;

use super::endpoint::Endpoint;
use super::section::Section;
use super::value::{Text, Wei};

/// Names are labels of metrics and stand in URLs.
const NAME_BYTES_MAX: usize = 64;
/// A chain is polled at least this often and at most this rarely.
const POLL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_hours(1));
/// No chain is reorganised deeper.
const CONFIRMATIONS_MAX: u64 = 100_000;
/// Nodes refuse a replacement that pays less than a tenth more; ten times more is a mistake.
pub(super) const BUMP_PERCENT: (u64, u64) = (10, 1_000);

/// A chain we send on.
pub(crate) struct Chain {
    pub(crate) name: String,
    pub(crate) id: ChainId,
    pub(crate) rpc: Vec<Endpoint>,
    /// Where new blocks are announced, if anywhere.
    pub(crate) ws: Option<Endpoint>,
    pub(crate) poll_interval: Duration,
    pub(crate) finality: Rule,
    pub(crate) ceilings: Ceilings,
    /// How much more a replacement pays.
    pub(crate) bump_percent: u32,
}

impl Chain {
    /// Nothing of a chain that lacks its name or id.
    pub(super) fn read(from: &mut Section<'_>) -> Option<Self> {
        let name: Option<String> = from.needed("name");
        let id = from.optional_number("id", 1..=ChainId::MAX.get());
        if id.is_none() {
            from.refuse_missing("id");
        }
        let (rpc, ws) = endpoints(from);
        let poll_interval = from.duration("poll_interval", Duration::from_secs(1), POLL.0..=POLL.1);
        let finality = from.section("finality", finality);
        let (ceilings, bump_percent) = from.section("fees", fees);
        let name = name?;
        if let Err(why) = nameable(&name) {
            from.refuse("name", why);
            return None;
        }
        let id = ChainId::new(id?).ok()?;
        Some(Self {
            name,
            id,
            rpc,
            ws,
            poll_interval,
            finality,
            ceilings,
            bump_percent,
        })
    }
}

fn finality(from: &mut Section<'_>) -> Rule {
    let modes = [
        ("confirmations", None),
        ("safe", Some(Rule::Safe)),
        ("finalized", Some(Rule::Finalized)),
    ];
    let mode = from.choice("mode", &modes);
    let count = from.number("confirmations", 20, 0..=CONFIRMATIONS_MAX);
    mode.unwrap_or(Rule::Confirmations(count))
}

fn endpoints(from: &mut Section<'_>) -> (Vec<Endpoint>, Option<Endpoint>) {
    let rpc: Vec<Endpoint> = from.list("rpc");
    for (place, endpoint) in rpc.iter().enumerate() {
        if let Err(why) = endpoint.speaks(&["http", "https"]) {
            from.refuse(&format!("rpc[{place}]"), why);
        }
    }
    // An empty text is a chain that is polled only.
    let Wakeup(ws) = from.text("ws", Wakeup(None));
    match ws.as_ref().map(|ws| ws.speaks(&["ws", "wss"])) {
        Some(Err(why)) => from.refuse("ws", why),
        Some(Ok(())) if rpc.is_empty() => {
            from.refuse("ws", "needs rpc: it only says when to read from there");
        }
        Some(Ok(())) | None => {}
    }
    (rpc, ws)
}

/// Where new heads are announced, if anywhere.
struct Wakeup(Option<Endpoint>);

impl Text for Wakeup {
    fn parse(text: &str) -> Result<Self, String> {
        let endpoint = (!text.is_empty()).then(|| Endpoint::parse(text));
        endpoint.transpose().map(Self)
    }

    fn show(&self) -> String {
        self.0.as_ref().map(Endpoint::show).unwrap_or_default()
    }
}

fn fees(from: &mut Section<'_>) -> (Ceilings, u32) {
    let gwei = |n: u128| Wei(n * 10_u128.pow(9));
    let max_fee = from.text("max_fee_per_gas", gwei(500));
    let tip = from.text("max_priority_fee_per_gas", gwei(50));
    let bump_percent = from.number("bump_percent", 12, BUMP_PERCENT.0..=BUMP_PERCENT.1);
    if max_fee.0 == 0 {
        from.refuse("max_fee_per_gas", "must be above 0: nothing could be sent");
    } else if tip > max_fee {
        let (tip, cap) = (tip.show(), max_fee.show());
        from.refuse(
            "max_priority_fee_per_gas",
            format!("{tip} is above max_fee_per_gas ({cap})"),
        );
    }
    let ceilings = Ceilings {
        max_fee: max_fee.0,
        max_priority_fee: tip.0,
    };
    (ceilings, u32::try_from(bump_percent).unwrap_or(u32::MAX))
}

fn nameable(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(plain) {
        let most = NAME_BYTES_MAX;
        return Err(format!(
            "{name:?} must be 1 to {most} letters, digits, '-', '_' or '.'"
        ));
    }
    Ok(())
}

/// One name and one id for each chain, and at least one chain.
pub(super) fn check(from: &mut Section<'_>, chains: &[Option<Chain>]) {
    if chains.is_empty() && from.is_sound("chain") {
        from.refuse("chain", "at least one [[chain]] is needed");
    }
    let (mut names, mut ids) = (HashSet::new(), HashSet::new());
    for (place, chain) in chains.iter().enumerate() {
        let Some(chain) = chain else { continue };
        if !names.insert(&chain.name) {
            from.refuse(
                &format!("chain[{place}].name"),
                format!("{:?} is used twice", chain.name),
            );
        }
        if !ids.insert(chain.id) {
            from.refuse(
                &format!("chain[{place}].id"),
                format!("{} is used twice", chain.id),
            );
        }
    }
}
