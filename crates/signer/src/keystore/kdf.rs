//! The two functions that make a key of a password, and how much work a file may ask of them.

use pbkdf2::pbkdf2_hmac;
use scrypt::{Params, scrypt};
use secrecy::zeroize::Zeroizing;
use sha2::Sha256;

use super::BadKeystore;
use super::file::{KdfParams, bad};

/// scrypt takes 128 · n · r bytes: 512 MiB, twice what geth writes. Higher, and a file could take the
/// machine's memory; lower, and keystores in use would be refused.
const SCRYPT_NR_MAX: u64 = 1 << 22;
/// And time as n · r · p: eight times what geth writes, about ten seconds.
const SCRYPT_NRP_MAX: u64 = 1 << 24;
/// Forty times the usual 262,144 rounds: a few seconds.
const PBKDF2_ROUNDS_MAX: u32 = 10_000_000;
/// 16 bytes are the cipher's and 16 the checksum's. Both functions make their output in blocks of
/// which a longer one only has more, so that no more than this is ever asked of them.
const DERIVED_BYTES: usize = 32;

/// A function with parameters that are safe to run.
pub(super) enum Kdf {
    Scrypt(Params),
    Pbkdf2 { rounds: u32 },
}

impl Kdf {
    pub(super) fn read(name: &str, params: &KdfParams) -> Result<Self, BadKeystore> {
        if params.dklen < 32 {
            return Err(bad("dklen", "32 or more"));
        }
        match name {
            "scrypt" => Self::scrypt(params),
            "pbkdf2" => Self::pbkdf2(params),
            _ => Err(bad("kdf", "scrypt or pbkdf2")),
        }
    }

    fn scrypt(params: &KdfParams) -> Result<Self, BadKeystore> {
        let n = params.n.filter(|n| *n > 1 && n.is_power_of_two());
        let n = n.ok_or(bad("n", "a power of two above 1"))?;
        let r = params.r.filter(|r| *r > 0).ok_or(bad("r", "above 0"))?;
        let p = params.p.filter(|p| *p > 0).ok_or(bad("p", "above 0"))?;
        let memory = n.checked_mul(r).filter(|nr| *nr <= SCRYPT_NR_MAX);
        let time = memory
            .and_then(|nr| nr.checked_mul(p))
            .filter(|nrp| *nrp <= SCRYPT_NRP_MAX);
        let costly = || BadKeystore::TooCostly("scrypt parameters");
        time.ok_or_else(costly)?;
        let log_n = u8::try_from(n.ilog2()).map_err(|_| costly())?;
        let small = |number: u64| u32::try_from(number).map_err(|_| costly());
        let params = Params::new(log_n, small(r)?, small(p)?).map_err(|_| costly())?;
        Ok(Self::Scrypt(params))
    }

    fn pbkdf2(params: &KdfParams) -> Result<Self, BadKeystore> {
        if params.prf.as_deref() != Some("hmac-sha256") {
            return Err(bad("prf", "hmac-sha256"));
        }
        let c = params.c.filter(|c| *c > 0).ok_or(bad("c", "above 0"))?;
        let rounds = u32::try_from(c).ok().filter(|c| *c <= PBKDF2_ROUNDS_MAX);
        let rounds = rounds.ok_or(BadKeystore::TooCostly("pbkdf2 rounds"))?;
        Ok(Self::Pbkdf2 { rounds })
    }

    pub(super) fn derive(
        &self,
        password: &[u8],
        salt: &[u8],
    ) -> Result<Zeroizing<[u8; DERIVED_BYTES]>, BadKeystore> {
        let mut key = Zeroizing::new([0; DERIVED_BYTES]);
        match self {
            Self::Scrypt(params) => scrypt(password, salt, params, key.as_mut_slice())
                .map_err(|_| bad("dklen", "32 or more"))?,
            Self::Pbkdf2 { rounds } => {
                pbkdf2_hmac::<Sha256>(password, salt, *rounds, key.as_mut_slice());
            }
        }
        Ok(key)
    }
}
