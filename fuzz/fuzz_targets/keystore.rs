//! Files and texts that hold keys: any of them gives a key or a flaw, soon and without a panic; a file
//! that asks for more work than is allowed is refused before any is done; and no flaw repeats a word of
//! what was read.
//!
//! An input begins with a letter: `p` a private key, `m` a mnemonic, `u` the URL of a remote signer,
//! `w` another password and a newline before a keystore; anything else is a keystore as it stands.

#![no_main]

use std::time::{Duration, Instant};

use fencepost_domain::Address;
use fencepost_fuzz::mutate::mutate;
use fencepost_signer::{BadKeystore, Flaw, KeySource, KeySpec, Keyring, OpenError};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use serde::Deserialize;
use tokio::runtime::Builder;

/// That of the files in the corpus.
const PASSWORD: &str = "testpassword";
/// The key in them.
const KEY: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
/// No refusal takes longer, with room for a machine that does other things too.
const REFUSAL_MAX: Duration = Duration::from_secs(2);
/// A text that is repeated is recognised by this many bytes of it.
const WINDOW: usize = 16;
/// What a file may ask of scrypt and of PBKDF2. What it asks above the second figure is refused at once;
/// between the two it takes up to seconds, which is allowed, and not worth a fuzzer's time.
const SCRYPT_WORK: (u128, u128) = (1 << 14, 1 << 24);
const PBKDF2_ROUNDS: (u128, u128) = (1 << 12, 10_000_000);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, size, max_size, seed)
});

fuzz_target!(|input: &[u8]| {
    let (letter, rest) = input.split_first().unwrap_or((&b'{', &[]));
    let text = String::from_utf8_lossy(rest).into_owned();
    let secret = text.clone();
    let source = match letter {
        b'p' => KeySource::Private(text.into()),
        b'm' => mnemonic(text),
        b'u' => KeySource::Remote { url: text.into() },
        b'w' => {
            let (password, json) = text.split_once('\n').unwrap_or_default();
            return check_keystore(json.as_bytes(), password, password);
        }
        _ => return check_keystore(input, PASSWORD, &String::from_utf8_lossy(input)),
    };
    check(source, &secret);
});

/// Skips what would take so much of the allowed work that nothing else were tried meanwhile.
fn check_keystore(json: &[u8], password: &str, secret: &str) {
    let work = work(json);
    if work == Work::Long {
        return;
    }
    let source = KeySource::Keystore {
        json: json.to_vec().into(),
        password: password.to_owned().into(),
    };
    let is_opened = check(source, secret);
    assert!(!is_opened || work == Work::Short, "opened by {work:?}");
}

/// Whether it is opened.
fn check(source: KeySource, secret: &str) -> bool {
    let is_remote = matches!(source, KeySource::Remote { .. });
    let address = is_remote.then_some(Address::ZERO);
    let began = Instant::now();
    let errors = match open(KeySpec { source, address }) {
        Ok(keyring) => {
            let accounts = keyring.addresses();
            assert!(accounts.len() == 1 && !accounts[0].is_empty());
            return true;
        }
        Err(errors) => errors,
    };
    let took = began.elapsed();
    assert!(took < REFUSAL_MAX, "refused after {took:?}: {errors:?}");
    let [OpenError { flaw, .. }] = &errors[..] else {
        panic!("one key, one flaw: {errors:?}");
    };
    check_flaw(flaw, secret);
    false
}

fn open(spec: KeySpec) -> Result<Keyring, Vec<OpenError>> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime of one thread");
    runtime.block_on(Keyring::open(vec![spec]))
}

fn mnemonic(phrase: String) -> KeySource {
    // As many as the phrase has lines, so that zero and several are met.
    let count = phrase.lines().count().min(4);
    KeySource::Mnemonic {
        phrase: phrase.into(),
        count: u32::try_from(count).expect("at most four"),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Work {
    Short,
    Long,
    Beyond,
}

#[derive(Deserialize)]
struct File {
    #[serde(alias = "Crypto")]
    crypto: Crypto,
}

#[derive(Deserialize)]
struct Crypto {
    kdf: String,
    kdfparams: Params,
}

#[derive(Deserialize)]
struct Params {
    n: Option<u64>,
    r: Option<u64>,
    p: Option<u64>,
    c: Option<u64>,
}

/// How much a file asks for, as far as it can be read: what cannot is refused without work.
fn work(json: &[u8]) -> Work {
    let Ok(File { crypto }) = serde_json::from_slice(json) else {
        return Work::Short;
    };
    let Params { n, r, p, c } = crypto.kdfparams;
    let factor = |given: Option<u64>| u128::from(given.unwrap_or_default());
    let (asked, (short, allowed)) = match crypto.kdf.as_str() {
        "scrypt" => {
            let wide = factor(n).saturating_mul(factor(r));
            (wide.saturating_mul(factor(p)), SCRYPT_WORK)
        }
        "pbkdf2" => (factor(c), PBKDF2_ROUNDS),
        _ => return Work::Short,
    };
    match asked {
        asked if asked <= short => Work::Short,
        asked if asked <= allowed => Work::Long,
        _ => Work::Beyond,
    }
}

fn check_flaw(flaw: &Flaw, secret: &str) {
    // Whoever adds a variant says here whether it could hold a secret.
    let is_of_address = match flaw {
        Flaw::Keystore(BadKeystore::OtherAddress { .. }) => true,
        Flaw::Keystore(
            BadKeystore::TooLarge
            | BadKeystore::NotKeystore { .. }
            | BadKeystore::Version(_)
            | BadKeystore::Field { .. }
            | BadKeystore::TooCostly(_)
            | BadKeystore::WrongPassword
            | BadKeystore::NotKey,
        )
        | Flaw::Private(_)
        | Flaw::Mnemonic(_)
        | Flaw::Url(_) => false,
        Flaw::NoAddress
        | Flaw::OtherAddress { .. }
        | Flaw::AddressOfMany { .. }
        | Flaw::Twice { .. }
        | Flaw::Unknown => panic!("not a flaw of one key alone: {flaw:?}"),
    };
    let told = format!("{flaw} {flaw:?}");
    assert!(!told.contains(PASSWORD) && !told.contains(KEY), "{told}");
    // An account is no secret, and a keystore may name it.
    let says = |window: &[u8]| std::str::from_utf8(window).is_ok_and(|part| told.contains(part));
    let repeats = secret.as_bytes().windows(WINDOW).any(says);
    assert!(is_of_address || !repeats, "{told}");
}
