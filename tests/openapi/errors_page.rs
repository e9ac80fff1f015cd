//! The documentation's page of error codes is generated from the list of codes.

use dragoman::domain::{Code, ErrorClass};

const ERRORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");
const ERRORS_HEAD: &str = "# Errors

Every error is an RFC 9457 problem (`application/problem+json`). Its `code` comes from the closed list below, so a
program can branch on it. `detail` names what was expected and what was received. `errors` lists every invalid value
with a `pointer` into the body, or with the name of a `parameter`. `request_id` also appears in the server's log.
Failed lines of an import and failed documents of a batch have the same codes, and so have the errors of
`/v1/embeddings`, which are in OpenAI's format.

Each entry has the status, the cause, an example of `detail`, and the remedy. A server shows the same list at
`/docs/errors`. Both are generated from `src/domain/code.rs` (`DRAGOMAN_BLESS=1 cargo test --test openapi`).
";
const ERRORS_PARTS: [(ErrorClass, &str); 3] = [
    (ErrorClass::Client, "Invalid requests"),
    (ErrorClass::Capacity, "Limits of the server: the same request may succeed later"),
    (ErrorClass::Server, "Failures of the server"),
];

#[test]
fn the_errors_page_is_up_to_date() {
    let mut page = ERRORS_HEAD.to_owned();
    for (class, title) in ERRORS_PARTS {
        page += &format!("\n## {title}\n");
        for code in Code::ALL.iter().filter(|code| code.class() == class) {
            let (name, status, cause) = (code.name(), code.status(), code.summary());
            page += &format!("\n### {name}\n\nStatus {status}. {cause}\n\n> {}\n\n{}\n", code.example(), code.remedy());
        }
    }
    if std::env::var_os("DRAGOMAN_BLESS").is_some() {
        std::fs::write(ERRORS, &page).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(ERRORS).unwrap_or_default();
    assert!(committed == page, "docs/errors.md is out of date: run DRAGOMAN_BLESS=1 cargo test --test openapi");
}

#[test]
fn error_explanations_are_nonempty_and_free_of_markup() {
    for code in Code::ALL {
        let (name, example, remedy) = (code.name(), code.example(), code.remedy());
        assert!(remedy.ends_with('.') && !example.ends_with('.'), "{name}");
        for text in [example, remedy, code.summary()] {
            assert!(!text.is_empty() && !text.contains(['<', '>', '&', '[']), "{name}: {text}");
        }
    }
}
