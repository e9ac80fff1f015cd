//! Embeds whole texts: the embedding of a text is the mean of its passages' embeddings, as for stored documents.

use std::sync::Arc;

use super::embedded_text::PredictionInput;
use crate::domain::{CollectionName, Document, Embedded, Embedding, Language, PassageBounds, PassageContext};
use crate::embed::EmbedText;
use crate::service::blocking::blocking;
use crate::service::embedding::priority;
use crate::service::error::Error;
use crate::service::jobs::{JobContext, JobError, embed_with_retry};
use crate::service::state::State;
use crate::store::EmbeddedDocument;

/// Maximum number of a request's passages in the encoder's queue at once, so that a request leaves room for others.
const PASSAGES_PER_SUBMISSION: usize = 256;

struct SplitTexts {
    /// The passages of all texts, one text after the other.
    passages: Vec<EmbedText>,
    /// [texts] The number of passages of each text.
    counts: Vec<usize>,
    /// [texts]
    languages: Vec<Option<Language>>,
}

/// Embeds whole texts for a waiting caller, and detects their languages.
pub(super) async fn embed_texts(state: &Arc<State>, texts: Vec<EmbedText>) -> Result<Vec<(Option<Language>, Embedding)>, Error> {
    let split = SplitTexts::new(state, texts).await?;
    // Depends on the number of passages, because one text may have thousands.
    let order = priority(split.passages.len());
    let size = PASSAGES_PER_SUBMISSION.min(state.limits.embed_queue_texts_max).max(1);
    let mut embedded = Vec::with_capacity(split.passages.len());
    for part in split.passages.chunks(size) {
        embedded.extend(state.embedder.embed_in_context(part.to_vec(), order).await?);
    }
    split.means(embedded)
}

/// Like `embed_texts`, but for a job, which waits while the encoder's queue is full.
pub(super) async fn embed_texts_patiently(
    context: &JobContext,
    texts: Vec<EmbedText>,
) -> Result<Vec<(Option<Language>, Embedding)>, JobError> {
    let split = SplitTexts::new(&context.state()?, texts).await?;
    let embedded = embed_with_retry(context, &split.passages, PASSAGES_PER_SUBMISSION).await?;
    Ok(split.means(embedded)?)
}

/// Returns the stored embeddings of documents. `embed` embeds the titles and texts of documents that have none yet.
pub(super) async fn inputs_from_documents<E: From<Error>, F: Future<Output = Result<Vec<(Option<Language>, Embedding)>, E>>>(
    collection: &CollectionName,
    documents: Vec<EmbeddedDocument>,
    embed: impl FnOnce(Vec<EmbedText>) -> F,
) -> Result<Vec<PredictionInput>, E> {
    let text = |document: &Document| EmbedText {
        context: PassageContext { title: document.title.clone(), headings: None },
        text: document.text.clone(),
    };
    let pending = documents.iter().filter(|stored| stored.embedding.is_none()).map(|stored| text(&stored.document)).collect();
    let mut embedded = embed(pending).await?.into_iter();
    let inputs = documents.into_iter().map(|EmbeddedDocument { document, embedding }| {
        let embedding = match embedding {
            Some(embedding) => embedding,
            None => embedded.next().ok_or(Error::EncoderAnswers { expected: 1, got: 0 })?.1,
        };
        let source = Some((collection.clone(), document.id));
        Ok(PredictionInput { document: source, position: None, language: document.language, embedding })
    });
    inputs.collect()
}

impl SplitTexts {
    async fn new(state: &Arc<State>, texts: Vec<EmbedText>) -> Result<Self, Error> {
        let state = Arc::clone(state);
        blocking(move || {
            let bounds = PassageBounds::adjacent(state.embedder.model().tokens_max);
            let (mut passages, mut counts, mut languages) = (Vec::new(), Vec::with_capacity(texts.len()), Vec::new());
            for EmbedText { context, text } in &texts {
                let spans = state.embedder.split(context.title.as_deref(), text, bounds)?;
                counts.push(spans.len());
                passages.extend(spans.into_iter().map(|span| EmbedText {
                    context: PassageContext { title: context.title.clone(), headings: span.headings },
                    text: text.get(span.range).unwrap_or_default().to_owned(),
                }));
                languages.push(state.embedder.detect(text).map(|detected| detected.language));
            }
            Ok(Self { passages, counts, languages })
        })
        .await
    }

    /// Returns the language and the mean embedding of each text.
    fn means(self, embedded: Vec<Embedded>) -> Result<Vec<(Option<Language>, Embedding)>, Error> {
        let (expected, got) = (self.passages.len(), embedded.len());
        if expected != got {
            return Err(Error::EncoderAnswers { expected, got });
        }
        let embeddings: Vec<Embedding> = embedded.into_iter().map(|embedded| embedded.embedding).collect();
        let mut embeddings = embeddings.as_slice();
        let mut found = Vec::with_capacity(self.counts.len());
        for (count, language) in self.counts.into_iter().zip(self.languages) {
            let (vectors, others) = embeddings.split_at(count);
            embeddings = others;
            // If the passages cancel each other out, the first one represents the text.
            let mean = Embedding::mean(vectors).or_else(|| vectors.first().cloned());
            found.push((language, mean.ok_or(Error::EncoderAnswers { expected: 1, got: 0 })?));
        }
        Ok(found)
    }
}
