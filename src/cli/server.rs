//! Options of every command: the server, the key and the output.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::error::CliError;
use crate::domain::Secret;
use crate::domain::limits::whole_number;

/// Maximum number of seconds to wait for a response: a year.
const TIMEOUT_S_MAX: u64 = 365 * 24 * 60 * 60;

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server and output")]
pub struct ServerArgs {
    /// URL of the server, http or https.
    #[arg(long, env = "DRAGOMAN_SERVER", value_name = "URL", default_value = "http://127.0.0.1:7700", global = true)]
    pub server: ServerUrl,

    /// API key; an empty one counts as none. Prefer DRAGOMAN_KEY, because other users of the machine can see arguments.
    #[arg(long, env = "DRAGOMAN_KEY", value_name = "KEY", hide_env_values = true, global = true)]
    pub key: Option<Secret>,

    /// PEM file with CA certificates to verify the server's certificate, instead of the public authorities.
    #[arg(long, env = "DRAGOMAN_CA", value_name = "FILE", global = true)]
    pub ca: Option<PathBuf>,

    /// Seconds to wait for a response, and for each further part of it.
    #[arg(long, env = "DRAGOMAN_TIMEOUT_S", value_name = "SECONDS", default_value_t = 300, global = true,
          value_parser = whole_number::<u64, 1, TIMEOUT_S_MAX>)]
    pub timeout_s: u64,

    /// Prints results and errors as JSON, one object per line, instead of tables.
    #[arg(long, global = true)]
    pub json: bool,

    /// Hides progress and notes; shows only results and errors.
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// A URL without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUrl(String);

impl ServerUrl {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = ["http://", "https://"].into_iter().find(|scheme| text.starts_with(scheme));
        let rest = scheme.map(|scheme| text[scheme.len()..].trim_end_matches('/'));
        let well_formed = rest.is_some_and(|rest| {
            !rest.is_empty() && !rest.starts_with('/') && !rest.contains(['?', '#', '@']) && !rest.contains(char::is_whitespace)
        });
        let parses = ureq::http::Uri::try_from(text).is_ok();
        if well_formed && parses {
            Ok(Self(text.trim_end_matches('/').to_owned()))
        } else {
            Err("expected http://HOST:PORT or https://HOST:PORT".to_owned())
        }
    }
}

/// Checks that a key is valid in a header, or empty. The argument parser accepts any text, because it would print one that it
/// refuses.
pub fn check_key(key: &Secret) -> Result<(), CliError> {
    let key = key.expose();
    let printable = key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if printable && key.trim() == key {
        return Ok(());
    }
    Err(CliError::Usage("--key: expected printable ASCII characters without a space at either end".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_urls_are_validated() {
        for (text, expect) in [
            ("http://127.0.0.1:7700", Some("http://127.0.0.1:7700")),
            ("https://search.example/dragoman/", Some("https://search.example/dragoman")),
            ("http://[::1]:7700", Some("http://[::1]:7700")),
            ("127.0.0.1:7700", None),
            ("ftp://host", None),
            ("http://", None),
            ("http:///path", None),
            ("http://host/?a=b", None),
            ("http://user:password@host", None),
            ("http://ho st", None),
        ] {
            assert_eq!(text.parse::<ServerUrl>().ok().as_ref().map(ServerUrl::as_str), expect, "{text:?}");
        }
    }

    #[test]
    fn keys_are_validated_and_never_shown() {
        assert!(!format!("{:?}", Secret::from("secret")).contains("secret"));
        for (text, fits) in [("two words", true), ("", true), ("a\nb", false), (" hidden", false), ("hidden ", false)] {
            let checked = check_key(&text.into());
            assert_eq!(checked.is_ok(), fits, "{text:?}");
            assert!(checked.is_ok() || text.is_empty() || !format!("{checked:?}").contains(text), "{checked:?}");
        }
    }
}
