//! Bytes that other programs made of the same transactions: signing is deterministic (RFC 6979), so
//! ours must be equal to the last bit.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

use alloy_consensus::transaction::SignerRecoverable;
use alloy_consensus::{Transaction, TxEnvelope};
use alloy_eips::Decodable2718;
use alloy_primitives::{address, b256, hex};
use fencepost_app::ports::{Signed, Signer};
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::ids::{ChainId, Nonce};
use fencepost_domain::request::Access;
use fencepost_domain::{Address, B256, Bytes, U256, keccak256};
use fencepost_signer::{KeySource, KeySpec, Keyring};

const GWEI: u128 = 1_000_000_000;
/// The key of the example in EIP-155.
const EIP155_KEY: &str = "4646464646464646464646464646464646464646464646464646464646464646";
/// The first key of the mnemonic of eleven times "test" and "junk", which viem's tests sign with.
const TEST_KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

async fn sign(key: &str, tx: &Unsigned) -> (Address, Signed) {
    let source = KeySource::Private(key.into());
    let spec = KeySpec {
        source,
        address: None,
    };
    let keyring = Keyring::open(vec![spec]).await.unwrap();
    let account = keyring.addresses()[0][0];
    (account, keyring.sign(account, tx).await.unwrap())
}

/// viem's smallest transaction: it creates a contract of nothing.
fn small(max_fee: u128, max_priority_fee: Option<u128>, access: Option<Vec<Access>>) -> Unsigned {
    Unsigned {
        chain: ChainId::new(1).unwrap(),
        nonce: Nonce::new(785).unwrap(),
        to: None,
        value: U256::ZERO,
        data: Bytes::new(),
        gas: 21_000,
        fees: SignedFees {
            max_fee,
            max_priority_fee,
        },
        access,
    }
}

fn listed() -> Vec<Access> {
    let keys = vec![
        B256::with_last_byte(1),
        b256!("60fdd29ff912ce880cd3edaf9f932dc61d3dae823ea77e0323f94adb9f6a72fe"),
    ];
    let address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
    vec![Access { address, keys }]
}

#[tokio::test]
async fn the_example_of_eip_155_is_signed_as_it_says() {
    let tx = Unsigned {
        nonce: Nonce::new(9).unwrap(),
        to: Some(Address::repeat_byte(0x35)),
        value: U256::from(10).pow(U256::from(18)),
        ..small(20 * GWEI, None, None)
    };
    let (account, signed) = sign(EIP155_KEY, &tx).await;
    assert_eq!(
        account,
        address!("9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F")
    );
    let raw = hex!(
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a0"
        "28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb70330"
        "4b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    );
    assert_eq!(signed.raw, raw[..]);
    let hash = b256!("33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788");
    assert_eq!(signed.hash, hash);
}

#[tokio::test]
async fn the_example_of_web3js_is_signed_as_it_says() {
    let tx = Unsigned {
        nonce: Nonce::ZERO,
        to: Some(address!("F0109fC8DF283027b6285cc889F5aA624EaC1F55")),
        value: U256::from(GWEI),
        gas: 2_000_000,
        ..small(21 * GWEI, None, None)
    };
    let key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318";
    let (_, signed) = sign(key, &tx).await;
    let scalars = hex!(
        "25a0c9cf86333bcb065d140032ecaab5d9281bde80f21b9687b3e94161de42d51895"
        "a0727a108a0b8d101465414033c3f705a9c7b826e596766046ee1183dbc8aeaa68"
    );
    assert!(signed.raw.ends_with(&scalars), "{}", signed.raw);
}

/// viem's `signTransaction` for each type: creation, access lists, data, fees.
#[tokio::test]
async fn every_type_is_signed_as_viem_signs_it() {
    let data = |tx: Unsigned| Unsigned {
        data: hex!("1234").into(),
        ..tx
    };
    let cases = [
        (
            small(0, Some(0), None),
            "02f850018203118080825208808080c080a04012522854168b27e5dc3d5839bab5e6b39e1a0ffd343901ce1622e3d64b48f1a04e00902ae0502c4728cbf12156290df99c3ed7de85b1dbfe20b5c36931733a33",
        ),
        (
            small(0, Some(0), Some(vec![])),
            "02f850018203118080825208808080c080a04012522854168b27e5dc3d5839bab5e6b39e1a0ffd343901ce1622e3d64b48f1a04e00902ae0502c4728cbf12156290df99c3ed7de85b1dbfe20b5c36931733a33",
        ),
        (
            small(0, Some(0), Some(listed())),
            "02f8ac018203118080825208808080f85bf85994f39fd6e51aad88f6f4ce6ab8827279cfffb92266f842a00000000000000000000000000000000000000000000000000000000000000001a060fdd29ff912ce880cd3edaf9f932dc61d3dae823ea77e0323f94adb9f6a72fe80a0df4810a25d0e147163b03e392bf083dc852702715b9ba848eb9821c70ce2c92ea00b6d11209ef326abaf83aa2443ba61851c7c8ca0813e347a04b501f584b03024",
        ),
        (
            data(small(0, Some(0), None)),
            "02f8520182031180808252088080821234c001a054d552c58a162c9003633c20871d8e381ef7a3c35d1c8a79c7c12d5cf09a0914a03c5d6241f8c4fcf8b35262de038d3ab1940feb1a70b934ae5d40ea6bce912e2d",
        ),
        (
            small(20 * GWEI, Some(2 * GWEI), None),
            "02f8590182031184773594008504a817c800825208808080c001a06ea33b188b30a5f5d0d1cec62b2bac7203ff428a49048766596727737689043fa0255b74c8e704e3692497a29cd246ffc4344b4107457ce1c914fe2b4e09993859",
        ),
        (
            small(0, None, Some(vec![])),
            "01f84f0182031180825208808080c080a089cebce5c7f728febd1060b55837c894ec2a79dd7854350abce252fc2de96b5da039f2782c70b92f4b1916aa8db91453c7229f33458bd091b3e10a40f9a7e443d2",
        ),
        (
            small(0, None, Some(listed())),
            "01f8ab0182031180825208808080f85bf85994f39fd6e51aad88f6f4ce6ab8827279cfffb92266f842a00000000000000000000000000000000000000000000000000000000000000001a060fdd29ff912ce880cd3edaf9f932dc61d3dae823ea77e0323f94adb9f6a72fe01a041dbfa79cb11e5049b7c64e29c8484a2b43e664dcaea31ba1f2c9887c62f76b7a002964169f5c366e21a440c006a06f121eca1aafa2275d7c1f165891eb3d31e54",
        ),
        (
            data(small(0, None, Some(vec![]))),
            "01f85101820311808252088080821234c080a084fdcea5fe55ce8378aa94a8d4a9c01545d59922f1edcdd89a71ebf740dc0bf5a0539a4ab61a42509a6b4c35c85099d8b7b8e815967f0c832c868327caca6307cb",
        ),
        (
            small(20 * GWEI, None, Some(vec![])),
            "01f854018203118504a817c800825208808080c080a058e29913bc928a79e0536fc588e8fe372464d1ff4feff691c344c0163280c97ea037780b5c99301a67aaacfbe98c83139fd026e30925fc103b7898b53af9cb0658",
        ),
    ];
    for (tx, raw) in cases {
        let (_, signed) = sign(TEST_KEY, &tx).await;
        assert_eq!(hex::encode(&signed.raw), raw, "{tx:?}");
        assert_eq!(signed.hash, keccak256(&signed.raw));
    }
}

/// What we make is read back by a decoder of its own, for the greatest values that each field holds.
#[tokio::test]
async fn the_greatest_values_survive_and_are_signed_by_the_account() {
    let long = vec![0xa5; 100_000];
    for (tip, access) in [
        (None, None),
        (None, Some(listed())),
        (Some(u128::MAX), Some(listed())),
    ] {
        let tx = Unsigned {
            chain: ChainId::MAX,
            nonce: Nonce::MAX,
            to: Some(Address::repeat_byte(0xff)),
            value: U256::MAX,
            data: long.clone().into(),
            gas: u64::MAX,
            fees: SignedFees {
                max_fee: u128::MAX,
                max_priority_fee: tip,
            },
            access,
        };
        let (account, signed) = sign(EIP155_KEY, &tx).await;
        let read = TxEnvelope::decode_2718_exact(&signed.raw).unwrap();
        assert_eq!(read.recover_signer().unwrap(), account);
        assert_eq!(*read.tx_hash(), signed.hash);
        assert_eq!(read.chain_id(), Some(ChainId::MAX.get()));
        assert_eq!(read.nonce(), Nonce::MAX.get());
        assert_eq!((read.to(), read.value()), (tx.to, tx.value));
        assert_eq!((read.input(), read.gas_limit()), (&tx.data, tx.gas));
        assert_eq!(read.max_fee_per_gas(), u128::MAX);
        assert_eq!(read.max_priority_fee_per_gas(), tip);
        let keys = read
            .access_list()
            .map(|list| list.0[0].storage_keys.clone());
        assert_eq!(keys, tx.access.map(|list| list[0].keys.clone()));
    }
}
