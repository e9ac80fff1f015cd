//! A server with TLS and keys: every command reaches it with a CA and a key, and explains what is wrong with others; `health`
//! checks the server itself.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::program::{Program, command};
use super::{Run, dragoman, run, run_with};

const ADMIN: &str = "open-sesame-open-sesame";

/// Certificate files: a CA's, and those of a server named `name` that the CA signed.
struct Files {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn certificates(folder: &Path, name: &str) -> Files {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(rcgen::DnType::CommonName, format!("authority of {name}"));
    let key = rcgen::KeyPair::generate().unwrap();
    let authority = parameters.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(parameters, key);
    let own = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&own, &issuer).unwrap();
    let write = |end: &str, text: String| {
        let path = folder.join(format!("{name}-{end}.pem"));
        std::fs::write(&path, text).unwrap();
        path
    };
    Files {
        authority: write("authority", authority.pem()),
        certificate: write("certificate", certificate.pem()),
        key: write("key", own.serialize_pem()),
    }
}

/// A server over TLS that requires the admin key.
fn secure(data: &Path, files: &Files) -> Program {
    let mut command = command(data, "fake:64");
    command.arg("--tls-certificate").arg(&files.certificate).arg("--tls-key").arg(&files.key);
    command.env("DRAGOMAN_ADMIN_KEY", ADMIN);
    Program::spawn(command)
}

/// Runs a command with a CA and a key as flags.
fn call(server: &Program, ca: &Path, key: &str, arguments: &[&str]) -> Run {
    let url = format!("https://{}", server.client().address());
    let mut command = dragoman(&url, arguments);
    command.arg("--ca").arg(ca).args(["--key", key]);
    let texts = ["Le chat dort.", "Der Hund bellt.", "Il piove.", "The train is late."];
    let line = |(id, text): (usize, &&str)| serde_json::json!({ "id": id.to_string(), "text": text }).to_string() + "\n";
    let lines: String = texts.iter().enumerate().map(line).collect();
    run_with(command, lines.as_bytes())
}

#[test]
fn commands_connect_with_a_ca_and_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path(), "127.0.0.1");
    let server = secure(&folder.path().join("data"), &files);
    let ready = Instant::now();
    while call(&server, &files.authority, ADMIN, &["collections", "list"]).code != 0 {
        assert!(ready.elapsed() < Duration::from_secs(60), "the server is not reached");
    }
    let file = folder.path().join("exported.ndjson").display().to_string();
    let archive = folder.path().join("archive.tar.zst").display().to_string();
    let done = |arguments: &[&str]| {
        let run = call(&server, &files.authority, ADMIN, arguments);
        assert_eq!(run.code, 0, "{arguments:?} {run:?}");
        run.out
    };
    done(&["collections", "create", "news"]);
    done(&["collections", "create", "blog"]);
    done(&["documents", "upsert", "blog"]);
    done(&["documents", "upsert", "news"]);
    done(&["documents", "list", "news"]);
    done(&["search", "news", "chat"]);
    done(&["embed"]);
    done(&["similarity", "chat", "chats"]);
    done(&["detect", "Le chat dort."]);
    done(&["import", "news"]);
    done(&["export", "news", "--output", &file]);
    done(&["duplicates", "news"]);
    done(&["mine", "news", "blog"]);
    done(&["classifiers", "list"]);
    done(&["jobs", "list"]);
    let snapshot = done(&["snapshot", "create"]);
    done(&["snapshot", "download", snapshot.trim(), "--output", &archive]);
    done(&["snapshot", "upload", &archive]);
}

#[test]
fn certificate_and_key_problems_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path(), "127.0.0.1");
    let other = certificates(folder.path(), "search.example");
    let server = secure(&folder.path().join("data"), &files);
    let refused = |ca: &Path, key: &str, words: &[&str]| {
        let run = call(&server, ca, key, &["collections", "list"]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
        words.iter().for_each(|word| assert!(run.err.contains(word), "{word:?} is not in {}", run.err));
        assert!(!run.err.contains(ADMIN) && !run.err.contains("panicked"), "{}", run.err);
    };
    refused(
        &other.authority,
        ADMIN,
        &["cannot reach the server at https://127.0.0.1:", "certificate", "UnknownIssuer; name", "--ca"],
    );
    refused(&files.authority, "another-key-another-key", &["unauthorized: this server does not know the key\n"]);
    let without = run(&format!("https://{}", server.client().address()), &["collections", "list"]);
    assert!(without.code == 1 && without.err.contains("certificate"), "{without:?}");
    let plain = run(&format!("http://{}", server.client().address()), &["collections", "list"]);
    assert!(plain.code == 1 && plain.err.starts_with("error: cannot reach the server"), "{plain:?}");
    assert!(plain.err.ends_with("; if it uses TLS, its address begins with https://\n"), "{plain:?}");
    let named = secure(&folder.path().join("other"), &other);
    let run = call(&named, &other.authority, ADMIN, &["collections", "list"]);
    assert!(run.code == 1 && run.err.contains("certificate") && run.err.contains("search.example"), "{run:?}");
    let run = call(&server, &files.key, ADMIN, &["collections", "list"]);
    assert!(run.code == 2 && run.err.contains("contains no certificate in PEM format"), "{run:?}");
}

/// Runs `health` with settings from flags.
fn health(arguments: &[&str]) -> Run {
    run("http://127.0.0.1:1", &[&["health"], arguments].concat())
}

#[test]
fn health_reads_the_settings_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path(), "search.example");
    let plain = Program::start(&folder.path().join("plain"), "fake:64");
    let server = secure(&folder.path().join("secure"), &files);
    let plain_address = plain.client().address().to_owned();
    let address = server.client().address().to_owned();
    let (certificate, port) = (files.certificate.display().to_string(), address.rsplit(':').next().unwrap());

    // From flags, the environment, and a file. A server that listens on all addresses is called on this one.
    health(&["--listen", &plain_address]).expect(0);
    health(&["--listen", &plain_address, "--ready"]).expect(0);
    let with_tls = health(&["--listen", &format!("0.0.0.0:{port}"), "--tls-certificate", &certificate]);
    assert_eq!((with_tls.code, with_tls.err.as_str()), (0, ""), "{with_tls:?}");
    let mut by_environment = dragoman("http://127.0.0.1:1", &["health"]);
    by_environment.env("DRAGOMAN_LISTEN", &address).env("DRAGOMAN_TLS_CERTIFICATE", &files.certificate);
    run_with(by_environment, b"").expect(0);
    let settings = folder.path().join("dragoman.toml");
    let text = format!("listen = {address:?}\ntls_certificate = {certificate:?}\nadmin_key = {ADMIN:?}\n");
    std::fs::write(&settings, text).unwrap();
    health(&["--config", &settings.display().to_string()]).expect(0);

    // A renewed certificate that the server has not read yet is reported, but is no failure.
    let renewed = certificates(folder.path(), "renewed.example");
    let run = health(&["--listen", &address, "--tls-certificate", &renewed.certificate.display().to_string()]);
    assert!(run.code == 0 && run.err.contains("shows a certificate other than"), "{run:?}");

    // Plain HTTP to TLS, TLS to plain HTTP, no server, and a server that never answers.
    for (arguments, words) in [
        (vec!["--listen", &*address], "does not answer: it expects TLS"),
        (vec!["--listen", &*plain_address, "--tls-certificate", &*certificate], "does not answer"),
        (vec!["--listen", "127.0.0.1:1"], "does not answer"),
        (vec!["--listen", "127.0.0.1:0"], "any free port"),
    ] {
        let run = health(&arguments);
        assert!(run.code == 1 && run.err.contains(words), "{arguments:?} {run:?}");
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let started = Instant::now();
    let run = health(&["--listen", &silent.local_addr().unwrap().to_string(), "--timeout-s", "1"]);
    assert!(run.code == 1 && run.err.contains("does not answer"), "{run:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn health_reports_the_response_of_an_unhealthy_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").unwrap();
        // Until the client has read it and closes.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let run = health(&["--listen", &address, "--ready"]);
    assert!(run.code == 1 && run.err.contains("503 Service Unavailable") && run.err.contains("/readyz"), "{run:?}");
    answering.join().unwrap();
}

#[test]
fn a_json_error_is_a_single_object() {
    let run = run("https://127.0.0.1:1", &["collections", "list", "--json"]);
    let error: Value = serde_json::from_str(run.err.trim()).unwrap();
    assert!(run.code == 1 && error["error"]["detail"].as_str().is_some_and(|detail| detail.contains("127.0.0.1:1")), "{run:?}");
}
