//! The closed list of error codes: name, HTTP status, and who has to act. The API sends the name; clients branch on it.

/// Who has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The request is wrong; the message says how.
    Client,
    /// The server has reached a limit; the same request may succeed later.
    Capacity,
    /// The server failed; the log says why.
    Server,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = ($name:literal, $status:literal, $blame:ident);)+) => {
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
            pub fn blame(self) -> Blame {
                match self { $(Code::$variant => Blame::$blame,)+ }
            }

            /// One sentence for the documentation.
            pub fn summary(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),+).trim_ascii_start(),)+ }
            }
        }
    };
}

codes! {
    /// The body is not well-formed JSON or not valid UTF-8.
    MalformedJson = ("malformed_json", 400, Client);
    /// The file is incomplete, or not in the format or encoding that its headers declare.
    MalformedFile = ("malformed_file", 400, Client);
    /// A field is missing, unknown, of the wrong type or outside its limits.
    InvalidRequest = ("invalid_request", 422, Client);
    /// The cursor was not issued by this server, or belongs to another list.
    InvalidCursor = ("invalid_cursor", 422, Client);
    /// The language is not supported.
    UnknownLanguage = ("unknown_language", 422, Client);
    /// A filter has an unknown operator, field or value type.
    InvalidFilter = ("invalid_filter", 422, Client);
    /// The classifier has no such label.
    UnknownLabel = ("unknown_label", 422, Client);
    /// The classifier cannot learn from these labels: there are none, only one, or too many, or a value is not a label.
    InvalidTrainingSet = ("invalid_training_set", 422, Client);
    /// The model is not loaded on this server.
    UnknownModel = ("unknown_model", 422, Client);
    /// The collection has no model, so it cannot be searched by text; send a vector.
    NoModel = ("no_model", 422, Client);
    /// The request has no key, or its key is unknown or has expired.
    Unauthorized = ("unauthorized", 401, Client);
    /// The `host` header is not a valid host, or was sent more than once.
    InvalidHost = ("invalid_host", 400, Client);
    /// The server has no keys, so it answers only to the names of this machine and those in its `hosts` setting.
    HostNotAllowed = ("host_not_allowed", 403, Client);
    /// The server has no keys, and the request comes from a web page of another origin.
    OriginNotAllowed = ("origin_not_allowed", 403, Client);
    /// The key does not allow this: its scope is too narrow, or it is restricted to other collections.
    Forbidden = ("forbidden", 403, Client);
    /// There is no collection with this name.
    CollectionNotFound = ("collection_not_found", 404, Client);
    /// There is no alias with this name.
    AliasNotFound = ("alias_not_found", 404, Client);
    /// There is no document with this id in the collection.
    DocumentNotFound = ("document_not_found", 404, Client);
    /// There is no key with this id.
    KeyNotFound = ("key_not_found", 404, Client);
    /// There is no classifier with this name.
    ClassifierNotFound = ("classifier_not_found", 404, Client);
    /// There is no job with this id; the server forgets finished jobs after a while.
    JobNotFound = ("job_not_found", 404, Client);
    /// There is no snapshot with this id.
    SnapshotNotFound = ("snapshot_not_found", 404, Client);
    /// The collection has no projection with this center.
    ProjectionNotFound = ("projection_not_found", 404, Client);
    /// There is no route for this path.
    RouteNotFound = ("route_not_found", 404, Client);
    /// The path exists, but does not support this method.
    MethodNotAllowed = ("method_not_allowed", 405, Client);
    /// A collection with this name already exists.
    CollectionExists = ("collection_exists", 409, Client);
    /// The name belongs to an alias; use the name of a collection, or a free one.
    AliasExists = ("alias_exists", 409, Client);
    /// This is the last key that can create other keys, so it cannot be deleted.
    LastAdminKey = ("last_admin_key", 409, Client);
    /// The job has finished and can no longer be canceled.
    JobFinished = ("job_finished", 409, Client);
    /// The job has not succeeded, or its type has no such results.
    NoResults = ("no_results", 409, Client);
    /// A snapshot with this id already exists.
    SnapshotExists = ("snapshot_exists", 409, Client);
    /// The collection or classifier was built with a model other than the loaded one.
    ModelMismatch = ("model_mismatch", 409, Client);
    /// The collection already uses the server's model, so there is nothing to re-embed.
    ModelCurrent = ("model_current", 409, Client);
    /// An unfinished job already does this; the detail names it.
    JobRunning = ("job_running", 409, Client);
    /// The collection has too few documents with embeddings for this.
    TooFewDocuments = ("too_few_documents", 409, Client);
    /// A classifier of this name exists already.
    ClassifierExists = ("classifier_exists", 409, Client);
    /// The classifier is still training, or its training failed.
    ClassifierNotReady = ("classifier_not_ready", 409, Client);
    /// The server has reached its maximum number of classifiers.
    TooManyClassifiers = ("too_many_classifiers", 409, Client);
    /// The idempotency key was already used for a different request.
    IdempotencyConflict = ("idempotency_conflict", 409, Client);
    /// The document does not have the version that the request requires.
    PreconditionFailed = ("precondition_failed", 412, Client);
    /// The request body is larger than the limit.
    BodyTooLarge = ("body_too_large", 413, Client);
    /// The response would be larger than the limit; ask for fewer hits, or leave out their texts.
    AnswerTooLarge = ("answer_too_large", 422, Client);
    /// The operation does not accept this content type or content encoding.
    UnsupportedMediaType = ("unsupported_media_type", 415, Client);
    /// The server has reached its maximum number of collections.
    TooManyCollections = ("too_many_collections", 409, Client);
    /// The server has reached its maximum number of keys.
    TooManyKeys = ("too_many_keys", 409, Client);
    /// The caller sends too many requests; retry after the time given in Retry-After.
    RateLimited = ("rate_limited", 429, Capacity);
    /// The request took longer than the server allows; its writes may still be stored.
    RequestTimeout = ("request_timeout", 503, Capacity);
    /// The snapshot's archive is damaged, or has a version that this server does not know.
    InvalidSnapshot = ("invalid_snapshot", 422, Client);
    /// A queue is full; retry after the time given in Retry-After.
    Overloaded = ("overloaded", 503, Capacity);
    /// The document is stored but not embedded yet, so it cannot be searched with; retry after the time given in Retry-After.
    DocumentPending = ("document_pending", 503, Capacity);
    /// The server is starting or stopping; retry after the time given in Retry-After.
    Unavailable = ("unavailable", 503, Capacity);
    /// The disk is full or read-only: reads work, writes do not.
    StorageUnavailable = ("storage_unavailable", 503, Capacity);
    /// The collection's database is damaged at the place that the detail names; damaged data is never returned.
    CollectionDamaged = ("collection_damaged", 500, Server);
    /// The server failed; its log has the cause under the request id.
    Internal = ("internal", 500, Server);
}
