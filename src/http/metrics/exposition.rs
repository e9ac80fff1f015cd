//! The two formats of `/metrics`: OpenMetrics, which the library writes, and the older text exposition format, converted from
//! it.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// The media type of OpenMetrics without its parameters.
const OPENMETRICS: &str = "application/openmetrics-text";
/// The versions of OpenMetrics that a client may ask for and can read.
const OPENMETRICS_VERSIONS: [&str; 2] = ["1.0.0", "0.0.1"];
/// Media ranges that stand for the text format.
const TEXT: [&str; 3] = ["text/plain", "text/*", "*/*"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4, which every scraper can read.
    Text,
}

impl Exposition {
    /// The format that a request with these headers accepts: OpenMetrics, if it is named and the text format is not preferred.
    pub fn negotiate(headers: &HeaderMap) -> Self {
        let lists = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let (mut openmetrics, mut text) = (0.0_f64, 0.0_f64);
        for range in lists.flat_map(|list| list.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut version) = (1.0_f64, None);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => (),
                }
            }
            if media_type == OPENMETRICS && version.is_none_or(|version| OPENMETRICS_VERSIONS.contains(&version)) {
                openmetrics = openmetrics.max(quality);
            } else if TEXT.contains(&media_type.as_str()) {
                text = text.max(quality);
            }
        }
        if openmetrics > 0.0 && openmetrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    pub fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub fn convert(self, openmetrics: String) -> String {
        match self {
            Self::OpenMetrics => openmetrics,
            Self::Text => to_text_format(&openmetrics),
        }
    }
}

/// Converts OpenMetrics to the text format: the samples are the same, but a metric has the name of its samples, there are no
/// units and no end marker, and types that the text format does not know become gauges.
fn to_text_format(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut help = None;
    for line in openmetrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.rsplit_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                same => ("", same),
            };
            if let Some((_, about)) = help.take().filter(|(described, _)| *described == name) {
                text.push_str(&format!("# HELP {name}{suffix} {about}\n"));
            }
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(accept: &[&'static str], expect: Exposition) {
        let values = accept.iter().map(|value| (ACCEPT, HeaderValue::from_static(value)));
        assert_eq!(Exposition::negotiate(&values.collect()), expect, "{accept:?}");
    }

    #[test]
    fn openmetrics_is_used_only_if_the_client_prefers_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        check(&[prometheus], Exposition::OpenMetrics);
        check(&["application/openmetrics-text"], Exposition::OpenMetrics);
        check(&["Application/OpenMetrics-Text; Version=\"0.0.1\", */*"], Exposition::OpenMetrics);
        check(&["text/plain;q=0.5", "application/openmetrics-text;q=0.8"], Exposition::OpenMetrics);
        check(&[], Exposition::Text);
        check(&["*/*"], Exposition::Text);
        check(&["text/plain;version=0.0.4"], Exposition::Text);
        check(&["text/plain, application/openmetrics-text;q=0.5"], Exposition::Text);
        check(&["application/openmetrics-text;q=0"], Exposition::Text);
        check(&["application/openmetrics-text;version=9.0.0"], Exposition::Text);
        check(&["application/openmetrics-text;q=much"], Exposition::Text);
        check(&["text/html", ";;,=,"], Exposition::Text);
    }

    #[test]
    fn the_text_format_names_metrics_after_their_samples() {
        let openmetrics = "# HELP a_requests Requests answered.\n# TYPE a_requests counter\na_requests_total{status=\"200\"} 3\n\
                           # HELP a_wait_seconds Waits.\n# TYPE a_wait_seconds histogram\n# UNIT a_wait_seconds seconds\n\
                           a_wait_seconds_sum 0.5\na_wait_seconds_bucket{le=\"+Inf\"} 2\n\
                           # HELP a_build The program.\n# TYPE a_build info\na_build_info{note=\"# EOF\"} 1\n\
                           # HELP a_odd Odd.\n# TYPE a_odd unknown\na_odd 1\n# EOF\n";
        let expect = "# HELP a_requests_total Requests answered.\n# TYPE a_requests_total counter\na_requests_total{status=\"200\"} 3\n\
                      # HELP a_wait_seconds Waits.\n# TYPE a_wait_seconds histogram\n\
                      a_wait_seconds_sum 0.5\na_wait_seconds_bucket{le=\"+Inf\"} 2\n\
                      # HELP a_build_info The program.\n# TYPE a_build_info gauge\na_build_info{note=\"# EOF\"} 1\n\
                      # HELP a_odd Odd.\n# TYPE a_odd untyped\na_odd 1\n";
        assert_eq!(Exposition::Text.convert(openmetrics.to_owned()), expect);
        assert_eq!(Exposition::OpenMetrics.convert(openmetrics.to_owned()), openmetrics);
    }
}
