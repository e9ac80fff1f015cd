//! What browsers and API tools rely on: headers that protect pages, and the methods that a path supports.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Method, Request};
use dragoman::http;

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn every_response_has_nosniff_and_a_strict_content_security_policy() {
    let server = Server::with_news().await;
    for path in
        ["/healthz", "/v1/collections", "/v1/none", "/v1/collections/none", "/openapi.json", "/docs", "/docs/", "/docs/errors"]
    {
        let response = server.get(path).await;
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        let policy = response.header("content-security-policy").unwrap_or_default();
        for rule in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe-eval") && !policy.contains("http"), "{path}: {policy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_content_security_policy_allows_the_api_reference_page() {
    let server = Server::start();
    let page = server.get("/docs/").await;
    let policy = page.header("content-security-policy").unwrap_or_default();
    for rule in ["script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    // The policy forbids inline scripts and styles.
    for part in page.text.split("<script").skip(1) {
        let (tag, rest) = part.split_once('>').expect("the end of a tag");
        assert!(tag.contains("src=\"./") && rest.trim_start().starts_with("</script>"), "{part}");
    }
    assert!(!page.text.contains("onload=") && !page.text.contains("javascript:"), "{}", page.text);
    for part in page.text.split("src=\"./").skip(1) {
        let file = part.split('"').next().expect("a file");
        assert_eq!(server.get(&format!("/docs/{file}")).await.status, 200, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_allow_header_lists_the_documented_methods() {
    let server = Server::with_news().await;
    let document = http::document();
    let documented = |template: &str| -> BTreeSet<String> {
        document["paths"][template].as_object().into_iter().flat_map(|item| item.keys().map(|name| name.to_uppercase())).collect()
    };
    for template in document["paths"].as_object().expect("paths").keys() {
        let path: Vec<&str> = template.split('/').map(|part| if part.starts_with('{') { "news" } else { part }).collect();
        let request = Request::builder().method(Method::TRACE).uri(path.join("/")).body(Body::empty()).expect("a request");
        let response = server.send_unchecked(request).await;
        assert_eq!((response.status, response.code()), (405, Some("method_not_allowed")), "{template}");
        let allowed: BTreeSet<String> = response.header("allow").expect("a list").split(", ").map(str::to_owned).collect();
        let mut expect = documented(template);
        // A word such as `count` is also a valid document id.
        if template.contains("/documents/") {
            expect.extend(documented("/v1/collections/{collection}/documents/{id}"));
        }
        assert_eq!(allowed, expect, "{template}");
    }
}
