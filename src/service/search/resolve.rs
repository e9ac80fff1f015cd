//! What a search looks for: from a text, a vector, a document or examples to an embedding and to terms.

use std::collections::HashSet;

use super::super::Error;
use crate::domain::{
    DocumentId, Embedded, Embedding, ExampleSet, Language, Metric, QueryTerms, SearchMode, SearchRequest, SearchTarget,
};
use crate::embed::{Embedder, QueryError, QueryText, plain_words, word_key};
use crate::service::open_collection::OpenCollection;

/// What a search looks for.
#[derive(Debug, Default)]
pub(super) struct ResolvedQuery {
    /// For the dense list.
    pub(super) embedding: Option<Embedding>,
    /// The tokens of the text, for late interaction.
    pub(super) tokens: Vec<u32>,
    /// The words of the text by their numbers, for translations of them.
    pub(super) words: Vec<u32>,
    /// For the lexical list.
    pub(super) terms: Option<QueryTerms>,
    /// Languages whose documents go before others that are about as good, the first one most.
    pub(super) preferred: Vec<Language>,
    /// Documents that are no hits.
    pub(super) excluded: HashSet<DocumentId>,
    /// Whether a part of a text has no influence.
    pub(super) truncated: bool,
}

/// What a request says in words.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// The texts that must be embedded before `resolve`.
    pub(super) texts: Vec<String>,
    /// Its query, where that is searched by words.
    pub(super) query: Option<QueryText>,
}

/// Reads the words of a request.
pub(super) fn words(request: &SearchRequest) -> Result<Words, QueryError> {
    Ok(match &request.target {
        SearchTarget::Text(text) if request.mode == SearchMode::Dense => Words { texts: vec![text.clone()], query: None },
        SearchTarget::Text(text) => {
            let query = if request.reading.operators { QueryText::read(text) } else { QueryText::literal(text) };
            query.check()?;
            let texts = if request.mode == SearchMode::Lexical { Vec::new() } else { vec![query.text.clone()] };
            Words { texts, query: Some(query) }
        }
        SearchTarget::Examples(examples) => {
            Words { texts: [&examples.positive.texts[..], &examples.negative.texts].concat(), query: None }
        }
        SearchTarget::Vector(_) | SearchTarget::Like(_) => Words::default(),
    })
}

/// Works out what to look for; `embedded` are the embeddings of the request's texts.
pub(super) fn resolve(
    collection: &OpenCollection,
    request: &SearchRequest,
    query: Option<QueryText>,
    embedded: Vec<Embedded>,
    embedder: &Embedder,
) -> Result<ResolvedQuery, Error> {
    let mut resolved = ResolvedQuery { truncated: embedded.iter().any(|one| one.truncated), ..ResolvedQuery::default() };
    if let (SearchTarget::Text(_), Some(one)) = (&request.target, embedded.first()) {
        resolved.tokens = one.tokens.clone();
    }
    let mut embedded = embedded.into_iter().map(|one| one.embedding);
    match &request.target {
        SearchTarget::Text(_) => {
            if let Some(query) = query {
                if matches!(request.mode, SearchMode::Full(_)) {
                    resolved.words = plain_words(&query.text).iter().map(|word| word_key(word)).collect();
                }
                let language = stemmed(collection, request, &query.text, embedder)?;
                resolved.terms = Some(query.terms(request.reading.all_words, language)?);
            }
            resolved.truncated |= resolved.terms.as_ref().is_some_and(|terms| terms.truncated);
            if request.mode != SearchMode::Lexical {
                resolved.embedding = Some(embedded.next().ok_or(Error::EncoderAnswers { asked: 1, got: 0 })?);
            }
        }
        SearchTarget::Vector(vector) => {
            check_dimension(collection, vector)?;
            resolved.embedding = Some(vector.clone());
        }
        SearchTarget::Like(id) => {
            resolved.embedding = Some(document_embedding(collection, id)?);
            resolved.excluded.insert(id.clone());
        }
        SearchTarget::Examples(examples) => {
            let texts = examples.positive.texts.len();
            let positive = mean(collection, &examples.positive, embedded.by_ref().take(texts))?;
            let negative = mean(collection, &examples.negative, embedded)?;
            // A direction is found by turning away from the negative ones. Between points, that is a step further on from them.
            let step = if collection.row.metric == Metric::L2 && examples.negative != ExampleSet::default() { 2.0 } else { 1.0 };
            // Beyond what the index keeps no distance is a number.
            let most = f64::from(collection.row.quantization.value_max());
            let target = |(positive, negative): (&f64, &f64)| (step * positive - negative).clamp(-most, most) as f32;
            let values = positive.iter().zip(&negative).map(target).collect();
            resolved.embedding = Some(collection.row.scaled(values).ok_or(Error::NoDirection)?);
            resolved.excluded.extend(examples.positive.ids.iter().chain(&examples.negative.ids).cloned());
        }
    }
    Ok(resolved)
}

/// The language by whose rules the words of a query get their stems: its own, if it is one of those asked for, or of the collection;
/// else the first of these, that of most documents.
fn stemmed(
    collection: &OpenCollection,
    request: &SearchRequest,
    query: &str,
    embedder: &Embedder,
) -> Result<Option<Language>, Error> {
    let languages = match &request.languages {
        Some(languages) if !languages.is_empty() => languages.clone(),
        _ => collection.store.counts()?.languages.into_iter().filter_map(|(language, _)| language).collect(),
    };
    let own = embedder.detect(query).map(|detected| detected.language).filter(|own| languages.contains(own));
    Ok(own.or(languages.first().copied()))
}

/// The mean of the examples; all zero when there are none.
fn mean(collection: &OpenCollection, examples: &ExampleSet, texts: impl Iterator<Item = Embedding>) -> Result<Vec<f64>, Error> {
    let mut embeddings: Vec<Embedding> = texts.collect();
    for vector in &examples.vectors {
        check_dimension(collection, vector)?;
        embeddings.push(vector.clone());
    }
    for id in &examples.ids {
        embeddings.push(document_embedding(collection, id)?);
    }
    let mut sum = vec![0.0; collection.row.dimension];
    for embedding in &embeddings {
        sum.iter_mut().zip(embedding.as_slice()).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let count = embeddings.len().max(1) as f64;
    Ok(sum.into_iter().map(|value| value / count).collect())
}

/// The mean of a document's passages.
fn document_embedding(collection: &OpenCollection, id: &DocumentId) -> Result<Embedding, Error> {
    let not_found = || Error::DocumentNotFound { collection: collection.row.name.clone(), id: id.clone() };
    let passages = collection.store.passage_embeddings(id)?.ok_or_else(not_found)?;
    let (count, mut passages) = (passages.len() as f32, passages.into_iter());
    let first = passages.next().ok_or_else(|| Error::NotEmbedded { id: id.clone() })?;
    let mut sum: Vec<f32> = first.as_slice().to_vec();
    for passage in passages {
        sum.iter_mut().zip(passage.as_slice()).for_each(|(sum, value)| *sum += value);
    }
    // Passages that cancel each other out have no common direction; the first one stands for the document then.
    Ok(collection.row.scaled(sum.into_iter().map(|value| value / count).collect()).unwrap_or(first))
}

fn check_dimension(collection: &OpenCollection, vector: &Embedding) -> Result<(), Error> {
    let (expected, got) = (collection.row.dimension, vector.dimension());
    if expected == got {
        return Ok(());
    }
    Err(Error::VectorDimension { collection: collection.row.name.clone(), expected, got })
}
