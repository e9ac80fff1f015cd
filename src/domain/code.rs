//! The closed list of error codes: name, HTTP status, who has to act, and the documentation of each: cause, example, remedy.
//! The API sends the name, clients branch on it, and docs/errors.md and `/docs/errors` are generated from this list.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Who has to act, in ascending order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorClass {
    /// The request is wrong; the message says how.
    Client,
    /// The server has reached a limit; the same request may succeed later.
    Capacity,
    /// The server failed; the log says why.
    Server,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = ($name:literal, $status:literal, $class:ident, $example:literal, $remedy:literal);)+) => {
        /// Why a request failed. `ALL` lists every code; each is documented on every route that can return it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// The name on the wire, in snake case.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)+ }
            }

            /// The HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)+ }
            }

            /// Who has to act.
            pub fn class(self) -> ErrorClass {
                match self { $(Code::$variant => ErrorClass::$class,)+ }
            }

            /// An example of the `detail` of such an error.
            pub fn example(self) -> &'static str {
                match self { $(Code::$variant => $example,)+ }
            }

            /// What to do about it, in Markdown without links.
            pub fn remedy(self) -> &'static str {
                match self { $(Code::$variant => $remedy,)+ }
            }

            /// The cause, in one sentence.
            pub fn summary(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),+).trim_ascii_start(),)+ }
            }
        }
    };
}

codes! {
    /// The body is not well-formed JSON or not valid UTF-8.
    MalformedJson = ("malformed_json", 400, Client,
        "the body is not well-formed JSON: expected `,` or `}` at line 1 column 12",
        "Send JSON in UTF-8. Let a library write it.");
    /// The file is incomplete, or not in the format or encoding that its headers declare.
    MalformedFile = ("malformed_file", 400, Client,
        "the body ended before it was complete; nothing was accepted",
        "Compare `Content-Type` and `Content-Encoding` with the file, and send the whole file again. Nothing was accepted.");
    /// A field is missing, unknown, of the wrong type or outside its limits.
    InvalidRequest = ("invalid_request", 422, Client,
        "/limit: must be an integer from 1 to 1000 (page_max), got 0",
        "Correct every place that `errors` lists. Each says what was expected and what was received.");
    /// The cursor was not issued by this server, or belongs to another list.
    InvalidCursor = ("invalid_cursor", 422, Client,
        "cursor: must be the unchanged next_cursor of an earlier page of the same list",
        "Send `next_cursor` unchanged, with the filter and order of the first page. Or begin again without a cursor.");
    /// The language is not supported.
    UnknownLanguage = ("unknown_language", 422, Client,
        "/documents/0/language: must be one of the 62 languages that GET /v1/models lists, got \"yue\"",
        "Leave the language out, so that the server detects it, or send one that `GET /v1/models` lists.");
    /// A filter has an unknown operator, field or value type.
    InvalidFilter = ("invalid_filter", 422, Client,
        "/filter/and/1/gt: must be a string or a number, got a boolean",
        "Correct the condition that the pointer names. The filters are in docs/documents.md.");
    /// The classifier has no such label.
    UnknownLabel = ("unknown_label", 422, Client,
        "classifier topics has no label \"sport\", which /documents/0/labels/0 has",
        "Use a label that `GET /v1/classifiers/{classifier}` lists, or train the classifier with the new one.");
    /// The classifier cannot learn from these labels: there are none, only one, or too many, or a value is not a label.
    InvalidTrainingSet = ("invalid_training_set", 422, Client,
        "a prototype classifier must have at least two labels, got 1",
        "Give examples of at least two labels.");
    /// The model is not loaded on this server.
    UnknownModel = ("unknown_model", 422, Client,
        "model \"ems-large\" is not loaded; this server has \"ems-small\"",
        "Leave the model out, or start the server with that model.");
    /// The collection has no model to embed texts with; send a vector.
    NoModel = ("no_model", 422, Client,
        "collection points has no model to embed a text with: it holds your own vectors of 3 values",
        "Send a `vector`, search in mode `lexical`, or create a collection without `dimension`.");
    /// The request has no key, or its key is unknown or has expired.
    Unauthorized = ("unauthorized", 401, Client,
        "key 0198c0de7a117000800000000000000a has expired",
        "Send `authorization: Bearer KEY` with a valid key. An admin creates one with `POST /v1/keys`.");
    /// The `host` header is missing, repeated or not a valid host.
    InvalidHost = ("invalid_host", 400, Client,
        "host: must be a host with an optional port",
        "Send exactly one `host` header. If there is a reverse proxy, check its settings.");
    /// The server has no keys, so it answers only to the names of this machine and those in its `hosts` setting.
    HostNotAllowed = ("host_not_allowed", 403, Client,
        "host: a server without keys answers only to localhost, its addresses and the names in its hosts setting, got db.example.org",
        "Add the name to the `hosts` setting, or create keys.");
    /// The server has no keys, and the request comes from a web page of another origin.
    OriginNotAllowed = ("origin_not_allowed", 403, Client,
        "origin: must be this server's own or one that cors_origins lists, got null",
        "Add the origin to the `cors_origins` setting.");
    /// The key does not allow this: its scope is too narrow, or it is restricted to other collections.
    Forbidden = ("forbidden", 403, Client,
        "the key has scope read, but this needs write",
        "Use a key with the scope and the collection that the request needs.");
    /// There is no collection with this name.
    CollectionNotFound = ("collection_not_found", 404, Client,
        "there is no collection nwes",
        "Check the name against `GET /v1/collections`, or create the collection.");
    /// There is no alias with this name.
    AliasNotFound = ("alias_not_found", 404, Client,
        "there is no alias current",
        "Check the name against `GET /v1/aliases`.");
    /// There is no document with this id in the collection.
    DocumentNotFound = ("document_not_found", 404, Client,
        "there is no document fr-1 in collection news",
        "Check the id. Percent-encode it in a path: `a/b` is `a%2Fb`.");
    /// There is no key with this id.
    KeyNotFound = ("key_not_found", 404, Client,
        "there is no key 0198c0de7a117000800000000000000a",
        "Use an id that `GET /v1/keys` lists. It is not the secret.");
    /// There is no classifier with this name.
    ClassifierNotFound = ("classifier_not_found", 404, Client,
        "there is no classifier topics",
        "Check the name against `GET /v1/classifiers`.");
    /// There is no job with this id; the server forgets finished jobs after a while.
    JobNotFound = ("job_not_found", 404, Client,
        "there is no job 0198c0de-7a11-7000-8000-2f1de5c0ffee",
        "Check the id against `GET /v1/jobs`. Read results before the server forgets the job.");
    /// There is no snapshot with this id.
    SnapshotNotFound = ("snapshot_not_found", 404, Client,
        "there is no snapshot 0198c0de-7a11-7000-8000-2f1de5c0ffee",
        "Check the id against `GET /v1/snapshots`.");
    /// The collection has no projection with this center.
    ProjectionNotFound = ("projection_not_found", 404, Client,
        "collection news has no projection with center none: POST /v1/collections/news/projections computes one",
        "Send the request that the detail names, and wait for its job.");
    /// There is no route with this path.
    RouteNotFound = ("route_not_found", 404, Client,
        "there is no route /v1/v1/collections; give clients the server's address without /v1",
        "Correct the path. All begin with `/v1`, except health, metrics and documentation.");
    /// The path exists, but does not support this method.
    MethodNotAllowed = ("method_not_allowed", 405, Client,
        "the path exists, but supports only GET, POST",
        "Use one of these methods; the header `allow` lists them, too.");
    /// A collection with this name already exists.
    CollectionExists = ("collection_exists", 409, Client,
        "a collection news already exists",
        "Choose another name, or use the existing collection.");
    /// The name belongs to an alias; use the name of a collection, or a free one.
    AliasExists = ("alias_exists", 409, Client,
        "current is an alias of collection news",
        "Name the collection itself, or choose a free name.");
    /// This is the last key that can create other keys, so it cannot be deleted.
    LastAdminKey = ("last_admin_key", 409, Client,
        "this is the only key that can create other keys and never expires; create another such key first",
        "Create another admin key that never expires, then delete this one.");
    /// The job has finished and can no longer be canceled.
    JobFinished = ("job_finished", 409, Client,
        "job 0198c0de-7a11-7000-8000-2f1de5c0ffee has already ended with status succeeded",
        "There is nothing left to do: read the job.");
    /// The job has not succeeded, or its type has no such results.
    NoResults = ("no_results", 409, Client,
        "job 0198c0de-7a11-7000-8000-2f1de5c0ffee is of type import and succeeded; pairs exist once a job of type mine has succeeded",
        "Wait until the job has succeeded, and ask for the results that its type has.");
    /// A snapshot with this id already exists.
    SnapshotExists = ("snapshot_exists", 409, Client,
        "a snapshot 0198c0de-7a11-7000-8000-2f1de5c0ffee already exists",
        "The snapshot is there: restore it, or delete it and upload again.");
    /// The collection or classifier was built with a model other than the loaded one.
    ModelMismatch = ("model_mismatch", 409, Client,
        "collection news was made with model ems-small (fingerprint ec1e2513), but the server has ems-large (fingerprint 5b77f4c1); POST /v1/collections/news/reembed embeds its texts again",
        "Re-embed the collection with `POST …/reembed`, train the classifier again, or load its model.");
    /// The collection already uses the server's model, so there is nothing to re-embed.
    ModelCurrent = ("model_current", 409, Client,
        "collection news already has the server's model ems-small and these passage bounds, so there is nothing to re-embed",
        "There is nothing left to do.");
    /// An unfinished job already does this; the detail names it.
    JobRunning = ("job_running", 409, Client,
        "job 0198c0de-7a11-7000-8000-2f1de5c0ffee is already re-embedding collection news",
        "Wait for the job that the detail names.");
    /// The collection has too few documents with embeddings for this.
    TooFewDocuments = ("too_few_documents", 409, Client,
        "a projection needs at least 10 documents with embeddings, but collection news has 1",
        "Add documents, or wait until theirs are embedded.");
    /// The store on a database server does not offer this; the detail says what to do instead.
    NotSupported = ("not_supported", 409, Client,
        "there are no snapshots if the store is on a database server: back up the database with its own tools",
        "Do what the detail says, or use the store in the data directory.");
    /// A classifier with this name already exists.
    ClassifierExists = ("classifier_exists", 409, Client,
        "a classifier topics already exists",
        "Choose another name, or delete or retrain the existing classifier.");
    /// The classifier is still training, or its training failed.
    ClassifierNotReady = ("classifier_not_ready", 409, Client,
        "classifier topics is not ready: job 0198c0de-7a11-7000-8000-2f1de5c0ffee is still training it",
        "Wait for its job. If the training failed, correct what the job says and train again.");
    /// The server has reached its maximum number of classifiers.
    TooManyClassifiers = ("too_many_classifiers", 409, Client,
        "the server already has 1000 classifiers, the maximum",
        "Delete classifiers.");
    /// The idempotency key was already used for a different request.
    IdempotencyConflict = ("idempotency_conflict", 409, Client,
        "idempotency key \"first-load\" was already used for a different request",
        "Use a new key for a new request. If the detail mentions missing results, read the documents first.");
    /// The document does not have the version that the request requires.
    PreconditionFailed = ("precondition_failed", 412, Client,
        "document fr-1 has version 11",
        "Read the document again, make your change to it, and send its new version in `If-Match`.");
    /// The request body is larger than the limit.
    BodyTooLarge = ("body_too_large", 413, Client,
        "the body may have at most 33554432 bytes (body_bytes_max), got 40000000",
        "Send smaller requests, or import a file. The limit is the setting that the detail names.");
    /// The response would be larger than the limit; ask for fewer hits, or leave out their texts.
    AnswerTooLarge = ("answer_too_large", 422, Client,
        "the response would have 70000000 bytes of texts, metadata and vectors; at most 67108864 are allowed (answer_bytes_max): ask for fewer hits",
        "Ask for fewer hits, or leave `text` out of `include`.");
    /// The operation does not accept this content type or content encoding.
    UnsupportedMediaType = ("unsupported_media_type", 415, Client,
        "content-type: must be application/json, got text/plain",
        "Send a content type and an encoding that the detail lists.");
    /// The server has reached its maximum number of collections.
    TooManyCollections = ("too_many_collections", 409, Client,
        "the server already has 10000 collections, the maximum (collections_max)",
        "Delete collections, or raise `collections_max`. Documents of several tenants can share a collection and a filter.");
    /// The server has reached its maximum number of keys.
    TooManyKeys = ("too_many_keys", 409, Client,
        "the server already has 1000 valid keys, the maximum (keys_max)",
        "Delete keys, or raise `keys_max`.");
    /// The caller sends too many requests; retry after the time given in Retry-After.
    RateLimited = ("rate_limited", 429, Capacity,
        "a caller may send 10 requests per second (rate_per_s), and 20 at once (rate_burst)",
        "Wait as long as `Retry-After` says. Send fewer, larger requests.");
    /// The request, or the arrival of its body, took longer than the server allows.
    RequestTimeout = ("request_timeout", 503, Capacity,
        "the request took longer than 30 s (request_timeout_s); its writes so far stay, and the one in progress may still be stored",
        "Ask for less at once, or raise the limit. Repeat a write only with an `Idempotency-Key` or ids of your own.");
    /// The snapshot's archive is missing or damaged, or has a version that this server does not know.
    InvalidSnapshot = ("invalid_snapshot", 422, Client,
        "the snapshot's archive has two collections named \"news\"",
        "Use another copy of the archive. An archive from a newer server needs a server of that version or newer.");
    /// A queue is full; retry after the time given in Retry-After.
    Overloaded = ("overloaded", 503, Capacity,
        "collection news already has 1024 writes waiting, the maximum (write_queue_max)",
        "Wait as long as `Retry-After` says and repeat. Nothing was stored.");
    /// The document is stored but not embedded yet, so it cannot be searched with; retry after the time given in Retry-After.
    DocumentPending = ("document_pending", 503, Capacity,
        "document fr-1 is stored but still waits for its embedding, so nothing can be compared with it yet",
        "Repeat the request after the time in `Retry-After`.");
    /// The server is starting or stopping; retry after the time given in Retry-After.
    Unavailable = ("unavailable", 503, Capacity,
        "collection news is still recovering: 24576 of 100000 passages are indexed",
        "Repeat after `Retry-After`. `GET /readyz` shows the server's progress.");
    /// The disk is full, read-only or failing, so that at most reads work; or the database server does not answer.
    StorageUnavailable = ("storage_unavailable", 503, Capacity,
        "this needs 1000000 bytes plus a reserve of 67108864, but the disk has 5000000 free",
        "Repeat after `Retry-After`, once the disk works and has room, or the database answers. The server needs no restart.");
    /// The collection's database is damaged at the place that the detail names; damaged data is never returned.
    CollectionDamaged = ("collection_damaged", 500, Server,
        "collection news is damaged: document fr-1 in row 7 of table documents; replace or delete the document to repair it",
        "Copy the data directory first. Then do what the detail says, or restore a snapshot.");
    /// The server failed; its log has the cause under the request id.
    Internal = ("internal", 500, Server,
        "the server failed; its log has the cause under this request id",
        "Find the request id in the log, and report the cause that the log gives.");
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl PartialSchema for Code {
    fn schema() -> RefOr<Schema> {
        let names = Code::ALL.iter().map(|code| code.name());
        let about = "The kind of an error; `/docs/errors` explains each.";
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).description(Some(about)).into()
    }
}

impl ToSchema for Code {
    fn name() -> Cow<'static, str> {
        "ErrorCode".into()
    }
}
