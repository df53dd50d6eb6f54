//! Keys of the usual test phrase: their addresses for chains that fund them, and signed bytes for the limit of a
//! chain that only takes sends.

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, Bytes, TxKind, U256};
use alloy_signer::SignerSync;
use alloy_signer_local::{MnemonicBuilder, PrivateKeySigner};
use anyhow::Result;

use crate::node::PHRASE;

/// Enough for what the chains here ask.
const FEE_WEI: u128 = 20_000_000_000;
const TIP_WEI: u128 = 1_000_000_000;

/// The first keys of the phrase.
pub(crate) fn keys(count: usize) -> Result<Vec<PrivateKeySigner>> {
    let builder = MnemonicBuilder::english().phrase(PHRASE).index(0)?;
    let parent = builder.build_parent_key()?;
    (0..u32::try_from(count)?)
        .map(|index| {
            let child = parent.child(index)?;
            Ok(PrivateKeySigner::from_bytes(&child.signer().to_bytes())?)
        })
        .collect()
}

/// Their addresses, as clients may write them.
pub(crate) fn addresses(keys: &[PrivateKeySigner]) -> Vec<String> {
    let lower = |key: &PrivateKeySigner| key.address().to_string().to_lowercase();
    keys.iter().map(lower).collect()
}

/// A signed transfer, as hex.
pub(crate) fn transfer(key: &PrivateKeySigner, chain_id: u64, nonce: u64) -> Result<String> {
    let tx = TxEip1559 {
        chain_id,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: FEE_WEI,
        max_priority_fee_per_gas: TIP_WEI,
        to: TxKind::Call(Address::repeat_byte(7)),
        value: U256::from(1),
        ..TxEip1559::default()
    };
    let signature = key.sign_hash_sync(&tx.signature_hash())?;
    let bytes: Bytes = TxEnvelope::from(tx.into_signed(signature))
        .encoded_2718()
        .into();
    Ok(bytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_is_the_one_that_everybody_knows() -> Result<()> {
        let told = addresses(&keys(2)?);
        assert_eq!(told[0], "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266");
        assert_eq!(told[1], "0x70997970c51812dc3a010c7d01b50e0d17dc79c8");
        Ok(())
    }
}
