//! Opening a keyring: what it gives, what it refuses, and that nothing secret ever shows.

#![allow(clippy::unwrap_used)] // A test may stop at any surprise.

use alloy_primitives::address;
use fencepost_app::ports::{Signer, Unsignable};
use fencepost_domain::attempt::{SignedFees, Unsigned};
use fencepost_domain::ids::{ChainId, Nonce};
use fencepost_domain::{Address, Bytes, U256};
use fencepost_signer::{
    BadKeystore, BadMnemonic, BadPrivate, BadUrl, Flaw, KeySource, KeySpec, Keyring, OpenError,
};

const KEY: &str = "4646464646464646464646464646464646464646464646464646464646464646";
const KEY_ACCOUNT: Address = address!("9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F");
const PHRASE: &str = "test test test test test test test test test test test junk";
const FIRST: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const SECOND: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
const OTHER: Address = Address::repeat_byte(0x77);
const KEYSTORE_ACCOUNT: Address = address!("008aeeda4d805471df9b2a5b0f38a0c3bcba786b");

fn private(text: &str) -> KeySource {
    KeySource::Private(text.into())
}

fn mnemonic(count: u32) -> KeySource {
    let phrase = PHRASE.into();
    KeySource::Mnemonic { phrase, count }
}

fn remote(url: &str) -> KeySource {
    KeySource::Remote { url: url.into() }
}

/// The pbkdf2 file of the Web3 Secret Storage Definition.
fn keystore(password: &str) -> KeySource {
    let json = br#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
        "ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46","kdf":"pbkdf2","kdfparams":
        {"c":262144,"dklen":32,"prf":"hmac-sha256","salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
        "mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},"version":3}"#;
    let (json, password) = (json.to_vec().into(), password.into());
    KeySource::Keystore { json, password }
}

async fn open(specs: Vec<(KeySource, Option<Address>)>) -> Result<Keyring, Vec<OpenError>> {
    let spec = |(source, address)| KeySpec { source, address };
    Keyring::open(specs.into_iter().map(spec).collect()).await
}

fn transfer() -> Unsigned {
    Unsigned {
        chain: ChainId::new(1).unwrap(),
        nonce: Nonce::ZERO,
        to: Some(OTHER),
        value: U256::from(1),
        data: Bytes::new(),
        gas: 21_000,
        fees: SignedFees {
            max_fee: 2,
            max_priority_fee: Some(1),
        },
        access: None,
    }
}

#[tokio::test]
async fn every_kind_of_key_gives_its_accounts_in_the_order_of_the_list() {
    let keyring = open(vec![
        (keystore("testpassword\n"), Some(KEYSTORE_ACCOUNT)),
        (mnemonic(2), None),
        (private(KEY), Some(KEY_ACCOUNT)),
        (remote("http://localhost:1"), Some(OTHER)),
        (KeySource::Watch, Some(Address::ZERO)),
    ])
    .await
    .unwrap();
    let expected: [&[Address]; 5] = [
        &[KEYSTORE_ACCOUNT],
        &[FIRST, SECOND],
        &[KEY_ACCOUNT],
        &[OTHER],
        &[Address::ZERO],
    ];
    assert_eq!(keyring.addresses(), expected);
    for account in [KEYSTORE_ACCOUNT, FIRST, SECOND, KEY_ACCOUNT, OTHER] {
        assert!(keyring.signs(account));
    }
    assert!(!keyring.signs(Address::ZERO));
    assert!(!keyring.signs(Address::repeat_byte(1)));
    for account in [KEYSTORE_ACCOUNT, SECOND, KEY_ACCOUNT] {
        assert!(keyring.sign(account, &transfer()).await.is_ok());
    }
}

#[tokio::test]
async fn an_empty_list_opens_an_empty_keyring() {
    assert!(open(vec![]).await.unwrap().addresses().is_empty());
}

#[tokio::test]
async fn an_account_without_a_key_cannot_sign() {
    let keyring = open(vec![(KeySource::Watch, Some(OTHER))]).await.unwrap();
    for (account, word) in [(OTHER, "watch-only"), (FIRST, "no key")] {
        let told = keyring.sign(account, &transfer()).await;
        assert!(
            matches!(&told, Err(Unsignable::Unusable(why)) if why.contains(word)),
            "{told:?}"
        );
    }
}

#[tokio::test]
async fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let errors = open(vec![
        (private("4646"), None),
        (private(KEY), None),
        (private(&"0".repeat(64)), None),
        (keystore("wrong"), None),
        (mnemonic(0), None),
        (remote("http://localhost:1"), None),
        (remote("ftp://localhost"), Some(OTHER)),
        (remote("localhost"), Some(OTHER)),
        (remote("http://localhost/?token=1"), Some(OTHER)),
        (KeySource::Watch, None),
        (mnemonic(2), Some(FIRST)),
        (mnemonic(1), Some(SECOND)),
        (private(KEY), Some(OTHER)),
        (private(KEY), None),
    ])
    .await
    .unwrap_err();
    let found = |given, found| Flaw::OtherAddress { given, found };
    let flaws = [
        (0, Flaw::Private(BadPrivate::NotHex)),
        (2, Flaw::Private(BadPrivate::OffCurve)),
        (3, Flaw::Keystore(BadKeystore::WrongPassword)),
        (4, Flaw::Mnemonic(BadMnemonic::Count(0))),
        (5, Flaw::NoAddress),
        (6, Flaw::Url(BadUrl::Scheme)),
        (7, Flaw::Url(BadUrl::NotUrl)),
        (8, Flaw::Url(BadUrl::NotBase)),
        (9, Flaw::NoAddress),
        (10, Flaw::AddressOfMany { count: 2 }),
        (11, found(SECOND, FIRST)),
        (12, found(OTHER, KEY_ACCOUNT)),
        (
            13,
            Flaw::Twice {
                address: KEY_ACCOUNT,
                first: 1,
            },
        ),
    ];
    let flaws = flaws.map(|(position, flaw)| OpenError { position, flaw });
    assert_eq!(errors, flaws);
}

#[tokio::test]
async fn an_account_may_be_given_only_once_whatever_its_key() {
    let errors = open(vec![
        (mnemonic(2), None),
        (KeySource::Watch, Some(SECOND)),
        (remote("http://localhost:1"), Some(FIRST)),
        (mnemonic(3), None),
    ])
    .await
    .unwrap_err();
    let twice = |position, address| OpenError {
        position,
        flaw: Flaw::Twice { address, first: 0 },
    };
    assert_eq!(errors, [twice(1, SECOND), twice(2, FIRST), twice(3, FIRST)]);
}

/// Whatever of a secret could show: the text, any eight characters of it, its bytes as a list.
fn assert_hidden(shown: &str, secrets: &[&str]) {
    let shown = shown.to_lowercase();
    for secret in secrets {
        for at in 0..=secret.len() - 8 {
            let part = secret[at..at + 8].to_lowercase();
            assert!(!shown.contains(&part), "{part:?} in {shown}");
        }
        let bytes: Vec<String> = secret
            .bytes()
            .take(4)
            .map(|byte| byte.to_string())
            .collect();
        assert!(
            !shown.contains(&bytes.join(", ")),
            "bytes of {secret} in {shown}"
        );
    }
}

#[tokio::test]
async fn nothing_that_holds_a_secret_shows_it() {
    let key = "8f2a559490f7a1f4c3d2b1e0a9b8c7d6e5f4039281706f5e4d3c2b1a09182736";
    let url = "http://operator:pass%20phrase@localhost:1/signers";
    let keystore_mark = "6087dab2f9fdbbfaddc31a909735c1e6";
    let secrets = [
        key,
        PHRASE,
        "testpass",
        "operator",
        "pass%20phrase",
        "pass phrase",
        keystore_mark,
    ];
    let specs = || {
        vec![
            KeySpec {
                source: private(key),
                address: None,
            },
            KeySpec {
                source: keystore("testpassword"),
                address: None,
            },
            KeySpec {
                source: mnemonic(1),
                address: None,
            },
            KeySpec {
                source: remote(url),
                address: Some(OTHER),
            },
        ]
    };
    assert_hidden(&format!("{:?}", specs()), &secrets);
    assert_hidden(&format!("{:#?}", specs()), &secrets);
    let keyring = Keyring::open(specs()).await.unwrap();
    assert_hidden(&format!("{keyring:?} {keyring:#?}"), &secrets);
    // Nobody listens there, and the error must not name the URL.
    let told = keyring.sign(OTHER, &transfer()).await.unwrap_err();
    assert_hidden(&format!("{told} {told:?}"), &secrets);
}

#[tokio::test]
async fn no_mistake_quotes_the_secret_that_it_is_about() {
    let long = format!("{KEY}5a");
    let words = PHRASE.replace("junk", "secretword");
    let url = "ftp://operator:passphrase@localhost";
    let phrase = words.as_str().into();
    let errors = open(vec![
        (private(&long), None),
        (
            KeySource::Keystore {
                json: KEY.as_bytes().to_vec().into(),
                password: KEY.into(),
            },
            None,
        ),
        (keystore("operator-secret"), None),
        (KeySource::Mnemonic { phrase, count: 1 }, None),
        (remote(url), Some(OTHER)),
    ])
    .await
    .unwrap_err();
    assert_eq!(errors.len(), 5);
    let secrets = [KEY, &words, "secretword", "operator-secret", "passphrase"];
    for error in errors {
        assert_hidden(&format!("{error} {error:?}"), &secrets);
    }
}
