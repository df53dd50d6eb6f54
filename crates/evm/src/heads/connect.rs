//! From a URL to an open WebSocket: TCP, TLS where the URL asks for it, the handshake. Goes straight to the endpoint: no proxy of the
//! environment is used.

use std::io;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Host, Url};

use super::{Lost, WsEndpoint, WsLimits};

/// Holds some heads. More would be allocated for each chain and stay empty.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// A connection, with TLS or without.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Opens a WebSocket. `tls` is made when it is first needed, and kept: reading the system's certificates takes a while.
pub(super) async fn connect(
    endpoint: &WsEndpoint,
    tls: &mut Option<Arc<ClientConfig>>,
) -> Result<WebSocketStream<Box<dyn ByteStream>>, Lost> {
    let url = &endpoint.url;
    let tcp = dial(url).await.map_err(Lost::Unreachable)?;
    let stream: Box<dyn ByteStream> = if url.scheme() == "wss" {
        let config = match tls {
            Some(config) => Arc::clone(config),
            None => Arc::clone(tls.insert(Arc::new(trusting_system().map_err(Lost::Tls)?))),
        };
        let name = server_name(url).map_err(Lost::TlsHandshake)?;
        let encrypted = TlsConnector::from(config).connect(name, tcp).await;
        Box::new(encrypted.map_err(Lost::TlsHandshake)?)
    } else {
        Box::new(tcp)
    };
    let request = request(url).map_err(Lost::Handshake)?;
    let config = config(endpoint.limits);
    let opened = client_async_with_config(request, stream, Some(config)).await;
    let (socket, _) = opened.map_err(Lost::Handshake)?;
    Ok(socket)
}

/// What a message may take.
pub(super) fn config(limits: WsLimits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(limits.message_bytes_max))
        .max_frame_size(Some(limits.message_bytes_max))
}

async fn dial(url: &Url) -> io::Result<TcpStream> {
    let port = url.port_or_known_default().unwrap_or_default();
    let tcp = match url.host() {
        Some(Host::Domain(name)) => TcpStream::connect((name, port)).await,
        Some(Host::Ipv4(ip)) => TcpStream::connect((ip, port)).await,
        Some(Host::Ipv6(ip)) => TcpStream::connect((ip, port)).await,
        None => Err(io::ErrorKind::AddrNotAvailable.into()),
    }?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// The same roots and verifier as those of the HTTP client.
fn trusting_system() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(config)
}

fn server_name(url: &Url) -> io::Result<ServerName<'static>> {
    let bad = |_| io::Error::from(io::ErrorKind::InvalidInput);
    match url.host() {
        Some(Host::Domain(name)) => ServerName::try_from(name.to_owned()).map_err(bad),
        Some(Host::Ipv4(ip)) => Ok(ServerName::IpAddress(std::net::IpAddr::from(ip).into())),
        Some(Host::Ipv6(ip)) => Ok(ServerName::IpAddress(std::net::IpAddr::from(ip).into())),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The handshake's request. A user and a password of the URL go into a header, as HTTP clients send them.
fn request(url: &Url) -> Result<Request, tungstenite::Error> {
    let mut plain = url.clone();
    plain.set_fragment(None);
    // These fail only where a URL has no host.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    let mut request = plain.as_str().into_client_request()?;
    if !url.username().is_empty() || url.password().is_some() {
        let mut user: Vec<u8> = percent_decode_str(url.username()).collect();
        user.push(b':');
        user.extend(percent_decode_str(url.password().unwrap_or_default()));
        let basic = format!("Basic {}", BASE64_STANDARD.encode(user));
        let mut basic = tungstenite::http::HeaderValue::try_from(basic)
            .map_err(|error| tungstenite::Error::HttpFormat(error.into()))?;
        basic.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, basic);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_path_and_query_of_the_url_and_its_user_in_a_header() {
        let check = |url: &str, uri: &str, host: &str, basic: Option<&str>| {
            let request = request(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(request.uri().to_string(), uri, "{url}");
            assert_eq!(request.headers()["host"], host, "{url}");
            let sent = request.headers().get(AUTHORIZATION);
            let sent = sent.map(|value| value.to_str().unwrap());
            assert_eq!(sent, basic, "{url}");
        };
        check("ws://a", "ws://a/", "a", None);
        check(
            "ws://a:8546/v3/key?k=1#f",
            "ws://a:8546/v3/key?k=1",
            "a:8546",
            None,
        );
        check("wss://[::1]:9/x", "wss://[::1]:9/x", "[::1]:9", None);
        // "me:p@ss" and "token:".
        check(
            "wss://me:p%40ss@a/x",
            "wss://a/x",
            "a",
            Some("Basic bWU6cEBzcw=="),
        );
        check("wss://token@a/x", "wss://a/x", "a", Some("Basic dG9rZW46"));
    }

    #[test]
    fn names_and_addresses_can_be_verified() {
        for (url, name) in [
            ("wss://ws.example/x", "ws.example"),
            ("wss://127.0.0.1:1", "127.0.0.1"),
            ("wss://[::1]:1", "::1"),
        ] {
            let found = server_name(&Url::parse(url).unwrap()).unwrap();
            assert_eq!(found.to_str(), name);
        }
    }
}
