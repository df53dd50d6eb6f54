//! Texts that are never printed.

use secrecy::{ExposeSecret, SecretString};

/// A secret that calls are signed with.
#[derive(Debug, Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Takes the text; from here on nothing prints it.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(SecretString::from(text))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.expose_secret().as_bytes()
    }
}

/// The cluster's secret: what shows one node that a call comes from another. While it is replaced, calls
/// under a second one are accepted too.
#[derive(Debug, Clone)]
pub struct ClusterSecret {
    seals: Secret,
    accepted: Option<Secret>,
}

impl ClusterSecret {
    /// Calls are sealed with `seals`. Calls under `accepted` are accepted too.
    #[must_use]
    pub const fn new(seals: Secret, accepted: Option<Secret>) -> Self {
        Self { seals, accepted }
    }

    /// What our own calls are sealed with.
    pub(crate) const fn seals(&self) -> &Secret {
        &self.seals
    }

    /// All that a call may be sealed with.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.seals).chain(&self.accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("open sesame".to_owned());
        assert!(!format!("{secret:?}").contains("sesame"));
    }
}
