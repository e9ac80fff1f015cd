//! The evidence that search finds for a question's candidates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dragoman::bundle::{Bundle, TRANSLATIONS};
use dragoman::domain::{Language, PassageId, QueryWord, RelevanceWeights, TokenSet};
use dragoman::evaluation::SentenceEncoder as _;
use dragoman::ranking::{Evidence, TokenIndex, TokenScorer, TokenTable, Translations, WordIndex, lexical_share};
use dragoman::text::Tokenize as _;
use dragoman::text::query_words::query_words;
use dragoman::text::word_counts::word_counts;

use super::quotes;
use super::words::Words;
use crate::error::Error;
use crate::eval::encoder::tokenize;
use crate::eval::passages::{self, Pool};
use crate::eval::{Embeddings, OnnxEncoder, TextEncoder};

/// Number of passages that each ranking proposes.
const PROPOSED_PER_RANKING: usize = 50;

/// Kinds of searches. Each has the same total weight in the fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchKind {
    /// A question in the language of the passages.
    SameLanguage,
    /// A question in another language.
    OtherLanguage,
    /// A few words in another language.
    Words,
}

impl SearchKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::SameLanguage, Self::OtherLanguage, Self::Words];
}

/// A search with its candidates.
#[derive(Debug, Clone)]
pub struct RankedQuestion {
    /// What is searched for.
    pub kind: SearchKind,
    /// Whether it is held out for evaluation.
    pub held_out: bool,
    /// The evidence for each candidate.
    pub candidates: Vec<Evidence>,
    /// Index of the correct one.
    pub answer: usize,
    /// Random passages that are not candidates: they stand for passages that a search does not find.
    pub others: Vec<Evidence>,
}

/// Returns the bundle's relevance weights, and all searches with the evidence for their candidates.
pub fn collect(bundle: &Path, data: &Path, questions_max: usize) -> Result<(RelevanceWeights, Vec<RankedQuestion>), Error> {
    let opened = Bundle::open(bundle)?;
    let before = opened.manifest.relevance.unwrap_or_default();
    let Some(table) = opened.late_interaction_table() else {
        return Err(Error::Content { path: bundle.to_owned(), problem: "has no token table to score by".to_owned() });
    };
    let scorer = TokenScorer::new(TokenTable::read(&table)?);
    let translations = opened.optional(TRANSLATIONS).map(|path| Translations::read(&path)).transpose()?.unwrap_or_default();
    let mut encoder = TextEncoder::open_bundle(bundle, 0)?;
    let mut ranked = Vec::new();
    let questions = passages::pools(data, questions_max)?.into_iter();
    let questions = questions.map(|(language, pool)| (Language::parse(&language), pool, false));
    let quotes = quotes::pools(data)?.into_iter().map(|(language, pool)| (Some(language), pool, true));
    for (language, pool, of_words) in questions.chain(quotes) {
        let collection = Collection::new((&scorer, &translations), &mut encoder, &pool, language)?;
        for file in &pool.files {
            ranked.extend(collection.ask(&mut encoder, file, of_words)?);
        }
    }
    Ok((before, ranked))
}

/// A question in all its forms.
struct Query<'q> {
    text: &'q str,
    words: &'q [QueryWord],
    embedding: &'q [f32],
    tokens: &'q [u32],
}

/// The passages of a language.
struct Collection<'s> {
    scorer: &'s TokenScorer,
    translations: &'s Translations,
    language: Option<Language>,
    embeddings: Embeddings,
    tokens: TokenIndex,
    words: Words,
    plain: WordIndex,
}

impl<'s> Collection<'s> {
    fn new(
        (scorer, translations): (&'s TokenScorer, &'s Translations),
        encoder: &mut TextEncoder<OnnxEncoder>,
        pool: &Pool,
        language: Option<Language>,
    ) -> Result<Self, Error> {
        let mut tokens = TokenIndex::default();
        for (number, ids) in (0..).zip(tokenize(&encoder.tokenizer, &pool.passages, encoder.tokens_max)?) {
            tokens.insert(PassageId(number), &TokenSet::from_ids(&ids));
        }
        let words = Words::new(&pool.passages, language);
        let mut plain = WordIndex::default();
        for (number, passage) in (0..).zip(&pool.passages) {
            plain.insert(PassageId(number), &word_counts(passage, |word| translations.has(word)), translations);
        }
        Ok(Self { scorer, translations, language, embeddings: encoder.encode(&pool.passages)?, tokens, words, plain })
    }

    fn ask(
        &self,
        encoder: &mut TextEncoder<OnnxEncoder>,
        file: &passages::File,
        of_words: bool,
    ) -> Result<Vec<RankedQuestion>, Error> {
        let languages = file.pair.split_once('-').map_or((None, None), |(a, b)| (Language::parse(a), Language::parse(b)));
        let embedded = encoder.encode_questions(&file.questions)?;
        let ids = tokenize(&encoder.tokenizer, &file.questions, encoder.tokens_max)?;
        let mut ranked = Vec::new();
        for (number, ((text, embedding), ids)) in file.questions.iter().zip(embedded.rows()).zip(&ids).enumerate() {
            let pieces = encoder.tokenizer.pieces(text)?;
            let words = query_words(text, &pieces, |word| self.translations.has(word), |_| 0);
            let all = self.evidence(&Query { text, words: &words, embedding, tokens: ids }, languages.0)?;
            let answer = file.answers[number];
            let mut proposed: BTreeSet<usize> = [answer].into();
            let late = |evidence: &Evidence| evidence.late.unwrap_or(0.0);
            for by in [|e: &Evidence| e.dense, late, |e: &Evidence| e.lexical, |e: &Evidence| e.translated] {
                let mut order: Vec<usize> = (0..all.len()).collect();
                order.sort_by(|&a, &b| by(&all[b]).total_cmp(&by(&all[a])));
                proposed.extend(order.into_iter().take(PROPOSED_PER_RANKING).filter(|&passage| by(&all[passage]) > 0.0));
            }
            let others = (0..all.len()).filter(|passage| !proposed.contains(passage));
            ranked.push(RankedQuestion {
                kind: match (of_words, languages.0 == languages.1) {
                    (true, _) => SearchKind::Words,
                    (false, true) => SearchKind::SameLanguage,
                    (false, false) => SearchKind::OtherLanguage,
                },
                held_out: number % 2 == 1,
                answer: proposed.iter().position(|&passage| passage == answer).unwrap_or(0),
                // The files may be in any order, so passages at even steps are as good as random ones.
                others: others.step_by(all.len().div_ceil(8).max(1)).map(|passage| all[passage]).collect(),
                candidates: proposed.into_iter().map(|passage| all[passage]).collect(),
            });
        }
        Ok(ranked)
    }

    /// The evidence for every passage.
    fn evidence(&self, query: &Query<'_>, query_language: Option<Language>) -> Result<Vec<Evidence>, Error> {
        let mut question = self.scorer.question(query.tokens, &self.tokens)?;
        let tokens: BTreeMap<u64, &[u16]> = self.tokens.iter().map(|(passage, tokens)| (passage.0, tokens)).collect();
        question.add_passages(tokens.values().copied())?;
        // Like the server: if no document has the language of the query, it stems by the rules of the language that most
        // documents have.
        let language = if query_language == self.language { query_language } else { self.language };
        let (words, terms) = self.words.scores(query.text, language);
        let plain = (!self.translations.is_empty()).then(|| self.plain.scores(query.words, Some(&question), self.translations));
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let evidence = |(number, passage): (usize, &[f32])| {
            let own = tokens.get(&(number as u64)).copied().unwrap_or_default();
            let bm25 = words.get(&number).copied().unwrap_or(0.0) as f32;
            Evidence {
                dense: dot(query.embedding, passage),
                // The server halves the cosines of short words within longer ones, which hardly changes these scores.
                late: Some(question.score(own, &[])),
                lexical: lexical_share(bm25, terms, self.embeddings.len()),
                translated: plain.as_ref().map_or(0.0, |plain| self.plain.score(plain, PassageId(number as u64))),
                tokens: own.len(),
            }
        };
        Ok(self.embeddings.rows().enumerate().map(evidence).collect())
    }
}
