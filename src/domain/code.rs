//! The closed list of error codes: name, status number and who is to blame. The wire sends the name; clients switch on it.

/// Who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The request is wrong; the message says how.
    Client,
    /// The server is at a bound; the same request may work later.
    Capacity,
    /// The server failed; the log says how.
    Server,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = ($name:literal, $status:literal, $blame:ident);)+) => {
        /// Why a request failed. `ALL` lists them; each is documented on every route that can answer with it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)+ }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// The name on the wire, in snake case.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)+ }
            }

            /// The HTTP status number.
            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)+ }
            }

            /// Who can mend it.
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
    /// A file ended before it was complete, or is not in the format or encoding that its headers name.
    MalformedFile = ("malformed_file", 400, Client);
    /// A field is missing, unknown, of the wrong type or outside its limits.
    InvalidRequest = ("invalid_request", 422, Client);
    /// A cursor was not made by this server, or for another list.
    InvalidCursor = ("invalid_cursor", 422, Client);
    /// A language is not among the supported ones.
    UnknownLanguage = ("unknown_language", 422, Client);
    /// A filter has an unknown operator, field or value type.
    InvalidFilter = ("invalid_filter", 422, Client);
    /// A label is not among those of the classifier.
    UnknownLabel = ("unknown_label", 422, Client);
    /// The labels cannot be learned from: there are none, only one, too many, or values that are no labels.
    InvalidTrainingSet = ("invalid_training_set", 422, Client);
    /// The model is not loaded on this server.
    UnknownModel = ("unknown_model", 422, Client);
    /// The collection has no model, so it cannot take a text as a query: send a vector.
    NoModel = ("no_model", 422, Client);
    /// The request has no key, or one that this server does not know or that has expired.
    Unauthorized = ("unauthorized", 401, Client);
    /// The header `host` is no host, or was sent more than once.
    InvalidHost = ("invalid_host", 400, Client);
    /// The server has no keys, and answers only under the names of this machine and those of its setting `hosts`.
    HostNotAllowed = ("host_not_allowed", 403, Client);
    /// The server has no keys, and the request comes from a web page of another origin.
    OriginNotAllowed = ("origin_not_allowed", 403, Client);
    /// The key may not do this: its scope is too narrow, or it is restricted to other collections.
    Forbidden = ("forbidden", 403, Client);
    /// There is no collection of this name.
    CollectionNotFound = ("collection_not_found", 404, Client);
    /// There is no alias of this name.
    AliasNotFound = ("alias_not_found", 404, Client);
    /// There is no document with this id in the collection.
    DocumentNotFound = ("document_not_found", 404, Client);
    /// There is no key with this id.
    KeyNotFound = ("key_not_found", 404, Client);
    /// There is no classifier of this name.
    ClassifierNotFound = ("classifier_not_found", 404, Client);
    /// There is no job with this id; finished ones are forgotten after a while.
    JobNotFound = ("job_not_found", 404, Client);
    /// There is no snapshot with this id.
    SnapshotNotFound = ("snapshot_not_found", 404, Client);
    /// The collection has no projection with this center.
    ProjectionNotFound = ("projection_not_found", 404, Client);
    /// There is no route for this path.
    RouteNotFound = ("route_not_found", 404, Client);
    /// The path exists, but not with this method.
    MethodNotAllowed = ("method_not_allowed", 405, Client);
    /// A collection of this name exists already.
    CollectionExists = ("collection_exists", 409, Client);
    /// The name is that of an alias, where a collection's own or a free one is needed.
    AliasExists = ("alias_exists", 409, Client);
    /// Without this key nobody could make keys any more.
    LastAdminKey = ("last_admin_key", 409, Client);
    /// The job is over and cannot be canceled.
    JobFinished = ("job_finished", 409, Client);
    /// The job has not succeeded, so far or at all, or is of a type without such results.
    NoResults = ("no_results", 409, Client);
    /// A snapshot with this id exists already.
    SnapshotExists = ("snapshot_exists", 409, Client);
    /// The collection or the classifier was made with another model than the one that is loaded.
    ModelMismatch = ("model_mismatch", 409, Client);
    /// The collection is of the server's model already, so there is nothing to embed anew.
    ModelCurrent = ("model_current", 409, Client);
    /// An unfinished job does the same already; the detail names it.
    JobRunning = ("job_running", 409, Client);
    /// The collection has too few documents with embeddings for this.
    TooFewDocuments = ("too_few_documents", 409, Client);
    /// A classifier of this name exists already.
    ClassifierExists = ("classifier_exists", 409, Client);
    /// The classifier is still training, or its training failed.
    ClassifierNotReady = ("classifier_not_ready", 409, Client);
    /// The server holds as many classifiers as it may.
    TooManyClassifiers = ("too_many_classifiers", 409, Client);
    /// The idempotency key belongs to another request.
    IdempotencyConflict = ("idempotency_conflict", 409, Client);
    /// The document has another version than the request demands.
    PreconditionFailed = ("precondition_failed", 412, Client);
    /// The request body is larger than the limit.
    BodyTooLarge = ("body_too_large", 413, Client);
    /// The answer would be larger than the limit: ask for fewer hits, or leave texts out of them.
    AnswerTooLarge = ("answer_too_large", 422, Client);
    /// The content type or content encoding is none that the operation takes.
    UnsupportedMediaType = ("unsupported_media_type", 415, Client);
    /// The server holds as many collections as it may.
    TooManyCollections = ("too_many_collections", 409, Client);
    /// The server holds as many keys as it may.
    TooManyKeys = ("too_many_keys", 409, Client);
    /// The caller sends more requests than it may; retry after the time that Retry-After gives.
    RateLimited = ("rate_limited", 429, Capacity);
    /// The request took longer than the server allows. What it was to store may be stored all the same.
    RequestTimeout = ("request_timeout", 503, Capacity);
    /// A snapshot's archive is damaged, or of a version that this server does not know.
    InvalidSnapshot = ("invalid_snapshot", 422, Client);
    /// A queue is full; retry after the time that Retry-After gives.
    Overloaded = ("overloaded", 503, Capacity);
    /// A document is stored but not embedded yet, so nothing can be found by it; retry after the time that Retry-After gives.
    DocumentPending = ("document_pending", 503, Capacity);
    /// The server is starting or stopping; retry after the time that Retry-After gives.
    Unavailable = ("unavailable", 503, Capacity);
    /// The disk is full or read-only: reads work, writes do not.
    StorageUnavailable = ("storage_unavailable", 503, Capacity);
    /// The collection's database is damaged where the request met it; the detail names the place, and nothing damaged is served.
    CollectionDamaged = ("collection_damaged", 500, Server);
    /// The server failed; the request id leads to the cause in its log.
    Internal = ("internal", 500, Server);
}
