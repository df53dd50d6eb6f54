//! TLS to the server: what `sslmode` means, as in libpq, and what is said when a handshake fails.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How a connection is secured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted where the server offers it; nobody's certificate is checked.
    Prefer,
    /// Always encrypted; the certificate is checked only where there is an `sslrootcert`.
    Require,
    /// The certificate must come from `sslrootcert`.
    VerifyCa,
    /// And it must be for the host that was asked for.
    VerifyFull,
}

impl SslMode {
    const ALL: [Self; 5] = [
        Self::Disable,
        Self::Prefer,
        Self::Require,
        Self::VerifyCa,
        Self::VerifyFull,
    ];

    /// Its name, which is libpq's.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// All names, as a list for people.
    pub(crate) fn names() -> String {
        Self::ALL.map(Self::word).join(", ")
    }
}

/// libpq's default: a URL that works with `psql` works here.
impl Default for SslMode {
    fn default() -> Self {
        Self::Prefer
    }
}

impl FromStr for SslMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.word() == text);
        found.ok_or_else(|| format!("must be one of {}, not {text:?}", Self::names()))
    }
}

/// What is said about TLS, in `[store]` or in the URL. The files are PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// `sslmode`
    pub mode: Option<SslMode>,
    /// `sslrootcert`: the certificates of those who may vouch for the server.
    pub root: Option<PathBuf>,
    /// `sslcert`: the certificate we show.
    pub cert: Option<PathBuf>,
    /// `sslkey`: the key of that certificate.
    pub key: Option<PathBuf>,
}

impl Tls {
    /// What is not said here is as `other` says.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let file = |one: &Option<PathBuf>, two: &Option<PathBuf>| one.clone().or(two.clone());
        Self {
            mode: self.mode.or(other.mode),
            root: file(&self.root, &other.root),
            cert: file(&self.cert, &other.cert),
            key: file(&self.key, &other.key),
        }
    }

    /// The mode, or the usual one.
    #[must_use]
    pub fn mode(&self) -> SslMode {
        self.mode.unwrap_or_default()
    }

    /// Where the parts do not belong together: the key, and why.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        match (&self.cert, &self.key) {
            (Some(_), None) => return Err(("sslkey", "is needed beside sslcert".to_owned())),
            (None, Some(_)) => return Err(("sslcert", "is needed beside sslkey".to_owned())),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if self.mode() == SslMode::VerifyCa && self.root.is_none() {
            let why = "is needed with sslmode verify-ca: of the system's authorities anyone gets a \
                       certificate, so only verify-full can rely on them";
            return Err(("sslrootcert", why.to_owned()));
        }
        Ok(())
    }

    /// Reads the files.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        self.check()
            .map_err(|(key, why)| format!("store.{key}: {why}"))?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be used: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(self.verifier(provider)?));
        let config = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates("sslcert", cert)?;
                let of_key = PrivateKeyDer::from_pem_file(key);
                let of_key = of_key.map_err(|error| unread("sslkey", key, &error))?;
                config
                    .with_client_auth_cert(chain, of_key)
                    .map_err(|error| unread("sslkey", key, &error))?
            }
            (Some(_) | None, _) => config.with_no_client_auth(),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Verifier, String> {
        let roots = match (self.mode(), &self.root) {
            (SslMode::Disable | SslMode::Prefer, _) | (SslMode::Require, None) => None,
            (SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull, Some(file)) => {
                Some(authorities(file)?)
            }
            (SslMode::VerifyCa | SslMode::VerifyFull, None) => Some(authorities_of_system()?),
        };
        let known = roots.map(|roots| {
            let made =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            made.build()
                .map_err(|error| format!("store.sslrootcert: {error}"))
        });
        Ok(Verifier {
            known: known.transpose()?,
            by_name: self.mode() == SslMode::VerifyFull,
            provider,
        })
    }
}

fn certificates(key: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unread = |error: rustls::pki_types::pem::Error| unread(key, file, &error);
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(unread)?
        .collect::<Result<_, _>>()
        .map_err(unread)?;
    if found.is_empty() {
        return Err(format!(
            "store.{key}: {} holds no certificate",
            file.display()
        ));
    }
    Ok(found)
}

fn authorities(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("sslrootcert", file)? {
        roots
            .add(certificate)
            .map_err(|error| unread("sslrootcert", file, &error))?;
    }
    Ok(roots)
}

fn authorities_of_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let why = "is needed: this system has no certificate authorities of its own";
        return Err(format!("store.sslrootcert: {why}"));
    }
    Ok(roots)
}

fn unread(key: &str, file: &Path, error: &dyn fmt::Display) -> String {
    format!("store.{key}: {} cannot be used: {error}", file.display())
}

/// Checks as much of the server's certificate as the mode asks for. That the server has the key of the
/// certificate it shows is checked in every mode.
#[derive(Debug)]
struct Verifier {
    /// Who may vouch for the server; `None`: anyone.
    known: Option<Arc<WebPkiServerVerifier>>,
    by_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(known) = &self.known else {
            return Ok(ServerCertVerified::assertion());
        };
        let found =
            known.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match found {
            // The name is looked at last: all else is in order.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.by_name => Ok(ServerCertVerified::assertion()),
            found => found,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// What is wrong between us and the server, where it is about TLS.
pub(crate) fn trouble(error: &tokio_postgres::Error, tls: &Tls) -> Option<String> {
    let mode = tls.mode().word();
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(inner) = cause {
        if let Some(found) = tls_error(inner) {
            return Some(of_handshake(found, tls));
        }
        if inner.to_string() == "server does not support TLS" {
            return Some(format!(
                "the server does not offer TLS, which store.sslmode = \"{mode}\" asks for"
            ));
        }
        cause = inner.source();
    }
    None
}

/// An I/O error hides the error that it was made of from `source`.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let within = |io: &'a std::io::Error| io.get_ref()?.downcast_ref();
    error
        .downcast_ref()
        .or_else(|| error.downcast_ref().and_then(within))
}

fn of_handshake(error: &rustls::Error, tls: &Tls) -> String {
    if let rustls::Error::InvalidCertificate(why) = error {
        return of_certificate(why, tls);
    }
    if let rustls::Error::AlertReceived(alert) = error
        && is_about_our_certificate(*alert)
    {
        return match &tls.cert {
            Some(file) => format!(
                "TLS: the server refuses the certificate of store.sslcert ({}): {alert:?}",
                file.display()
            ),
            None => "TLS: the server asks for a certificate of ours: set store.sslcert and \
                     store.sslkey"
                .to_owned(),
        };
    }
    format!("TLS: {error}")
}

fn of_certificate(why: &CertificateError, tls: &Tls) -> String {
    use CertificateError::{BadSignature, NotValidForName, NotValidForNameContext, UnknownIssuer};
    if matches!(why, NotValidForName | NotValidForNameContext { .. }) {
        return format!(
            "TLS: the server's certificate is for another host name ({why}); \
             store.sslmode = \"verify-ca\" does not look at the name"
        );
    }
    // A signature is bad where the authority has the same name but is another one.
    if matches!(why, UnknownIssuer | BadSignature) {
        let whose = match &tls.root {
            Some(file) => format!("store.sslrootcert ({})", file.display()),
            None => {
                "the system's certificate authorities (store.sslrootcert is not set)".to_owned()
            }
        };
        return format!("TLS: the server's certificate was not issued by {whose}");
    }
    format!("TLS: the server's certificate is refused: {why}")
}

fn is_about_our_certificate(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::UnknownCA
            | A::BadCertificate
            | A::CertificateExpired
            | A::CertificateRequired
            | A::CertificateUnknown
            | A::CertificateRevoked
    )
}
