//! One call: the faults it meets, and who answers it.

use alloy_primitives::keccak256;

use super::answer::json;
use super::error::RpcError;
use super::params::Params;
use super::request::Call;
use crate::chain::{Devchain, SendError};
use crate::dialect::Verdict;
use crate::endpoint::EndpointId;
use crate::fault::{FaultKind, When};
use crate::rejection::Rejected;
use crate::tx::Tx;

pub(super) type Answered = Result<String, RpcError>;

/// The methods that are counted by name.
const METHODS: [&str; 26] = [
    "eth_sendRawTransaction",
    "eth_getTransactionReceipt",
    "eth_getTransactionCount",
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getBlockReceipts",
    "eth_getTransactionByHash",
    "eth_blockNumber",
    "eth_chainId",
    "eth_getBalance",
    "eth_getCode",
    "eth_gasPrice",
    "eth_maxPriorityFeePerGas",
    "eth_feeHistory",
    "eth_estimateGas",
    "eth_call",
    "eth_syncing",
    "eth_accounts",
    "eth_getLogs",
    "net_version",
    "net_listening",
    "web3_clientVersion",
    "txpool_status",
    "txpool_content",
    "eth_getBlockTransactionCountByNumber",
    "eth_getBlockTransactionCountByHash",
];

/// What the faults make of a call.
#[derive(Default)]
struct Struck {
    sight: Sight,
    instead: Option<FaultKind>,
}

/// How far the endpoint looks for one call.
#[derive(Clone, Copy, Default)]
pub(super) struct Sight {
    /// How many blocks further behind than it usually is.
    pub(super) lag: u64,
    /// How many states below its head it still has, if not all.
    pub(super) states: Option<u64>,
}

impl Devchain {
    pub(super) fn answer_call(&mut self, endpoint: EndpointId, call: &Call<'_>) -> Answered {
        let params = Params::read(call.params)?;
        if call.is_control() {
            return self.control(endpoint, &call.method, &params);
        }
        self.count(endpoint, &call.method);
        let Struck { sight, instead } = self.strike(endpoint, call);
        match instead {
            None => self.dispatch(endpoint, &call.method, &params, sight),
            Some(kind) => self.instead(endpoint, call, &params, &kind),
        }
    }

    fn count(&mut self, endpoint: EndpointId, method: &str) {
        let name = METHODS.iter().find(|name| **name == method);
        if let Ok(at) = self.at_mut(endpoint) {
            let name = name.copied().unwrap_or("unknown");
            *at.stats.calls.entry(name).or_default() += 1;
        }
    }

    fn strike(&mut self, endpoint: EndpointId, call: &Call<'_>) -> Struck {
        let mut struck = Struck::default();
        let Ok(at) = self.at_mut(endpoint) else {
            return struck;
        };
        if at.faults.is_empty() {
            return struck;
        }
        let asks_about = at.faults.iter().any(|(_, fault)| fault.asks_about());
        let target = call.target(asks_about);
        for (_, fault) in &mut at.faults {
            // Of two answers only one can be given, and the other fault keeps its count.
            let is_sight = matches!(fault.kind, FaultKind::Stale(_) | FaultKind::Pruned(_));
            let has_room = struck.instead.is_none() || is_sight;
            let matches = !fault.is_of_transport() && has_room && fault.matches(&target);
            if !matches || !fault.strikes() {
                continue;
            }
            let sight = &mut struck.sight;
            match fault.kind {
                FaultKind::Stale(blocks) => sight.lag = sight.lag.saturating_add(blocks),
                FaultKind::Pruned(blocks) => {
                    sight.states = Some(sight.states.map_or(blocks, |states| states.min(blocks)));
                }
                FaultKind::Late(_)
                | FaultKind::Hang(_)
                | FaultKind::Disconnect(_)
                | FaultKind::Http { .. }
                | FaultKind::RefuseBatches
                | FaultKind::Forget
                | FaultKind::Refuse { .. }
                | FaultKind::Error { .. }
                | FaultKind::Null
                | FaultKind::Count(_)
                | FaultKind::ChainId(_) => struck.instead = Some(fault.kind.clone()),
            }
        }
        at.faults.retain(|(_, fault)| !fault.is_used_up());
        struck
    }

    /// What a fault answers instead.
    fn instead(
        &mut self,
        endpoint: EndpointId,
        call: &Call<'_>,
        params: &Params,
        kind: &FaultKind,
    ) -> Answered {
        match kind {
            FaultKind::Forget => {
                let raw = params.bytes(0)?;
                let hash = keccak256(&raw);
                match Tx::decode(raw, self.config().chain_id) {
                    Ok(_) => Ok(json(&hash)),
                    Err(rejected) => self.refuse(endpoint, &rejected, params),
                }
            }
            FaultKind::Refuse { kind, when } => {
                self.done_all_the_same(endpoint, call, params, *when);
                self.refuse(endpoint, &Rejected::from(*kind), params)
            }
            FaultKind::Error {
                code,
                message,
                when,
            } => {
                self.done_all_the_same(endpoint, call, params, *when);
                Err(RpcError::new(*code, message.clone()))
            }
            FaultKind::Null => Ok("null".to_owned()),
            FaultKind::Count(count) => Ok(json(&super::json::Quantity(*count))),
            FaultKind::ChainId(id) if call.method == "net_version" => Ok(json(&id.to_string())),
            FaultKind::ChainId(id) => Ok(json(&super::json::Quantity(*id))),
            FaultKind::Late(_)
            | FaultKind::Hang(_)
            | FaultKind::Disconnect(_)
            | FaultKind::Http { .. }
            | FaultKind::RefuseBatches
            | FaultKind::Stale(_)
            | FaultKind::Pruned(_) => {
                self.dispatch(endpoint, &call.method, params, Sight::default())
            }
        }
    }

    fn done_all_the_same(
        &mut self,
        endpoint: EndpointId,
        call: &Call<'_>,
        params: &Params,
        when: When,
    ) {
        match when {
            When::Before => {}
            When::After => {
                // Its own answer is what the fault hides.
                drop(self.dispatch(endpoint, &call.method, params, Sight::default()));
            }
        }
    }

    pub(super) fn send_raw(&mut self, endpoint: EndpointId, params: &Params) -> Answered {
        let raw = params.bytes(0)?;
        match self.send(endpoint, raw) {
            Ok(hash) => Ok(json(&hash)),
            Err(SendError::NotThere(missing)) => Err(missing.into()),
            Err(SendError::Rejected(rejected)) => self.refuse(endpoint, &rejected, params),
        }
    }

    /// Refuses in the endpoint's own words.
    fn refuse(&self, endpoint: EndpointId, rejected: &Rejected, params: &Params) -> Answered {
        let dialect = self.at(endpoint)?.dialect;
        match dialect.verdict(rejected.rejection, &rejected.facts) {
            Verdict::Error { code, message } => Err(RpcError::new(code, message)),
            Verdict::Hash => Ok(json(&keccak256(params.bytes(0)?))),
        }
    }

    fn dispatch(
        &mut self,
        endpoint: EndpointId,
        method: &str,
        params: &Params,
        sight: Sight,
    ) -> Answered {
        match method {
            "eth_sendRawTransaction" => return self.send_raw(endpoint, params),
            "web3_clientVersion" => return Ok(json(self.at(endpoint)?.dialect.client_version())),
            "net_version" => return Ok(json(&self.config().chain_id.to_string())),
            "eth_chainId" => return Ok(json(&super::json::Quantity(self.config().chain_id))),
            "eth_syncing" => return Ok("false".to_owned()),
            "net_listening" => return Ok("true".to_owned()),
            "eth_accounts" | "eth_getLogs" => return Ok("[]".to_owned()),
            _the_rest_only_reads => {}
        }
        match self.read_chain(endpoint, method, params, sight)? {
            Some(answer) => Ok(answer),
            None => Err(RpcError::new(
                -32601,
                format!("the method {method} does not exist/is not available"),
            )),
        }
    }
}
