//! Search configurations to compare in `dragoman eval search`: a name, and members to add to the request.

use serde_json::{Map, Value, json};

/// The mode that is not sent, so that the server's default applies.
const DEFAULT: &str = "default";
pub const MODES: [&str; 4] = ["full", "dense", "lexical", "hybrid"];
/// Request members that the evaluation sets itself.
const RESERVED: [&str; 7] = ["query", "vector", "like", "languages", "limit", "offset", "include"];

#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    pub name: String,
    /// Members to add to the request.
    pub request: Map<String, Value>,
}

impl Configuration {
    /// Creates a configuration with the mode `name`, or without a mode for `default`.
    pub fn mode(name: &str) -> Self {
        let mode = (name != DEFAULT).then(|| ("mode".to_owned(), json!(name)));
        Self { name: name.to_owned(), request: mode.into_iter().collect() }
    }

    /// Parses `NAME={…}`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, body) = text.split_once('=').ok_or("expected NAME={…}, got no =")?;
        let name = name.trim();
        if name.is_empty() {
            return Err("expected a name before the =, got none".to_owned());
        }
        let body: Value = serde_json::from_str(body).map_err(|error| format!("expected a JSON object after the =: {error}"))?;
        let Value::Object(request) = body else {
            return Err(format!("expected a JSON object after the =, got {body}"));
        };
        match request.keys().find(|key| RESERVED.contains(&key.as_str())) {
            Some(key) => Err(format!("{key} is set by the evaluation; leave it out")),
            None => Ok(Self { name: name.to_owned(), request }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_a_name_and_a_json_object() {
        let parsed = Configuration::parse("wide={\"mode\": \"hybrid\", \"score_min\": 0.1}").unwrap();
        assert_eq!((parsed.name.as_str(), &parsed.request["mode"], parsed.request.len()), ("wide", &json!("hybrid"), 2));
        for (text, expect) in [
            ("wide", "expected NAME={…}, got no ="),
            ("={}", "expected a name before the =, got none"),
            ("wide=[1]", "expected a JSON object after the =, got [1]"),
            ("wide={\"limit\": 5}", "limit is set by the evaluation; leave it out"),
        ] {
            assert_eq!(Configuration::parse(text).unwrap_err(), expect);
        }
        assert!(Configuration::parse("wide={").unwrap_err().starts_with("expected a JSON object after the =: "));
    }

    #[test]
    fn the_default_mode_sends_no_mode() {
        assert_eq!(Configuration::mode("default").request, Map::new());
        assert_eq!(Configuration::mode("any").request["mode"], "any");
    }
}
