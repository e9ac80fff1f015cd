//! The house rules that a machine can check: layers, sizes, names, comments, and documents that only name existing files.
//!
//! Each rule is a function from text to its violations. It is tested twice: on a small text that violates it, and on the
//! repository.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

#[path = "house/circles.rs"]
mod circles;
#[path = "house/layers.rs"]
mod layers;
#[path = "house/source.rs"]
mod source;

use layers::{SERVER, SHARED, TRAINER};
use source::{Source, functions, is_word, read_folder};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const MAIN_LINES_MAX: usize = 60;
const README_LINES_MAX: usize = 150;

/// Module names that say nothing about a module's purpose.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "types", "manager"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

const FOLDERS: &[&str] = &["src", "tests", "training/src", "training/tests"];

fn sources() -> &'static [Source] {
    static SOURCES: LazyLock<Vec<Source>> =
        LazyLock::new(|| FOLDERS.iter().flat_map(|folder| read_folder(root(), folder)).collect());
    &SOURCES
}

fn assert_all_sources_follow(rule: impl Fn(&Source) -> Vec<String>) {
    assert_no_violations(sources().iter().flat_map(rule).collect());
}

fn assert_no_violations(broken: Vec<String>) {
    assert!(broken.is_empty(), "{} times:\n{}", broken.len(), broken.join("\n"));
}

/// The document at `path`. Prints a note and returns `None` if the repository has none.
fn document(path: &str) -> Option<String> {
    let text = fs::read_to_string(root().join(path));
    if text.is_err() {
        eprintln!("skipped: there is no {path}");
    }
    text.ok()
}

fn too_long_file(source: &Source) -> Vec<String> {
    let max = if source.path == "src/main.rs" { MAIN_LINES_MAX } else { FILE_LINES_MAX };
    let lines = source.text.lines().count();
    if lines < max { Vec::new() } else { vec![format!("{}: {lines} lines, not under {max}", source.path)] }
}

fn too_long_functions(source: &Source) -> Vec<String> {
    functions(source)
        .into_iter()
        .filter(|(_, _, lines)| *lines >= FUNCTION_LINES_MAX)
        .map(|(name, line, lines)| format!("{}:{line}: {name} has {lines} lines, not under {FUNCTION_LINES_MAX}", source.path))
        .collect()
}

fn no_opening(source: &Source) -> Vec<String> {
    let says_what_for =
        source.text.strip_prefix("//!").is_some_and(|rest| rest.lines().next().is_some_and(|line| !line.trim().is_empty()));
    if says_what_for { Vec::new() } else { vec![format!("{}: does not open with //! and what it is for", source.path)] }
}

fn empty_names(source: &Source) -> Vec<String> {
    let parts = source.path.split('/').map(|part| (part.trim_end_matches(".rs"), 1));
    let declared =
        source.tokens.windows(2).filter(|pair| pair[0].text == "mod").map(|pair| (pair[1].text.as_str(), pair[1].line));
    parts
        .chain(declared)
        .filter(|(name, _)| EMPTY_NAMES.contains(name))
        .map(|(name, line)| format!("{}:{line}: {name} says nothing", source.path))
        .collect()
}

fn unfinished_without_issue(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in source.comments.lines().enumerate() {
        for mark in ["TODO", "FIXME"] {
            let named = |rest: &str| {
                let issue = rest.trim_start_matches(['(', ':', ' ']).strip_prefix('#');
                issue.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
            };
            if line.split(mark).skip(1).any(|rest| !named(rest)) {
                found.push(format!("{}:{}: {mark} without an issue number", source.path, number + 1));
            }
        }
    }
    found
}

fn ignored_tests(source: &Source) -> Vec<String> {
    (0..source.tokens.len())
        .filter(|&at| source.starts_with(at, &["#", "[", "ignore"]))
        .map(|at| format!("{}:{}: a test that never runs", source.path, source.tokens[at].line))
        .collect()
}

fn errors_logged_without_causes(source: &Source) -> Vec<String> {
    (0..source.tokens.len())
        .filter(|&at| source.starts_with(at, &["as", "&", "dyn", "std", ":", ":", "error", ":", ":", "Error"]))
        .map(|at| format!("{}:{}: a log in JSON would lose the causes, use with_causes", source.path, source.tokens[at].line))
        .collect()
}

fn forbidden_imports(source: &Source) -> Vec<String> {
    if source.path.starts_with("src/") {
        return layers::forbidden_imports(source, "src", "dragoman", SERVER);
    }
    if !source.path.starts_with("training/src/") {
        return Vec::new();
    }
    let mut found = layers::forbidden_imports(source, "training/src", "dragoman_training", TRAINER);
    found.extend(layers::forbidden_shared_imports(source));
    if source.path.starts_with("training/src/objective/") {
        found.extend(layers::input_and_output(source));
    }
    found
}

/// Finds paths in backticks for which `exists` is false. Fenced blocks hold commands and diagrams, and are skipped.
fn dead_paths(markdown: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in markdown.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.filter(|span| is_path(span) && !exists(span)).map(|span| format!("{}: no {span}", number + 1)));
        }
    }
    found
}

/// Whether a span names a file or folder of the repository: not a route, a media type or a placeholder.
fn is_path(span: &str) -> bool {
    let plain = span.chars().all(|character| character.is_ascii_alphanumeric() || "._-/".contains(character));
    let media_type = ["application/", "text/plain", "text/html"].iter().any(|start| span.starts_with(start));
    let named_file = [".rs", ".md", ".toml"].iter().any(|end| span.ends_with(end)) && span.len() > ".toml".len();
    plain && !media_type && !span.starts_with('/') && (span.contains('/') || named_file)
}

fn badly_named_migration(path: &str, text: &str) -> Vec<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (number, words) = name.split_at(name.len().min(4));
    let what = words.strip_prefix('_').and_then(|words| words.strip_suffix(".sql")).unwrap_or_default();
    let lower = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    let mut found = Vec::new();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) || what.is_empty() || !what.chars().all(lower) {
        found.push(format!("{path}: not named NNNN_what.sql"));
    }
    if !text.starts_with("--") {
        found.push(format!("{path}: does not open with a comment that says why"));
    }
    found
}

/// Expects `rule` to find `broken` violations in a file `path` that contains `text`.
#[track_caller]
fn check(rule: impl Fn(&Source) -> Vec<String>, path: &str, text: &str, broken: usize) {
    let found = rule(&Source::new(path, text));
    assert_eq!(found.len(), broken, "{path}: {text}\n{found:?}");
}

fn function_of(lines: usize) -> String {
    format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
}

#[test]
fn every_folder_has_sources() {
    for folder in FOLDERS {
        assert!(sources().iter().any(|source| source.path.starts_with(folder)), "{folder}");
    }
}

#[test]
fn modules_import_only_lower_layers() {
    assert_all_sources_follow(forbidden_imports);
}

#[test]
fn layer_tables_list_only_lower_layers() {
    assert_no_violations(layers::upward_rows(SERVER));
    assert_no_violations(layers::upward_rows(TRAINER));
    assert_eq!(layers::upward_rows(&[("low", &["high", "low", "nowhere"]), ("high", &["low"])]).len(), 3);
    assert!(SHARED.iter().all(|(row, _)| TRAINER.iter().any(|(layer, _)| layer == row)));
}

#[test]
fn server_files_have_no_import_cycles() {
    let server: Vec<&Source> = sources().iter().filter(|source| source.path.starts_with("src/")).collect();
    assert_no_violations(circles::circles(&server));
}

#[test]
fn import_cycles_are_found() {
    let check = |files: &[(&str, &str)], broken: usize| {
        let sources: Vec<Source> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        let found = circles::circles(&sources.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), broken, "{files:?}\n{found:?}");
    };
    let (parent, one, other) = ("src/room/mod.rs", "src/room/one.rs", "src/room/other.rs");
    check(&[(parent, "mod one; mod other;"), (one, "use super::other::B;"), (other, "pub struct B;")], 0);
    check(&[(parent, "mod one; mod other;"), (one, "use super::other::B;"), (other, "fn f() { super::one::g() }")], 1);
    check(&[(parent, "mod one; pub struct A; use one::f;"), (one, "use super::A;")], 1);
    check(&[(parent, "mod one; pub struct A; fn f() { one::f() }"), (one, "use crate::room::{self, A};")], 1);
    // A name that a parent re-exports belongs to its child.
    check(&[(parent, "mod one; mod other; pub use other::B;"), (one, "use super::B;"), (other, "pub struct B;")], 0);
    check(&[(parent, "mod one; mod other; pub use other::B;"), (one, "use super::B;"), (other, "use super::one::A;")], 1);
    check(&[(parent, "mod one; pub(crate) use one::A; fn f(_: A) {}"), (one, "use super::f;")], 1);
    // Tests, comments and visibility name a module without importing it.
    check(&[(one, "use super::other::B;"), (other, "#[cfg(test)] mod tests { use super::super::one::A; }")], 0);
    check(
        &[(one, "use super::other::B;"), (other, "// super::one::A\npub(in super::one) fn f() {} mod tests { use super::*; }")],
        0,
    );
    check(&[(one, "use super::other::B;"), (other, "mod inside { use super::super::one::A; }")], 1);
    check(&[("src/room.rs", "mod one; fn f() {}"), (one, "use crate::room::f;")], 0);
    check(&[(one, "use crate::hall::two::C;"), ("src/hall/two.rs", "use crate::room::one::A;")], 0);
}

#[test]
fn imports_from_higher_or_sibling_layers_are_found() {
    let rule = forbidden_imports;
    check(rule, "src/store/rows.rs", "use crate::domain::Page;", 0);
    check(rule, "src/store/rows.rs", "use crate::store::Page; use super::error::Fault;", 0);
    check(rule, "src/store/rows.rs", "use crate::service::Service;", 1);
    check(rule, "src/store/rows.rs", "use crate::index::Index;", 1);
    check(rule, "src/store/rows.rs", "use crate::{domain::{Page, Metric}, index::Index, embed::{Embedder, Priority}};", 2);
    check(rule, "src/store/rows.rs", "use crate::*;", 1);
    check(rule, "src/store/rows.rs", "fn f() { crate::http::router() }", 1);
    check(
        rule,
        "src/store/rows.rs",
        "pub(crate) fn f() {} // crate::http\n/* use crate::http; */ const S: &str = \"crate::http\";",
        0,
    );
    check(rule, "src/store/mod.rs", "use super::http::Api;", 1);
    check(rule, "src/store/rows.rs", "use super::http::Api;", 0);
    check(rule, "src/store/rows.rs", "use super::super::http::Api;", 1);
    check(rule, "src/store/rows.rs", "mod tests { use super::super::connection; use super::super::super::{http, domain}; }", 1);
    check(rule, "src/bundle.rs", "use super::text::TEXT_VERSION;", 1);
    check(rule, "src/http/mod.rs", "use crate::store::Catalog;", 1);
    check(rule, "src/service/mod.rs", "use crate::http::Api;", 1);
    check(rule, "src/domain/ids.rs", "use crate::text::Tokens;", 1);
    check(rule, "src/main.rs", "use dragoman::{app, service};", 1);
    check(rule, "src/new/mod.rs", "", 1);
}

#[test]
fn forbidden_imports_of_the_trainer_are_found() {
    let rule = forbidden_imports;
    check(rule, "training/src/data/batch.rs", "use dragoman::text::Tokenizer; use dragoman::domain::Language;", 0);
    check(rule, "training/src/data/batch.rs", "use dragoman::bundle::Bundle; use crate::model::encoder;", 2);
    check(rule, "training/src/objective/xtr.rs", "use tch::Tensor; use super::contrastive::unit;", 0);
    check(rule, "training/src/objective/xtr.rs", "use crate::model::heads;", 1);
    check(rule, "training/src/objective/xtr.rs", "use std::{fs, iter}; fn f() { std::io::stdin(); }", 2);
    check(rule, "training/src/objective/xtr.rs", "use dragoman::domain::Language;", 1);
    check(rule, "training/src/progress.rs", "use crate::train::Losses;", 1);
    check(rule, "training/src/main.rs", "use dragoman_training::{train, model};", 1);
}

#[test]
fn modules_of_the_trainer_have_no_items_behind_features() {
    assert_all_sources_follow(layers::items_behind_features);
}

#[test]
fn items_behind_features_are_found() {
    let rule = layers::items_behind_features;
    check(rule, "src/domain/ids.rs", "#[cfg(feature = \"server\")]\nuse std::io;", 1);
    check(rule, "src/vectors/mod.rs", "#![cfg(any(test, feature = \"otel\"))]", 1);
    check(rule, "src/bundle.rs", "fn f() {}\n#[cfg(not(feature = \"server\"))]\nfn limits() {}", 1);
    check(rule, "src/domain/mod.rs", "#[cfg(feature = \"server\")]\npub use limits::Limits; #[cfg(feature = \"x\")] mod a;", 1);
    check(rule, "src/domain/key.rs", "#[cfg_attr(feature = \"server\", derive(clap::Args))] #[cfg(test)] struct A;", 0);
    check(rule, "src/store/mod.rs", "#[cfg(feature = \"server\")]\nuse std::io;", 0);
}

#[test]
fn files_are_short() {
    assert_all_sources_follow(too_long_file);
}

#[test]
fn a_long_file_is_found() {
    check(too_long_file, "src/a.rs", &"//\n".repeat(499), 0);
    check(too_long_file, "src/a.rs", &"//\n".repeat(500), 1);
    check(too_long_file, "src/main.rs", &"//\n".repeat(59), 0);
    check(too_long_file, "src/main.rs", &"//\n".repeat(60), 1);
}

#[test]
fn functions_are_short() {
    assert_all_sources_follow(too_long_functions);
}

#[test]
fn a_long_function_is_found() {
    check(too_long_functions, "src/a.rs", &function_of(69), 0);
    check(too_long_functions, "src/a.rs", &function_of(70), 1);
    check(too_long_functions, "src/a.rs", &format!("impl A {{ trait_method(); {} }}", function_of(70)), 1);
    check(too_long_functions, "src/a.rs", &format!("{}{}", function_of(40), function_of(40)), 0);
    check(too_long_functions, "src/a.rs", &format!("trait A {{ fn a(&self, of: [u8; 4]); fn b(); }}\n{}", "//\n".repeat(70)), 0);
    check(
        too_long_functions,
        "src/a.rs",
        &format!("fn a() {{ '{{'; \"}}\"; b'}}'; r#\"}}\"\"#; '\\''; }}\n{}", "//\n".repeat(70)),
        0,
    );
    check(
        too_long_functions,
        "src/a.rs",
        &format!("fn a<'a>() {{ let x: &'a str = \"\\\"}}\"; /* }} /* }} */ */\n{}}}", "\n".repeat(70)),
        1,
    );
}

#[test]
fn files_start_with_a_purpose_comment() {
    assert_all_sources_follow(no_opening);
}

#[test]
fn files_without_a_purpose_comment_are_found() {
    check(no_opening, "src/a.rs", "//! Rows.\n", 0);
    check(no_opening, "src/a.rs", "//!\n", 1);
    check(no_opening, "src/a.rs", "/// Rows.\n", 1);
    check(no_opening, "src/a.rs", "use std::fs;\n//! Rows.\n", 1);
    check(no_opening, "src/a.rs", "", 1);
}

#[test]
fn module_names_are_meaningful() {
    assert_all_sources_follow(empty_names);
}

#[test]
fn meaningless_module_names_are_found() {
    check(empty_names, "src/store/rows.rs", "mod tests {}", 0);
    check(empty_names, "src/store/utils.rs", "", 1);
    check(empty_names, "tests/common/mod.rs", "", 1);
    check(empty_names, "src/store/mod.rs", "mod helpers; mod types { }", 2);
}

#[test]
fn todo_comments_name_an_issue() {
    assert_all_sources_follow(unfinished_without_issue);
}

#[test]
fn todo_comments_without_an_issue_are_found() {
    check(unfinished_without_issue, "src/a.rs", "// TODO(#12): more\n// TODO #3\n", 0);
    check(unfinished_without_issue, "src/a.rs", "const MARK: &str = \"TODO\";", 0);
    check(unfinished_without_issue, "src/a.rs", "// TODO: more\n/* FIXME */\nlet a = 1; // TODO(#x)\n", 3);
}

#[test]
fn no_test_is_ignored() {
    assert_all_sources_follow(ignored_tests);
}

#[test]
fn an_ignored_test_is_found() {
    check(ignored_tests, "tests/a.rs", "#[test]\nfn ignore() {} // #[ignore]\n", 0);
    check(ignored_tests, "tests/a.rs", "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}", 2);
}

#[test]
fn errors_are_logged_with_their_causes() {
    assert_all_sources_follow(errors_logged_without_causes);
}

#[test]
fn an_error_that_is_logged_without_its_causes_is_found() {
    let log = |error: &str| format!("fn a() {{ tracing::warn!(error = {error}, \"b\"); }}");
    check(errors_logged_without_causes, "src/a.rs", &log("with_causes(&error)"), 0);
    check(errors_logged_without_causes, "src/a.rs", &log("&error as &dyn std::error::Error"), 1);
}

#[test]
fn the_architecture_document_names_only_existing_files() {
    if let Some(text) = document("ARCHITECTURE.md") {
        assert_no_violations(dead_paths(&text, |path| root().join(path).exists()));
    }
}

#[test]
fn a_dead_path_in_a_document_is_found() {
    let found = |text: &str| dead_paths(text, |path| path == "src/app.rs").len();
    assert_eq!(found("Starts in `src/app.rs`; `/v1/models` answers `application/json`; `a + b`, `Bundle`, `<name>/x.rs`."), 0);
    assert_eq!(found("Starts in `src/gone.rs` and `src/app.rs`, then `src/http/`, `gone.md`."), 3);
    assert_eq!(found("```\n`src/gone.rs`\n```\n`src/gone.rs`"), 1);
}

#[test]
fn the_readme_is_short() {
    if let Some(text) = document("README.md") {
        let lines = text.lines().count();
        assert!(lines < README_LINES_MAX, "{lines} lines");
    }
}

#[test]
fn migrations_are_numbered_and_start_with_a_comment() {
    for database in ["catalog", "collection"] {
        for entry in fs::read_dir(root().join("migrations").join(database)).unwrap() {
            let path = entry.unwrap().path();
            assert_no_violations(badly_named_migration(path.to_str().unwrap(), &fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn a_badly_named_migration_is_found() {
    let check = |name: &str, broken: usize| assert_eq!(badly_named_migration(name, "-- why\n").len(), broken, "{name}");
    check("migrations/catalog/0001_collections.sql", 0);
    check("migrations/catalog/1_collections.sql", 1);
    check("migrations/catalog/0001-collections.sql", 1);
    check("migrations/catalog/0001_Collections.sql", 1);
    check("migrations/catalog/0001_.sql", 1);
    check("migrations/catalog/0001_collections.txt", 1);
    assert_eq!(badly_named_migration("0001_a.sql", "create table a (b);").len(), 1);
}

/// Rejects in `docker-compose.yml`: variables that are no settings, images without a fixed version, a database reachable from
/// outside.
fn badly_composed(text: &str, settings: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let mut service = "";
    for line in text.lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        let Some((key, value)) = line.split_once(':').filter(|_| !line.starts_with('#')) else { continue };
        if indent == 2 {
            service = key;
        }
        let is_pinned = || value.rsplit_once(':').is_some_and(|(_, tag)| tag.contains(|c: char| c.is_ascii_digit()));
        if key.starts_with("DRAGOMAN_") && !settings.contains(&format!("env = \"{key}\"")) {
            broken.push(format!("{service}: {key} is no setting"));
        } else if key == "image" && !is_pinned() {
            broken.push(format!("{service}:{value} has no certain version"));
        } else if key == "ports" && service == "database" {
            broken.push("the database is published".to_owned());
        }
    }
    broken
}

#[test]
fn the_compose_file_follows_the_rules() {
    let Some(text) = document("docker-compose.yml") else { return };
    let settings = fs::read_to_string(root().join("src/config/mod.rs")).unwrap();
    assert_no_violations(badly_composed(&text, &settings));
    assert_eq!(
        text.matches("profiles: [postgres]").count(),
        2,
        "two services name the profile postgres; the second server inherits it from the first"
    );
}

#[test]
fn compose_file_violations_are_found() {
    let found = |text: &str| badly_composed(text, "env = \"DRAGOMAN_LISTEN\"").len();
    assert_eq!(found("  a:\n    image: b/c:1.2-d\n    environment:\n      DRAGOMAN_LISTEN: x\n    ports:\n      - \"1:1\"\n"), 0);
    assert_eq!(found("  a:\n    image: b/c:latest\n    environment:\n      DRAGOMAN_TEST_LISTN: x\n"), 2);
    assert_eq!(found("  database:\n    image: b\n    ports:\n      - \"1:1\"\n"), 2);
}

#[test]
fn words_are_distinguished_from_digits_and_punctuation() {
    assert!(["a", "_", "é"].into_iter().all(is_word) && !["1", ":", ""].into_iter().any(is_word));
}
