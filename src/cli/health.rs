//! `dragoman health`: checks whether the server with these settings is alive. Meant for process supervisors.
//!
//! It reads the settings of `serve` and calls the address in `listen`, over HTTP or HTTPS. It accepts a certificate with any
//! name and age, because the call stays on this machine, but the server must prove that it has the private key.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme};

const HEAD_BYTES_MAX: u64 = 16 << 10;
/// The first byte of an alert (RFC 8446, section 5.1), with which a server that expects TLS answers plain HTTP.
const TLS_ALERT: u8 = 21;

#[derive(Debug, Clone, Copy)]
pub struct HealthCheck<'a> {
    pub listen: &'a str,
    /// Its certificate file, if it uses TLS.
    pub certificate: Option<&'a Path>,
    /// Whether to check readiness: all collections work fully. Otherwise the server only has to be alive.
    pub ready: bool,
    pub timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    #[error("cannot call {listen}: {problem}")]
    Address { listen: String, problem: String },
    #[error("the server at {address} does not answer")]
    NoResponse { address: SocketAddr, source: io::Error },
    #[error("the server at {address} does not answer within {timeout:?}")]
    Timeout { address: SocketAddr, timeout: Duration },
    #[error("the TLS connection failed")]
    Tls(#[source] rustls::Error),
    #[error("the server at {address} answers {response:?} to {path}")]
    Unhealthy { address: SocketAddr, response: String, path: &'static str },
}

/// Calls the server; succeeds if it is alive (or ready).
pub fn check(check: HealthCheck<'_>) -> Result<(), HealthError> {
    let address = address(check.listen)?;
    let path = if check.ready { "/readyz" } else { "/healthz" };
    let shown = Arc::new(CertificateRecorder::default());
    let tls = check.certificate.map(|_| connector(&shown)).transpose().map_err(HealthError::Tls)?;
    let exchange = async {
        let tcp = TcpStream::connect(address).await?;
        match tls {
            None => status_line(tcp, path).await,
            Some(tls) => status_line(tls.connect(ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST)), tcp).await?, path).await,
        }
    };
    // The timeout is for the whole exchange, however slowly the server sends.
    let runtime = Builder::new_current_thread().enable_all().build();
    let response = runtime.and_then(|runtime| runtime.block_on(async { timeout(check.timeout, exchange).await? }));
    let response = response.map_err(|source| match source.kind() {
        io::ErrorKind::TimedOut => HealthError::Timeout { address, timeout: check.timeout },
        _ => HealthError::NoResponse { address, source },
    })?;
    check.certificate.inspect(|file| warn_of_other_certificate(&shown, file));
    match response.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(HealthError::Unhealthy { address, response, path }),
    }
}

/// Returns the address at which this machine can reach a server that listens on `listen`.
fn address(listen: &str) -> Result<SocketAddr, HealthError> {
    let wrong = |problem: String| HealthError::Address { listen: listen.to_owned(), problem };
    let mut found = listen.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    let mut address = found.next().ok_or_else(|| wrong("the name has no address".to_owned()))?;
    if address.port() == 0 {
        return Err(wrong("a server on port 0 listens on any free port".to_owned()));
    }
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => (),
    }
    Ok(address)
}

/// Sends a request and reads the status line of the response.
async fn status_line(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: dragoman-health\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut line = Vec::new();
    BufReader::new(stream.take(HEAD_BYTES_MAX)).read_until(b'\n', &mut line).await?;
    if line.first() == Some(&TLS_ALERT) {
        return Err(io::Error::other("it expects TLS; give this command the setting tls_certificate of the server"));
    }
    if !line.ends_with(b"\n") {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed without a response"));
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

fn connector(shown: &Arc<CertificateRecorder>) -> Result<TlsConnector, rustls::Error> {
    let verifier: Arc<dyn ServerCertVerifier> = Arc::clone(shown) as _;
    let config = ClientConfig::builder_with_provider(Arc::clone(&shown.provider)).with_safe_default_protocol_versions()?;
    let config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Warns if the server presents another certificate than the one in the file, because it has not loaded it or cannot load it.
/// The server still counts as healthy.
fn warn_of_other_certificate(shown: &CertificateRecorder, file: &Path) {
    let from_file = CertificateDer::pem_file_iter(file).ok().and_then(|mut found| found.next()?.ok());
    let shown = shown.certificate.lock();
    if from_file != *shown {
        // The check must not fail if standard error is closed.
        let _ = writeln!(io::stderr(), "note: the server shows a certificate other than the one in {}", file.display());
    }
}

/// A certificate verifier that accepts any certificate if the server has its key, and stores the certificate.
#[derive(Debug)]
struct CertificateRecorder {
    provider: Arc<CryptoProvider>,
    certificate: Mutex<Option<CertificateDer<'static>>>,
}

impl Default for CertificateRecorder {
    fn default() -> Self {
        Self { provider: Arc::new(ring::default_provider()), certificate: Mutex::default() }
    }
}

impl ServerCertVerifier for CertificateRecorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        *self.certificate.lock() = Some(end_entity.clone().into_owned());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_accepts_a_connection_but_says_nothing_is_reported_with_the_time_limit() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = silent.local_addr().unwrap().to_string();
        let timeout = Duration::from_millis(50);
        let error = check(HealthCheck { listen: &listen, certificate: None, ready: false, timeout }).unwrap_err();
        assert_eq!(error.to_string(), format!("the server at {listen} does not answer within 50ms"));
    }

    #[test]
    fn wildcard_listen_addresses_become_loopback_addresses() {
        for (listen, expect) in [
            ("0.0.0.0:7700", Some("127.0.0.1:7700")),
            ("[::]:7700", Some("[::1]:7700")),
            ("192.0.2.7:80", Some("192.0.2.7:80")),
            ("127.0.0.1:0", None),
            ("7700", None),
        ] {
            let found = address(listen).map(|address| address.to_string());
            assert_eq!(found.as_deref().ok(), expect, "{listen}: {found:?}");
        }
    }
}
