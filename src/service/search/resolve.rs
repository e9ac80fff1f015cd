//! Turns the text, vector, document or examples of a request into an embedding and terms to search for.

use std::collections::HashSet;

use crate::domain::{
    DocumentId, Embedded, Embedding, ExampleSet, Language, LiteralPart, Metric, QueryTerms, QueryWord, SearchMode, SearchRequest,
    SearchTarget,
};
use crate::embed::{
    DependentToken, Embedder, MARKED_BYTES_MAX, QueryError, QueryText, as_typed, count_words, dependent_tokens, fragments,
    literal_parts, plain_title, punctuation, query_words, retyped, spellings, with_known_names, with_known_umlauts,
};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;

/// Maximum number of words of a query that may be a title.
const TITLE_WORDS_MAX: usize = 12;

/// What a search looks for.
#[derive(Debug, Default)]
pub(super) struct ResolvedQuery {
    /// The embedding for the dense list.
    pub(super) embedding: Option<Embedding>,
    /// The tokens of the text, for late interaction. Unknown characters have none: all of them are one token, which would be
    /// found in every passage with any unknown character. Punctuation has none either.
    pub(super) tokens: Vec<u32>,
    /// The text's words, to find their translations and names that sound like them.
    pub(super) words: Vec<QueryWord>,
    /// Number of its words as they are typed.
    pub(super) words_typed: usize,
    /// The tokens that say little if a passage lacks their word.
    pub(super) dependent_tokens: Vec<DependentToken>,
    /// The parts of the text that should be found as they are written.
    pub(super) literal_parts: Vec<LiteralPart>,
    /// The text and its topic in the form in which they are compared with titles. Empty if the topic is too long for a title.
    pub(super) plain_titles: Vec<String>,
    /// Tokens of the text that mark nothing, because they are fragments of words.
    pub(super) fragments: Vec<u32>,
    /// The terms for the lexical list.
    pub(super) terms: Option<QueryTerms>,
    /// Languages whose documents come before others that are about as good, the most preferred first.
    pub(super) preferred: Vec<Language>,
    /// Documents that must not be hits.
    pub(super) excluded: HashSet<DocumentId>,
    /// Whether a text was so long that a part of it was ignored.
    pub(super) truncated: bool,
}

#[derive(Debug, Default)]
pub(super) struct Words {
    /// The texts that must be embedded before `resolve`.
    pub(super) texts: Vec<String>,
    /// The query, if it is searched by words.
    pub(super) query: Option<QueryText>,
}

/// Reads the text of a request. `options` are words that are options of commands where they follow a minus.
pub(super) fn parse_words(request: &SearchRequest, options: &HashSet<String>, embedder: &Embedder) -> Result<Words, QueryError> {
    Ok(match &request.target {
        SearchTarget::Text(text) if request.mode == SearchMode::Dense => {
            Words { texts: vec![as_read(text, embedder)], query: None }
        }
        SearchTarget::Text(text) => {
            let mut query = match request.reading.operators {
                true => QueryText::parse(text, |word, _| options.contains(word)),
                false => QueryText::literal(text),
            };
            query.check()?;
            let keeps_all = !request.reading.operators || request.reading.all_words;
            if matches!(request.mode, SearchMode::Full { .. }) && !keeps_all {
                query.limit_to(embedder.topic(&query.text));
            }
            let texts = if request.mode == SearchMode::Lexical { Vec::new() } else { vec![as_read(query.topic(), embedder)] };
            Words { texts, query: Some(query) }
        }
        SearchTarget::Examples(examples) => {
            Words { texts: [&examples.positive.texts[..], &examples.negative.texts].concat(), query: None }
        }
        SearchTarget::Vector(_) | SearchTarget::Like(_) => Words::default(),
    })
}

/// Returns a query as the model reads it.
fn as_read(text: &str, embedder: &Embedder) -> String {
    respelled(text, embedder).unwrap_or_else(|| text.to_owned())
}

/// Corrects words of a query that the model only knows in another spelling or form, or that were typed with another keyboard
/// layout.
fn respelled(text: &str, embedder: &Embedder) -> Option<String> {
    let is_known = |word| embedder.knows(word);
    let tokens = |text: &str| embedder.pieces(text).map_or(usize::MAX, |pieces| pieces.len());
    retyped(text, is_known, tokens).or_else(|| {
        let named = with_known_names(text, is_known);
        with_known_umlauts(named.as_deref().unwrap_or(text), is_known).or(named)
    })
}

/// Resolves a request. `embedded` has the embeddings of the request's texts.
pub(super) fn resolve(
    collection: &OpenCollection,
    request: &SearchRequest,
    query: Option<QueryText>,
    embedded: Vec<Embedded>,
    embedder: &Embedder,
) -> Result<ResolvedQuery, Error> {
    let mut resolved = ResolvedQuery { truncated: embedded.iter().any(|text| text.truncated), ..ResolvedQuery::default() };
    if let (SearchTarget::Text(_), Some(text)) = (&request.target, embedded.first()) {
        resolved.tokens = text.tokens.iter().copied().filter(|token| !embedder.is_blank(*token)).collect();
    }
    let mut embedded = embedded.into_iter().map(|text| text.embedding);
    match &request.target {
        SearchTarget::Text(_) => {
            if let Some(query) = query {
                let language = stemming_language(collection, request, &query.text, embedder)?;
                if matches!(request.mode, SearchMode::Full { .. }) {
                    resolved.read_words(&query, language, embedder)?;
                }
                resolved.terms = Some(query.terms(request.reading.all_words, language)?);
            }
            resolved.truncated |= resolved.terms.as_ref().is_some_and(|terms| terms.truncated);
            if request.mode != SearchMode::Lexical {
                let embedding = embedded.next().ok_or(Error::EncoderAnswers { expected: 1, got: 0 })?;
                // The embedding of a text without any known character is equally near to all such texts, so only words count.
                let says_something = !resolved.tokens.is_empty() || !matches!(request.mode, SearchMode::Full { .. });
                resolved.embedding = says_something.then_some(embedding);
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
            // For directions, subtracting the negative mean turns away from it. For points (L2), one more step is needed to get
            // from the positive mean away from the negative one.
            let step = if collection.row.metric == Metric::L2 && examples.negative != ExampleSet::default() { 2.0 } else { 1.0 };
            // Beyond the largest value that the index can store, distances would not be numbers.
            let value_max = f64::from(collection.row.quantization.value_max());
            let target = |(positive, negative): (&f64, &f64)| (step * positive - negative).clamp(-value_max, value_max) as f32;
            let values = positive.iter().zip(&negative).map(target).collect();
            resolved.embedding = Some(collection.row.scale_embedding(values).ok_or(Error::NoDirection)?);
            resolved.excluded.extend(examples.positive.ids.iter().chain(&examples.negative.ids).cloned());
        }
    }
    Ok(resolved)
}

impl ResolvedQuery {
    /// Reads what mode `full` needs of a query in addition to its embedding and terms.
    fn read_words(&mut self, query: &QueryText, language: Option<Language>, embedder: &Embedder) -> Result<(), Error> {
        // The model does not read more, either.
        let [query_text, topic] = [&query.text, query.topic()].map(|text| &text[..text.floor_char_boundary(MARKED_BYTES_MAX)]);
        let respelled = respelled(topic, embedder);
        let read = respelled.as_deref().unwrap_or(topic);
        let pieces = embedder.pieces(read)?;
        let pieces: Vec<_> = pieces.into_iter().filter(|(token, _)| !embedder.is_blank(*token)).collect();
        let tokens = |text: &str| embedder.pieces(text).map_or(usize::MAX, |pieces| pieces.len());
        self.words = query_words(read, &pieces, embedder.vocabulary(), tokens);
        self.fragments = fragments(read, &pieces);
        self.dependent_tokens = dependent_tokens(read, &pieces, embedder.vocabulary());
        self.literal_parts = literal_parts(read);
        self.words_typed = count_words(read);
        if self.words_typed <= TITLE_WORDS_MAX {
            self.plain_titles = [query_text, topic].map(plain_title).into();
            self.plain_titles.dedup();
            self.plain_titles.retain(|title| !title.is_empty());
        }
        let punctuation = punctuation(read, &pieces);
        self.tokens.retain(|token| !punctuation.contains(token));
        self.literal_parts.extend(spellings(read, language));
        if let Some(read) = &respelled {
            let typed = literal_parts(topic).into_iter().chain(spellings(topic, language));
            self.literal_parts.extend(as_typed(topic, read, typed));
        }
        Ok(())
    }
}

/// Returns the language whose rules stem the words of a query: the query's own language, if it is one of the requested
/// languages, or of the collection's if none are requested. Otherwise returns the first of these. The collection's languages
/// are sorted by their number of documents, most first.
fn stemming_language(
    collection: &OpenCollection,
    request: &SearchRequest,
    query: &str,
    embedder: &Embedder,
) -> Result<Option<Language>, Error> {
    let languages = match &request.languages {
        Some(languages) if !languages.is_empty() => languages.clone(),
        _ => collection.store.counts()?.languages.into_iter().filter_map(|(language, _)| language).collect(),
    };
    let detected_language =
        embedder.detect(query).map(|detected| detected.language).filter(|language| languages.contains(language));
    Ok(detected_language.or(languages.first().copied()))
}

/// Computes the mean of the examples, or zeros if there are none.
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

/// Computes the mean of a document's passages.
fn document_embedding(collection: &OpenCollection, id: &DocumentId) -> Result<Embedding, Error> {
    let not_found = || Error::DocumentNotFound { collection: collection.row.name.clone(), id: id.clone() };
    let passages = collection.store.passage_embeddings(id)?.ok_or_else(not_found)?;
    let (count, mut passages) = (passages.len() as f32, passages.into_iter());
    let first = passages.next().ok_or_else(|| Error::NotEmbedded { id: id.clone() })?;
    let mut sum: Vec<f32> = first.as_slice().to_vec();
    for passage in passages {
        sum.iter_mut().zip(passage.as_slice()).for_each(|(sum, value)| *sum += value);
    }
    // Passages that cancel each other out have no mean direction. In that case the first one represents the document.
    Ok(collection.row.scale_embedding(sum.into_iter().map(|value| value / count).collect()).unwrap_or(first))
}

fn check_dimension(collection: &OpenCollection, vector: &Embedding) -> Result<(), Error> {
    let (expected, got) = (collection.row.dimension, vector.dimension());
    if expected == got {
        return Ok(());
    }
    Err(Error::VectorDimension { collection: collection.row.name.clone(), expected, got })
}
