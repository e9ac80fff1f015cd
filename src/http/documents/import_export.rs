//! `/v1/collections/{collection}/import` and `/export`: documents as files, streamed both ways.

use std::io::{self, Write as _};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::response::Response;
use futures::stream::{self, Stream};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::domain::timestamps::rfc3339;
use crate::domain::{Code, ColumnTypes, Document, Embedding, FileEncoding, FileFormat, Job, MetadataObject};
use crate::http::api::Api;
use crate::http::error::ApiError;
use crate::http::jobs::{Accepted, accepted_response};
use crate::http::openapi::operation_errors::{OperationErrors, READ_ERRORS};
use crate::http::openapi::operations::{Example, examples};
use crate::http::request::extract::{CollectionPath, Parameters};
use crate::service::documents::export::Export;
use crate::service::documents::import::ImportFile;
use crate::service::documents::input::DocumentInput;

/// The media type of lines of JSON.
pub const NDJSON: &str = "application/x-ndjson";

/// The errors of each operation.
pub const ERRORS: &[OperationErrors] = &[
    (
        "import_documents",
        &[
            READ_ERRORS,
            &[Code::MalformedFile, Code::BodyTooLarge, Code::UnsupportedMediaType],
            &[Code::CollectionNotFound, Code::ModelMismatch, Code::Overloaded],
        ],
    ),
    ("export_documents", &[READ_ERRORS, &[Code::CollectionNotFound]]),
];

/// Examples of their bodies.
pub const EXAMPLES: &[Example] = examples!["import_documents.202"];

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
/// body may be compressed with gzip or zstd, as `Content-Encoding` says. Once the response arrives, the file is durable: the
/// job resumes after a restart of the server, and no line is lost. An invalid line does not affect the others: the job's
/// results have the outcome of each line. The job has succeeded once all of its documents can be found.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/import", tag = "import_export",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news"), ImportParameters),
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
) -> Result<Accepted, ApiError> {
    let file = parameters.read(|given| import_file(request.headers(), given.types.as_deref()))?;
    let collection = api.service.collection(&collection)?;
    let job = collection.import(file, request.into_body().into_data_stream()).await?;
    Ok(accepted_response(job))
}

/// Export documents
///
/// Streams all documents in the order of their ids, compressed with zstd or gzip if `Accept-Encoding` lists one of them. The
/// documents are read page by page: a document that exists throughout appears exactly once; one that is stored or deleted
/// meanwhile may or may not appear. An export that fails midway is cut off, which HTTP clients report. For a copy as of one
/// moment, create a snapshot.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/export", tag = "import_export",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news"), ExportParameters),
    responses((
        status = 200, description = "The documents.", body = DocumentLines, content_type = "application/x-ndjson",
        example = json!("{\"id\":\"fr-1\",\"text\":\"Le train est en retard.\",\"language\":\"fr\",\"metadata\":{\"year\":2026}}\n"),
    )),
)]
pub async fn export_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    parameters: Parameters<ExportParameters>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let vectors = parameters.read(|given| match given.include.as_deref() {
        None => Ok(false),
        Some("vector") => Ok(true),
        Some(other) => Err(ApiError::parameter(Code::InvalidRequest, "include", format!("must be vector, got {other:?}"))),
    })?;
    let encoding = accepted_encoding(&headers);
    let mut export = api.service.collection(&collection)?.export(vectors)?;
    // Errors at the beginning are reported like those of every other operation.
    let first = export.next().await?;
    let packer = Compressor::new(encoding).map_err(|error| ApiError::internal(error.to_string()))?;
    let mut answer = Response::builder().header(CONTENT_TYPE, NDJSON).header(VARY, "accept-encoding");
    if encoding != FileEncoding::Identity {
        answer = answer.header(CONTENT_ENCODING, encoding.name());
    }
    let body = Body::from_stream(export_stream(first, export, packer));
    answer.body(body).map_err(|error| ApiError::internal(error.to_string()))
}

/// Documents of an export with their embeddings.
type Exported = Vec<(Document, Option<Embedding>)>;

/// The pages of an export, compressed. A failure cuts the stream off, so that the client cannot take it for complete.
fn export_stream(first: Exported, export: Export, packer: Compressor) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::try_unfold((Some(first), export, Some(packer)), |(mut first, mut export, packer)| async move {
        let Some(mut packer) = packer else { return Ok(None) };
        loop {
            let documents = match first.take() {
                Some(documents) => documents,
                None => export.next().await.map_err(|error| {
                    tracing::warn!(cause = error.chain(), "an export ended early");
                    io::Error::other(error)
                })?,
            };
            if documents.is_empty() {
                return Ok(Some((packer.finish()?, (None, export, None))));
            }
            for (document, embedding) in documents {
                packer.add(&to_ndjson_line(document, embedding))?;
            }
            let packed = packer.take();
            // A compressor may buffer a page for a while.
            if !packed.is_empty() {
                return Ok(Some((packed, (None, export, Some(packer)))));
            }
        }
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

/// Compresses what is added.
enum Compressor {
    Identity(Vec<u8>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Compressor {
    fn new(encoding: FileEncoding) -> io::Result<Self> {
        Ok(match encoding {
            FileEncoding::Identity => Self::Identity(Vec::new()),
            FileEncoding::Gzip => Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast())),
            FileEncoding::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(Vec::new(), 1)?),
        })
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Identity(packed) => packed.extend_from_slice(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes)?,
            Self::Zstd(encoder) => encoder.write_all(bytes)?,
        }
        Ok(())
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Identity(packed) => packed,
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        })
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Identity(packed) => Ok(packed),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// What the headers say about the body.
fn import_file(headers: &HeaderMap, types: Option<&str>) -> Result<ImportFile, ApiError> {
    let read = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_ascii_lowercase());
    let refuse = |name: &str, detail: String| ApiError::parameter(Code::UnsupportedMediaType, name, detail);
    let encoding = match read(CONTENT_ENCODING).as_deref() {
        None | Some("identity") => FileEncoding::Identity,
        Some("gzip" | "x-gzip") => FileEncoding::Gzip,
        Some("zstd") => FileEncoding::Zstd,
        Some(other) => return Err(refuse("content-encoding", format!("must be gzip, zstd or absent, got {other:?}"))),
    };
    let expected = "must be application/x-ndjson, application/octet-stream, text/csv or text/tab-separated-values, in UTF-8";
    let media_type = read(CONTENT_TYPE).ok_or_else(|| refuse("content-type", format!("{expected}, got none")))?;
    let mut parts = media_type.split(';').map(str::trim);
    let format = match parts.next() {
        Some("application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/octet-stream") => {
            Some(FileFormat::Ndjson)
        }
        Some("text/csv") => Some(FileFormat::Csv),
        Some("text/tab-separated-values") => Some(FileFormat::Tsv),
        _ => None,
    };
    let charset = |part: &str| part.strip_prefix("charset=").is_none_or(|charset| charset.trim_matches('"') == "utf-8");
    let format = format.filter(|_| parts.all(charset));
    let format = format.ok_or_else(|| refuse("content-type", format!("{expected}, got {media_type:?}")))?;
    let announced = read(CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok());
    let wrong = |detail: String| ApiError::parameter(Code::InvalidRequest, "types", detail);
    if types.is_some() && format == FileFormat::Ndjson {
        return Err(wrong("must be left out, because values in JSON have types; it is for CSV and TSV".to_owned()));
    }
    let types = types.map(ColumnTypes::parse).transpose().map_err(wrong)?.unwrap_or_default();
    Ok(ImportFile { format, encoding, types, announced })
}

/// The best compression that the client accepts.
fn accepted_encoding(headers: &HeaderMap) -> FileEncoding {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let offered: Vec<String> = values.flat_map(|value| value.split(',')).map(|part| part.trim().to_ascii_lowercase()).collect();
    let takes = |name: &str| {
        offered.iter().any(|part| {
            let (coding, weight) = part.split_once(';').unwrap_or((part, "q=1"));
            let weight = weight.trim().trim_start_matches("q=").parse::<f32>().unwrap_or(1.0);
            coding.trim() == name && weight > 0.0
        })
    };
    let known = [FileEncoding::Zstd, FileEncoding::Gzip].into_iter().find(|encoding| takes(encoding.name()));
    known.unwrap_or(FileEncoding::Identity)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_compression_is_one_that_the_client_accepts() {
        for (offered, expect) in [
            ("", FileEncoding::Identity),
            ("gzip, deflate, br, zstd", FileEncoding::Zstd),
            ("GZIP", FileEncoding::Gzip),
            ("zstd;q=0, gzip;q=0.5", FileEncoding::Gzip),
            ("br", FileEncoding::Identity),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(offered))]);
            assert_eq!(accepted_encoding(&headers), expect, "{offered:?}");
        }
    }
}
