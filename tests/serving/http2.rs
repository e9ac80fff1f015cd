//! HTTP/2 on real sockets: which clients get it, and that it is limited and drained like HTTP/1.1.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Version};
use dragoman::server::Tls;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::{Listening, PATIENCE, certificate, connect_tls, exchange, listen, within};

/// The client preface of every HTTP/2 connection, with empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A client, and the task that ends with its connection.
async fn client(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> (SendRequest<Body>, JoinHandle<()>) {
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let ended = tokio::spawn(async move {
        // Either way of ending is fine.
        let _ = connection.await;
    });
    (client, ended)
}

async fn plain_client(address: SocketAddr) -> (SendRequest<Body>, JoinHandle<()>) {
    client(TcpStream::connect(address).await.unwrap()).await
}

fn get(path: &str) -> Request<Body> {
    Request::get(format!("http://localhost{path}")).body(Body::empty()).unwrap()
}

/// Calls a path and returns the response's protocol version and text.
async fn call(client: &mut SendRequest<Body>, path: &str) -> (Version, String) {
    let response = within("a response", client.send_request(get(path))).await.unwrap();
    let version = response.version();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (version, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn http_1_and_http_2_both_work_without_tls() {
    let server = listen(8, PATIENCE, None).await;
    let (mut two, _) = plain_client(server.address).await;
    assert_eq!(call(&mut two, "/").await, (Version::HTTP_2, "hello".to_owned()));
    let mut one = TcpStream::connect(server.address).await.unwrap();
    let response = exchange(&mut one, "/").await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("hello"), "{response}");
}

#[tokio::test]
async fn the_tls_handshake_negotiates_the_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let own = certificate(folder.path(), "own");
    let server = listen(8, PATIENCE, Some(Arc::new(Tls::open(&own.path, &own.key).unwrap()))).await;
    let stream = connect_tls(server.address, &own, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut two, _) = client(stream).await;
    assert_eq!(call(&mut two, "/").await, (Version::HTTP_2, "hello".to_owned()));
    for offer in [&["http/1.1"][..], &[]] {
        let mut stream = connect_tls(server.address, &own, offer).await.unwrap();
        let response = exchange(&mut stream, "/").await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{offer:?}: {response}");
    }
}

#[tokio::test]
async fn a_connection_answers_one_request_while_another_runs() {
    let server = listen(8, PATIENCE, None).await;
    let (mut first, _) = plain_client(server.address).await;
    let mut second = first.clone();
    let held = tokio::spawn(async move { call(&mut first, "/held").await.1 });
    within("the first request runs", server.held.entered.notified()).await;
    assert_eq!(call(&mut second, "/").await.1, "hello");
    server.held.release.notify_one();
    assert_eq!(within("the first response", held).await.unwrap(), "released");
}

#[tokio::test]
async fn an_http_2_client_that_is_still_sending_gets_the_response_and_may_go_on() {
    const PIECES: usize = 64;
    let server = listen(8, PATIENCE, None).await;
    let (mut client, _) = plain_client(server.address).await;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let piece = move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::io::Error>(vec![b'x'; 1 << 20])
    };
    let body = Body::from_stream(futures::stream::iter(0..PIECES).map(piece));
    let request = Request::post("http://localhost/").body(body).unwrap();
    let response = within("a response", client.send_request(request)).await.unwrap();
    assert_eq!(response.status(), 405);
    within("the whole request is sent", async {
        while sent.load(Ordering::Relaxed) < PIECES {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(call(&mut client, "/").await.1, "hello");
}

#[tokio::test]
async fn the_number_of_streams_per_connection_is_limited() {
    let server = listen(8, PATIENCE, None).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    let mut head = [0; 9];
    within("the first frame", stream.read_exact(&mut head)).await.unwrap();
    assert_eq!(head[3], 4, "the first frame has the server's settings");
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    within("the settings", stream.read_exact(&mut settings)).await.unwrap();
    let streams_max = settings.chunks(6).find(|setting| setting[..2] == [0, 3]);
    assert_eq!(streams_max.map(|setting| &setting[2..]), Some(&[0, 0, 0, 128][..]));
}

#[tokio::test]
async fn a_client_that_sends_no_request_is_disconnected() {
    let server = listen(8, Duration::from_millis(100), None).await;
    for started in [&PREFACE[..2], &PREFACE[..20], PREFACE] {
        let mut slow = TcpStream::connect(server.address).await.unwrap();
        slow.write_all(started).await.unwrap();
        let mut rest = Vec::new();
        // The close may also arrive as a reset.
        let _ = within("the connection is closed", slow.read_to_end(&mut rest)).await;
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let server = listen(8, Duration::from_millis(100), None).await;
    let (mut client, ended) = plain_client(server.address).await;
    let mut other = client.clone();
    let held = tokio::spawn(async move { call(&mut other, "/held").await.1 });
    within("the request runs", server.held.entered.notified()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(call(&mut client, "/").await.1, "hello");
    server.held.release.notify_one();
    assert_eq!(within("the response", held).await.unwrap(), "released");
    within("the connection ends", ended).await.unwrap();
}

#[tokio::test]
async fn an_http_2_client_that_does_not_read_its_response_is_disconnected() {
    let server = listen(1, PATIENCE, None).await;
    let (mut idle, _ended) = plain_client(server.address).await;
    let _untaken = within("the response begins", idle.send_request(get("/large"))).await.unwrap();
    let mut next = TcpStream::connect(server.address).await.unwrap();
    let response = within("a response for the next one", exchange(&mut next, "/")).await.unwrap();
    assert!(response.ends_with("hello"), "{response}");
}

#[tokio::test]
async fn idle_connections_give_way_to_new_ones_and_busy_ones_stay() {
    let server = listen(2, PATIENCE, None).await;
    let (mut working, _) = plain_client(server.address).await;
    let held = tokio::spawn(async move { call(&mut working, "/held").await.1 });
    within("the request runs", server.held.entered.notified()).await;
    let (mut idle, ended) = plain_client(server.address).await;
    assert_eq!(call(&mut idle, "/").await.1, "hello");
    let mut next = TcpStream::connect(server.address).await.unwrap();
    assert!(within("a response", exchange(&mut next, "/")).await.unwrap().ends_with("hello"));
    within("the idle connection is closed", ended).await.unwrap();
    server.held.release.notify_one();
    assert_eq!(within("the response", held).await.unwrap(), "released");
}

#[tokio::test]
async fn shutdown_answers_running_http_2_requests() {
    let server = listen(8, PATIENCE, None).await;
    let (mut idle, idle_ended) = plain_client(server.address).await;
    assert_eq!(call(&mut idle, "/").await.1, "hello");
    let (mut client, ended) = plain_client(server.address).await;
    let held = tokio::spawn(async move { call(&mut client, "/held").await.1 });
    within("the request runs", server.held.entered.notified()).await;
    server.stop.send(true).unwrap();
    within("the idle connection ends", idle_ended).await.unwrap();
    let Listening { held: on_hold, serving, .. } = server;
    assert!(!serving.is_finished(), "a request still runs");
    on_hold.release.notify_one();
    assert_eq!(within("the running request is answered", held).await.unwrap(), "released");
    within("its connection ends", ended).await.unwrap();
    within("the server ends", serving).await.unwrap();
}
