//! `wss://`: the certificate is checked, and what is trusted works as without TLS.

use std::sync::Arc;

use fencepost_evm::{WsEndpoint, WsLimits};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::server::{Peer, Server, Watched, limits, soon};

fn acceptor(names: &[&str]) -> (TlsAcceptor, CertificateDer<'static>) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), cert.der().clone())
}

fn trusting(certificate: CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

fn endpoint(server: &Server, host: &str, limits: WsLimits) -> WsEndpoint {
    let url = format!("wss://{host}:{}/", server.port);
    WsEndpoint::new(&url).unwrap().with_limits(limits)
}

#[tokio::test]
async fn a_trusted_endpoint_announces_blocks_by_name_and_by_address() {
    for host in ["localhost", "127.0.0.1"] {
        let server = Server::start().await;
        let (acceptor, certificate) = acceptor(&[host]);
        let endpoint = endpoint(&server, host, limits()).with_tls(trusting(certificate));
        let watched = Watched::start(endpoint);
        let stream = acceptor.accept(server.connection().await);
        let stream = Box::new(soon("TLS", stream).await.unwrap());
        let mut peer = Peer::open(stream).await;
        peer.answer().await;
        watched.until_woken().await;
        peer.announce(1).await;
        watched.until_woken().await;
    }
}

/// First a certificate that the system does not trust, then a trusted one of another name.
#[tokio::test]
async fn an_endpoint_with_an_untrusted_certificate_is_not_used() {
    let server = Server::start().await;
    let (acceptor, certificate) = acceptor(&["elsewhere.example"]);
    let system = endpoint(&server, "127.0.0.1", limits());
    let other_name = system.clone().with_tls(trusting(certificate));
    for endpoint in [system, other_name] {
        let watched = Watched::start(endpoint);
        for _ in 0..2 {
            let stream = acceptor.accept(server.connection().await);
            assert!(soon("an alert", stream).await.is_err());
        }
        assert!(watched.sleeps());
        assert_eq!(watched.meter("connected"), "0");
    }
}
