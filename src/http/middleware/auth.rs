//! The checks before every handler: whether the server is stopping, what other servers changed, the key, its scope and its
//! collections, the traffic limits, query parameters and bodies of operations that have none, and the timeout.

use std::sync::Arc;
use std::time::Duration;

use axum::RequestExt as _;
use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Body as _;

use super::access::{Access, CollectionAccess};
use super::caller_record::CallerRecord;
use super::hosts::{check_host_and_origin, requested_host};
use super::permit_body::PermitBody;
use super::read_progress::ReadProgress;
use super::traffic::{ClientAddress, TrafficLimits, limit_error};
use crate::domain::{Caller, Code, CollectionName, QuotaOwner, Scope};
use crate::http::api::Api;
use crate::http::error::ApiError;
use crate::http::openapi::operations::{MCP_ID, Operation, Operations};
use crate::http::request::body::refuse_body;
use crate::http::request::extract::check_no_parameters;
use crate::http::settings::Settings;
use crate::service::Service;
use crate::service::limits::shares::SharedLimit;

/// The scheme of the header `authorization`, in lower case, with the space after it.
const BEARER: &str = "bearer ";

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// How long monitoring waits for the changes of other servers.
const WATCH_SYNC_MAX: Duration = Duration::from_secs(1);

/// The middleware before the handlers: keys, limits, timeout.
#[derive(Clone)]
pub struct AuthMiddleware {
    service: Service,
    settings: Arc<Settings>,
    traffic: Arc<TrafficLimits>,
    operations: &'static Operations,
}

impl AuthMiddleware {
    pub fn new(service: Service, settings: Settings, operations: &'static Operations) -> Self {
        let traffic = TrafficLimits::new(&settings);
        Self { service, settings: Arc::new(settings), traffic, operations }
    }

    /// The limits that all requests share.
    pub fn bounds(&self) -> Vec<Arc<SharedLimit>> {
        let mut bounds = self.traffic.bounds().to_vec();
        bounds.extend(self.service.shared_bounds());
        bounds
    }

    /// Waits until this server knows what other servers had acknowledged before.
    async fn sync_catalog(&self, limit: Duration) -> Result<(), ApiError> {
        match tokio::time::timeout(limit, self.service.sync_catalog()).await {
            Ok(synced) => Ok(synced?),
            Err(_) => Err(ApiError::new(Code::StorageUnavailable, "the database server does not answer in time")),
        }
    }

    fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        if !self.service.requires_key() {
            return Ok(Caller::Anyone);
        }
        let refuse = |detail: &str| ApiError::new(Code::Unauthorized, detail);
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let Some(header) = given.next() else {
            return Err(refuse("this server needs a key in the header \"authorization: Bearer KEY\"; the request has none"));
        };
        if given.next().is_some() {
            return Err(refuse("the header authorization must be given only once"));
        }
        let secret = header.to_str().ok().and_then(|text| {
            let scheme = text.get(..BEARER.len())?;
            scheme.eq_ignore_ascii_case(BEARER).then(|| text[BEARER.len()..].trim())
        });
        // The error does not quote the header, which may contain a mistyped secret.
        let secret = secret.ok_or_else(|| refuse("the header authorization must be \"Bearer KEY\", with a single space"))?;
        Ok(self.service.authenticate(secret)?)
    }
}

/// Lets a request through to its handler, or refuses it. HTTP/1.1 can only continue after the request's body, so the connection
/// is closed after an error that was returned before its end. The response announces this; otherwise the client would send its
/// next request on a connection that is being closed.
pub async fn authorize(State(auth): State<AuthMiddleware>, request: Request, next: Next) -> Response {
    let (request, progress) = ReadProgress::track(request);
    let mut response = admit(&auth, request, next).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if is_error && !progress.is_complete() {
        response.headers_mut().insert(CONNECTION, CLOSE);
    }
    response
}

async fn admit(auth: &AuthMiddleware, mut request: Request, next: Next) -> Response {
    let operation = auth.operations.for_request(&request);
    if let Err(error) = requested_host(&request) {
        return error.into_response();
    }
    if *auth.settings.stop.borrow() && operation.id != "check_health" {
        let error = ApiError::new(Code::Unavailable, "the server is stopping");
        return ([(CONNECTION, CLOSE)], error).into_response();
    }
    let Access::Key(scope, collections) = operation.access else { return next.run(request).await };
    let address = request.extensions().get::<ClientAddress>().map(|ClientAddress(address)| *address);
    // Monitoring gets a response even if all permits are taken, because that is exactly what it must detect.
    let watches = operation.id == "get_metrics";
    let admitted = async {
        if watches && auth.settings.metrics_open {
            return Ok((None, None, Caller::Anyone));
        }
        let limit = if watches { WATCH_SYNC_MAX } else { auth.settings.request_timeout };
        let synced = auth.sync_catalog(limit).await;
        // While the database does not answer or is slow, monitoring is admitted with the keys that this server knows.
        if !watches {
            synced?;
        }
        if !auth.service.requires_key() {
            check_host_and_origin(&request, &auth.settings.hosts, &auth.settings.cors_origins)?;
        }
        let caller = match auth.caller(request.headers()) {
            Ok(caller) => caller,
            // A failed attempt counts towards the limits of its address, which slows down guessing.
            Err(error) => return Err(auth.traffic.admit(QuotaOwner::for_address(address)).err().unwrap_or(error)),
        };
        if let Some(record) = request.extensions().get::<CallerRecord>() {
            record.set(&caller);
        }
        let owner = QuotaOwner::for_caller(&caller, address);
        let event_stream = match operation.id.as_str() {
            "watch_job" => Some(auth.traffic.acquire_event_stream(owner.clone())?),
            _ if watches => None,
            _ => Some(auth.traffic.acquire_request(owner.clone())?),
        };
        let admission = if watches { None } else { Some(auth.traffic.admit(owner)?) };
        check_permissions(&caller, scope, collections, &mut request).await?;
        Ok((event_stream, admission, caller))
    };
    let (event_stream, admission, caller) = match admitted.await {
        Ok(admitted) => admitted,
        Err(error) => return error.into_response(),
    };
    let memory = auth.service.request_memory(QuotaOwner::for_caller(&caller, address));
    request.extensions_mut().insert(caller);
    let response = memory.clone().scope(run(operation, &auth.settings, request, next)).await;
    memory.release_body();
    let held = response.body().size_hint().exact().map_or(Ok(()), |bytes| memory.answer_at_least(bytes));
    // The result of a write is reported in any case; its response is small compared to the request.
    if let (Err(refusal), Scope::Read, false) = (held, scope, watches) {
        return limit_error(refusal).into_response();
    }
    response.map(|body| Body::new(PermitBody::new(body, (event_stream, admission, memory))))
}

/// Lets a request through that was made inside another one, whose caller is known and already holds its permits.
pub async fn authorize_inner(State(auth): State<AuthMiddleware>, mut request: Request, next: Next) -> Response {
    let operation = auth.operations.for_request(&request);
    let caller = request.extensions().get::<Caller>().cloned();
    let (Access::Key(scope, collections), Some(caller)) = (operation.access, caller) else {
        return ApiError::internal("a request within another one has no caller, or asks for no operation").into_response();
    };
    if let Some(record) = request.extensions().get::<CallerRecord>() {
        record.set(&caller);
    }
    match check_permissions(&caller, scope, collections, &mut request).await {
        Ok(()) => run(operation, &auth.settings, request, next).await,
        Err(error) => error.into_response(),
    }
}

async fn check_permissions(
    caller: &Caller,
    scope: Scope,
    collections: CollectionAccess,
    request: &mut Request,
) -> Result<(), ApiError> {
    if caller.scope() < scope {
        let (has, needs) = (caller.scope().name(), scope.name());
        return Err(ApiError::new(Code::Forbidden, format!("the key has scope {has}, but this needs {needs}")));
    }
    if caller.collections().is_none() {
        return Ok(());
    }
    match collections {
        CollectionAccess::Server | CollectionAccess::Handler => Ok(()),
        CollectionAccess::Everything => {
            Err(ApiError::new(Code::Forbidden, "the key is restricted to some collections, but this affects the whole server"))
        }
        CollectionAccess::Path => {
            let params = request.extract_parts::<RawPathParams>().await;
            let params = params.map_err(|_| ApiError::new(Code::Forbidden, "the path does not name a collection of this key"))?;
            let value = params.iter().find(|(name, _)| *name == "collection").map_or("", |(_, value)| value);
            match CollectionName::parse(value) {
                Ok(name) => check_access(caller, &name),
                Err(error) => Err(ApiError::parameter(Code::Forbidden, "collection", error.to_string())),
            }
        }
    }
}

/// Refuses a collection that the caller may not access, without revealing whether it exists.
pub fn check_access(caller: &Caller, collection: &CollectionName) -> Result<(), ApiError> {
    if caller.may_access(collection) {
        return Ok(());
    }
    Err(ApiError::new(Code::Forbidden, format!("the key is restricted to collections other than {collection}")))
}

/// Runs the handler within the timeout, unless the request has query parameters or a body and the operation has none.
async fn run(operation: &Operation, settings: &Settings, request: Request, next: Next) -> Response {
    if !operation.has_query
        && let Err(error) = check_no_parameters(request.uri())
    {
        return error.into_response();
    }
    let limit = settings.request_timeout;
    let request = match operation.has_body {
        true => request,
        false => match tokio::time::timeout(limit, refuse_body(request)).await {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => return error.into_response(),
            Err(_) => return body_late(limit).into_response(),
        },
    };
    if operation.streams {
        return next.run(request).await;
    }
    // The request inside an MCP call has the whole timeout to itself, and reports a timeout with its own error.
    let parts = if operation.id == MCP_ID { 2 } else { 1 };
    // A request inside another one has no such record, because its body is complete.
    let received = request.extensions().get::<ReadProgress>().cloned();
    match tokio::time::timeout(limit * parts, next.run(request)).await {
        Ok(response) => response,
        Err(_) if received.is_some_and(|received| !received.is_complete()) => body_late(limit).into_response(),
        Err(_) => timed_out(limit).into_response(),
    }
}

/// Makes the error for a request that took too long. A write in the queue is carried out although its caller has stopped waiting.
fn timed_out(limit: Duration) -> ApiError {
    let limit = limit.as_secs_f64();
    let after = "its writes so far stay, and the one in progress may still be stored";
    ApiError::new(Code::RequestTimeout, format!("the request took longer than {limit} s (request_timeout_s); {after}"))
}

/// Makes the error for a request whose body did not arrive in time, so that it has written nothing.
fn body_late(limit: Duration) -> ApiError {
    let limit = limit.as_secs_f64();
    let detail = format!("the body did not arrive within {limit} s (request_timeout_s); nothing of it is stored");
    ApiError::new(Code::RequestTimeout, detail)
}

/// Who sent the request, for handlers that must know: those declared with `CollectionAccess::Handler`.
impl FromRequestParts<Api> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _api: &Api) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| ApiError::internal("a handler asks who called, but its route asks for no key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_says_what_may_be_stored() {
        let limit = Duration::from_secs(60);
        let expect = "the request took longer than 60 s (request_timeout_s); its writes so far stay, and the one in progress may";
        assert!(format!("{:?}", timed_out(limit)).contains(expect), "{:?}", timed_out(limit));
        let expect = "the body did not arrive within 60 s (request_timeout_s); nothing of it is stored";
        assert!(format!("{:?}", body_late(limit)).contains(expect), "{:?}", body_late(limit));
    }
}
