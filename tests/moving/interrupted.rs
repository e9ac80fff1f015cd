//! A move that is interrupted by an error or by kill -9 resumes when it is repeated, and completes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::fixture::{FAKE, Places, counts, fill, move_command, moved, put};
use crate::program::PATIENCE;

/// Documents of the large collection: enough for several transactions.
const DOCUMENTS: usize = 1_200;

/// Makes the database run `does` before it stores a checkpoint beyond a move's first transaction.
fn run_after_first_transaction(places: &Places, does: &str) {
    let trigger = format!(
        "create function middle() returns trigger language plpgsql as $$ begin
             if (new.checkpoint::json ->> 'documents')::integer > 500 then {does}; end if; return new; end $$;
         create trigger middle before insert or update on dragoman.job_checkpoints for each row execute function middle()"
    );
    places.sql().batch_execute(&trigger).unwrap();
}

fn remove_trigger(places: &Places) {
    places.sql().batch_execute("drop function middle cascade").unwrap();
}

/// Refuses documents of the first collection up to a key: a resumed move must not store them again.
fn refuse_restored_documents(places: &Places) {
    let table = places.table("documents", 1);
    let trigger = format!(
        "create function again() returns trigger language plpgsql as $$ begin
             if new.document <= 500 then raise exception 'again'; end if; return new; end $$;
         create trigger again before insert on {table} for each row execute function again()"
    );
    places.sql().batch_execute(&trigger).unwrap();
}

fn filled() -> Places {
    let places = Places::new();
    let server = places.serve_folder(FAKE);
    fill(&server.client(), DOCUMENTS);
    assert!(server.terminate().success());
    places
}

fn wait(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn all() -> [(String, i64); 2] {
    [("blog".to_owned(), 1), ("news".to_owned(), DOCUMENTS as i64)]
}

fn checkpoints(places: &Places) -> i64 {
    places.number("select count(*) from dragoman.job_checkpoints")
}

#[test]
fn a_failed_move_shows_no_partial_collection_and_the_next_one_resumes() {
    let places = filled();
    run_after_first_transaction(&places, "raise exception 'no more'");
    moved(places.folder(), places.url(), &[]).fails(&["collection news of the target"]);
    assert_eq!(
        places.number("select (checkpoint::json ->> 'documents')::bigint from dragoman.job_checkpoints order by 1 desc limit 1"),
        500
    );
    remove_trigger(&places);
    let server = places.serve_database(FAKE);
    assert_eq!(counts(&server.client()), [], "an unfinished move must not be visible");
    assert!(server.terminate().success());
    refuse_restored_documents(&places);
    moved(places.folder(), places.url(), &["--json"]).json();
    assert_eq!(checkpoints(&places), 0, "no checkpoint of the move remains");
    assert_eq!(counts(&places.serve_database(FAKE).client()), all());
}

#[test]
fn a_move_killed_midway_resumes_when_repeated() {
    let places = filled();
    run_after_first_transaction(&places, "perform pg_sleep(600)");
    let mut killed = move_command(places.folder(), places.url(), &[]).spawn().unwrap();
    let asleep = "from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()";
    wait("it is in the middle", || places.number(&format!("select count(*) {asleep}")) == 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    places.sql().execute(&format!("select pg_terminate_backend(pid) {asleep}"), &[]).unwrap();
    wait("the database has noticed", || places.number(&format!("select count(*) {asleep}")) == 0);
    remove_trigger(&places);
    refuse_restored_documents(&places);
    moved(places.folder(), places.url(), &["--json"]).json();
    assert_eq!(checkpoints(&places), 0);
    assert_eq!(counts(&places.serve_database(FAKE).client()), all());
}

#[test]
fn a_collection_changed_after_an_interruption_is_copied_again() {
    let places = filled();
    run_after_first_transaction(&places, "raise exception 'no more'");
    moved(places.folder(), places.url(), &[]).fails(&["collection news"]);
    remove_trigger(&places);
    let server = places.serve_folder(FAKE);
    put(&server.client(), "news", &json!({"id": "n3", "text": "changed"}));
    assert!(server.terminate().success());
    moved(places.folder(), places.url(), &["--json"]).json();
    let server = places.serve_database(FAKE);
    assert_eq!(counts(&server.client()), all());
    assert_eq!(server.client().get("/v1/collections/news/documents/n3").1["text"], "changed");
}

#[test]
fn an_altered_document_fails_the_move_and_the_next_move_succeeds() {
    let places = filled();
    let changes = "create function changes() returns trigger language plpgsql as $$ begin
            if new.id = 'n700' then new.title := 'changed'; end if; return new; end $$;
        create trigger changes before insert on dragoman.documents for each row execute function changes()";
    places.sql().batch_execute(changes).unwrap();
    moved(places.folder(), places.url(), &[]).fails(&["collection news", "document n700 has different content"]);
    moved(places.folder(), places.url(), &["--verify"]).fails(&["collection blog differs between source and target"]);
    places.sql().batch_execute("drop function changes cascade").unwrap();
    moved(places.folder(), places.url(), &["--json"]).json();
    assert_eq!(counts(&places.serve_database(FAKE).client()), all());
}

#[test]
fn a_move_back_that_fails_midway_completes_when_repeated() {
    let (places, back) = (filled(), Places::new());
    moved(places.folder(), places.url(), &["--json"]).json();
    let table = places.table("documents", 1);
    let language = |code: &str| {
        let sql = format!("update {table} set language = {code} where document = 700");
        assert_eq!(places.sql().execute(&sql, &[]).unwrap(), 1);
    };
    let right = places.sql().query_one(&format!("select language from {table} where document = 700"), &[]).unwrap();
    let right = right.get::<_, Option<String>>(0).map_or("null".to_owned(), |code| format!("'{code}'"));
    language("'none'");
    moved(places.url(), back.folder(), &[]).fails(&["collection news of the source", "row 700 of table documents is damaged"]);
    let server = back.serve_folder(FAKE);
    assert_eq!(counts(&server.client()), []);
    assert!(server.terminate().success());
    language(&right);
    moved(places.url(), back.folder(), &["--json"]).json();
    assert_eq!(counts(&back.serve_folder(FAKE).client()), all());
}

#[test]
fn a_move_back_killed_midway_completes_when_repeated() {
    let (places, back) = (filled(), Places::new());
    moved(places.folder(), places.url(), &["--json"]).json();
    let mut holder = places.sql();
    let mut held = holder.transaction().unwrap();
    held.batch_execute(&format!("lock table {} in access exclusive mode", places.table("documents", 1))).unwrap();
    let mut killed = move_command(places.url(), back.folder(), &[]).spawn().unwrap();
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    wait("it waits for the second collection", || places.number(waiting) == 1);
    killed.kill().unwrap();
    killed.wait().unwrap();
    held.rollback().unwrap();
    moved(places.url(), back.folder(), &["--json"]).json();
    assert_eq!(counts(&back.serve_folder(FAKE).client()), all());
}

#[test]
fn a_change_of_settings_that_a_kill_interrupted_is_moved_as_a_whole() {
    let places = filled();
    for folder in std::fs::read_dir(places.data.path().join("collections")).unwrap() {
        let documents = rusqlite::Connection::open(folder.unwrap().path().join("documents.sqlite")).unwrap();
        // A server that is killed between the two databases leaves what it has not written to the catalog here.
        let rest = "insert into job_checkpoints (job, checkpoint) values ('collection-change', '{\"description\": \"new\"}')";
        documents.execute(rest, []).unwrap();
    }
    moved(places.folder(), places.url(), &["--json"]).json();
    let server = places.serve_database(FAKE);
    assert_eq!(server.client().get("/v1/collections/news").1["description"], "new");
}
