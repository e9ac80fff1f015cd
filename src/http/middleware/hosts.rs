//! Under which host names, and from which web pages, a server without keys may be called.
//!
//! Any page that a browser on this machine shows can send requests to 127.0.0.1, and a page whose owner makes its name resolve
//! to 127.0.0.1 (DNS rebinding) can also read the responses. A server with keys is safe, because no page has a key. Without
//! keys, this check protects the server: the request must name this machine, and must not come from a page of another origin.
//! Operations that need no key even on a server with keys are allowed under every name.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderName, HeaderValue, Method, Version};

use crate::domain::Code;
use crate::http::error::ApiError;

/// The relation of the page that sent a request to this server; browsers send it, and no page can change it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What a request is for: `navigate` if a user follows a link.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    names: Vec<String>,
    /// Whether every name is allowed.
    any: bool,
    listen: Option<IpAddr>,
}

impl Hosts {
    /// Takes host names and addresses, without ports; `*` stands for all.
    pub fn parse<T: AsRef<str>>(names: &[T]) -> Result<Self, String> {
        let mut hosts = Self::default();
        for name in names.iter().map(AsRef::as_ref) {
            if name == "*" {
                hosts.any = true;
                continue;
            }
            let authority = Authority::try_from(name).ok().filter(|authority| authority.host() == name && !name.contains('@'));
            if authority.is_none() && name.parse::<IpAddr>().is_err() {
                return Err(format!("must have host names without a port, such as db.example, or *, got {name:?}"));
            }
            hosts.names.push(normalize_host(name));
        }
        Ok(hosts)
    }

    /// The same for a server that listens on `address`.
    pub fn listening_on(self, address: IpAddr) -> Self {
        Self { listen: Some(address), ..self }
    }

    fn contains(&self, host: &str) -> bool {
        let host = normalize_host(host);
        if self.any || host == "localhost" || host.ends_with(".localhost") || self.names.contains(&host) {
            return true;
        }
        let Ok(address) = host.parse::<IpAddr>().map(|address| address.to_canonical()) else { return false };
        // A server that listens on all addresses may have one that it cannot know, behind a published port. Addresses are safe,
        // because they are not resolved: no foreign page can redirect one to this server.
        address.is_loopback() || self.listen.is_some_and(|listen| listen.is_unspecified() || listen.to_canonical() == address)
    }
}

/// An origin of web pages, as the setting `cors_origins` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Any,
    /// This origin, as browsers send it: `https://example.com`, `http://localhost:5173`.
    Exactly(HeaderValue),
}

impl Origin {
    /// Accepts `*`, or scheme and host with an optional port, without a path.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let well_formed = host.is_some_and(|host| {
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
        });
        let value = HeaderValue::from_str(text).ok().filter(|_| well_formed);
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        value.filter(|_| lower).map(Self::Exactly).ok_or_else(|| {
            format!("must be * or an origin in lower case, such as https://example.com, without a path, got {text:?}")
        })
    }
}

/// The host that a request names; an error if it is malformed, if there are several, or if HTTP/1.1 requires one (RFC 9112).
pub fn requested_host(request: &Request) -> Result<Option<Authority>, ApiError> {
    let refuse = |detail: &str| ApiError::parameter(Code::InvalidHost, HOST.as_str(), detail);
    let mut sent = request.headers().get_all(HOST).iter();
    let header = sent.next();
    if sent.next().is_some() {
        return Err(refuse("must be sent once, got several"));
    }
    if header.is_none() && request.version() == Version::HTTP_11 {
        return Err(refuse("must be sent, got none"));
    }
    let parse = |bytes: &[u8]| Authority::try_from(bytes).ok().filter(is_host);
    let header = header.map(|value| parse(value.as_bytes()).ok_or_else(|| refuse("must be a host with an optional port")));
    let header = header.transpose()?;
    match (request.uri().authority(), header) {
        (Some(target), Some(header)) if *target != header => Err(refuse("must match the host of the request target")),
        (Some(target), _) => Ok(Some(target.clone())),
        (None, header) => Ok(header),
    }
}

/// Refuses a request that may come from a foreign page, whether it uses the page's own name or this server's.
pub fn check_host_and_origin(request: &Request, hosts: &Hosts, origins: &[Origin]) -> Result<(), ApiError> {
    let host = requested_host(request)?;
    if let Some(other) = host.as_ref().filter(|host| !hosts.contains(host.host())) {
        let detail = format!(
            "a server without keys answers only to localhost, its addresses and the names in its hosts setting, got {other}"
        );
        return Err(ApiError::parameter(Code::HostNotAllowed, HOST.as_str(), detail));
    }
    let mut sent = request.headers().get_all(ORIGIN).iter().peekable();
    if sent.peek().is_none() {
        return check_site(request);
    }
    for origin in sent {
        let allowed = origins.iter().any(|permitted| match permitted {
            Origin::Any => true,
            Origin::Exactly(value) => value == origin,
        });
        if !allowed && !host.as_ref().is_some_and(|host| is_own(origin.to_str().unwrap_or_default(), host)) {
            let got = String::from_utf8_lossy(origin.as_bytes()).into_owned();
            let detail = format!("must be this server's own or one that cors_origins lists, got {got}");
            return Err(ApiError::parameter(Code::OriginNotAllowed, ORIGIN.as_str(), detail));
        }
    }
    Ok(())
}

/// Refuses a request that a browser marks as sent by another site, unless a user followed a link. Browsers omit the
/// header `origin` from some requests that read.
fn check_site(request: &Request) -> Result<(), ApiError> {
    let header_is = |name: &HeaderName, values: &[&str]| {
        request.headers().get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| values.contains(&value))
    };
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    if !header_is(&FETCH_SITE, &["cross-site", "same-site"]) || reads && header_is(&FETCH_MODE, &["navigate"]) {
        return Ok(());
    }
    let detail = "a page of another origin may call this server only if cors_origins lists its origin";
    Err(ApiError::parameter(Code::OriginNotAllowed, FETCH_SITE.as_str(), detail))
}

/// Whether this is a host with an optional port, and nothing else.
fn is_host(authority: &Authority) -> bool {
    let port = authority.as_str().strip_prefix(authority.host());
    port.is_some_and(|port| port.is_empty() || port == ":" || authority.port_u16().is_some())
}

/// Whether a page of `origin` was served under the host that its request names.
fn is_own(origin: &str, host: &Authority) -> bool {
    let (rest, default_port) = match (origin.strip_prefix("http://"), origin.strip_prefix("https://")) {
        (Some(rest), _) => (rest, 80),
        (_, Some(rest)) => (rest, 443),
        _ => return false,
    };
    let Ok(page) = Authority::try_from(rest) else { return false };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    normalize_host(page.host()) == normalize_host(host.host()) && port(&page) == port(host)
}

/// A host in a form that can be compared: in lower case, without the brackets of an address and the final dot of a full name.
fn normalize_host(host: &str) -> String {
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(hosts: &Hosts, expect: bool, names: &[&str]) {
        for name in names {
            assert_eq!(hosts.contains(name), expect, "{name} {hosts:?}");
        }
    }

    #[test]
    fn only_loopback_names_and_addresses_are_hosts_by_default() {
        let hosts = Hosts::default().listening_on(IpAddr::from([127, 0, 0, 1]));
        has(&hosts, true, &["localhost", "LOCALHOST.", "app.localhost", "127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]"]);
        has(
            &hosts,
            false,
            &["example.com", "localhost.example.com", "127.0.0.1.example.com", "192.0.2.1", "0.0.0.0", "[::]", ""],
        );
    }

    #[test]
    fn the_listen_address_is_an_accepted_host() {
        let hosts = Hosts::default().listening_on(IpAddr::from([192, 0, 2, 1]));
        has(&hosts, true, &["192.0.2.1", "127.0.0.1"]);
        has(&hosts, false, &["192.0.2.2", "db"]);
        let all = Hosts::default().listening_on(IpAddr::from([0, 0, 0, 0]));
        has(&all, true, &["192.0.2.1", "[2001:db8::1]"]);
        has(&all, false, &["db", "192.0.2.1.example.com"]);
    }

    #[test]
    fn operators_can_add_host_names() {
        has(&Hosts::parse(&["DB.example", "[2001:db8::1]"]).unwrap(), true, &["db.example", "db.example.", "[2001:db8::1]"]);
        has(&Hosts::parse(&["*"]).unwrap(), true, &["anything.example"]);
        for bad in ["", "db:7700", "http://db", "db/", "a b", "me@db"] {
            assert!(Hosts::parse(&[bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_origin_is_the_servers_own_only_with_the_same_host_and_port() {
        let is_own_origin = |origin: &str, host: &str| is_own(origin, &host.parse().unwrap());
        assert!(is_own_origin("http://localhost:7700", "localhost:7700"));
        assert!(is_own_origin("http://localhost", "localhost") && is_own_origin("http://localhost", "localhost:80"));
        assert!(is_own_origin("https://Db.example", "db.example") && is_own_origin("https://db.example:443", "db.example"));
        for (origin, host) in [
            ("http://localhost:3000", "localhost:7700"),
            ("http://localhost", "localhost:7700"),
            ("https://example.com", "localhost:7700"),
            ("null", "localhost:7700"),
            ("", "localhost:7700"),
        ] {
            assert!(!is_own_origin(origin, host), "{origin} {host}");
        }
    }

    #[test]
    fn origins_must_be_written_as_browsers_send_them() {
        for good in ["*", "https://example.com", "http://localhost:5173", "http://[::1]:8080"] {
            assert!(Origin::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "example.com", "https://", "https://example.com/", "HTTPS://example.com", "https://Example.com", "null"] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
