//! What a transaction does. There is no EVM: value moves and fees are paid for real, creations leave a
//! code, calls succeed, and a call of `revert(string)` at any address reverts for the reason it gives.

use alloy_primitives::{Address, Bytes, TxKind, U256, keccak256};

use crate::gas::Call;
use crate::state::State;
use crate::tx::Tx;

/// The selector of `revert(string)`: calling any address with it reverts.
pub const REVERT_SELECTOR: [u8; 4] = [0x6d, 0x58, 0x60, 0xd4];
/// The selector of `Error(string)`, in which reasons are answered.
const ERROR_SELECTOR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];

/// How a transaction went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Whether it did what it asked for.
    pub is_success: bool,
    /// The gas it used.
    pub gas_used: u64,
    /// The gas that the block had used after it.
    pub gas_used_cumulative: u64,
    /// What a unit of its gas cost, in wei.
    pub price: u128,
    /// What it created.
    pub contract: Option<Address>,
}

/// Why a transaction cannot be in this block now. It may fit a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Another nonce is next.
    #[error("another nonce of its account is next")]
    Nonce,
    /// It cannot pay the base fee.
    #[error("it cannot pay the base fee")]
    BaseFee,
    /// Its sender cannot pay for it.
    #[error("its account cannot pay for it")]
    Funds,
    /// The block has less gas left.
    #[error("the block has less gas left")]
    Gas,
}

/// Runs a transaction on a state. On an error the state is as it was.
pub(crate) fn execute(
    state: &mut State,
    tx: &Tx,
    base_fee: u64,
    gas_left: u64,
) -> Result<Receipt, Unfit> {
    let mut sender = state.account(&tx.sender);
    if tx.nonce != sender.nonce {
        return Err(Unfit::Nonce);
    }
    if tx.tip_at(base_fee).is_none() {
        return Err(Unfit::BaseFee);
    }
    if tx.cost() > sender.balance {
        return Err(Unfit::Funds);
    }
    if tx.gas_limit > gas_left {
        return Err(Unfit::Gas);
    }
    let needed = gas_call(tx).needed();
    let price = tx.price_at(base_fee);
    let is_success = needed <= tx.gas_limit && revert_data(tx.to, &tx.input).is_none();
    let gas_used = needed.min(tx.gas_limit);

    // The cost was covered with the whole gas limit at the fee cap, so neither subtraction can fail.
    sender.nonce += 1;
    sender.balance -= U256::from(gas_used) * U256::from(price);
    if is_success {
        sender.balance -= tx.value;
    }
    state.put(tx.sender, sender);
    let contract = match tx.to {
        TxKind::Create => Some(tx.sender.create(tx.nonce)),
        TxKind::Call(_) => None,
    };
    if is_success {
        let receiver = contract.or(tx.to.to().copied());
        let receiver = receiver.expect("what creates nothing calls someone");
        let mut account = state.account(&receiver);
        account.balance = account.balance.saturating_add(tx.value);
        if contract.is_some() {
            account.code = Some(keccak256(&tx.input));
        }
        state.put(receiver, account);
    }
    Ok(Receipt {
        is_success,
        gas_used,
        gas_used_cumulative: gas_used,
        price,
        contract,
    })
}

/// The transaction as the gas rules see it.
pub(crate) fn gas_call(tx: &Tx) -> Call<'_> {
    Call {
        is_create: tx.to.is_create(),
        input: &tx.input,
        access_list: &tx.access_list,
    }
}

/// What a call that reverts by convention answers: the `Error(string)` of its own argument.
pub(crate) fn revert_data(to: TxKind, input: &[u8]) -> Option<Bytes> {
    match to {
        TxKind::Create => None,
        TxKind::Call(_) => {
            let argument = input.strip_prefix(&REVERT_SELECTOR)?;
            Some([&ERROR_SELECTOR, argument].concat().into())
        }
    }
}

/// The text inside an `Error(string)`, if it is one.
pub(crate) fn revert_reason(data: &[u8]) -> Option<String> {
    let argument = data.strip_prefix(&ERROR_SELECTOR)?;
    let offset = word(argument, 0)?;
    let length = word(argument, offset)?;
    let start = offset.checked_add(32)?;
    let text = argument.get(start..start.checked_add(length)?)?;
    String::from_utf8(text.to_vec()).ok()
}

fn word(data: &[u8], at: usize) -> Option<usize> {
    let word = data.get(at..at.checked_add(32)?)?;
    usize::try_from(U256::from_be_slice(word)).ok()
}

/// The data of a call that reverts for a reason.
#[must_use]
pub fn revert_call(reason: &str) -> Bytes {
    let mut data = REVERT_SELECTOR.to_vec();
    data.extend(U256::from(32).to_be_bytes::<32>());
    data.extend(U256::from(reason.len()).to_be_bytes::<32>());
    data.extend(reason.as_bytes());
    let padding = reason.len().next_multiple_of(32) - reason.len();
    data.extend(std::iter::repeat_n(0, padding));
    data.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selector_is_that_of_revert_string() {
        assert_eq!(keccak256("revert(string)")[..4], REVERT_SELECTOR);
        assert_eq!(keccak256("Error(string)")[..4], ERROR_SELECTOR);
    }

    #[test]
    fn a_reason_comes_back_as_it_went_in() {
        for reason in ["", "no", "thirty-two bytes, no more no less", "né ü"] {
            let data = revert_data(TxKind::Call(Address::ZERO), &revert_call(reason));
            assert_eq!(revert_reason(&data.unwrap()).as_deref(), Some(reason));
        }
    }

    #[test]
    fn a_reason_that_is_no_abi_is_no_reason() {
        let data = revert_data(TxKind::Call(Address::ZERO), &REVERT_SELECTOR).unwrap();
        assert_eq!(revert_reason(&data), None);
        let mut huge = ERROR_SELECTOR.to_vec();
        huge.extend([0xff; 64]);
        assert_eq!(revert_reason(&huge), None);
    }
}
