//! Finds environment variables that look like settings but are none. Otherwise a misspelled variable would leave its setting
//! unchanged without anyone noticing.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::Command as Clap;

const PREFIX: &str = "DRAGOMAN_";
/// Variables that scripts, tests and clients of this project read. A server may inherit them.
const PROJECT_VARIABLES: [&str; 8] = [
    "DRAGOMAN_BLESS",
    "DRAGOMAN_CONSOLE_MODULES",
    "DRAGOMAN_IMAGE",
    "DRAGOMAN_PROGRAM",
    "DRAGOMAN_PUBLISHED",
    "DRAGOMAN_ROOT",
    "DRAGOMAN_TRAIN",
    "DRAGOMAN_URL",
];
/// Prefixes of more such variables, for benchmarks, fuzzing and tests.
const PROJECT_PREFIXES: [&str; 3] = ["DRAGOMAN_BENCH_", "DRAGOMAN_FUZZ_", "DRAGOMAN_TEST_"];

/// Returns the first of `variables` that looks like a setting but belongs neither to `command` nor to its subcommands, and
/// the most similar known variable, if one is similar enough.
pub fn misspelled(command: &Clap, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Option<(String, Option<String>)> {
    let mut known = BTreeSet::new();
    add_variables(command, &mut known);
    let named = variables.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let mut unknown: Vec<String> = named
        .filter(|(name, value)| name.starts_with(PREFIX) && !known.contains(name) && !is_foreign(name, &value.to_string_lossy()))
        .map(|(name, _)| name)
        .collect();
    unknown.sort_unstable();
    let name = unknown.into_iter().next()?;
    let nearest = nearest(&name, &known);
    Some((name, nearest))
}

/// The variables of a command line, with all its subcommands.
fn add_variables(command: &Clap, known: &mut BTreeSet<String>) {
    let named = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    known.extend(named.map(str::to_owned));
    command.get_subcommands().for_each(|command| add_variables(command, known));
}

/// Whether the variable belongs to this project's tools, or to Kubernetes, which tells each container the addresses of the
/// services in its namespace; one of them may be called `dragoman`.
fn is_foreign(name: &str, value: &str) -> bool {
    let of_a_service = name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_");
    let has_url = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let of_a_port = name.split("_PORT_").skip(1).any(|rest| {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| rest.starts_with(protocol))
    });
    PROJECT_VARIABLES.contains(&name)
        || PROJECT_PREFIXES.iter().any(|family| name.starts_with(family))
        || of_a_service
        || of_a_port
        || (has_url && name.ends_with("_PORT"))
}

/// Returns the known variable, or key of the file, with the smallest edit distance, if at least half of the name is the same.
pub fn nearest(name: &str, known: &BTreeSet<String>) -> Option<String> {
    let typed = name.strip_prefix(PREFIX).unwrap_or(name);
    let edits_of = |known: &String| strsim::levenshtein(typed, known.strip_prefix(PREFIX).unwrap_or(known));
    let (edits, nearest) = known.iter().map(|known| (edits_of(known), known)).min()?;
    (edits * 2 <= typed.len()).then(|| nearest.clone())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::LazyLock;

    use clap::CommandFactory as _;
    use regex::Regex;

    use super::super::CommandLine;
    use super::*;

    /// Adds the variables that occur in the files of a folder.
    fn add_named(path: &Path, named: &mut BTreeSet<String>) {
        static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new("\\bDRAGOMAN_[A-Z0-9_]*[A-Z0-9]\\b").unwrap());
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with('.') || ["node_modules", "target", "__pycache__"].contains(&&*name) {
            return;
        }
        if path.is_dir() {
            let entries = std::fs::read_dir(path).unwrap();
            return entries.for_each(|entry| add_named(&entry.unwrap().path(), named));
        }
        let Ok(text) = std::fs::read_to_string(path) else { return };
        named.extend(VARIABLE.find_iter(&text).map(|found| found.as_str().to_owned()));
    }

    #[test]
    fn every_variable_used_in_the_repository_is_known() {
        let mut named = BTreeSet::new();
        for part in ["Dockerfile", "Makefile", "clients", "docker-compose.yml", "examples", "scripts", "src", "tests", "training"]
        {
            add_named(&Path::new(env!("CARGO_MANIFEST_DIR")).join(part), &mut named);
        }
        assert!(named.contains("DRAGOMAN_BLESS") && named.contains("DRAGOMAN_LISTEN"), "{named:?}");
        let variables = named.into_iter().map(|name| (name.into(), "1".into()));
        let unknown = misspelled(&CommandLine::command(), variables);
        assert_eq!(
            unknown, None,
            "the server would refuse to start with this variable set; add it to the list of known project variables"
        );
    }

    fn check(name: &str, value: &str, expect: Option<Option<&str>>) {
        let found = misspelled(&CommandLine::command(), [(name.into(), value.into())]);
        let expect = expect.map(|nearest| (name.to_owned(), nearest.map(str::to_owned)));
        assert_eq!(found, expect);
    }

    #[test]
    fn a_misspelled_variable_is_found_with_the_nearest_name() {
        check(&format!("{PREFIX}LISTN"), "", Some(Some("DRAGOMAN_LISTEN")));
        check(&format!("{PREFIX}TREADS"), "3", Some(Some("DRAGOMAN_THREADS")));
        check(&format!("{PREFIX}ADMIN_KEYFILE"), "key", Some(Some("DRAGOMAN_ADMIN_KEY_FILE")));
        check(&format!("{PREFIX}MAX_PAGE"), "50", Some(None));
        check(&format!("{PREFIX}PORT"), "7700", Some(None));
        check(PREFIX, "", Some(None));
    }

    #[test]
    fn known_and_unrelated_variables_are_not_reported() {
        check("DRAGOMAN_LISTEN", "127.0.0.1:1", None);
        check("DRAGOMAN_PAGE_MAX", "50", None);
        check("DRAGOMAN_KEY", "secret", None);
        check("DRAGOMAN_BLESS", "1", None);
        check(&format!("{PREFIX}TEST_ANYTHING"), "1", None);
        check("DRAGOMANLISTN", "1", None);
        check("PATH", "/bin", None);
    }

    #[test]
    fn kubernetes_service_variables_are_not_reported() {
        for (name, value) in [
            ("SERVICE_HOST", "10.0.0.9"),
            ("SERVICE_PORT", "7700"),
            ("SERVICE_PORT_HTTP", "7700"),
            ("PORT", "tcp://10.0.0.9:7700"),
            ("PORT_7700_TCP", "tcp://10.0.0.9:7700"),
            ("PORT_7700_TCP_ADDR", "10.0.0.9"),
            ("PORT_7700_TCP_PORT", "7700"),
            ("READERS_SERVICE_HOST", "10.0.0.9"),
            ("READERS_PORT_7700_TCP_PROTO", "tcp"),
        ] {
            check(&format!("{PREFIX}{name}"), value, None);
        }
    }
}
