//! The sentence encoder behind a bounded queue. It turns texts into embeddings.
//!
//! Callers tokenize their own texts. Each ONNX session has a thread that takes waiting texts in batches within a token budget,
//! sorted by length, queries before bulk work. The ONNX graph takes `input_ids` and `attention_mask`, both int64 [batch, len],
//! and returns `sentence_embedding`, float32 [batch, dimension], of unit length.

pub mod error;
pub mod fake;
#[cfg(test)]
mod lexicon_tests;
pub mod meter;
mod options;
pub mod queue;
pub mod session;
mod text_reader;
mod topic;
mod vocabulary;
mod weights;

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tracing::Instrument as _;

pub use error::EmbedError;
pub use fake::{BeforeBatch, FakeOptions};
pub use meter::EmbedMeter;
pub use options::EmbedOptions;
pub use queue::Priority;
pub use text_reader::EmbedText;
pub use vocabulary::Vocabulary;

use crate::bundle::{Bundle, TRANSLATIONS};
use crate::domain::{DetectedLanguage, Embedded, Language, ModelInfo, PassageBounds, PassageSpan, PassageTerms, TokenSet};
use crate::ranking::{Lexicon, TokenScorer, TokenTable, Translations};
pub use crate::text::Tokens;
pub use crate::text::dates::in_words as date_in_words;
pub use crate::text::keyboard::retyped;
use crate::text::known_words::KnownWords;
pub use crate::text::literal_parts::literal_parts;
pub use crate::text::marks::{MARKED_BYTES_MAX, PassageWords, TermMatcher, merge_marks, overlap};
pub use crate::text::plain_words::word_key;
pub use crate::text::query::{QueryError, QueryText, is_minus};
pub use crate::text::query_words::{DependentToken, count_words, dependent_tokens, fragments, punctuation, query_words};
pub use crate::text::sentence_spans::sentence_spans;
pub use crate::text::spellings::{as_typed, spellings, with_known_umlauts};
pub use crate::text::technical_names::with_known_names;
pub use crate::text::terms::{passage_terms, query_terms};
pub use crate::text::titles::{is_part_of_title, plain_title, stemmed_title, title_terms};
use crate::text::word_counts::WORD_RULES;
use crate::text::{LanguageDetector, TextPassage, Tokenizer, lexicon};
use queue::{Encode, Queue, QueueBounds};
use text_reader::TextReader;
use topic::TopicFinder;

/// Texts with up to this many bytes in all are tokenized in place. Larger ones go to a blocking thread. Tokenizing a kilobyte
/// takes about as long as handing it to another thread.
const INLINE_BYTES_MAX: usize = 1_024;

/// Approximate number of bytes that a caller tokenizes per turn.
const TURN_BYTES: usize = 64 << 10;

/// Maximum number of queries times the tokens of the longest one in a forward pass of a question encoder. Queries are short.
const QUESTION_BATCH_TOKENS_MAX: usize = 1_024;

/// A handle on the encoder's threads. Clones share it; dropping the last one stops them.
#[derive(Clone)]
pub struct Embedder {
    parts: Arc<Parts>,
}

/// The queues of a model's encoders.
struct Queues {
    passages: Queue,
    /// Of the question encoder, if the model has one.
    questions: Option<Queue>,
}

impl Queues {
    /// Starts the queues. They share one meter.
    fn start<E: Encode + 'static>(
        encoders: Vec<E>,
        bounds: QueueBounds,
        questions: Option<(E, QueueBounds)>,
    ) -> Result<Self, EmbedError> {
        let meter = EmbedMeter::default();
        let of_questions = |(encoder, bounds)| Queue::start(vec![encoder], bounds, meter.clone());
        Ok(Self { questions: questions.map(of_questions).transpose()?, passages: Queue::start(encoders, bounds, meter)? })
    }
}

struct Parts {
    info: ModelInfo,
    text: TextReader,
    detector: LanguageDetector,
    scorer: Option<TokenScorer>,
    translations: Option<Translations>,
    /// The version of the rules and the vocabulary by which words are counted, or 0 without translations.
    word_rules: u32,
    /// Finds the topics of queries, if the model has translations.
    topics: Option<TopicFinder>,
    queues: Queues,
    /// Limits how many callers tokenize at once to the number of cores.
    tokenizing: Arc<Semaphore>,
}

/// A text prepared for storing and embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedText {
    pub passages: Vec<PassageSpan>,
    /// The tokens of each passage.
    pub tokens: Vec<Tokens>,
    /// The text's language, if the caller requested it and it was recognized.
    pub language: Option<DetectedLanguage>,
}

impl Embedder {
    /// Loads the bundle's tokenizer, language head and weights, warms up the sessions and starts their threads.
    pub fn start(bundle: &Bundle, options: &EmbedOptions) -> Result<Self, EmbedError> {
        let manifest = &bundle.manifest;
        let tokenizer = Tokenizer::open(bundle)?;
        let detector = LanguageDetector::open(bundle, &tokenizer)?;
        let (scorer, translations) = (scorer(bundle)?, translations(bundle)?);
        let opened = session::open(bundle, options)?;
        let info = ModelInfo {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            fingerprint: bundle.fingerprint(),
            dimension: manifest.dimension,
            tokens_max: manifest.tokens_max,
            languages: bundle.languages.clone(),
            device: opened.device,
            device_note: opened.note,
            quality: manifest.quality.iter().map(|(name, value)| (name.clone(), *value)).collect(),
        };
        let text = TextReader { tokenizer: Box::new(tokenizer), tokens_max: manifest.tokens_max };
        // Parallel encoders share the budget. So a query waits no longer for a batch than with a single encoder, and the
        // batches take no more memory.
        let batch_tokens_max = options.batch_tokens_max.div_ceil(opened.encoders.len().max(1));
        let bounds = QueueBounds { batch_tokens_max, texts_max: options.queue_texts_max };
        let question_bounds = QueueBounds { batch_tokens_max: batch_tokens_max.min(QUESTION_BATCH_TOKENS_MAX), ..bounds };
        let queues = Queues::start(opened.encoders, bounds, opened.questions.map(|encoder| (encoder, question_bounds)))?;
        Ok(Self::of(info, (text, detector), (scorer, translations), queues))
    }

    /// Starts a deterministic fake encoder without a model, for tests of the layers above.
    pub fn fake(dimension: usize) -> Self {
        Self::fake_with(&FakeOptions::of(dimension), Box::new(|_| Ok(())))
    }

    /// Starts a fake encoder with these options.
    pub fn fake_with(options: &FakeOptions, before_batch: BeforeBatch) -> Self {
        let (text, encoder) = fake::make(options, before_batch);
        #[expect(clippy::expect_used, reason = "a test that cannot have a thread cannot go on")]
        let queues = Queues::start(vec![encoder], options.bounds(), None).expect("a thread for the fake encoder");
        Self::of(options.model(), (text, LanguageDetector::by_rules()), (None, None), queues)
    }

    fn of(
        info: ModelInfo,
        (text, detector): (TextReader, LanguageDetector),
        (scorer, translations): (Option<TokenScorer>, Option<Translations>),
        queues: Queues,
    ) -> Self {
        let tokenizing = Arc::new(Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));
        let topics = translations.as_ref().map(TopicFinder::new);
        let rules = |translations: &Translations| translations.vocabulary_checksum().wrapping_add(WORD_RULES);
        let word_rules = translations.as_ref().map_or(0, rules);
        Self { parts: Arc::new(Parts { info, text, detector, scorer, translations, word_rules, topics, queues, tokenizing }) }
    }

    pub fn model(&self) -> &ModelInfo {
        &self.parts.info
    }

    /// Embeds `texts` and returns the embeddings in the same order. Fails with `EmbedError::QueueFull` if the queue has no room
    /// for them now.
    ///
    /// Embeds all texts or none: an error in one text fails the call. If the future is dropped, texts that still wait are not
    /// embedded.
    pub async fn embed(&self, texts: Vec<String>, priority: Priority) -> Result<Vec<Embedded>, EmbedError> {
        self.embed_in_context(texts.into_iter().map(EmbedText::from).collect(), priority).await
    }

    /// Embeds queries, to compare them with embeddings that `embed` returns for passages. Most models treat both alike.
    pub async fn embed_queries(&self, queries: Vec<String>, priority: Priority) -> Result<Vec<Embedded>, EmbedError> {
        let span = tracing::info_span!("embed", texts = queries.len());
        let queue = self.parts.queues.questions.as_ref().unwrap_or(&self.parts.queues.passages);
        self.embed_now(queries.into_iter().map(EmbedText::from).collect(), priority, queue).instrument(span).await
    }

    /// Embeds texts with their contexts, as `embed` does.
    pub async fn embed_in_context(&self, texts: Vec<EmbedText>, priority: Priority) -> Result<Vec<Embedded>, EmbedError> {
        let span = tracing::info_span!("embed", texts = texts.len());
        self.embed_now(texts, priority, &self.parts.queues.passages).instrument(span).await
    }

    async fn embed_now(&self, texts: Vec<EmbedText>, priority: Priority, queue: &Queue) -> Result<Vec<Embedded>, EmbedError> {
        queue.check_room(texts.len())?;
        let tokens = if texts.iter().map(EmbedText::bytes).sum::<usize>() <= INLINE_BYTES_MAX {
            self.parts.tokens(&texts)?
        } else {
            self.tokens_in_turns(texts).await?
        };
        queue.submit(tokens, priority)?.wait().await
    }

    /// Tokenizes texts a few at a time, taking turns with other callers, so that a large request does not delay small ones. If
    /// the future is dropped, tokenizing ends after the current turn.
    async fn tokens_in_turns(&self, texts: Vec<EmbedText>) -> Result<Vec<Tokens>, EmbedError> {
        let mut tokens = Vec::with_capacity(texts.len());
        let mut rest = texts.into_iter().peekable();
        while rest.peek().is_some() {
            let mut bytes = 0;
            let mut batch = Vec::new();
            while let Some(text) = rest.next_if(|_| bytes < TURN_BYTES) {
                bytes += text.bytes();
                batch.push(text);
            }
            let permit = Arc::clone(&self.parts.tokenizing).acquire_owned().await.map_err(|_| EmbedError::Stopping)?;
            let parts = Arc::clone(&self.parts);
            let tokenizing = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                parts.tokens(&batch)
            });
            // If the task returns an error, the runtime shut down and canceled it.
            tokens.extend(tokenizing.await.unwrap_or(Err(EmbedError::Stopping))?);
        }
        Ok(tokens)
    }

    /// Embeds tokenized texts, as `embed` does.
    pub async fn embed_tokens(&self, tokens: Vec<Tokens>, priority: Priority) -> Result<Vec<Embedded>, EmbedError> {
        let span = tracing::info_span!("embed", texts = tokens.len());
        async { self.parts.queues.passages.submit(tokens, priority)?.wait().await }.instrument(span).await
    }

    /// Splits a text into passages within `bounds` that fit into the model together with the title, and detects its language if
    /// `detect` asks for it. A text of one passage is tokenized only once. Blocks while it tokenizes.
    pub fn prepare(
        &self,
        title: Option<&str>,
        text: &str,
        bounds: PassageBounds,
        detect: bool,
    ) -> Result<PreparedText, EmbedError> {
        let tokens_max = bounds.tokens_max.clamp(1, self.parts.info.tokens_max);
        let overlap_tokens = bounds.overlap_tokens.min(tokens_max / 2);
        let split = self.parts.text.split(title, text, PassageBounds { tokens_max, overlap_tokens })?;
        let only = if let [only] = &split[..] { Some(only) } else { None };
        let language = if detect { self.parts.detector.detect_passage(text, only) } else { None };
        let parted =
            |passage: TextPassage| (PassageSpan { range: passage.range, headings: passage.context.headings }, passage.tokens);
        let (passages, tokens) = split.into_iter().map(parted).unzip();
        Ok(PreparedText { passages, tokens, language })
    }

    /// Returns the passages that `prepare` splits a text into.
    pub fn split(&self, title: Option<&str>, text: &str, bounds: PassageBounds) -> Result<Vec<PassageSpan>, EmbedError> {
        Ok(self.prepare(title, text, bounds, false)?.passages)
    }

    /// Detects the language of a text. Returns `None` if there is no evidence for any language.
    pub fn detect(&self, text: &str) -> Option<DetectedLanguage> {
        self.parts.detector.detect(text)
    }

    /// Returns the scorer that compares queries with passages token by token, or `None` if the model has no token table.
    pub fn scorer(&self) -> Option<&TokenScorer> {
        self.parts.scorer.as_ref()
    }

    /// Returns the meanings of words in all languages, or `None` if the model has no translations.
    pub fn translations(&self) -> Option<&Translations> {
        self.parts.translations.as_ref()
    }

    /// Whether the model's translations have a word, by its number, without those of the lexicon. Without translations, no word is
    /// known.
    pub fn knows(&self, word: u32) -> bool {
        self.vocabulary().has_word(word)
    }

    /// Returns a number that differs if the words of passages are counted differently: by other rules, or with another vocabulary.
    pub fn word_rules(&self) -> u32 {
        self.parts.word_rules
    }

    /// Returns what the model knows of words.
    pub fn vocabulary(&self) -> Vocabulary<'_> {
        Vocabulary(self.translations())
    }

    /// Returns the terms of a passage for searches by words. `language` is its language, if known.
    pub fn passage_terms(&self, text: &str, language: Option<Language>) -> PassageTerms {
        passage_terms(text, language, self.vocabulary())
    }

    /// Returns the topic of a query as a range of bytes. `None` if the query is not a request, or if the model has no
    /// translations or no token table. Blocks while it tokenizes, which it does only if the query has a word of asking.
    pub fn topic(&self, query: &str) -> Option<Range<usize>> {
        let Parts { topics, translations, scorer, .. } = &*self.parts;
        let ((finder, translations), _) = topics.as_ref().zip(translations.as_ref()).zip(scorer.as_ref())?;
        let pieces = OnceCell::new();
        let weight = |word: &Range<usize>| self.weight(word, pieces.get_or_init(|| self.pieces(query).unwrap_or_default()));
        finder.topic(query, translations, weight)
    }

    /// Returns how much a word of a text says, as a multiple of what an average token does: the sum over its tokens. `pieces` are
    /// the text's tokens in order. Infinite if the model has no token of the word or no token table: it does not know rare words
    /// such as most emoji, but they say more than those that all texts have.
    pub fn weight(&self, word: &Range<usize>, pieces: &[(u32, Range<usize>)]) -> f32 {
        let Some(scorer) = &self.parts.scorer else { return f32::INFINITY };
        let from = pieces.partition_point(|(_, range)| range.end <= word.start);
        let tokens = pieces[from..].iter().take_while(|(_, range)| range.start < word.end);
        let tokens = tokens.filter(|(token, range)| overlap(range, word) && !self.is_blank(*token));
        tokens.map(|(token, _)| scorer.relative_weight(*token)).reduce(|sum, weight| sum + weight).unwrap_or(f32::INFINITY)
    }

    /// Returns the sets of tokens that `embed` would use for these texts. Blocks while it tokenizes.
    pub fn token_sets(&self, texts: &[EmbedText]) -> Result<Vec<TokenSet>, EmbedError> {
        Ok(self.parts.tokens(texts)?.iter().map(|tokens| TokenSet::from_ids(&tokens.ids)).collect())
    }

    /// Returns the tokens of a text without context, each with its byte range in the text. Blocks while it tokenizes.
    pub fn pieces(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, EmbedError> {
        Ok(self.parts.text.tokenizer.pieces(text)?)
    }

    /// Whether a token says nothing about its text: the token for all unknown characters, a lone space, or a modifier of the
    /// emoji before it.
    pub fn is_blank(&self, token: u32) -> bool {
        self.parts.text.tokenizer.is_blank(token)
    }

    /// Returns the number of waiting texts.
    pub fn queue_depth(&self) -> usize {
        self.passages_waiting() + self.parts.queues.questions.as_ref().map_or(0, Queue::depth)
    }

    /// Returns the number of waiting texts in the queue of passages. It leaves out queries if they have their own encoder.
    pub fn passages_waiting(&self) -> usize {
        self.parts.queues.passages.depth()
    }

    /// Returns the metrics of the queues and of the encoders' threads since the start.
    pub fn meter(&self) -> &EmbedMeter {
        self.parts.queues.passages.meter()
    }

    /// Accepts no more texts and answers waiting ones with `EmbedError::Stopping`, even if other handles remain.
    pub fn stop(&self) {
        self.parts.queues.passages.stop();
        self.parts.queues.questions.iter().for_each(Queue::stop);
    }
}

impl Parts {
    fn tokens(&self, texts: &[EmbedText]) -> Result<Vec<Tokens>, EmbedError> {
        texts.iter().map(|text| self.text.tokens(text)).collect()
    }
}

/// Loads the bundle's token table for late interaction, if it has one.
fn scorer(bundle: &Bundle) -> Result<Option<TokenScorer>, EmbedError> {
    let Some(path) = bundle.late_interaction_table() else { return Ok(None) };
    let table = TokenTable::read(&path).map_err(|error| EmbedError::Table(Arc::new(error)))?;
    Ok(Some(TokenScorer::new(table).with_relevance(bundle.manifest.relevance.unwrap_or_default())))
}

/// Loads the bundle's translation table, if it has one, and adds the lexicon.
fn translations(bundle: &Bundle) -> Result<Option<Translations>, EmbedError> {
    let Some(path) = bundle.optional(TRANSLATIONS) else { return Ok(None) };
    let table = Translations::read(&path).and_then(|table| {
        let lexicon = Lexicon::from_bytes(lexicon::WORDS, lexicon::PHRASES)?;
        Ok(table.with_lexicon(lexicon))
    });
    table.map(Some).map_err(|error| EmbedError::Table(Arc::new(error)))
}

impl std::fmt::Debug for Embedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedder").field("model", &self.parts.info.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use super::*;
    use crate::text::{TextError, Tokenize};

    /// A tokenizer that blocks on each text until the other end of `wait` is dropped.
    struct Patient {
        started: Arc<AtomicUsize>,
        wait: Mutex<mpsc::Receiver<()>>,
    }

    impl Tokenize for Patient {
        fn encode(&self, _text: &str, _tokens_max: usize) -> Result<Tokens, TextError> {
            self.started.fetch_add(1, Ordering::SeqCst);
            let _ = self.wait.lock().unwrap().recv();
            Ok(Tokens { ids: vec![1], truncated: true })
        }

        fn pieces(&self, _text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError> {
            Ok(Vec::new())
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn canceling_a_request_stops_its_tokenizing() {
        let options = FakeOptions::of(4);
        let (_, encoder) = fake::make(&options, Box::new(|_| Ok(())));
        let (hold, wait) = mpsc::channel();
        let started = Arc::new(AtomicUsize::new(0));
        let tokenizer = Box::new(Patient { started: Arc::clone(&started), wait: Mutex::new(wait) });
        let text = TextReader { tokenizer, tokens_max: 1 };
        let queues = Queues::start(vec![encoder], options.bounds(), None).unwrap();
        let embedder = Embedder::of(options.model(), (text, LanguageDetector::by_rules()), (None, None), queues);
        let permits = embedder.parts.tokenizing.available_permits();
        let texts = vec!["x".repeat(TURN_BYTES); 50];
        let request = tokio::spawn({
            let embedder = embedder.clone();
            async move { embedder.embed(texts, Priority::Query).await }
        });
        while started.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        drop(hold);
        let _all = embedder.parts.tokenizing.acquire_many(permits as u32).await.unwrap();
        assert_eq!(started.load(Ordering::SeqCst), 1, "after the request is canceled, no further text is tokenized");
    }
}
