//! The listener on real sockets: TLS and its certificates, slow clients, the connection limit, the drain at shutdown.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "serving/http2.rs"]
mod http2;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::get;
use dragoman::http::middleware::permit_body::PermitBody;
use dragoman::http::settings::ConnectionMeter;
use dragoman::server::{ServeOptions, Tls, TlsError, serve};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(30);
/// Size of a request that nobody reads: more than socket buffers hold.
const UNREAD_BYTES: usize = 64 << 20;

/// A listener with three routes: `/` answers at once, `/held` answers when `release` fires, `/large` sends more than socket
/// buffers hold.
struct Listening {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    held: Arc<Held>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Held {
    entered: Notify,
    release: Notify,
}

async fn listen(connections_max: usize, header_timeout: Duration, tls: Option<Arc<Tls>>) -> Listening {
    let held = Arc::new(Held::default());
    let wait = async |State(held): State<Arc<Held>>| {
        held.entered.notify_one();
        held.release.notified().await;
        "released"
    };
    let router = Router::new().route("/", get(async || "hello")).route("/held", get(wait)).with_state(Arc::clone(&held));
    let router = router.route("/large", get(async || vec![b'x'; 64 << 20]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let write_timeout = Duration::from_millis(200);
    let connections = ConnectionMeter::default();
    let options = ServeOptions { connections_max, connections, header_timeout, write_timeout, tls };
    let serving = tokio::spawn(serve(listener, router, options, stopped));
    Listening { address, stop, held, serving }
}

/// Sends a request and reads until the connection is closed.
async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    Ok(String::from_utf8(response).unwrap())
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

/// A certificate for localhost, written as PEM.
struct Certificate {
    der: CertificateDer<'static>,
    path: PathBuf,
    key: PathBuf,
}

fn certificate(folder: &Path, name: &str) -> Certificate {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (path, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    std::fs::write(&path, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    Certificate { der: made.cert.der().clone(), path, key }
}

/// Calls `/` over TLS, trusting only this certificate.
async fn call_tls(address: SocketAddr, trusted: &Certificate) -> std::io::Result<String> {
    exchange(&mut connect_tls(address, trusted, &[]).await?, "/").await
}

/// Connects over TLS, trusting only this certificate and offering these protocols.
async fn connect_tls(address: SocketAddr, trusted: &Certificate, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

#[tokio::test]
async fn a_new_certificate_is_loaded_and_a_mismatched_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (certificate(folder.path(), "old"), certificate(folder.path(), "new"));
    let (path, key) = (folder.path().join("server.pem"), folder.path().join("server.key"));
    let install = |one: &Certificate| {
        std::fs::copy(&one.path, &path).unwrap();
        std::fs::copy(&one.key, &key).unwrap();
    };
    install(&old);
    let tls = Arc::new(Tls::open(&path, &key).unwrap());
    let server = listen(8, PATIENCE, Some(Arc::clone(&tls))).await;
    assert!(call_tls(server.address, &old).await.unwrap().ends_with("hello"));
    assert!(call_tls(server.address, &new).await.is_err(), "the client trusts another certificate");
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    assert!(!exchange(&mut plain, "/").await.is_ok_and(|response| response.contains("hello")), "no plain HTTP beside TLS");

    assert!(!tls.reload().unwrap(), "nothing has changed");
    std::fs::copy(&new.path, &path).unwrap();
    assert!(matches!(tls.reload(), Err(TlsError::Pair(_))), "a new certificate with the old key");
    assert!(call_tls(server.address, &old).await.is_ok());
    install(&new);
    assert!(tls.reload().unwrap());
    assert!(call_tls(server.address, &new).await.unwrap().ends_with("hello"));
    assert!(call_tls(server.address, &old).await.is_err());
}

#[tokio::test]
async fn sighup_reloads_the_certificate() {
    use tokio::signal::unix::{SignalKind, signal};
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (certificate(folder.path(), "old"), certificate(folder.path(), "new"));
    let tls = Arc::new(Tls::open(&old.path, &old.key).unwrap());
    let server = listen(8, PATIENCE, Some(Arc::clone(&tls))).await;
    let watching = tokio::spawn(Arc::clone(&tls).keep_current(signal(SignalKind::hangup()).unwrap()));
    std::fs::copy(&new.key, &old.key).unwrap();
    std::fs::copy(&new.path, &old.path).unwrap();
    let hangup = format!("kill -HUP {}", std::process::id());
    assert!(std::process::Command::new("sh").args(["-c", &hangup]).status().unwrap().success());
    let started = Instant::now();
    while call_tls(server.address, &new).await.is_err() {
        assert!(started.elapsed() < PATIENCE, "the certificate is not reloaded");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    watching.abort();
}

#[test]
fn invalid_certificate_and_key_files_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (certificate(folder.path(), "one"), certificate(folder.path(), "two"));
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing of use").unwrap();
    let error = |certificate: &Path, key: &Path| Tls::open(certificate, key).err().unwrap().to_string();
    assert!(error(&empty, &one.key).contains("empty.pem contains no certificate"));
    assert!(error(&one.path, &empty).contains("empty.pem contains no private key"));
    assert!(error(&one.key, &one.key).contains("contains no certificate"));
    assert!(error(&folder.path().join("absent"), &one.key).contains("absent"));
    assert!(error(&one.path, &two.key).contains("cannot use the certificate with its key"));
}

#[test]
fn a_certificate_outside_its_period_of_validity_causes_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let made = certificate(folder.path(), "made");
    let at = |from: i32, until: i32| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        certificate.not_before = rcgen::date_time_ymd(from, 1, 1);
        certificate.not_after = rcgen::date_time_ymd(until, 1, 1);
        std::fs::write(&made.path, certificate.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&made.key, key.serialize_pem()).unwrap();
        let tls = Tls::open(&made.path, &made.key).unwrap();
        (tls.expiry_s(), tls.warning("2026-11-27T00:00:00Z".parse().unwrap()).unwrap_or_default())
    };
    assert_eq!(at(2020, 2030), (1_893_456_000, String::new()));
    let (expiry_s, warning) = at(2020, 2024);
    assert_eq!(expiry_s, 1_704_067_200);
    assert!(warning.contains("made.pem expired at 2024-01-01T00:00:00Z; clients may refuse it"), "{warning}");
    assert!(at(2028, 2030).1.contains("made.pem is not valid before 2028-01-01T00:00:00Z"));
}

#[test]
fn the_expiry_is_unknown_if_one_certificate_of_the_chain_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let made = certificate(folder.path(), "made");
    let expiry_s = || Tls::open(&made.path, &made.key).unwrap().expiry_s();
    assert!(expiry_s() > 0);
    let mut chain = std::fs::OpenOptions::new().append(true).open(&made.path).unwrap();
    std::io::Write::write_all(&mut chain, b"\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert_eq!(expiry_s(), 0);
}

#[test]
fn a_fifo_in_place_of_the_certificate_does_not_end_the_reloads() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (certificate(folder.path(), "old"), certificate(folder.path(), "new"));
    let tls = Tls::open(&old.path, &old.key).unwrap();
    std::fs::remove_file(&old.path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&old.path).status().unwrap().success());
    assert!(matches!(tls.reload(), Err(TlsError::File { .. })), "opening it does not wait for a writer");
    std::fs::remove_file(&old.path).unwrap();
    std::fs::copy(&new.path, &old.path).unwrap();
    std::fs::copy(&new.key, &old.key).unwrap();
    assert!(tls.reload().unwrap());
}

#[tokio::test]
async fn a_client_with_an_unfinished_request_head_is_disconnected() {
    let server = listen(8, Duration::from_millis(100), None).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: local").await.unwrap();
    let mut rest = Vec::new();
    within("the connection is closed", slow.read_to_end(&mut rest)).await.unwrap();
    assert!(!String::from_utf8(rest).unwrap().contains("hello"));
}

#[tokio::test]
async fn a_client_that_does_not_read_its_response_is_disconnected() {
    let listening = listen(1, PATIENCE, None).await;
    let mut idle = TcpStream::connect(listening.address).await.unwrap();
    idle.write_all(b"GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut next = TcpStream::connect(listening.address).await.unwrap();
    let response = within("a response for the next one", exchange(&mut next, "/")).await.unwrap();
    assert!(response.ends_with("hello"), "{response}");
}

#[tokio::test]
async fn a_large_response_holds_its_permit_until_the_client_has_read_it() {
    let place = Arc::new(());
    let counted = Arc::clone(&place);
    let large = async move || Body::new(PermitBody::new(Body::from(vec![b'x'; 64 << 20]), Arc::clone(&counted)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_stop, stopped) = watch::channel(false);
    let (header_timeout, write_timeout) = (PATIENCE, PATIENCE);
    let connections = ConnectionMeter::default();
    let options = ServeOptions { connections_max: 1, connections, header_timeout, write_timeout, tls: None };
    // The handler holds one more reference, and keeps it.
    let idle = Arc::strong_count(&place);
    tokio::spawn(serve(listener, Router::new().route("/", get(large)), options, stopped));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut taken = vec![0; 1 << 20];
    within("the response begins", client.read_exact(&mut taken)).await.unwrap();
    assert_eq!(Arc::strong_count(&place), idle + 1, "most of the response is not sent yet");
    for _ in 0..63 {
        within("the response goes on", client.read_exact(&mut taken)).await.unwrap();
    }
    within("the place is free", async {
        while Arc::strong_count(&place) > idle {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Sends a request with a large body that nobody reads, all of it before it reads the response, as many clients do.
async fn send_unread(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> std::io::Result<String> {
    let head = format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {UNREAD_BYTES}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    for _ in 0..UNREAD_BYTES >> 20 {
        stream.write_all(&[b'x'; 1 << 20]).await?;
    }
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

#[tokio::test]
async fn a_client_that_is_still_sending_gets_the_response() {
    let folder = tempfile::tempdir().unwrap();
    let own = certificate(folder.path(), "own");
    let plain = listen(1, PATIENCE, None).await;
    let secure = listen(1, PATIENCE, Some(Arc::new(Tls::open(&own.path, &own.key).unwrap()))).await;
    let mut stream = TcpStream::connect(plain.address).await.unwrap();
    let response = within("a response", send_unread(&mut stream)).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 405"), "{response}");
    let mut stream = connect_tls(secure.address, &own, &[]).await.unwrap();
    let response = within("a response over TLS", send_unread(&mut stream)).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 405"), "{response}");
}

#[tokio::test]
async fn a_connection_whose_request_is_discarded_gives_way_to_a_new_one() {
    let server = listen(1, PATIENCE, None).await;
    let mut greedy = TcpStream::connect(server.address).await.unwrap();
    greedy.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    within("a response", greedy.read_exact(&mut begin)).await.unwrap();
    let sending = tokio::spawn(async move { while greedy.write_all(&[b'x'; 1 << 10]).await.is_ok() {} });
    let mut next = TcpStream::connect(server.address).await.unwrap();
    let response = within("the next client is served", exchange(&mut next, "/")).await.unwrap();
    assert!(response.ends_with("hello"), "{response}");
    within("the greedy client is disconnected", sending).await.unwrap();
}

#[tokio::test]
async fn idle_connections_give_way_to_new_requests() {
    let server = listen(4, PATIENCE, None).await;
    let mut idle = Vec::new();
    for number in 0..12 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Some clients send nothing, others start a request head and never finish it.
        let head: &[u8] = if number % 2 == 0 { b"" } else { b"GET / HTTP/1.1\r\nhost: " };
        stream.write_all(head).await.unwrap();
        idle.push(stream);
    }
    for _ in 0..8 {
        let mut honest = TcpStream::connect(server.address).await.unwrap();
        let response = within("an honest client is answered", exchange(&mut honest, "/")).await.unwrap();
        assert!(response.ends_with("hello"), "{response}");
    }
    let mut rest = Vec::new();
    // The close may also arrive as a reset.
    let _ = within("the oldest idle connection is closed", idle[0].read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_new_connection_waits_while_all_others_are_busy() {
    let server = listen(1, PATIENCE, None).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first.write_all(b"GET /held HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    within("the first request runs", server.held.entered.notified()).await;
    let mut second = TcpStream::connect(server.address).await.unwrap();
    let mut exchanging = std::pin::pin!(exchange(&mut second, "/"));
    let waited = tokio::time::timeout(Duration::from_millis(100), exchanging.as_mut()).await;
    assert!(waited.is_err(), "the first connection has the only place");
    server.held.release.notify_one();
    let response = within("the second connection is served", exchanging).await.unwrap();
    assert!(response.ends_with("hello"), "{response}");
}

#[tokio::test]
async fn shutdown_answers_running_requests_and_closes_all_connections() {
    let server = listen(8, PATIENCE, None).await;
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut some = [0; 512];
    let read = idle.read(&mut some).await.unwrap();
    assert!(String::from_utf8_lossy(&some[..read]).ends_with("hello"));

    let address = server.address;
    let running = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The client does not ask to close the connection: the server closes it anyway.
        stream.write_all(b"GET /held HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    });
    within("the request runs", server.held.entered.notified()).await;
    server.stop.send(true).unwrap();
    within("an idle connection is closed", async { while idle.read(&mut some).await.unwrap() > 0 {} }).await;

    let mut late = TcpStream::connect(server.address).await.unwrap();
    late.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut response = String::new();
    within("a late connection is answered and closed", late.read_to_string(&mut response)).await.unwrap();
    assert!(response.to_lowercase().contains("connection: close"), "{response}");
    assert!(!server.serving.is_finished(), "a request still runs");

    server.held.release.notify_one();
    let response = within("the running request is answered", running).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("released"), "{response}");
    assert!(response.to_lowercase().contains("connection: close"), "{response}");
    within("the server ends", server.serving).await.unwrap();
}
