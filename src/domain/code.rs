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
    /// A field is missing, unknown, of the wrong type or outside its limits.
    InvalidRequest = ("invalid_request", 422, Client);
    /// A cursor was not made by this server, or for another list.
    InvalidCursor = ("invalid_cursor", 422, Client);
    /// A language is not among the supported ones.
    UnknownLanguage = ("unknown_language", 422, Client);
    /// A filter has an unknown operator, field or value type.
    InvalidFilter = ("invalid_filter", 422, Client);
    /// The model is not loaded on this server.
    UnknownModel = ("unknown_model", 422, Client);
    /// There is no collection of this name.
    CollectionNotFound = ("collection_not_found", 404, Client);
    /// There is no document with this id in the collection.
    DocumentNotFound = ("document_not_found", 404, Client);
    /// There is no route for this path.
    RouteNotFound = ("route_not_found", 404, Client);
    /// The path exists, but not with this method.
    MethodNotAllowed = ("method_not_allowed", 405, Client);
    /// A collection of this name exists already.
    CollectionExists = ("collection_exists", 409, Client);
    /// The collection was made with another model than the one that is loaded.
    ModelMismatch = ("model_mismatch", 409, Client);
    /// The request body is larger than the limit.
    BodyTooLarge = ("body_too_large", 413, Client);
    /// The content type is not application/json.
    UnsupportedMediaType = ("unsupported_media_type", 415, Client);
    /// The server holds as many collections as it may.
    TooManyCollections = ("too_many_collections", 409, Client);
    /// A queue is full; retry after the time that Retry-After gives.
    Overloaded = ("overloaded", 503, Capacity);
    /// The server is starting or stopping; retry after the time that Retry-After gives.
    Unavailable = ("unavailable", 503, Capacity);
    /// The disk is full or read-only: reads work, writes do not.
    StorageUnavailable = ("storage_unavailable", 503, Capacity);
    /// The server failed; the request id leads to the cause in its log.
    Internal = ("internal", 500, Server);
}
