//! What things cost, and what a call would do.

use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use serde::{Deserialize, Serialize};

use super::answer::json;
use super::call::Answered;
use super::error::RpcError;
use super::json::Quantity;
use super::params::{Params, Which};
use crate::block::Block;
use crate::chain::{At, Devchain, Seen, Unknown};
use crate::execution::{revert_data, revert_reason};
use crate::gas::Call;

/// How many blocks `eth_feeHistory` answers for, as geth does.
const HISTORY_MAX: u64 = 1_024;
/// How many percentiles it answers for, as geth does.
const PERCENTILES_MAX: usize = 100;
/// Percentiles are reckoned in hundredths.
const HUNDREDTHS: u64 = 100;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FeeHistory {
    oldest_block: Quantity<u64>,
    base_fee_per_gas: Vec<Quantity<u64>>,
    gas_used_ratio: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reward: Option<Vec<Vec<Quantity<u128>>>>,
}

/// The call of `eth_call` and `eth_estimateGas`. Fields that change nothing here are not read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CallRequest {
    from: Address,
    to: Option<Address>,
    value: Option<U256>,
    data: Option<Bytes>,
    input: Option<Bytes>,
    gas: Option<U256>,
    gas_price: Option<U256>,
    max_fee_per_gas: Option<U256>,
    access_list: Option<AccessList>,
}

impl CallRequest {
    fn to(&self) -> TxKind {
        self.to.map_or(TxKind::Create, TxKind::Call)
    }

    fn input(&self) -> Bytes {
        let given = self.input.as_ref().or(self.data.as_ref());
        given.cloned().unwrap_or_default()
    }
}

impl Devchain {
    pub(super) fn gas_price(&self, seen: &Seen<'_>) -> String {
        let base_fee = u128::from(self.base_fee_after(seen.head()));
        json(&Quantity(base_fee + self.config().tip_proposed))
    }

    pub(super) fn fee_history(&self, seen: &Seen<'_>, params: &Params) -> Answered {
        let count = params.number(0)?.unwrap_or(1).clamp(1, HISTORY_MAX);
        let newest = match params.height(1)? {
            Which::Block(at) => seen.block(at).ok_or(Unknown::Block)?,
            Which::Pending => seen.head(),
        };
        let percentiles = percentiles(params)?;
        let lowest = seen.block(At::Earliest).map_or(0, |block| block.number());
        let oldest = (newest.number() + 1).saturating_sub(count).max(lowest);
        let blocks: Vec<&Block> = (oldest..=newest.number())
            .filter_map(|number| Some(seen.block(At::Number(number))?.as_ref()))
            .collect();
        let next = self.base_fee_after(newest);
        let base_fees = blocks.iter().map(|block| block.base_fee()).chain([next]);
        let reward = !percentiles.is_empty();
        let reward = reward.then(|| {
            blocks
                .iter()
                .map(|block| tips(block, &percentiles))
                .collect()
        });
        Ok(json(&FeeHistory {
            oldest_block: Quantity(oldest),
            base_fee_per_gas: base_fees.map(Quantity).collect(),
            gas_used_ratio: blocks.iter().map(|block| fullness(block)).collect(),
            reward,
        }))
    }

    pub(super) fn eth_call(&self, seen: &Seen<'_>, params: &Params) -> Answered {
        let request: CallRequest = params.object(0)?;
        self.run(seen, &request, U256::MAX)?;
        Ok(json("0x"))
    }

    pub(super) fn estimate(&self, seen: &Seen<'_>, params: &Params) -> Answered {
        let request: CallRequest = params.object(0)?;
        let affordable = affordable(seen, &request)?;
        let needed = self.run(seen, &request, affordable)?;
        Ok(json(&Quantity(needed)))
    }

    /// What gas a call needs, or why it fails.
    fn run(
        &self,
        seen: &Seen<'_>,
        request: &CallRequest,
        affordable: U256,
    ) -> Result<u64, RpcError> {
        let input = request.input();
        if let Some(data) = revert_data(request.to(), &input) {
            let message = match revert_reason(&data) {
                Some(reason) => format!("execution reverted: {reason}"),
                None => "execution reverted".to_owned(),
            };
            let data = Some(data);
            return Err(RpcError {
                code: 3,
                message,
                data,
            });
        }
        if request.value.unwrap_or_default() > seen.state().balance(&request.from) {
            return Err(no_funds());
        }
        let access_list = request.access_list.clone().unwrap_or_default();
        let call = Call {
            is_create: request.to().is_create(),
            input: &input,
            access_list: &access_list,
        };
        let (needed, allowed) = (call.needed(), self.config().tx_gas_max);
        let allowed = request.gas.unwrap_or(U256::from(allowed)).min(affordable);
        if U256::from(needed) > allowed {
            let message = format!("gas required exceeds allowance ({allowed})");
            return Err(RpcError::new(-32000, message));
        }
        Ok(needed)
    }
}

/// The gas that the sender can pay at the fee it names, as geth reckons: without a fee there is no bound,
/// and with one what it sends must leave something.
fn affordable(seen: &Seen<'_>, request: &CallRequest) -> Result<U256, RpcError> {
    let price = request.max_fee_per_gas.or(request.gas_price);
    let Some(price) = price.filter(|price| !price.is_zero()) else {
        return Ok(U256::MAX);
    };
    let balance = seen.state().balance(&request.from);
    match request.value {
        Some(value) if value >= balance => Err(no_funds()),
        Some(_) | None => Ok((balance - request.value.unwrap_or_default()) / price),
    }
}

fn no_funds() -> RpcError {
    RpcError::new(-32000, "insufficient funds for transfer")
}

/// The asked percentiles, in hundredths of a percent.
fn percentiles(params: &Params) -> Result<Vec<u64>, RpcError> {
    let asked = params.list(2)?;
    if asked.len() > PERCENTILES_MAX {
        return Err(RpcError::params("over the query limit 100"));
    }
    let wrong = || RpcError::new(-32000, "invalid reward percentile");
    let mut read = Vec::new();
    for percentile in asked {
        let percentile = percentile.as_f64().ok_or_else(wrong)?;
        let is_sane = (0.0..=100.0).contains(&percentile);
        let hundredths = format!("{:.0}", percentile * 100.0).parse();
        let hundredths = hundredths.ok().filter(|_| is_sane).ok_or_else(wrong)?;
        if read.last().is_some_and(|last| *last > hundredths) {
            return Err(wrong());
        }
        read.push(hundredths);
    }
    Ok(read)
}

/// The tips of a block at percentiles of its gas.
fn tips(block: &Block, percentiles: &[u64]) -> Vec<Quantity<u128>> {
    let base_fee = u128::from(block.base_fee());
    let mut paid: Vec<(u128, u64)> = block
        .txs
        .iter()
        .map(|mined| (mined.receipt.price - base_fee, mined.receipt.gas_used))
        .collect();
    paid.sort_unstable();
    let at = |percentile: &u64| {
        let bound = u128::from(block.header.gas_used) * u128::from(*percentile);
        let mut sum = 0;
        let reached = paid.iter().find(|(_, gas)| {
            sum += u128::from(*gas) * u128::from(100 * HUNDREDTHS);
            sum >= bound
        });
        Quantity(reached.map_or(0, |(tip, _)| *tip))
    };
    percentiles.iter().map(at).collect()
}

fn fullness(block: &Block) -> f64 {
    let header = &block.header;
    let millionths = u128::from(header.gas_used) * 1_000_000 / u128::from(header.gas_limit.max(1));
    f64::from(u32::try_from(millionths).unwrap_or(u32::MAX)) / 1_000_000.0
}
