//! `/v1/collections/{collection}/import` and `/export`: documents as files, streamed both ways.

use std::io;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use futures::stream::{self, Stream};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::domain::timestamps::rfc3339;
use crate::domain::{Code, ColumnTypes, Document, Embedding, FileFormat, Job, MetadataObject};
use crate::http::api::Api;
use crate::http::error::ApiError;
use crate::http::jobs::AcceptedJob;
use crate::http::middleware::compression::CompressLines;
use crate::http::request::body::{check_content_type, content_encoding, read_header};
use crate::http::request::extract::{CollectionPath, Parameters};
use crate::service::documents::export::Export;
use crate::service::documents::import::ImportFile;
use crate::service::documents::input::DocumentInput;

pub const NDJSON: &str = "application/x-ndjson";

/// A file of documents, in the format of its content type. `application/x-ndjson`: one document per line, in the form of
/// `documents` in `POST /v1/collections/{collection}/documents`; blank lines are skipped. `application/octet-stream`: the same,
/// for clients that cannot send another type. `text/csv` (RFC 4180) and `text/tab-separated-values` (no quoting): a header row
/// names the columns; `id`, `title`, `text` and `language` are the document's, every other column is metadata under its name,
/// without the prefix `metadata.` if it has it; cells are strings, and empty ones are left out.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct DocumentFile(pub String);

/// Documents as lines of JSON: `id`, `title` and `text` if present, `language` if known, `metadata` and `expires_at` if
/// present, and `vector` on request. An import accepts these lines unchanged: with vectors in a collection of vectors,
/// otherwise without.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct DocumentLines(pub String);

/// What to export besides the documents.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ExportInclude {
    /// The embedding.
    Vector,
}

/// What to export.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExportParameters {
    /// `vector`: adds the embedding to each document that is a single embedded passage.
    #[param(value_type = Option<ExportInclude>)]
    pub include: Option<String>,
}

/// How to read a file.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ImportParameters {
    /// Types of metadata columns of a CSV or TSV file: `string`, `int`, `float`, `bool` or `date`. Cells are strings by
    /// default.
    #[param(example = "year:int,published:date")]
    pub types: Option<String>,
}

/// Import documents
///
/// Receives a file of any size and starts a job that stores its documents; a document whose id already exists is replaced. The
/// body may be compressed with gzip or zstd, as `Content-Encoding` says. Once the response arrives, no line is lost: the job
/// resumes after a restart. An invalid line does not affect the others: the job's results have the outcome of each line. The job
/// has succeeded once all of its documents can be found.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/import", tag = "import_export",
    params(ImportParameters),
    request_body(
        description = "The documents.",
        content(
            (DocumentFile = "application/x-ndjson", example = json!("{\"id\":\"fr-1\",\"text\":\"Le train est en retard.\"}\n")),
            (DocumentFile = "application/octet-stream", example = json!("{\"id\":\"fr-1\",\"text\":\"Le train est en retard.\"}\n")),
            (DocumentFile = "text/csv", example = json!("id,text,year\r\nfr-1,\"Le train, lui, est en retard.\",2026\r\n")),
            (DocumentFile = "text/tab-separated-values", example = json!("id\ttext\tyear\nfr-1\tLe train est en retard.\t2026\n")),
        ),
    ),
    responses((
        status = 202, description = "The file was received; the job stores it.", body = Job,
        headers(("location" = String, description = "Path of the job.")),
    )),
)]
pub async fn import_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    parameters: Parameters<ImportParameters>,
    request: Request,
) -> Result<AcceptedJob, ApiError> {
    let file = parameters.read(|given| import_file(request.headers(), given.types.as_deref()))?;
    let collection = api.service.collection(&collection)?;
    let job = collection.import(file, request.into_body().into_data_stream()).await?;
    Ok(AcceptedJob(job))
}

/// Export documents
///
/// Streams all documents in the order of their ids, compressed with zstd or gzip if `Accept-Encoding` lists one of them. A
/// document that exists throughout appears exactly once; one that is stored or deleted meanwhile may or may not appear. An export
/// that fails midway is cut off, which HTTP clients report. For a consistent copy, create a snapshot.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/export", tag = "import_export",
    params(ExportParameters),
    responses((
        status = 200, description = "The documents.", body = DocumentLines, content_type = "application/x-ndjson",
        example = json!("{\"id\":\"fr-1\",\"text\":\"Le train est en retard.\",\"language\":\"fr\",\"metadata\":{\"year\":2026}}\n"),
    )),
)]
pub async fn export_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    parameters: Parameters<ExportParameters>,
) -> Result<(Extension<CompressLines>, [(HeaderName, &'static str); 1], Body), ApiError> {
    let vectors = parameters.read(|given| match given.include.as_deref() {
        None => Ok(false),
        Some("vector") => Ok(true),
        Some(other) => Err(ApiError::parameter(Code::InvalidRequest, "include", format!("must be vector, got {other:?}"))),
    })?;
    let mut export = api.service.collection(&collection)?.export(vectors)?;
    // Errors at the beginning are reported like those of every other operation.
    let first = export.next().await?;
    Ok((Extension(CompressLines), [(CONTENT_TYPE, NDJSON)], Body::from_stream(export_lines(first, export))))
}

/// Documents of an export with their embeddings.
type Exported = Vec<(Document, Option<Embedding>)>;

/// The pages of an export. A failure cuts the stream off, so that the client cannot take it for complete.
fn export_lines(first: Exported, export: Export) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::try_unfold((Some(first), export), |(first, mut export)| async move {
        let documents = match first {
            Some(documents) => documents,
            None => match export.next().await {
                Ok(documents) => documents,
                Err(error) => {
                    tracing::warn!(cause = error.chain(), "an export ended early");
                    // The connection sends the beginning of the response before it sees the error.
                    tokio::task::yield_now().await;
                    return Err(io::Error::other(error));
                }
            },
        };
        if documents.is_empty() {
            return Ok(None);
        }
        let mut lines = Vec::new();
        documents.into_iter().for_each(|(document, embedding)| lines.extend(to_ndjson_line(document, embedding)));
        Ok(Some((lines, (None, export))))
    })
}

fn to_ndjson_line(document: Document, embedding: Option<Embedding>) -> Vec<u8> {
    let line = DocumentInput {
        id: Some(document.id.as_str().to_owned()),
        title: document.title,
        // None in a collection of vectors, where text is optional.
        text: Some(document.text).filter(|text| !text.is_empty()),
        vector: embedding.map(|embedding| embedding.as_slice().to_vec()),
        language: document.language.map(|language| language.code().to_owned()),
        metadata: Some(MetadataObject(document.metadata)).filter(|metadata| !metadata.0.is_empty()),
        expires_at: document.expires_at_ms.map(rfc3339),
        ttl_seconds: None,
    };
    // Strings, numbers and JSON values can always be written as JSON.
    let mut json = serde_json::to_vec(&line).unwrap_or_default();
    json.push(b'\n');
    json
}

/// What the headers say about the body.
fn import_file(headers: &HeaderMap, types: Option<&str>) -> Result<ImportFile, ApiError> {
    let encoding = content_encoding(headers)?;
    let expected = "must be application/x-ndjson, application/octet-stream, text/csv or text/tab-separated-values, in UTF-8";
    let format = check_content_type(headers, expected, |media_type| match media_type {
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/octet-stream" => {
            Some(FileFormat::Ndjson)
        }
        "text/csv" => Some(FileFormat::Csv),
        "text/tab-separated-values" => Some(FileFormat::Tsv),
        _ => None,
    })?;
    let announced = read_header(headers, CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok());
    let wrong = |detail: String| ApiError::parameter(Code::InvalidRequest, "types", detail);
    if types.is_some() && format == FileFormat::Ndjson {
        return Err(wrong("must be left out, because values in JSON have types; it is for CSV and TSV".to_owned()));
    }
    let types = types.map(ColumnTypes::parse).transpose().map_err(wrong)?.unwrap_or_default();
    Ok(ImportFile { format, encoding, types, announced })
}
