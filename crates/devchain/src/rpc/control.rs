//! The methods that steer the chain from another process. What they change is what the Rust API changes.

use alloy_primitives::{Address, B256};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::Answered;
use super::error::RpcError;
use super::params::Params;
use crate::branch::BranchId;
use crate::chain::{Devchain, Plan, Reorg};
use crate::dialect::Dialect;
use crate::endpoint::{EndpointId, View};
use crate::fault::{Fault, FaultId};
use crate::pool::Accepted;

/// How many blocks one call mines. A caller that wants more calls again; others get a turn between.
const MINE_MAX: u64 = 1_000;

/// Which endpoint is meant; the one that is called if it is left out.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ViewRequest {
    endpoint: Option<String>,
    #[serde(default)]
    lag: u64,
    branch: Option<BranchId>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClearRequest {
    endpoint: Option<String>,
    id: Option<u64>,
}

impl Devchain {
    pub(super) fn control(
        &mut self,
        endpoint: EndpointId,
        method: &str,
        params: &Params,
    ) -> Answered {
        let answer = match method {
            "evm_mine" => self.mine_one(params)?,
            "dev_mine" | "anvil_mine" | "hardhat_mine" => self.mine_many(params)?,
            "dev_mineWith" => self.mine_wanted(params)?,
            "dev_setBalance" | "anvil_setBalance" | "hardhat_setBalance" => {
                self.set_balance(params.address(0)?, params.quantity(1)?);
                Value::Null
            }
            "dev_setBaseFee" => {
                self.set_base_fee(params.number(0)?);
                Value::Null
            }
            "dev_reorg" => {
                let plan: Plan = params.object(0)?;
                told(self.reorg(&plan).map_err(refused)?)
            }
            "dev_switch" => {
                let id = params
                    .number(0)?
                    .ok_or_else(|| RpcError::params("no branch"))?;
                told(self.switch_to(BranchId(id)).map_err(refused)?)
            }
            "dev_branches" => self.tell_branches(),
            "dev_view" => self.change_view(endpoint, params)?,
            "dev_dialect" => {
                self.set_dialect(endpoint, params.object::<Dialect>(0)?)?;
                Value::Null
            }
            "dev_fault" => self.fault(endpoint, params)?,
            "dev_clear" => {
                let request: ClearRequest = params.object(0)?;
                let endpoint = self.named(endpoint, request.endpoint.as_deref())?;
                json!(self.clear_faults(endpoint, request.id.map(FaultId))?)
            }
            "dev_drop" => self.drop_some(endpoint, params)?,
            "dev_gossip" => {
                self.gossip(endpoint)?;
                Value::Null
            }
            "dev_stats" => {
                let stats = self.stats(endpoint)?;
                json!({ "requests": stats.requests, "calls": stats.calls })
            }
            "dev_sends" => self.tell_sends(params.address(0)?),
            "dev_mined" => tell_all(&self.mined_of(params.address(0)?)),
            _there_is_no_such_method => {
                let message = format!("the method {method} does not exist/is not available");
                return Err(RpcError::new(-32601, message));
            }
        };
        Ok(answer.to_string())
    }

    fn mine_one(&mut self, params: &Params) -> Result<Value, RpcError> {
        let timestamp = params.number(0)?.unwrap_or_else(|| self.time_next());
        self.mine(timestamp);
        Ok(json!("0x0"))
    }

    fn mine_many(&mut self, params: &Params) -> Result<Value, RpcError> {
        let count = params.number(0)?.unwrap_or(1);
        let interval = params.number(1)?.unwrap_or(1);
        if count > MINE_MAX {
            return Err(RpcError::argument(0, format!("{MINE_MAX} blocks at most")));
        }
        for position in 0..count {
            let timestamp = match position {
                0 => self.time_next(),
                _later => self.head().header.timestamp.saturating_add(interval),
            };
            self.mine(timestamp);
        }
        Ok(Value::Null)
    }

    fn mine_wanted(&mut self, params: &Params) -> Result<Value, RpcError> {
        let wanted: Result<Vec<B256>, _> = params
            .list(0)?
            .iter()
            .map(|hash| serde_json::from_value(hash.clone()))
            .collect();
        let wanted = wanted.map_err(|error| RpcError::argument(0, error))?;
        let timestamp = params.number(1)?.unwrap_or_else(|| self.time_next());
        let block = self.mine_with(&wanted, timestamp);
        let block = block.map_err(|error| RpcError::new(-32000, error.to_string()))?;
        Ok(json!({ "number": block.number(), "hash": block.hash }))
    }

    fn tell_branches(&self) -> Value {
        let canonical = self.canonical();
        let branches = self.branches().into_iter().map(|(id, number, hash)| {
            json!({ "branch": id, "number": number, "hash": hash, "canonical": id == canonical })
        });
        branches.collect()
    }

    fn change_view(&mut self, endpoint: EndpointId, params: &Params) -> Result<Value, RpcError> {
        let request: ViewRequest = params.object(0)?;
        let endpoint = self.named(endpoint, request.endpoint.as_deref())?;
        let ViewRequest { lag, branch, .. } = request;
        self.set_view(endpoint, View { branch, lag })?;
        Ok(Value::Null)
    }

    fn fault(&mut self, endpoint: EndpointId, params: &Params) -> Result<Value, RpcError> {
        let mut request: serde_json::Map<String, Value> = params.object(0)?;
        let name = request.remove("endpoint");
        let endpoint = self.named(endpoint, name.as_ref().and_then(Value::as_str))?;
        let mut fault: Fault = serde_json::from_value(Value::Object(request))
            .map_err(|error| RpcError::argument(0, error))?;
        fault.about = fault
            .about
            .iter()
            .map(|about| about.to_lowercase())
            .collect();
        let FaultId(id) = self.add_fault(endpoint, fault)?;
        Ok(json!(id))
    }

    fn drop_some(&mut self, endpoint: EndpointId, params: &Params) -> Result<Value, RpcError> {
        let hash: Option<B256> = params.optional_hash(0)?;
        Ok(match hash {
            Some(hash) => json!(usize::from(self.drop_tx(endpoint, hash)?)),
            None => json!(self.drop_all(endpoint)?),
        })
    }

    fn tell_sends(&self, address: Address) -> Value {
        json!({
            "sends": tell_all(&self.sends_of(address)),
            "pooled": self.pooled_of(address),
            "pooledMax": self.pooled_max_of(address),
        })
    }

    fn named(&self, called: EndpointId, name: Option<&str>) -> Result<EndpointId, RpcError> {
        let Some(name) = name else {
            return Ok(called);
        };
        let found = self.endpoint(name);
        found.ok_or_else(|| RpcError::argument(0, format!("there is no endpoint {name:?}")))
    }
}

fn refused(error: crate::chain::ReorgError) -> RpcError {
    RpcError::new(-32000, error.to_string())
}

fn told(reorg: Reorg) -> Value {
    json!({
        "left": reorg.left,
        "entered": reorg.entered,
        "number": reorg.head.number(),
        "hash": reorg.head.hash,
    })
}

fn tell_all(accepted: &[Accepted]) -> Value {
    let told = accepted
        .iter()
        .map(|one| json!({ "nonce": one.nonce, "hash": one.hash }));
    told.collect()
}
