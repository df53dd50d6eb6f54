//! Who may enter the pool: the rules of geth's legacy pool, in its order.

use std::sync::Arc;

use alloy_primitives::U256;

use super::{Accepted, Pool, Queue};
use crate::dialect::TX_BYTES_MAX;
use crate::execution::gas_call;
use crate::rejection::{Facts, Rejected, Rejection};
use crate::state::Account;
use crate::tx::Tx;

type Admission = Result<(), Rejected>;

/// What a chain allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) block_gas_max: u64,
    pub(crate) tx_gas_max: u64,
    pub(crate) tip_min: u128,
}

/// What can be said of a transaction without knowing the chain's state.
fn check_static(tx: &Tx, rules: Rules) -> Admission {
    let facts = Facts {
        nonce: tx.nonce,
        gas: tx.gas_limit,
        fee: tx.tip_cap,
        size: tx.raw.len(),
        ..Facts::default()
    };
    let gas = |gas_bound| Facts { gas_bound, ..facts };
    if tx.raw.len() > TX_BYTES_MAX {
        return Err(Rejection::Oversized.with(facts));
    }
    if tx.gas_limit > rules.tx_gas_max {
        return Err(Rejection::GasAboveCap.with(gas(rules.tx_gas_max)));
    }
    if tx.gas_limit > rules.block_gas_max {
        return Err(Rejection::GasAboveBlock.with(gas(rules.block_gas_max)));
    }
    if tx.tip_cap > tx.fee_cap {
        return Err(Rejection::TipAboveCap.with(facts));
    }
    let call = gas_call(tx);
    let gas_min = call.intrinsic().max(call.floor());
    if tx.gas_limit < gas_min {
        return Err(Rejection::IntrinsicGas.with(gas(gas_min)));
    }
    if tx.tip_cap < rules.tip_min {
        let fee_bound = rules.tip_min;
        return Err(Rejection::BelowMinimum.with(Facts { fee_bound, ..facts }));
    }
    Ok(())
}

impl Pool {
    /// Takes a transaction in, or says why not; then nothing has changed.
    pub(crate) fn admit(&mut self, tx: Arc<Tx>, account: &Account, rules: Rules) -> Admission {
        if self.by_hash.contains_key(&tx.hash) {
            return Err(Rejection::AlreadyKnown.into());
        }
        check_static(&tx, rules)?;
        self.check_account(&tx, account)?;
        self.make_room(&tx, account)?;
        let (sender, nonce, hash) = (tx.sender, tx.nonce, tx.hash);
        self.insert(tx);
        let held = self.len_of(&sender);
        self.journal.note(sender, Accepted { nonce, hash }, held);
        Ok(())
    }

    fn check_account(&self, tx: &Tx, account: &Account) -> Admission {
        let empty = Queue::default();
        let queue = self.queues.get(&tx.sender).unwrap_or(&empty);
        let old = queue.txs.get(&tx.nonce).map(|pooled| &pooled.tx);
        let cost_old = old.map_or(U256::ZERO, |old| old.cost());
        let facts = Facts {
            nonce: tx.nonce,
            nonce_next: account.nonce,
            balance: account.balance,
            cost: tx.cost(),
            cost_pooled: queue.cost.saturating_sub(cost_old),
            pooled: queue.txs.len(),
            ..Facts::default()
        };
        if tx.nonce < account.nonce {
            return Err(Rejection::NonceTooLow.with(facts));
        }
        if account.code.is_some() {
            return Err(Rejection::SenderHasCode.with(facts));
        }
        if tx.nonce - account.nonce > self.limits.gap_max {
            return Err(Rejection::NonceTooHigh.with(facts));
        }
        if facts.cost_pooled.saturating_add(facts.cost) > account.balance {
            return Err(Rejection::NoFunds.with(facts));
        }
        match old {
            Some(old) if !self.pays_more(tx, old) => {
                Err(Rejection::ReplacementUnderpriced.with(facts))
            }
            None if queue.txs.len() >= self.limits.account_max => {
                Err(Rejection::AccountLimit.with(facts))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Both fees have to rise, and by the whole bump: nodes that differ in this disagree for ever about
    /// which of two transactions they hold.
    fn pays_more(&self, new: &Tx, old: &Tx) -> bool {
        let enough = |new: u128, old: u128| {
            let bumped = U256::from(old) * U256::from(100 + self.limits.bump_percent);
            new > old && U256::from(new) >= bumped / U256::from(100)
        };
        enough(new.fee_cap, old.fee_cap) && enough(new.tip_cap, old.tip_cap)
    }

    /// In a full pool, only what can be mined next pushes another out, and only a cheaper one.
    fn make_room(&mut self, tx: &Tx, account: &Account) -> Admission {
        let queue = self.queues.get(&tx.sender);
        let is_replacement = queue.is_some_and(|queue| queue.txs.contains_key(&tx.nonce));
        if is_replacement || self.len() < self.limits.total_max {
            return Ok(());
        }
        if tx.nonce > self.next_nonce(&tx.sender, account.nonce) {
            return Err(Rejection::PoolFull.into());
        }
        match self.by_price.first().copied() {
            None => Err(Rejection::PoolFull.into()),
            Some(cheapest) if cheapest.fee_cap >= tx.fee_cap => Err(Rejection::Underpriced.into()),
            Some(cheapest) => {
                self.remove(&cheapest.hash);
                Ok(())
            }
        }
    }
}
