//! `[[signer]]`: the addresses we send from, and where their keys are.

use std::collections::HashSet;

use fencepost_app::directory::{InFlightLimit, InFlightUntil, Start};
use fencepost_domain::Address;

use super::chain::Chain;
use super::endpoint::Endpoint;
use super::section::Section;
use super::value::Text;

/// One mnemonic makes no more addresses than this; more is a mistake in the number.
const COUNT_MAX: u64 = 10_000;
/// More in flight than any pool keeps is no limit.
const IN_FLIGHT_MAX: usize = 1_000_000;

/// An address we send from.
pub(crate) struct Signer {
    /// Absent where only its key could tell.
    pub(crate) address: Option<Address>,
    /// Where its key is; none for an address that is only watched.
    pub(crate) key: Option<Place>,
    pub(crate) chains: Vec<String>,
    /// How many may be in flight; none is no limit.
    pub(crate) max_in_flight: Option<InFlightLimit>,
    /// Where its lanes begin; none is where `nonce.mode` says.
    pub(crate) start: Option<Start>,
}

impl Signer {
    /// Where only one chain is configured, it is the one that is meant.
    pub(super) fn read(from: &mut Section<'_>, chains_there: &[Option<Chain>]) -> Self {
        let address: Option<Address> = from.optional("address");
        let mut chains: Vec<String> = from.list("chains");
        if let ([], [Some(only)]) = (chains.as_slice(), chains_there) {
            chains.push(only.name.clone());
            from.show("chains", chains.clone().into());
        }
        let max_in_flight = in_flight(from);
        let start = from.optional("start");
        let key = from.section("key", Key::read);
        key.check(from, address.is_some());
        Self {
            address,
            key: key.places.into_iter().next(),
            chains,
            max_in_flight,
            start,
        }
    }
}

fn in_flight(from: &mut Section<'_>) -> Option<InFlightLimit> {
    let max = from.count("max_in_flight", 0, 0..=IN_FLIGHT_MAX);
    let words = [
        ("mined", InFlightUntil::Mined),
        ("final", InFlightUntil::Final),
    ];
    let until = from.choice("in_flight_until", &words);
    if max == 0 && until == InFlightUntil::Final {
        // Whoever writes this wants one after the other, and would get no limit at all.
        from.refuse(
            "in_flight_until",
            "\"final\" needs max_in_flight of 1 or more: 0 is no limit",
        );
    }
    (max > 0).then_some(InFlightLimit { max, until })
}

/// Where a key is.
pub(crate) enum Place {
    /// In a variable of the environment.
    Env(String),
    /// In a keystore file, its password in another.
    Keystore { file: String, password_file: String },
    /// With a service that signs.
    Remote(Endpoint),
    /// In a phrase in a variable of the environment, the first so many.
    Mnemonic { env: String, count: u32 },
}

impl Place {
    /// Its key in the configuration.
    pub(crate) const fn key(&self) -> &'static str {
        match self {
            Self::Env(_) => "key.env",
            Self::Keystore { .. } => "key.keystore",
            Self::Remote(_) => "key.remote",
            Self::Mnemonic { .. } => "key.mnemonic_env",
        }
    }
}

/// Which keys of `key` are given.
struct Key {
    places: Vec<Place>,
    has_password: bool,
    count: Option<u64>,
    allow_http: bool,
}

impl Key {
    fn read(from: &mut Section<'_>) -> Self {
        let env = from.optional("env").map(Place::Env);
        let keystore: Option<String> = from.optional("keystore");
        let password_file: Option<String> = from.optional("password_file");
        let has_password = password_file.is_some();
        let keystore = keystore.map(|file| Place::Keystore {
            file,
            password_file: password_file.unwrap_or_default(),
        });
        let remote = from.optional("remote").map(Place::Remote);
        let allow_http = from.flag("allow_http", false);
        let mnemonic: Option<String> = from.optional("mnemonic_env");
        let count = from.optional_number("count", 1..=COUNT_MAX);
        let mnemonic = mnemonic.map(|env| Place::Mnemonic {
            env,
            count: count.and_then(|count| count.try_into().ok()).unwrap_or(1),
        });
        let places = [env, keystore, remote, mnemonic];
        Self {
            places: places.into_iter().flatten().collect(),
            has_password,
            count,
            allow_http,
        }
    }

    fn form(&self) -> Option<&'static str> {
        self.places.first().map(Place::key)
    }

    fn check(&self, from: &mut Section<'_>, has_address: bool) {
        if self.places.len() > 1 {
            let all: Vec<&str> = self.places.iter().map(Place::key).collect();
            let all = all.join(" and ");
            from.refuse(
                "key",
                format!("one key of each signer: {all} exclude each other"),
            );
            return;
        }
        let form = self.form();
        let wants_password = form == Some("key.keystore");
        if wants_password && !self.has_password {
            from.refuse("key.password_file", "is needed beside key.keystore");
        }
        if !wants_password && self.has_password {
            from.refuse(
                "key.password_file",
                "belongs to key.keystore, which is not there",
            );
        }
        let is_mnemonic = form == Some("key.mnemonic_env");
        if !is_mnemonic && self.count.is_some() {
            from.refuse(
                "key.count",
                "belongs to key.mnemonic_env, which is not there",
            );
        }
        if is_mnemonic && has_address {
            from.refuse(
                "address",
                "cannot stand beside key.mnemonic_env, which makes its own",
            );
        }
        if form == Some("key.remote") && !has_address {
            from.refuse_missing("address");
        }
        if self.allow_http && form != Some("key.remote") {
            let why = "belongs to key.remote, which is not there";
            from.refuse("key.allow_http", why);
        }
        if let Some(Place::Remote(signer)) = self.places.first()
            && signer.speaks(&["http"]).is_ok()
            && !signer.is_loopback()
            && !self.allow_http
        {
            let why = "is plain http:// to another host: anyone on the way can read and change what is to be \
                       signed; use https://, or set key.allow_http = true where the network is protected";
            from.refuse("key.remote", why);
        }
        if form.is_none() && !has_address {
            from.refuse_missing("address");
        }
    }
}

/// Each names chains that exist, and no lane is named twice.
pub(super) fn check(from: &mut Section<'_>, signers: &[Signer], chains: &[Option<Chain>]) {
    // A chain that could not be read may be the one that is meant.
    let Some(chains) = chains
        .iter()
        .map(|chain| chain.as_ref())
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    if chains.is_empty() {
        return;
    }
    let names: Vec<&str> = chains.iter().map(|chain| chain.name.as_str()).collect();
    let mut lanes = HashSet::new();
    for (place, signer) in signers.iter().enumerate() {
        if signer.chains.is_empty() {
            from.refuse_missing(&format!("signer[{place}].chains"));
        }
        for (n, name) in signer.chains.iter().enumerate() {
            let at = format!("signer[{place}].chains[{n}]");
            if !names.contains(&name.as_str()) {
                let all = names.join(", ");
                from.refuse(
                    &at,
                    format!("{name:?} is no configured chain; there is: {all}"),
                );
            } else if let Some(address) = signer.address
                && !lanes.insert((address, name.clone()))
            {
                let address = address.show();
                from.refuse(&at, format!("{address} is on {name:?} twice"));
            }
        }
    }
}
