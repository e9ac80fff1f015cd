//! The results of mining and duplicates jobs, as lines of JSON and as tables.

use std::{io, iter};

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use utoipa::ToSchema;

use crate::domain::{DuplicateCluster, JobType, MinedSentence, ScoredPair};
use crate::http::api::Api;
use crate::http::documents::import_export::NDJSON;
use crate::http::error::ApiError;
use crate::http::jobs::VisibleJob;
use crate::http::response::{blocking_stream, complete_lines};

const TSV: &str = "text/tab-separated-values; charset=utf-8";
const PAIRS: Kind = Kind { what: "pairs", of: JobType::Mine, head: "score\tfirst_id\tsecond_id\tfirst_text\tsecond_text\n" };
const CLUSTERS: Kind = Kind { what: "clusters", of: JobType::Duplicates, head: "cluster\tid\trepresentative\tlanguage\ttext\n" };

/// Lines of JSON, one for each pair, in descending order of score: `score`, and `first` and `second` with `id` (the document's,
/// or the text's position in the request), `language` if known, `text`, and, for a document of several passages, the passage's
/// `start` and `end` in characters.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct MinedPairs(pub String);

/// A table with one row for each pair, in descending order of score, below a header row: `score`, `first_id`, `second_id`,
/// `first_text`, `second_text`, separated by tabs. Tabs and line ends within a text become spaces.
#[derive(Debug, ToSchema)]
#[schema(value_type = String)]
pub struct MinedPairsTable(pub String);

/// Lines of JSON, one for each cluster: `size`, `representative` (the id of the document that is nearest to all others) and
/// `members`, each with `id`, `language` if known, `text`, and, for a document of several passages, the passage's `start`
/// and `end` in characters.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct DuplicateClusters(pub String);

/// A table with one row for each member of each cluster, below a header row: `cluster` (a number from 1), `id`,
/// `representative` (`yes` or empty), `language`, `text`, separated by tabs. Tabs and line ends within a text become spaces.
#[derive(Debug, ToSchema)]
#[schema(value_type = String)]
pub struct DuplicateClustersTable(pub String);

/// The results of a type of job.
#[derive(Clone, Copy)]
struct Kind {
    what: &'static str,
    of: JobType,
    /// The header row of the table.
    head: &'static str,
}

/// A stream with its media type.
type Lines = ([(HeaderName, &'static str); 1], Body);

/// Get mined pairs
///
/// Streams the pairs of a job of type `mine` that has succeeded, best first. They are kept as long as the job.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/pairs", tag = "mining_results",
    responses((
        status = 200, description = "The pairs.", body = MinedPairs, content_type = "application/x-ndjson",
        example = json!("{\"score\":1.31,\"first\":{\"id\":\"de-7\",\"language\":\"de\",\"text\":\"Der Zug hat Verspätung.\"},\
            \"second\":{\"id\":\"fr-1\",\"language\":\"fr\",\"text\":\"Le train est en retard.\"}}\n"),
    )),
)]
pub async fn get_mined_pairs(State(api): State<Api>, job: VisibleJob) -> Result<Lines, ApiError> {
    as_lines(&api, &job, PAIRS).await
}

/// Get mined pairs as a table
///
/// Streams the pairs of a job of type `mine` that has succeeded as tab-separated values, best first.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/pairs.tsv", tag = "mining_results",
    responses((
        status = 200, description = "The pairs.", body = MinedPairsTable, content_type = "text/tab-separated-values",
        example = json!("score\tfirst_id\tsecond_id\tfirst_text\tsecond_text\n1.31\tde-7\tfr-1\tDer Zug hat Verspätung.\tLe train est en retard.\n"),
    )),
)]
pub async fn get_mined_pairs_table(State(api): State<Api>, job: VisibleJob) -> Result<Lines, ApiError> {
    as_table(&api, &job, PAIRS, pair_rows).await
}

/// Get clusters of duplicates
///
/// Streams the clusters of a job of type `duplicates` that has succeeded. They are kept as long as the job.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/clusters", tag = "mining_results",
    responses((
        status = 200, description = "The clusters.", body = DuplicateClusters, content_type = "application/x-ndjson",
        example = json!("{\"size\":2,\"representative\":\"fr-1\",\"members\":[{\"id\":\"fr-1\",\"language\":\"fr\",\"text\":\
            \"Le train est en retard.\"},{\"id\":\"de-7\",\"language\":\"de\",\"text\":\"Der Zug hat Verspätung.\"}]}\n"),
    )),
)]
pub async fn get_duplicate_clusters(State(api): State<Api>, job: VisibleJob) -> Result<Lines, ApiError> {
    as_lines(&api, &job, CLUSTERS).await
}

/// Get clusters of duplicates as a table
///
/// Streams the clusters of a job of type `duplicates` that has succeeded as tab-separated values, one row for each member.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/clusters.tsv", tag = "mining_results",
    responses((
        status = 200, description = "The clusters.", body = DuplicateClustersTable, content_type = "text/tab-separated-values",
        example = json!("cluster\tid\trepresentative\tlanguage\ttext\n1\tfr-1\tyes\tfr\tLe train est en retard.\n1\tde-7\t\tde\tDer Zug hat Verspätung.\n"),
    )),
)]
pub async fn get_duplicate_clusters_table(State(api): State<Api>, job: VisibleJob) -> Result<Lines, ApiError> {
    as_table(&api, &job, CLUSTERS, cluster_rows).await
}

async fn as_lines(api: &Api, VisibleJob(job): &VisibleJob, kind: Kind) -> Result<Lines, ApiError> {
    let (file, bytes) = api.service.job_lines(&job.id, kind.what, kind.of).await?;
    Ok(([(CONTENT_TYPE, NDJSON)], Body::from_stream(blocking_stream(complete_lines(file, bytes)))))
}

async fn as_table(api: &Api, VisibleJob(job): &VisibleJob, kind: Kind, rows: Rows) -> Result<Lines, ApiError> {
    let (file, bytes) = api.service.job_lines(&job.id, kind.what, kind.of).await?;
    let converted = complete_lines(file, bytes).zip(1..).map(move |(line, number)| rows(&line?, number).map(String::into_bytes));
    let table = iter::once(Ok(kind.head.into())).chain(converted);
    Ok(([(CONTENT_TYPE, TSV)], Body::from_stream(blocking_stream(table))))
}

/// Converts a line to table rows; the number is the line's, from 1.
type Rows = fn(&[u8], u64) -> io::Result<String>;

fn pair_rows(line: &[u8], _: u64) -> io::Result<String> {
    let ScoredPair::<MinedSentence> { score, first, second } = serde_json::from_slice(line)?;
    let (one, other) = (cell(&first.text), cell(&second.text));
    Ok(format!("{score}\t{}\t{}\t{one}\t{other}\n", first.id, second.id))
}

fn cluster_rows(line: &[u8], number: u64) -> io::Result<String> {
    let DuplicateCluster { representative, members, .. } = serde_json::from_slice(line)?;
    let row = |member: &MinedSentence| {
        let chosen = if member.id == representative { "yes" } else { "" };
        let language = member.language.map_or("", |language| language.code());
        format!("{number}\t{}\t{chosen}\t{language}\t{}\n", member.id, cell(&member.text))
    };
    Ok(members.iter().map(row).collect())
}

/// A text as a cell: on one line, without tabs.
fn cell(text: &str) -> String {
    text.replace(['\t', '\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_and_cluster_rows_have_a_cell_for_every_column() {
        let pair =
            r#"{"score":1.25,"first":{"id":"a","language":"de","text":"eins\tzwei\r\ndrei"},"second":{"id":"7","text":"un"}}"#;
        assert_eq!(pair_rows(pair.as_bytes(), 1).unwrap(), "1.25\ta\t7\teins zwei  drei\tun\n");
        assert_eq!(PAIRS.head.matches('\t').count(), 4);
        let cluster =
            r#"{"size":2,"representative":"b","members":[{"id":"a","text":"x"},{"id":"b","language":"fr","text":"y"}]}"#;
        assert_eq!(cluster_rows(cluster.as_bytes(), 3).unwrap(), "3\ta\t\t\tx\n3\tb\tyes\tfr\ty\n");
        assert!(pair_rows(b"{}", 1).is_err());
    }
}
