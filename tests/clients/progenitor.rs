//! A round trip with the client that progenitor generates: create, import a file, search, classify, mine, wait for jobs, handle
//! a refusal, delete.

use std::time::Duration;

use dragoman_generated::{Client, Error, types};
use futures::TryStreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NAME: &str = "progenitor";
const FILE: &str = "{\"id\": \"fi\", \"text\": \"Kirjasto on suljettu maanantaisin.\", \"language\": \"fi\"}\n\
                    {\"id\": \"el\", \"text\": \"Το πλοίο φεύγει στις οκτώ το πρωί.\", \"language\": \"el\"}\n\
                    {\"id\": \"none\"}\n";

/// A request with the generated types.
fn of<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("a request as the description has it")
}

async fn finished(client: &Client, id: &str) -> types::JobInfo {
    loop {
        let job = client.get_job().job(id).send().await.expect("the job").into_inner();
        match job.status {
            types::JobStatusName::Queued | types::JobStatusName::Running => tokio::time::sleep(Duration::from_millis(100)).await,
            types::JobStatusName::Succeeded => return job,
            _ => panic!("the job ended with {:?}", job.error),
        }
    }
}

/// The lines of a streamed answer.
async fn lines(stream: dragoman_generated::ByteStream) -> Vec<Value> {
    let bytes: Vec<_> = stream.into_inner().try_collect().await.expect("the whole stream");
    let text = String::from_utf8(bytes.concat()).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let client = Client::new(&std::env::var("DRAGOMAN_URL").expect("the server's address"));
    let body: types::CreateCollectionRequest = of(json!({ "name": NAME }));
    let made = client.create_collection().body(body.clone()).send().await.expect("a collection");
    assert_eq!(made.name.as_str(), NAME);
    match client.create_collection().body(body).send().await {
        Err(Error::ErrorResponse(response)) => {
            assert_eq!(response.status(), 409);
            assert_eq!(response.code, types::ErrorCode::CollectionExists);
        }
        other => panic!("a second collection of one name: {other:?}"),
    }

    let job = client.import_documents().collection(NAME).body(FILE).send().await.expect("an import");
    finished(&client, &job.id).await;
    let results = client.get_job_results().job(job.id.as_str()).send().await.expect("its results");
    let results = lines(results.into_inner()).await;
    assert_eq!(results.iter().map(|line| line["status"].as_str().unwrap()).collect::<Vec<_>>(), ["created", "created", "failed"]);
    assert_eq!(results[2]["error"]["code"], "invalid_request");

    let question: types::SearchDocumentsRequest = of(json!({ "query": "When does the ship leave?", "limit": 1 }));
    let found = client.search_documents().collection(NAME).body(question).send().await.expect("hits");
    assert_eq!(found.hits.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["el"]);

    let labels = [
        json!({ "name": "praise", "descriptions": ["wonderful, thank you"] }),
        json!({ "name": "complaint", "descriptions": ["this is broken, I am angry"] }),
    ];
    let body: types::CreateClassifierRequest = of(json!({ "name": NAME, "kind": "prototype", "labels": labels }));
    let made = client.create_classifier().body(body).send().await.expect("a classifier");
    finished(&client, &made.job).await;
    let body: types::PredictRequest = of(json!({ "texts": ["Vielen Dank, das war wunderbar!", "この機械は壊れています。"] }));
    let output = client.predict_labels().classifier(NAME).body(body).send().await.expect("predictions");
    let labels: Vec<_> = output.predictions.iter().map(|one| one.labels[0].as_str()).collect();
    assert_eq!(labels, ["praise", "complaint"]);
    client.delete_classifier().classifier(NAME).send().await.expect("a deletion");

    let first = ["Wo ist der Bahnhof?", "Die Suppe ist zu heiß.", "Meine Schwester lernt Chinesisch.", "Morgen wird es schneien."];
    let second =
        ["Yarın kar yağacak.", "Kız kardeşim Çince öğreniyor.", "Kedi masanın altında uyuyor.", "Çorba çok sıcak."];
    let body: types::MinePairsRequest =
        of(json!({ "first": { "texts": first }, "second": { "texts": second }, "threshold": 1.5 }));
    let job = client.mine_pairs().body(body).send().await.expect("a mining job");
    finished(&client, &job.id).await;
    let pairs = client.get_mined_pairs().job(job.id.as_str()).send().await.expect("pairs");
    assert_eq!(lines(pairs.into_inner()).await.len(), 3);

    client.delete_collection().collection(NAME).send().await.expect("a deletion");
    match client.get_collection().collection(NAME).send().await {
        Err(Error::ErrorResponse(response)) => assert_eq!(response.code, types::ErrorCode::CollectionNotFound),
        other => panic!("a collection that was deleted: {other:?}"),
    }
    println!("progenitor: ok");
}
