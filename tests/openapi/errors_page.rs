//! The page of error codes in the documentation is made from the list of codes.

use dragoman::domain::{Blame, Code};

const ERRORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");
const ERRORS_HEAD: &str = "# Errors

Every error is an RFC 9457 problem (`application/problem+json`). Its `code` is one of this list, which is closed: branch on
it. `detail` tells what was expected and what came; `errors` has a `pointer` into the body, or a `parameter`, for every
wrong place; `request_id` is in the server's log. Errors of `/v1/embeddings` have the same codes in OpenAI's shape. The
lines of an import and the documents of a batch have the same codes, too.

Each entry has the status, the cause, an example of `detail`, and the remedy. A server shows the same list at
`/docs/errors`. Both are made from `src/domain/code.rs` (`DRAGOMAN_BLESS=1 cargo test --test openapi`).
";
const ERRORS_PARTS: [(Blame, &str); 3] = [
    (Blame::Client, "The request is wrong"),
    (Blame::Capacity, "The server is at a limit: the same request may succeed later"),
    (Blame::Server, "The server failed"),
];

#[test]
fn the_page_of_errors_is_the_one_of_the_list() {
    let mut page = ERRORS_HEAD.to_owned();
    for (blame, title) in ERRORS_PARTS {
        page += &format!("\n## {title}\n");
        for code in Code::ALL.iter().filter(|code| code.blame() == blame) {
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
fn the_explanations_of_errors_are_sentences_without_markup() {
    for code in Code::ALL {
        let (name, example, remedy) = (code.name(), code.example(), code.remedy());
        assert!(remedy.ends_with('.') && !example.ends_with('.'), "{name}");
        for text in [example, remedy, code.summary()] {
            assert!(!text.is_empty() && !text.contains(['<', '>', '&', '[']), "{name}: {text}");
        }
    }
}
