//! Reading the secrets that signers' keys are opened with. They are read once, here, and go nowhere but to
//! the crate that signs.

use std::path::Path;

use fencepost_signer::{KeySource, KeySpec};

use super::environment::Environment;
use super::problem::Problem;
use super::signer::{Place, Signer};

/// A keystore file is a few hundred bytes; a password is a line.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What the keys of these signers are opened with; everything that is missing is noted.
pub(super) fn read(
    signers: &[Signer],
    environment: &Environment,
    problems: &mut Vec<Problem>,
) -> Vec<KeySpec> {
    let mut specs = Vec::new();
    for (place, signer) in signers.iter().enumerate() {
        let mut refuse = |key: &str, why: String| {
            problems.push(Problem::new(format!("signer[{place}].{key}"), why));
        };
        let source = match &signer.key {
            None => Some(KeySource::Watch),
            Some(key) => source(key, environment, &mut refuse),
        };
        if let Some(source) = source {
            let address = signer.address;
            specs.push(KeySpec { source, address });
        }
    }
    specs
}

fn source(
    key: &Place,
    environment: &Environment,
    refuse: &mut impl FnMut(&str, String),
) -> Option<KeySource> {
    let mut variable = |name: &str| {
        let value = environment.get(name);
        if value.is_none() {
            refuse(key.key(), format!("the variable {name} is not set"));
        }
        value
    };
    match key {
        Place::Env(name) => Some(KeySource::Private(variable(name)?.into())),
        Place::Mnemonic { env, count } => Some(KeySource::Mnemonic {
            phrase: variable(env)?.into(),
            count: *count,
        }),
        Place::Remote(endpoint) => Some(KeySource::Remote {
            url: endpoint.url().into(),
        }),
        Place::Keystore {
            file,
            password_file,
        } => {
            let json = contents("key.keystore", file, refuse);
            let password = contents("key.password_file", password_file, refuse);
            let text = password.map(String::from_utf8)?;
            if text.is_err() {
                let why = format!("{password_file} is not UTF-8 text");
                refuse("key.password_file", why);
            }
            Some(KeySource::Keystore {
                json: json?.into(),
                password: text.ok()?.into(),
            })
        }
    }
}

fn contents(key: &str, file: &str, refuse: &mut impl FnMut(&str, String)) -> Option<Vec<u8>> {
    let path = Path::new(file);
    let read = std::fs::metadata(path).and_then(|about| {
        if about.len() > FILE_BYTES_MAX {
            let why = format!("it is above {FILE_BYTES_MAX} bytes");
            return Err(std::io::Error::other(why));
        }
        std::fs::read(path)
    });
    match read {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            refuse(key, format!("{file} cannot be read: {error}"));
            None
        }
    }
}
