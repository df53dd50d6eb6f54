//! What the chain asks for now. Fees move by the block, so one answer serves everyone for a moment,
//! and a thousand callers make one request.

use std::sync::Arc;
use std::time::Duration;

use fencepost_domain::fee::Quote;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::endpoint::{Endpoint, Order};
use crate::endpoints::{Endpoints, Unasked};
use crate::meters::Purpose;
use crate::rpc::{Answer, Call, Fault, quoted, value};

/// Enough that one odd block does not count, and few enough to follow the market.
const BLOCKS: &str = "\"0xa\"";
const PERCENTILES: &str = "[50]";
/// Longer, and a rising base fee is missed; shorter only costs requests.
const AGE_MAX: Duration = Duration::from_secs(1);
/// What geth's miners take at least, unless told otherwise.
const TIP_WEI_MIN: u128 = 1_000_000;

/// What was last told, for everyone.
#[derive(Default)]
pub(crate) struct QuoteCache(Mutex<Option<Kept>>);

struct Kept {
    at: Instant,
    /// The answer, or why there was none.
    quote: Result<Quote, Arc<str>>,
}

impl Endpoints {
    /// Whoever comes while a request is under way waits for its answer. A failure is kept, too: else
    /// all who waited would try one after the other.
    pub(crate) async fn quote(&self) -> Result<Quote, Unasked> {
        let until = self.until();
        let Ok(mut kept) = timeout_at(until, self.quotes.0.lock()).await else {
            return Err(Unasked::NobodyAnswered(self.name.to_string()));
        };
        let age_max = self.poll_interval.min(AGE_MAX);
        if let Some(kept) = &*kept
            && Instant::now() < kept.at + age_max
        {
            return kept.quote.clone().map_err(Unasked::AskedBefore);
        }
        let quote = self.read(until, |endpoint| ask(endpoint, until)).await;
        let told = quote.as_ref().map_err(|why| why.to_string().into());
        *kept = Some(Kept {
            at: Instant::now(),
            quote: told.copied(),
        });
        quote
    }
}

async fn ask(endpoint: Arc<Endpoint>, until: Instant) -> Result<Quote, Fault> {
    let calls = [
        Call::new("eth_feeHistory", &[BLOCKS, "\"latest\"", PERCENTILES]),
        Call::new("eth_maxPriorityFeePerGas", &[]),
        Call::new("eth_gasPrice", &[]),
    ];
    let answers = endpoint
        .ask(Purpose::Quote, &calls, Order::Free, until)
        .await;
    let [history, tip, price] = <[Answer; 3]>::try_from(answers).expect("one for each call");
    let wei = |answer: &Answer| answer.as_ref().ok().and_then(|raw| value::u128(raw));
    let read = history.as_ref().ok().and_then(|raw| History::read(raw));
    let market = Market {
        history: read,
        tip: wei(&tip),
        price: wei(&price),
    };
    let mut quote = market.quote();
    if quote.is_some_and(|quote| quote.base_fee == Some(0)) && !has_base_fee(&endpoint, until).await
    {
        quote = Market {
            history: None,
            ..market
        }
        .quote();
    }
    quote.ok_or_else(|| {
        let fault = Fault::Garbled("neither a fee history nor a gas price");
        let told = history.and(price).err().unwrap_or(fault);
        if !matches!(told, Fault::Node { .. }) {
            endpoint.fails(&told);
        }
        told
    })
}

/// Whether blocks have a base fee at all. Nodes tell a history of zeros for chains without EIP-1559,
/// and for those whose base fee is zero.
async fn has_base_fee(endpoint: &Endpoint, until: Instant) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Header<'a> {
        #[serde(borrow)]
        base_fee_per_gas: Option<&'a RawValue>,
    }
    let call = Call::new("eth_getBlockByNumber", &[&quoted("latest"), "false"]);
    let answer = endpoint.ask_one(Purpose::Quote, call, until).await;
    answer.is_ok_and(|raw| {
        let header = value::thing::<Header<'_>>(&raw);
        header.is_some_and(|header| header.base_fee_per_gas.is_some())
    })
}

/// Some recent blocks' fees.
#[derive(Debug, Clone, PartialEq, Eq)]
struct History {
    /// The next block's.
    base_fee: u128,
    /// The middle tip of each block that had transactions.
    tips: Vec<u128>,
}

impl History {
    fn read(raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            #[serde(default)]
            base_fee_per_gas: Vec<String>,
            #[serde(default)]
            gas_used_ratio: Vec<Option<f64>>,
            reward: Option<Vec<Vec<String>>>,
        }
        let wire: Wire = value::thing(raw)?;
        let base_fee = value::wide(wire.base_fee_per_gas.last()?)?;
        // Empty blocks tell a tip of zero, which nobody paid.
        let used = wire
            .gas_used_ratio
            .iter()
            .map(|ratio| ratio.is_some_and(|ratio| ratio > 0.0));
        let rewards = wire.reward.unwrap_or_default();
        let tips = used
            .zip(&rewards)
            .filter_map(|(is_used, tips)| tips.first().filter(|_| is_used))
            .map(|tip| value::wide(tip))
            .collect::<Option<Vec<_>>>()?;
        Some(Self { base_fee, tips })
    }
}

/// All that an endpoint told about fees.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Market {
    history: Option<History>,
    /// The tip that the node itself would give.
    tip: Option<u128>,
    /// The price that the node itself would give.
    price: Option<u128>,
}

impl Market {
    /// The median of what lately got into blocks, else the node's own suggestion, else a floor. Without
    /// base fees it is the node's price. Where gas is free, nothing is added.
    fn quote(&self) -> Option<Quote> {
        let Some(history) = &self.history else {
            return self.price.map(|tip| Quote {
                base_fee: None,
                tip,
            });
        };
        let mut tips = history.tips.clone();
        tips.sort_unstable();
        let median = tips.get(tips.len() / 2).copied();
        let floor = if history.base_fee == 0 {
            0
        } else {
            TIP_WEI_MIN
        };
        Some(Quote {
            base_fee: Some(history.base_fee),
            tip: median.or(self.tip).unwrap_or(floor).max(floor),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;

    fn quote(history: &str, tip: Option<u128>, price: Option<u128>) -> Option<Quote> {
        let raw = RawValue::from_string(history.to_owned()).unwrap();
        let history = History::read(&raw);
        Market {
            history,
            tip,
            price,
        }
        .quote()
    }

    #[test]
    fn a_fee_history_becomes_the_next_base_fee_and_the_median_tip() {
        let check = |history: &str, tip, price, expected: Option<(Option<u128>, u128)>| {
            let expected = expected.map(|(base_fee, tip)| Quote { base_fee, tip });
            assert_eq!(quote(history, tip, price), expected, "{history}");
        };
        let full = r#"{"oldestBlock":"0x1","baseFeePerGas":["0x1","0x2","0x3","0x3b9aca00"],
            "gasUsedRatio":[0.5,0.9,0.1],"reward":[["0x77359400"],["0x3b9aca00"],["0xb2d05e00"]]}"#;
        check(full, Some(7), Some(8), Some((Some(GWEI), 2 * GWEI)));
        // Two of three blocks are empty: they do not count.
        let sparse = r#"{"baseFeePerGas":["0x1","0x2","0x3","0x3b9aca00"],
            "gasUsedRatio":[0,0.9,0.0],"reward":[["0x0"],["0x3b9aca00"],["0x0"]]}"#;
        check(sparse, Some(7), None, Some((Some(GWEI), GWEI)));
        let empty =
            r#"{"baseFeePerGas":["0x1","0x3b9aca00"],"gasUsedRatio":[0],"reward":[["0x0"]]}"#;
        check(empty, Some(GWEI), None, Some((Some(GWEI), GWEI)));
        check(empty, None, None, Some((Some(GWEI), TIP_WEI_MIN)));
        check(empty, Some(1), None, Some((Some(GWEI), TIP_WEI_MIN)));
        let no_rewards = r#"{"baseFeePerGas":["0x3b9aca00"],"gasUsedRatio":[0.5]}"#;
        check(no_rewards, Some(GWEI), None, Some((Some(GWEI), GWEI)));
        let nulls = r#"{"baseFeePerGas":["0x3b9aca00"],"gasUsedRatio":[null],"reward":null}"#;
        check(nulls, None, None, Some((Some(GWEI), TIP_WEI_MIN)));
        let free = r#"{"baseFeePerGas":["0x0","0x0"],"gasUsedRatio":[0.5],"reward":[["0x0"]]}"#;
        check(free, Some(9), Some(9), Some((Some(0), 0)));
        // Without base fees it is a price.
        for none in [
            "null",
            "{}",
            "[]",
            r#"{"baseFeePerGas":[]}"#,
            r#"{"baseFeePerGas":["1"]}"#,
            r#"{"baseFeePerGas":["0x1ffffffffffffffffffffffffffffffff"]}"#,
        ] {
            check(none, Some(1), Some(5), Some((None, 5)));
            check(none, Some(1), None, None);
        }
    }
}
