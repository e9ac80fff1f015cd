//! Embeddings of whole texts: the mean of their passages', as for stored documents.

use std::ops::Range;
use std::sync::Arc;

use super::super::{Error, State, blocking};
use crate::domain::{Embedding, Language, PassageBounds};
use crate::embed::Priority;
use crate::store::EmbeddedDocument;

/// Passages that go to the encoder at a time, so that one request leaves room for others in its queue.
const PASSAGES_PER_SUBMISSION: usize = 256;

/// A text that is asked about, ready to be compared.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The document that it is of, if it is of one.
    pub(super) document: Option<crate::domain::DocumentId>,
    /// Its place among the texts that came with the classifier, if it is one of them.
    pub(super) place: Option<usize>,
    /// The language, given or detected.
    pub(super) language: Option<Language>,
    /// The embedding.
    pub(super) embedding: Embedding,
}

/// Embeds whole texts and finds the language of each.
pub(super) async fn embed_texts(
    state: &Arc<State>,
    texts: Vec<String>,
    priority: Priority,
) -> Result<Vec<(Option<Language>, Embedding)>, Error> {
    let splitting = Arc::clone(state);
    let (languages, pieces, counts) = blocking(move || {
        let bounds = PassageBounds::adjacent(splitting.embedder.model().tokens_max);
        let (mut pieces, mut counts, mut languages) = (Vec::new(), Vec::with_capacity(texts.len()), Vec::new());
        for text in &texts {
            let passages: Vec<Range<usize>> = splitting.embedder.split(text, bounds)?;
            counts.push(passages.len());
            pieces.extend(passages.into_iter().map(|range| text.get(range).unwrap_or_default().to_owned()));
            languages.push(splitting.embedder.detect(text).map(|detected| detected.language));
        }
        Ok((languages, pieces, counts))
    })
    .await?;
    let asked = pieces.len();
    let mut embeddings = Vec::with_capacity(asked);
    let mut rest = pieces.into_iter();
    loop {
        let part: Vec<String> = rest.by_ref().take(PASSAGES_PER_SUBMISSION).collect();
        if part.is_empty() {
            break;
        }
        embeddings.extend(state.embedder.embed(part, priority).await?.into_iter().map(|embedded| embedded.embedding));
    }
    if embeddings.len() != asked {
        return Err(Error::EncoderAnswers { asked, got: embeddings.len() });
    }
    let mut embeddings = embeddings.as_slice();
    let mut found = Vec::with_capacity(counts.len());
    for (count, language) in counts.into_iter().zip(languages) {
        let (own, others) = embeddings.split_at(count);
        embeddings = others;
        // Passages that cancel each other out leave the first to speak for the text.
        let mean = Embedding::mean(own).or_else(|| own.first().cloned());
        found.push((language, mean.ok_or(Error::EncoderAnswers { asked: 1, got: 0 })?));
    }
    Ok(found)
}

/// Takes the stored embeddings of documents; embeds those that wait for theirs.
pub(super) async fn of_documents(
    state: &Arc<State>,
    documents: Vec<EmbeddedDocument>,
    priority: Priority,
) -> Result<Vec<Asked>, Error> {
    let missing: Vec<String> =
        documents.iter().filter(|one| one.embedding.is_none()).map(|one| one.document.text.clone()).collect();
    let mut embedded = if missing.is_empty() { Vec::new() } else { embed_texts(state, missing, priority).await? }.into_iter();
    let asked = documents.into_iter().map(|EmbeddedDocument { document, embedding }| {
        let embedding = match embedding {
            Some(embedding) => embedding,
            None => embedded.next().ok_or(Error::EncoderAnswers { asked: 1, got: 0 })?.1,
        };
        Ok(Asked { document: Some(document.id), place: None, language: document.language, embedding })
    });
    asked.collect()
}
