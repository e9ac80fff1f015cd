//! Embeds with a server, through `/v1/embeddings`, or with a local model bundle.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::args::EmbedArgs;
use super::texts::BATCH_TEXTS_MAX;
use crate::bundle::Bundle;
use crate::cli::client::{Call, Client};
use crate::cli::error::CliError;
use crate::cli::request_body::request_members;
use crate::cli::server::ServerArgs;
use crate::embed::{EmbedOptions, Embedder, Priority};

/// Upper bound on texts × longest text, in tokens, over all concurrent forward passes, as in the server.
const BATCH_TOKENS_MAX: usize = 4_096;

/// Maximum batches in flight, so that one is tokenized or sent while another is embedded.
pub const BATCHES_MAX: usize = 3;

/// Embeds batches of texts concurrently.
pub struct Encoder {
    runtime: Runtime,
    backend: Backend,
}

enum Backend {
    Server(Arc<Client>),
    Here(Embedder),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    /// The values; the vector has unit length.
    pub values: Vec<f32>,
    /// Whether the text exceeded the model's limit.
    pub truncated: bool,
}

pub type Pending = JoinHandle<Result<Vec<Vector>, CliError>>;

impl Encoder {
    /// Loads the local model in the arguments, or else prepares to call the server.
    pub fn open(args: &EmbedArgs, server: &ServerArgs) -> Result<Self, CliError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(CliError::io("start threads"))?;
        let backend = match &args.model {
            None => Backend::Server(Arc::new(Client::new(server)?)),
            Some(folder) => {
                let failed = |what: &str| format!("{what} {}", folder.display());
                let bundle = Bundle::open(folder)
                    .map_err(|source| CliError::Model { what: failed("cannot use the model in"), source: Box::new(source) })?;
                let options = EmbedOptions {
                    device: args.device,
                    threads: args.threads,
                    batch_tokens_max: BATCH_TOKENS_MAX,
                    queue_texts_max: BATCH_TEXTS_MAX * BATCHES_MAX,
                };
                let embedder = Embedder::start(&bundle, &options)
                    .map_err(|source| CliError::Model { what: failed("cannot run the model in"), source: Box::new(source) })?;
                Backend::Here(embedder)
            }
        };
        Ok(Self { runtime, backend })
    }

    /// Values per embedding, if known before the first one.
    pub fn dimension(&self) -> Option<usize> {
        match &self.backend {
            Backend::Server(_) => None,
            Backend::Here(embedder) => Some(embedder.model().dimension),
        }
    }

    pub fn submit(&self, texts: Vec<String>) -> Pending {
        match &self.backend {
            Backend::Server(client) => {
                let client = Arc::clone(client);
                self.runtime.spawn_blocking(move || embed_on_server(&client, &texts, None, None))
            }
            Backend::Here(embedder) => {
                let embedder = embedder.clone();
                self.runtime.spawn(async move { embed_locally(&embedder, texts).await })
            }
        }
    }

    /// Waits for a batch, which contains the lines `first` to `last`.
    pub fn wait(&self, batch: Pending, first: u64, last: u64) -> Result<Vec<Vector>, CliError> {
        let joined = self.runtime.block_on(batch);
        joined.unwrap_or_else(|_| Err(CliError::Failed(format!("lines {first} to {last}: the encoder stopped"))))
    }
}

async fn embed_locally(embedder: &Embedder, texts: Vec<String>) -> Result<Vec<Vector>, CliError> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let embedded = embedder.embed(texts, Priority::Ingest).await;
    let embedded = embedded.map_err(|source| CliError::Model { what: "cannot embed".to_owned(), source: Box::new(source) })?;
    let vector = |embedded: crate::domain::Embedded| Vector {
        values: embedded.embedding.as_slice().to_vec(),
        truncated: embedded.truncated,
    };
    Ok(embedded.into_iter().map(vector).collect())
}

/// Requests embeddings from a server, by `model` or by the server's own model. Uses base64, which has the exact values in a
/// third of the bytes.
pub fn embed_on_server(
    client: &Client,
    texts: &[String],
    model: Option<&str>,
    input_type: Option<&str>,
) -> Result<Vec<Vector>, CliError> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let call = Call::post(&["embeddings"]).repeatable();
    let body = json!({"input": texts, "encoding_format": "base64", "model": model, "input_type": input_type});
    let rows = client.rows(&call.json(request_members(&body)), "data", texts.len(), "an embedding for each text")?;
    let vectors: Option<Vec<Vector>> = rows.iter().map(vector).collect();
    vectors.ok_or_else(|| client.unexpected_response("its embeddings are not base64 of 32-bit floats".to_owned()))
}

fn vector(row: &Value) -> Option<Vector> {
    let bytes = STANDARD.decode(row["embedding"].as_str()?).ok()?;
    let (fours, rest) = bytes.as_chunks::<4>();
    let is_complete = rest.is_empty() && !fours.is_empty();
    is_complete.then(|| Vector {
        values: fours.iter().map(|four| f32::from_le_bytes(*four)).collect(),
        truncated: row["truncated"] == true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_read_from_base64() {
        let text = STANDARD.encode([1.0_f32, -0.5].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
        let expect = Vector { values: vec![1.0, -0.5], truncated: true };
        assert_eq!(vector(&json!({ "embedding": text, "truncated": true })), Some(expect));
        for bad in [json!({}), json!({ "embedding": [1.0] }), json!({ "embedding": "AAA=" }), json!({ "embedding": "" })] {
            assert_eq!(vector(&bad), None, "{bad}");
        }
    }
}
