//! TLS: certificate and key from PEM files, reloaded when they change. A certificate outside its period of validity is used, but
//! logged: the operator knows better than the clock of this machine whether clients accept it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use x509_parser::parse_x509_certificate;

use crate::disk::read_file;
use crate::domain::with_causes;

/// How often the files are checked.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// The name of HTTP/2 in the handshake.
pub(super) const HTTP2: &[u8] = b"h2";

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} contains no {expected} in PEM format", path.display())]
    Pem { path: PathBuf, expected: &'static str },
    /// Certificate and key do not match, or their kind is not supported.
    #[error("cannot use the certificate with its key")]
    Pair(#[source] rustls::Error),
}

/// Certificate and key of the server.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    /// The last content read, whether valid or not.
    seen: Mutex<Files>,
    current: Arc<Current>,
    acceptor: TlsAcceptor,
}

#[derive(Clone, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// The pair that new connections use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read()))
    }
}

impl Tls {
    /// Reads both files and checks that they match.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let files = read(certificate, key)?;
        let pair = pair(&files, certificate, key, &provider)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(pair))));
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(TlsError::Pair)?;
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&current) as _;
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), seen: Mutex::new(files), current, acceptor })
    }

    pub fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    /// When the first certificate of the current chain expires, in seconds since the Unix epoch; 0 if that cannot be read.
    pub fn expiry_s(&self) -> u64 {
        let expiry = self.validity().map_or(0, |(_, until)| until.as_second());
        u64::try_from(expiry).unwrap_or_default()
    }

    /// Returns a warning if the current certificate is not valid yet at `now`, or has expired.
    pub fn warning(&self, now: Timestamp) -> Option<String> {
        let (from, until) = self.validity()?;
        let problem = if now < from {
            format!("is not valid before {from}")
        } else if now > until {
            format!("expired at {until}")
        } else {
            return None;
        };
        Some(format!("the certificate {} {problem}; clients may refuse it", self.certificate.display()))
    }

    /// The period in which all certificates of the current chain are valid. `None` if one of them cannot be read.
    fn validity(&self) -> Option<(Timestamp, Timestamp)> {
        let pair = Arc::clone(&self.current.0.read());
        let periods: Option<Vec<_>> = pair.cert.iter().map(period).collect();
        periods?.into_iter().reduce(|(from, until), (other_from, other_until)| (from.max(other_from), until.min(other_until)))
    }

    /// Reads the files again and returns whether there is a new pair. Open connections keep the old one; if the new one is
    /// unusable, new connections use the old one, too.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let files = read(&self.certificate, &self.key)?;
        let mut seen = self.seen.lock();
        if *seen == files {
            return Ok(false);
        }
        let pair = pair(&files, &self.certificate, &self.key, self.acceptor.config().crypto_provider());
        *seen = files;
        *self.current.0.write() = Arc::new(pair?);
        Ok(true)
    }

    /// Reloads the files when they change, and at once on SIGHUP. Logs once when a new certificate is not valid, or the current
    /// one expires. Never returns.
    pub async fn keep_current(self: Arc<Self>, mut hangup: tokio::signal::unix::Signal) {
        let mut failing = false;
        let mut warned = self.warning(Timestamp::now());
        loop {
            let warning = self.warning(Timestamp::now());
            if let Some(warning) = warning.as_ref().filter(|warning| warned.as_ref() != Some(*warning)) {
                tracing::warn!("{warning}");
            }
            warned = warning;
            tokio::select! {
                _ = hangup.recv() => (),
                () = tokio::time::sleep(CHECK_PERIOD) => (),
            }
            let tls = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || tls.reload()).await {
                Ok(Ok(true)) => tracing::info!(certificate = %self.certificate.display(), "reloaded the certificate"),
                Ok(Err(error)) if !failing => {
                    failing = true;
                    let error = with_causes(&error);
                    tracing::error!(error, "cannot use the changed certificate; keeping the previous one");
                    continue;
                }
                Ok(Err(_)) => continue,
                Ok(Ok(false)) => (),
                Err(_) => return,
            }
            failing = false;
        }
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Files, TlsError> {
    let read = |path: &Path| read_file(path).map_err(|source| TlsError::File { path: path.to_owned(), source });
    Ok(Files { certificate: read(certificate)?, key: read(key)? })
}

fn pair(files: &Files, certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let bad = |path: &Path, expected| TlsError::Pem { path: path.to_owned(), expected };
    let chain = CertificateDer::pem_slice_iter(&files.certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| bad(certificate, "certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(&files.key).map_err(|_| bad(key, "private key"))?;
    CertifiedKey::from_der(chain, key, provider).map_err(TlsError::Pair)
}

/// The time in which a certificate is valid.
fn period(certificate: &CertificateDer<'_>) -> Option<(Timestamp, Timestamp)> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let validity = certificate.validity();
    // The end of a certificate that never expires is later than any `Timestamp`.
    let time = |s: i64| Timestamp::from_second(s.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second())).ok();
    Some((time(validity.not_before.timestamp())?, time(validity.not_after.timestamp())?))
}
