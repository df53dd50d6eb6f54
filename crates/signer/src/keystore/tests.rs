//! The specification's own files, files that are wrong in one place, and files damaged at random.

use alloy_primitives::{address, keccak256};
use serde_json::{Value, json};

use super::*;

const PASSWORD: &str = "testpassword";
const ACCOUNT: Address = address!("008aeeda4d805471df9b2a5b0f38a0c3bcba786b");

fn opened(json: &[u8], password: &str) -> Result<Address, BadKeystore> {
    let json = SecretSlice::from(json.to_vec());
    open(&json, &password.into()).map(|key| key.address())
}

fn open_value(file: &Value) -> Result<Address, BadKeystore> {
    opened(file.to_string().as_bytes(), PASSWORD)
}

/// The scrypt file of the Web3 Secret Storage Definition.
fn spec_scrypt() -> Value {
    json!({
        "crypto": {
            "cipher": "aes-128-ctr",
            "cipherparams": { "iv": "83dbcc02d8ccb40e466191a123791e0e" },
            "ciphertext": "d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c",
            "kdf": "scrypt",
            "kdfparams": {
                "dklen": 32, "n": 262_144, "p": 8, "r": 1,
                "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"
            },
            "mac": "2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"
        },
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
        "version": 3
    })
}

/// The pbkdf2 file of the Web3 Secret Storage Definition.
fn spec_pbkdf2() -> Value {
    json!({
        "crypto": {
            "cipher": "aes-128-ctr",
            "cipherparams": { "iv": "6087dab2f9fdbbfaddc31a909735c1e6" },
            "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
            "kdf": "pbkdf2",
            "kdfparams": {
                "c": 262_144, "dklen": 32, "prf": "hmac-sha256",
                "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"
            },
            "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"
        },
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6",
        "version": 3
    })
}

/// A file that takes no work to open: the specification's with the least parameters, and a checksum
/// made anew. Its key is another then, which does not matter here.
fn cheap(mut file: Value) -> Value {
    let params = &mut file["crypto"]["kdfparams"];
    for (name, least) in [("n", 2), ("r", 1), ("p", 1), ("c", 1)] {
        if !params[name].is_null() {
            params[name] = json!(least);
        }
    }
    let sealed = Sealed::read(file.to_string().as_bytes()).unwrap();
    let derived = sealed
        .kdf
        .derive(PASSWORD.as_bytes(), &sealed.salt)
        .unwrap();
    let mac = keccak256([&derived[16..], &sealed.ciphertext].concat());
    file["crypto"]["mac"] = json!(format!("{mac:x}"));
    file
}

#[test]
fn the_specifications_files_open_with_their_password() {
    for file in [spec_scrypt(), spec_pbkdf2()] {
        assert_eq!(open_value(&file), Ok(ACCOUNT));
    }
}

#[test]
fn another_password_is_told_from_a_damaged_file_by_nobody() {
    let file = cheap(spec_scrypt()).to_string();
    assert!(opened(file.as_bytes(), PASSWORD).is_ok());
    for password in [
        "",
        "testpasswor",
        "Testpassword",
        "testpassword ",
        " testpassword",
    ] {
        let told = opened(file.as_bytes(), password);
        assert_eq!(told, Err(BadKeystore::WrongPassword), "{password:?}");
    }
    let wrong = spec_pbkdf2().to_string();
    assert_eq!(
        opened(wrong.as_bytes(), "wrong"),
        Err(BadKeystore::WrongPassword)
    );
}

#[test]
fn one_newline_at_the_end_of_a_password_is_the_editors() {
    let file = cheap(spec_pbkdf2()).to_string();
    for password in ["testpassword\n", "testpassword\r\n"] {
        assert!(opened(file.as_bytes(), password).is_ok(), "{password:?}");
    }
    for password in ["testpassword\n\n", "testpassword\r", "\ntestpassword"] {
        let told = opened(file.as_bytes(), password);
        assert_eq!(told, Err(BadKeystore::WrongPassword), "{password:?}");
    }
}

#[test]
fn the_ways_of_other_programs_are_understood() {
    let file = cheap(spec_scrypt());
    let account = open_value(&file).unwrap();

    let mut early = file.clone();
    early["Crypto"] = early["crypto"].take();
    early.as_object_mut().unwrap().remove("crypto");
    assert_eq!(open_value(&early), Ok(account));

    for said in [format!("{account:x}"), account.to_string(), String::new()] {
        let mut named = file.clone();
        named["address"] = json!(said);
        assert_eq!(open_value(&named), Ok(account), "{said}");
    }

    let mut longer = file.clone();
    longer["crypto"]["kdfparams"]["dklen"] = json!(64);
    assert_eq!(open_value(&longer), Ok(account));
}

#[test]
fn a_file_that_names_another_account_is_refused() {
    let mut file = cheap(spec_scrypt());
    let found = open_value(&file).unwrap();
    file["address"] = json!(format!("{ACCOUNT:x}"));
    let said = ACCOUNT;
    assert_eq!(
        open_value(&file),
        Err(BadKeystore::OtherAddress { said, found })
    );
}

#[test]
fn a_file_that_holds_zero_holds_no_key() {
    let mut file = cheap(spec_pbkdf2());
    let sealed = Sealed::read(file.to_string().as_bytes()).unwrap();
    let derived = sealed
        .kdf
        .derive(PASSWORD.as_bytes(), &sealed.salt)
        .unwrap();
    let mut zero = [0; 32];
    let cipher_key: [u8; 16] = derived[..16].try_into().unwrap();
    Ctr128BE::<Aes128>::new(&cipher_key.into(), &sealed.iv.into()).apply_keystream(&mut zero);
    file["crypto"]["ciphertext"] = json!(alloy_primitives::hex::encode(zero));
    let mac = keccak256([&derived[16..], &zero].concat());
    file["crypto"]["mac"] = json!(format!("{mac:x}"));
    assert_eq!(open_value(&file), Err(BadKeystore::NotKey));
}

/// If any of these were worked on, the test would run for minutes or out of memory.
#[test]
fn parameters_beyond_reason_are_refused_before_any_work() {
    let scrypt = [
        (1_u64 << 23, 1, 1),
        (1 << 20, 8, 1),
        (1 << 62, 8, 1),
        (1 << 63, u64::MAX, u64::MAX),
        (2, 1 << 22, 1),
        (2, u64::MAX, 1),
        (262_144, 8, 9),
        (2, 1, u64::MAX),
        (2, 1, 1 << 24),
        (1 << 22, 1, 5),
    ];
    for (n, r, p) in scrypt {
        let mut file = spec_scrypt();
        let params = &mut file["crypto"]["kdfparams"];
        (params["n"], params["r"], params["p"]) = (json!(n), json!(r), json!(p));
        let told = open_value(&file);
        assert!(
            matches!(told, Err(BadKeystore::TooCostly(_))),
            "{n} {r} {p}: {told:?}"
        );
    }
    for c in [10_000_001, u64::from(u32::MAX), 1 << 32, u64::MAX] {
        let mut file = spec_pbkdf2();
        file["crypto"]["kdfparams"]["c"] = json!(c);
        let told = open_value(&file);
        assert!(
            matches!(told, Err(BadKeystore::TooCostly(_))),
            "{c}: {told:?}"
        );
    }
    let geth = |file: &mut Value| file["crypto"]["kdfparams"]["r"] = json!(8);
    let mut file = spec_scrypt();
    geth(&mut file);
    assert!(
        Sealed::read(file.to_string().as_bytes()).is_ok(),
        "geth's own cost is allowed"
    );
}

#[test]
fn a_field_that_cannot_be_is_named() {
    let cases = [
        (&["crypto", "cipher"][..], json!("aes-256-ctr"), "cipher"),
        (&["crypto", "cipherparams", "iv"], json!("00"), "iv"),
        (&["crypto", "cipherparams", "iv"], json!("zz"), "iv"),
        (&["crypto", "ciphertext"], json!(""), "ciphertext"),
        (
            &["crypto", "ciphertext"],
            json!("00".repeat(33)),
            "ciphertext",
        ),
        (&["crypto", "mac"], json!("00".repeat(31)), "mac"),
        (&["crypto", "kdf"], json!("argon2"), "kdf"),
        (&["crypto", "kdf"], json!("pbkdf2"), "prf"),
        (&["crypto", "kdfparams", "salt"], json!("0"), "salt"),
        (&["crypto", "kdfparams", "dklen"], json!(31), "dklen"),
        (&["crypto", "kdfparams", "n"], json!(0), "n"),
        (&["crypto", "kdfparams", "n"], json!(1), "n"),
        (&["crypto", "kdfparams", "n"], json!(3), "n"),
        (&["crypto", "kdfparams", "n"], Value::Null, "n"),
        (&["crypto", "kdfparams", "r"], json!(0), "r"),
        (&["crypto", "kdfparams", "p"], json!(0), "p"),
        (&["address"], json!("0x12"), "address"),
    ];
    for (path, value, field) in cases {
        let mut file = spec_scrypt();
        *path.iter().fold(&mut file, |at, name| &mut at[*name]) = value.clone();
        match open_value(&file) {
            Err(BadKeystore::Field { field: told, .. }) => assert_eq!(told, field),
            other => panic!("{path:?} = {value}: {other:?}"),
        }
    }
    let mut file = spec_pbkdf2();
    file["version"] = json!(1);
    assert_eq!(open_value(&file), Err(BadKeystore::Version(1)));
}

#[test]
fn what_is_not_a_keystore_is_told_without_quoting_it() {
    let secret = "4646464646464646464646464646464646464646464646464646464646464646";
    for text in [
        "",
        "{}",
        "[]",
        "null",
        "\u{0}",
        secret,
        &format!("\"{secret}\""),
    ] {
        let told = opened(text.as_bytes(), PASSWORD).unwrap_err();
        assert!(
            matches!(told, BadKeystore::NotKeystore { .. }),
            "{text:?}: {told:?}"
        );
        assert!(!format!("{told} {told:?}").contains("4646"), "{told}");
    }
    let large = " ".repeat(BYTES_MAX + 1);
    assert_eq!(
        opened(large.as_bytes(), PASSWORD),
        Err(BadKeystore::TooLarge)
    );
}

/// A few bytes of a good file are changed, cut or put in, thousands of times, always the same ones. No
/// panic, and no key but the right one: the checksum covers everything that decides.
#[test]
fn a_damaged_file_never_panics_and_never_gives_another_key() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % u64::try_from(below).unwrap()).unwrap()
    };
    let alphabet = b"0123456789abcdefnrp{}[]\",:-.eE \\\x00\xff";
    let mut refused = 0;
    for whole in [cheap(spec_scrypt()), cheap(spec_pbkdf2())] {
        let account = open_value(&whole).unwrap();
        for _ in 0..4_000 {
            let mut bytes = whole.to_string().into_bytes();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                let byte = alphabet[next(alphabet.len())];
                match next(3) {
                    0 => bytes[at] = byte,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, byte),
                }
            }
            match opened(&bytes, PASSWORD) {
                Ok(found) => {
                    // Damage of the iv alone is not covered by the checksum.
                    let text = String::from_utf8_lossy(&bytes);
                    let iv = whole["crypto"]["cipherparams"]["iv"].as_str().unwrap();
                    assert!(found == account || !text.contains(iv), "{text}");
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 6_000, "most damage is noticed: {refused}");
}
