//! Lexical search across restarts: everything written is found, and an older collection is upgraded in the background.

use dragoman::domain::{Code, SearchMode, SearchRequest, Wait};
use dragoman::embed::FakeOptions;
use rusqlite::Connection;

use crate::{Running, Setting, document, eventually, ids, news, open, open_with, request};

fn by_words(query: &str) -> SearchRequest {
    SearchRequest { mode: SearchMode::Lexical, ..request(query, 10) }
}

async fn found(running: &Running, query: &str) -> Vec<String> {
    ids(&running.search("news", by_words(query)).await.unwrap())
}

#[tokio::test]
async fn words_are_found_after_a_restart_and_after_a_crash() {
    let (folder, running) = news().await;
    running.write("news", "zh", "双方昨天签订了合约。").await;
    running.write("news", "de", "Der Zug hat Verspätung.").await;
    running.shutdown().await;
    let running = open(folder.path()).await;
    assert_eq!(found(&running, "合约").await, ["zh"]);
    running.upsert("news", vec![document("ja", "今日は天気がいい。")], Wait::Stored).await.unwrap();
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(
        (found(&running, "天気").await, found(&running, "verspatung").await),
        (vec!["ja".to_owned()], vec!["de".to_owned()])
    );
}

/// Removes from a collection what its second version added, and re-adds it as the migration does.
fn made_by_the_first_version(folder: &std::path::Path) {
    let collections = std::fs::read_dir(folder.join("collections")).unwrap();
    for entry in collections {
        let connection = Connection::open(entry.unwrap().path().join("documents.sqlite")).unwrap();
        let drop = "drop trigger passages_deleted_lexical; drop table lexical; drop table lexical_fill;";
        connection.execute_batch(drop).unwrap();
        let sql = include_str!("../../migrations/collection/0002_features.sql");
        let begin = sql.find("create virtual table lexical").unwrap();
        let end = begin + sql[begin..].find("from passages;").unwrap();
        connection.execute_batch(&sql[begin..end + "from passages;".len()]).unwrap();
    }
}

#[tokio::test]
async fn an_older_collection_gets_its_lexical_index_in_the_background() {
    let (folder, running) = news().await;
    let documents = (0..700).map(|n| document(&format!("d{n}"), &format!("grey sea number{n}"))).collect();
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    running.shutdown().await;
    made_by_the_first_version(folder.path());
    let running = open(folder.path()).await;
    let prepared = async || match running.search("news", by_words("number699")).await {
        Ok(hits) => {
            assert_eq!(ids(&hits), ["d699"]);
            true
        }
        Err(error) => {
            assert_eq!(error.code(), Code::Unavailable);
            assert!(error.to_string().contains("lexical search"), "{error}");
            false
        }
    };
    eventually("the collection is prepared", prepared).await;
    assert_eq!(found(&running, "number3").await, ["d3"]);
}

#[tokio::test]
async fn lexical_search_needs_no_matching_model() {
    let (folder, running) = news().await;
    running.write("news", "a", "grey sea").await;
    running.shutdown().await;
    let running = open_with(folder.path(), Setting { fake: FakeOptions::of(32), ..Setting::default() }).await;
    assert_eq!(found(&running, "sea").await, ["a"]);
    let hybrid = SearchRequest { mode: SearchMode::Hybrid(Default::default()), ..request("sea", 10) };
    assert_eq!(running.search("news", hybrid).await.unwrap_err().code(), Code::ModelMismatch);
}

#[tokio::test]
async fn queries_of_a_batch_are_embedded_together() {
    let (_folder, running) = news().await;
    running.write("news", "a", "grey sea").await;
    let before = running.control.batches().len();
    let requests = (0..6).map(|n| request(&format!("sea {n}"), 10)).chain([by_words("sea")]).collect();
    let responses = running.on("news").search_batch(requests).await.unwrap();
    assert!(responses.iter().all(|response| ids(&response.hits) == ["a"]));
    assert_eq!(running.control.batches()[before..], [vec![2; 6]], "one batch, without the search by words");
}
