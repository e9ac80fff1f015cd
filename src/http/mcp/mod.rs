//! `/mcp`: the Model Context Protocol, which lets agents use the server as a set of tools, over streamable HTTP and without
//! sessions.
//!
//! A tool call becomes a request to the REST operation behind it (`tools`) and runs through the same routes, with the key of
//! the message that contained it. So both do the same checks, and respond with the same members and errors; only the marks of
//! hits are left out, and long texts are cut.

mod tools;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest, CustomResult, DiscoverRequestParams, ErrorCode,
    ErrorData, Implementation, InitializeRequestParams, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::error::{ApiError, ForeignErrorBody};
use super::middleware::request_id::request_id;
use super::middleware::traffic::limit_error;
use super::openapi::description::Description;
use super::openapi::operations::MCP_PATH;
use super::request::body::receive_json;
use super::request::body_schemas::BodySchema;
use super::request::extract::parse_json;
use crate::domain::{Caller, Code};
use crate::service::Service;
use crate::service::json::shorten;
use crate::service::limits::budget::RequestMemory;
use tools::RestTool;

/// Maximum bytes of a message. It is read as JSON values, which take much more memory than the text.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Number of copies of a message's texts in memory: as received, as values (twice), and as the body of a request (twice).
const MESSAGE_COPIES: u64 = 5;
/// Number of copies of a response in memory: as received, as values, as text, and in the message.
const ANSWER_COPIES: u64 = 5;

/// The instructions that an agent gets before it calls anything.
const INSTRUCTIONS: &str = "Dragoman stores texts in 62 languages and finds the passages that answer a question in any of them. \
    Call list_collections first, then search. Write the query as a question or a phrase in the user's own language; do not \
    translate it. A filter can use the metadata that hits show; count_values shows which values there are. If a call fails, its \
    result has a code, what is wrong, and every wrong argument.";

/// The endpoint. Clones share it.
#[derive(Clone)]
pub struct Mcp {
    protocol: Arc<StreamableHttpService<Tools, NeverSessionManager>>,
    message_bytes_max: usize,
}

#[derive(Clone)]
struct Tools {
    all: Arc<[RestTool]>,
    /// The REST operations, for callers that are already authenticated.
    routes: Router,
}

impl Mcp {
    /// Offers the operations of `routes`, which expect the caller in a request's extensions.
    pub fn new(service: &Service, description: &Description, routes: Router) -> Self {
        let tools = Tools { all: tools::build_tools(description).into(), routes };
        // Host names and origins are checked for all routes alike, in `middleware::auth`.
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let protocol = StreamableHttpService::new(move || Ok(tools.clone()), Arc::default(), config);
        let message_bytes_max = service.limits().body_bytes_max.min(MESSAGE_BYTES_MAX);
        Self { protocol: Arc::new(protocol), message_bytes_max }
    }

    pub async fn serve(self, request: Request) -> Result<Response, ApiError> {
        let (mut head, body) = request.into_parts();
        let max = self.message_bytes_max;
        let message = receive_json(Request::from_parts(head.clone(), body), max).await.map_err(|error| match error.code {
            Code::BodyTooLarge => {
                let detail = format!("a message may have at most {max} bytes; the REST routes and imports take more at once");
                ApiError::new(Code::BodyTooLarge, detail)
            }
            _ => error,
        })?;
        parse_json::<IgnoredAny>(&message)?;
        let memory = RequestMemory::current();
        let values = BodySchema::without_references(&Value::Null).scan(&message, u64::MAX).parsed_bytes;
        memory.add_body(message.len() as u64 * MESSAGE_COPIES + values).map_err(limit_error)?;
        head.extensions.insert(memory);
        retain_protocol_headers(&mut head.headers);
        let mut response = self.protocol.handle(Request::from_parts(head, Body::from(message))).await.map(Body::new);
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let is_json = response.headers().get(CONTENT_TYPE).is_some_and(|media_type| media_type == "application/json");
        if !is_json {
            let text = to_bytes(response.into_body(), MESSAGE_BYTES_MAX).await.unwrap_or_default();
            let text = shorten(String::from_utf8_lossy(&text).into_owned());
            // The protocol requires this status for a version of it that the server does not know.
            if status != StatusCode::BAD_REQUEST {
                let internal = status.is_server_error();
                return Err(if internal { ApiError::internal(text) } else { ApiError::new(Code::InvalidRequest, text) });
            }
            let error = json!({"jsonrpc": "2.0", "error": ErrorData::invalid_request(text, None)});
            response = (status, Json(error)).into_response();
        }
        response.extensions_mut().insert(ForeignErrorBody);
        Ok(response)
    }
}

/// Keeps only the headers that the protocol library reads. The library gets no key, because it logs what it gets. Every client
/// is taken to accept JSON, as on the other routes.
fn retain_protocol_headers(headers: &mut HeaderMap) {
    for name in [AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH] {
        headers.remove(name);
    }
    headers.insert(HOST, HeaderValue::from_static("localhost"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("dragoman", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let scope = request_parts(&context)?.extensions.get::<Caller>().map(Caller::scope);
        let allowed = self.all.iter().filter(|tool| scope.is_some_and(|scope| scope >= tool.scope));
        Ok(ListToolsResult::with_all_items(allowed.map(|tool| tool.definition.clone()).collect()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let head = request_parts(&context)?;
        let Some(tool) = self.all.iter().find(|tool| tool.definition.name == call.name) else {
            let message = format!("there is no tool {}; tools/list lists all tools", shorten(call.name.into_owned()));
            return Err(ErrorData::invalid_params(message, None));
        };
        let memory = head.extensions.get::<RequestMemory>().cloned().unwrap_or_else(RequestMemory::current);
        // This code runs in another task than the one that received the message, which ends when its client disconnects.
        tokio::select! {
            result = memory.scope(self.call(tool, call.arguments.unwrap_or_default(), head)) => Ok(result.into()),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the client is gone", None)),
        }
    }

    /// Answers a request that the library does not recognize: its method is unknown, or its parameters do not fit the method. Any
    /// object fits `ping` and `tools/list`, and the other methods that the library knows are not offered here.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_default().to_string();
        let problem = match request.method.as_str() {
            "initialize" => parse_json::<InitializeRequestParams>(params.as_bytes()).err(),
            "server/discover" => parse_json::<DiscoverRequestParams>(params.as_bytes()).err(),
            "tools/call" => parse_json::<CallToolRequestParams>(params.as_bytes()).err(),
            _ => None,
        };
        Err(match problem {
            Some(problem) => ErrorData::invalid_params(format!("params: {}", problem.detail), None),
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method: {}", shorten(request.method)), None),
        })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.all.iter().find(|tool| tool.definition.name == name).map(|tool| tool.definition.clone())
    }
}

/// The head of the HTTP request that brought a message.
fn request_parts(context: &RequestContext<RoleServer>) -> Result<&Parts, ErrorData> {
    context.extensions.get::<Parts>().ok_or_else(|| ErrorData::internal_error("a message came without a request", None))
}

impl Tools {
    /// Calls a tool. Failures are results, too, in the form in which the REST operation reports them.
    async fn call(&self, tool: &RestTool, arguments: serde_json::Map<String, Value>, head: &Parts) -> CallToolResult {
        let text_start = tool.text_start(&arguments);
        let body = match tool.request(arguments, head) {
            Ok(request) => self.call_route(request).await,
            Err(error) => Err(error),
        };
        match body {
            Ok((true, mut body)) => {
                tools::leave_out_marks(&mut body);
                if let Some(start) = text_start {
                    tools::cut_text(&mut body, start);
                }
                CallToolResult::structured(body)
            }
            Ok((false, problem)) => CallToolResult::structured_error(problem),
            Err(error) => {
                let problem = error.problem(&request_id(&head.headers), MCP_PATH);
                CallToolResult::structured_error(serde_json::to_value(problem).unwrap_or_default())
            }
        }
    }

    /// The body of the response, and whether it is a success.
    async fn call_route(&self, request: Request) -> Result<(bool, Value), ApiError> {
        let response = match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let succeeded = response.status().is_success();
        let body = to_bytes(response.into_body(), usize::MAX).await;
        let body = body.map_err(|error| ApiError::internal(format!("a response cannot be read: {error}")))?;
        RequestMemory::current().answer_at_least(body.len() as u64 * ANSWER_COPIES).map_err(limit_error)?;
        let value = serde_json::from_slice(&body);
        Ok((succeeded, value.map_err(|error| ApiError::internal(format!("a response is not JSON: {error}")))?))
    }
}
