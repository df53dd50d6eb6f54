//! A text that is never printed.

use secrecy::{ExposeSecret, SecretString};

/// The cluster's secret: what shows one node that a call comes from another.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("open sesame".to_owned());
        assert!(!format!("{secret:?}").contains("sesame"));
    }
}
