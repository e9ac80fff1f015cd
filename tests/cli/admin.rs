//! `dragoman keys`, `aliases` and `models` against a server, and the files generated from the command line.

use serde_json::json;

use super::program::Program;
use super::{dragoman, run, run_with};

#[test]
fn a_key_is_created_listed_and_revoked() {
    let (_folder, server) = Program::fresh("fake:8");
    let client = server.client();
    let url = client.url();
    let none = run(url, &["keys", "list"]);
    assert_eq!((none.expect(0), none.err.as_str()), ("", "there are no keys\n"));

    let created = run(url, &["keys", "create", "everything", "--scope", "admin"]);
    let admin = created.expect(0).trim_end().to_owned();
    assert!(admin.lines().count() == 1 && created.err.contains("shown only now"), "{created:?}");
    assert_eq!((client.get("/v1/keys").0, client.with_key(&admin).get("/v1/keys").0), (401, 200));
    let keyed = |arguments: &[&str]| {
        let mut command = dragoman(url, arguments);
        command.env("DRAGOMAN_KEY", &admin);
        run_with(command, b"")
    };
    let arguments = ["keys", "create", "the shop", "--scope", "read", "--collections", "news,blog", "--json"];
    let reader = keyed(&[&arguments[..], &["--expires-at", "2999-01-01T00:00:00Z"]].concat()).json().remove(0);
    assert_eq!((&reader["key"]["scope"], &reader["key"]["collections"]), (&json!("read"), &json!(["news", "blog"])));
    let secret = reader["secret"].as_str().unwrap();
    assert_eq!(client.with_key(secret).get("/v1/models").0, 200);

    let listed = keyed(&["keys", "list"]);
    let lines: Vec<&str> = listed.expect(0).lines().collect();
    assert!(lines[0].starts_with("ID ") && lines[0].ends_with("EXPIRES"), "{lines:?}");
    assert!(lines[1].contains("everything  admin  all "), "{lines:?}");
    assert!(lines[2].contains("the shop    read   news, blog") && lines[2].ends_with("2999-01-01 00:00:00Z"), "{lines:?}");
    assert!(!listed.out.contains(secret), "a list has no secrets");

    let id = reader["key"]["id"].as_str().unwrap();
    let unasked = keyed(&["keys", "revoke", id]);
    assert!(unasked.code == 2 && unasked.err.contains("add --yes"), "{unasked:?}");
    keyed(&["keys", "revoke", id, "--yes"]).expect(0);
    assert_eq!(client.with_key(secret).get("/v1/models").0, 401);
    let again = keyed(&["keys", "revoke", id, "--yes"]);
    assert!(again.code == 1 && again.err.starts_with("error: key_not_found: "), "{again:?}");
}

#[test]
fn an_alias_is_set_listed_and_deleted() {
    let (_folder, server) = Program::fresh("fake:8");
    let client = server.client();
    let url = client.url();
    for name in ["first", "second"] {
        run(url, &["collections", "create", name]).expect(0);
    }
    let set = run(url, &["aliases", "set", "current", "first"]);
    assert_eq!((set.expect(0), set.err.as_str()), ("", "alias current points to collection first\n"));
    let switched = run(url, &["aliases", "set", "current", "second", "--json"]).json();
    assert_eq!(switched, [json!({"alias": "current", "collection": "second"})]);
    assert_eq!(run(url, &["aliases", "list"]).expect(0), "ALIAS    COLLECTION\ncurrent  second\n");
    let unknown = run(url, &["aliases", "set", "current", "third"]);
    assert!(unknown.code == 1 && unknown.err.starts_with("error: collection_not_found: "), "{unknown:?}");
    let unasked = run(url, &["aliases", "delete", "current"]);
    assert!(unasked.code == 2 && unasked.err.contains("to delete alias current, add --yes"), "{unasked:?}");
    run(url, &["aliases", "delete", "current", "--yes"]).expect(0);
    assert_eq!(run(url, &["aliases", "list", "--json"]).json(), Vec::<serde_json::Value>::new());
    assert_eq!(client.get("/v1/collections/second").0, 200);
}

#[test]
fn the_loaded_model_is_listed() {
    let (_folder, server) = Program::fresh("fake:8");
    let client = server.client();
    let table = run(client.url(), &["models"]);
    let lines: Vec<&str> = table.expect(0).lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("NAME") && lines[0].ends_with("DEVICE"), "{lines:?}");
    assert!(lines[1].starts_with("fake ") && lines[1].contains(" 8 ") && lines[1].ends_with("cpu"), "{lines:?}");
    let listed = run(client.url(), &["models", "--json"]).json();
    assert_eq!(json!(listed), client.get("/v1/models").1["data"]);
}

#[test]
fn completion_scripts_are_generated_for_every_supported_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run("http://127.0.0.1:1", &["completions", shell]);
        for word in ["collections", "reembed", "--quiet"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.expect(0).contains(word), "{shell}: {word}");
        }
    }
    let refused = run("http://127.0.0.1:1", &["completions", "cmd"]);
    assert!(refused.code == 2 && refused.err.contains("possible values: bash"), "{refused:?}");
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let page = run("http://127.0.0.1:1", &["man"]);
    assert!(page.expect(0).contains(".TH dragoman 1") && page.out.contains("dragoman\\-collections(1)"), "{}", page.out);
    let folder = tempfile::tempdir().unwrap();
    let written = run("http://127.0.0.1:1", &["man", "--output", folder.path().to_str().unwrap()]);
    assert_eq!(written.expect(0), "");
    for name in ["dragoman.1", "dragoman-serve.1", "dragoman-collections-create.1"] {
        let page = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page.contains(".SH NAME"), "{name}: {page}");
    }
    let new = folder.path().join("share/man/man1");
    run("http://127.0.0.1:1", &["man", "--output", new.to_str().unwrap()]).expect(0);
    assert!(new.join("dragoman.1").is_file(), "a missing folder is created");
    let below_a_file = folder.path().join("dragoman.1/man1");
    let nowhere = run("http://127.0.0.1:1", &["man", "--output", below_a_file.to_str().unwrap()]);
    assert!(nowhere.code == 1 && nowhere.err.contains("dragoman.1/man1"), "{nowhere:?}");
}
