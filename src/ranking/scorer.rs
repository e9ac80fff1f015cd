//! Late interaction against a collection: one product gives the cosines of a question's tokens with all pieces of the vocabulary, and
//! each passage is then look-ups and maxima. Nothing is stored for a passage but its token ids.
//!
//! A token of the question weighs w_i = n_i u_i ln(1 + 1 / f_i): how often it occurs in the question, times what the model has
//! learned that it says (the table's weights), times how rare it is in the collection. f_i is the share of the passages that have
//! the token or one that is near to it, in any language, as if these occurred independently of each other: so "the" weighs little in a
//! question even where all passages are in Japanese.

use numkong::{PackedMatrix, Tensor, available, cap, configure_thread};

use super::{TokenIndex, TokenTable};
use crate::domain::{PassageId, RelevanceWeights};

/// Distinct tokens of a question that are looked for; of a longer one those that say most.
pub const QUESTION_TOKENS_MAX: usize = 2 * LANES;
/// Tokens of the question that are compared together.
const LANES: usize = 16;
/// Rows of the table that are multiplied at a time, so that products stay in the nearest caches.
const ROWS_PER_BLOCK: usize = 1_024;
/// From this cosine on a token stands for another one when its rarity is counted.
const NEAR: f32 = 0.6;
/// The least share of passages that counts, and one passage at least: what is in none weighs no more than what is in that many.
const SHARE_MIN: f32 = 1e-3;
/// While passages are looked for, cosines below this count as none: few tokens are left to look at, and nothing that would be
/// found is lost.
const SCANNED: f32 = 0.3;
/// Passages that are looked at for each passage there is, counted once for each token that leads to them; and that many always.
/// Beyond, those tokens of the question that say least for what they cost find nothing by themselves.
const VISITS_PER_PASSAGE: usize = 2;
const VISITS_MIN: usize = 200_000;
/// From this cosine on two tokens are taken for the same one, when it is asked whether that says anything.
const SAME: f32 = 0.98;
/// What a token of the question says at least, in parts of what all say on average, so that finding it means something.
const TELLING: f32 = 0.5;
/// What a cosine of 1 is kept as.
const ONE: f32 = i16::MAX as f32;

/// A model's token table, ready for products.
pub struct TokenScorer {
    dimension: usize,
    /// [vocabulary, dimension]
    rows: Vec<i8>,
    /// The same, packed, `ROWS_PER_BLOCK` at a time.
    blocks: Vec<PackedMatrix<i8>>,
    /// One over the length of each row; 0 for a row of zeros.
    inverse_lengths: Vec<f32>,
    weights: Vec<f32>,
    relevance: RelevanceWeights,
}

/// A question against the vocabulary of a collection.
pub struct Question {
    /// For each token id its cosines with the tokens of the question, `groups` of `LANES` each, as parts of `ONE`. Below 0 is 0.
    cosines: Vec<[i16; LANES]>,
    groups: usize,
    /// The weight of each of these, with sum 1; 0 where there is no token.
    weights: Vec<[f32; LANES]>,
    /// For each token of the question those with a cosine of `SCANNED` or more that passages have, nearest first.
    near: Vec<Vec<(f32, u16)>>,
}

/// What a token of a passage is to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenMatch {
    /// The nearest there is to a token of the question that says much.
    Near,
    /// A token of the question that says little: "the", or what most passages have.
    Light,
    /// Neither.
    Other,
}

/// Why a token table cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the token table cannot be multiplied")]
pub struct ScorerError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl ScorerError {
    fn of(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl TokenScorer {
    /// Takes a model's token table. Ids from 65,536 on are never looked for.
    pub fn new(table: TokenTable) -> Result<Self, ScorerError> {
        let TokenTable { dimension, rows, scales: _, weights } = table;
        let pack = |rows: &[i8]| {
            let tensor = Tensor::<i8>::try_from_slice(rows, &[rows.len() / dimension, dimension]).map_err(ScorerError::of)?;
            PackedMatrix::try_pack(&tensor).map_err(ScorerError::of)
        };
        let blocks = rows.chunks(ROWS_PER_BLOCK * dimension).map(pack).collect::<Result<_, _>>()?;
        let length = |row: &[i8]| (row.iter().map(|&value| i32::from(value).pow(2)).sum::<i32>() as f32).sqrt();
        let inverse_lengths = rows.chunks_exact(dimension).map(|row| length(row).max(1.0).recip()).collect();
        Ok(Self { dimension, rows, blocks, inverse_lengths, weights, relevance: RelevanceWeights::default() })
    }

    /// The same with the model's weights of all evidence.
    pub fn weighing(self, relevance: RelevanceWeights) -> Self {
        Self { relevance, ..self }
    }

    /// How this score and other evidence become one relevance.
    pub fn relevance(&self) -> RelevanceWeights {
        self.relevance
    }

    /// Compares the tokens of a question with those of all passages.
    pub fn question(&self, tokens: &[u32], index: &TokenIndex) -> Result<Question, ScorerError> {
        let counted = self.counted(tokens);
        let groups = counted.len().div_ceil(LANES).max(1);
        let vocabulary = self.weights.len();
        let mut question = Question {
            cosines: vec![[0; LANES]; vocabulary * groups],
            groups,
            weights: vec![[0.0; LANES]; groups],
            near: vec![Vec::new(); counted.len()],
        };
        if counted.is_empty() || index.is_empty() {
            return Ok(question);
        }
        let ids: Vec<usize> = counted.iter().map(|&(token, _)| token).collect();
        // The share of the passages that have none of the tokens near to one of the question.
        let mut without = vec![1.0_f32; ids.len()];
        let passages = index.len() as f32;
        self.products(&ids, index, |token, products| {
            let inverse = self.inverse_lengths[token];
            for (lane, (&product, &id)) in products.iter().zip(&ids).enumerate() {
                let cosine = (product as f32 * inverse * self.inverse_lengths[id]).clamp(0.0, 1.0);
                question.cosines[token * groups + lane / LANES][lane % LANES] = (cosine * ONE + 0.5) as i16;
                if cosine >= SCANNED {
                    question.near[lane].push((cosine, token as u16));
                }
                if cosine >= NEAR {
                    without[lane] *= 1.0 - index.frequency(token as u16) as f32 / passages;
                }
            }
        })?;
        question.near.iter_mut().for_each(|near| near.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))));
        let share_min = SHARE_MIN.max(1.0 / (passages + 1.0));
        let rarity = |without: f32| (1.0 + 1.0 / (1.0 - without).max(share_min)).ln();
        let weights: Vec<f32> = counted.iter().zip(&without).map(|(&(_, weight), &without)| weight * rarity(without)).collect();
        let total: f32 = weights.iter().sum();
        for (lane, weight) in weights.into_iter().enumerate() {
            question.weights[lane / LANES][lane % LANES] = weight / total;
        }
        Ok(question)
    }

    /// The distinct tokens of a question with how much each weighs before its rarity; the heaviest if there are too many.
    fn counted(&self, tokens: &[u32]) -> Vec<(usize, f32)> {
        let mut distinct: Vec<usize> = tokens.iter().map(|&token| token as usize).collect();
        distinct.retain(|&token| token < self.weights.len().min(1 << 16));
        distinct.sort_unstable();
        let runs = distinct.chunk_by(|a, b| a == b);
        let mut counted: Vec<(usize, f32)> = runs.map(|run| (run[0], run.len() as f32 * self.weights[run[0]])).collect();
        if counted.len() > QUESTION_TOKENS_MAX {
            counted.sort_by(|a, b| b.1.total_cmp(&a.1));
            counted.truncate(QUESTION_TOKENS_MAX);
        }
        counted
    }

    /// Hands each token that occurs in a passage to `take`, with the products of its row and those of `ids`.
    fn products(&self, ids: &[usize], index: &TokenIndex, mut take: impl FnMut(usize, &[i32])) -> Result<(), ScorerError> {
        let occurs = |token: &usize| index.frequency(*token as u16) > 0;
        let row = |token: usize| &self.rows[token * self.dimension..][..self.dimension];
        // Where the system refuses the registers of AMX, the products that need them must not run.
        let usable = available() & (cap::SAPPHIREAMX | cap::GRANITEAMX) == 0 || configure_thread();
        let own: Vec<i8> = ids.iter().flat_map(|&id| row(id)).copied().collect();
        let own = Tensor::<i8>::try_from_slice(&own, &[ids.len(), self.dimension]).map_err(ScorerError::of)?;
        let mut products = vec![0; ids.len()];
        for (number, block) in self.blocks.iter().enumerate() {
            let first = number * ROWS_PER_BLOCK;
            let rows = first..(first + block.dims().0).min(1 << 16);
            if !rows.clone().any(|token| occurs(&token)) {
                continue;
            }
            if !usable {
                for token in rows.filter(occurs) {
                    let dot = |id: &usize| row(*id).iter().zip(row(token)).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
                    products.iter_mut().zip(ids).for_each(|(product, id)| *product = dot(id));
                    take(token, &products);
                }
                continue;
            }
            let mut room = Tensor::<i32>::try_full(&[ids.len(), block.dims().0], 0).map_err(ScorerError::of)?;
            own.try_dots_packed_into(block, &mut room).map_err(ScorerError::of)?;
            let (all, count) = (room.as_slice(), block.dims().0);
            for token in rows.filter(occurs) {
                let column = token - first;
                products.iter_mut().enumerate().for_each(|(lane, product)| *product = all[lane * count + column]);
                take(token, &products);
            }
        }
        Ok(())
    }
}

impl Question {
    /// How well a passage answers: the sum over the question's tokens of weight times the greatest cosine among the passage's tokens,
    /// 0 to 1.
    pub fn score(&self, tokens: &[u16]) -> f32 {
        self.sum(tokens, 0)
    }

    /// The same, where cosines below `least` count as none.
    fn sum(&self, tokens: &[u16], least: i16) -> f32 {
        let mut score = 0.0;
        for (group, weights) in self.weights.iter().enumerate() {
            let mut greatest = [0_i16; LANES];
            for &token in tokens {
                // A token that the table does not have is near to none.
                if let Some(row) = self.cosines.get(usize::from(token) * self.groups + group) {
                    let seen = |cosine: i16| if cosine < least { 0 } else { cosine };
                    greatest.iter_mut().zip(row).for_each(|(greatest, &cosine)| *greatest = (*greatest).max(seen(cosine)));
                }
            }
            let weighted = greatest.iter().zip(weights).map(|(&cosine, weight)| f32::from(cosine) * weight);
            score += weighted.sum::<f32>();
        }
        score / ONE
    }

    /// What each token of a passage is to the question.
    pub fn matches(&self, tokens: &[u16]) -> Vec<TokenMatch> {
        let asked = self.weights.iter().flatten().filter(|&&weight| weight > 0.0).count();
        let telling = TELLING / asked.max(1) as f32;
        let (near, same) = ((NEAR * ONE) as i16, (SAME * ONE) as i16);
        let mut matches = vec![TokenMatch::Other; tokens.len()];
        for (group, weights) in self.weights.iter().enumerate() {
            let row = |token: u16| self.cosines.get(usize::from(token) * self.groups + group);
            for (lane, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                let cosines: Vec<i16> = tokens.iter().map(|&token| row(token).map_or(0, |row| row[lane])).collect();
                let nearest = cosines.iter().copied().max().unwrap_or(0);
                for (found, &cosine) in matches.iter_mut().zip(&cosines) {
                    if weight >= telling && cosine >= near && cosine == nearest {
                        *found = TokenMatch::Near;
                    } else if weight < telling && cosine >= same && *found == TokenMatch::Other {
                        *found = TokenMatch::Light;
                    }
                }
            }
        }
        matches
    }

    /// The `limit` passages that answer best, best first. Only those that `accept` accepts, and that have a token near to one of
    /// the question. Cosines below `SCANNED` count as none, and so do tokens that lead to too many passages for what they say
    /// (`VISITS_PER_PASSAGE`), so scores may be lower than those of `score`.
    pub fn nearest(&self, index: &TokenIndex, limit: usize, accept: impl Fn(PassageId) -> bool) -> Vec<(PassageId, f32)> {
        let mut scores = vec![0.0_f32; index.slots()];
        // Which token of the question has last found the passage of a slot: the first that does is the nearest.
        let mut found_by = vec![0_u8; index.slots()];
        for lane in self.affordable(index) {
            let (own, weight) = (lane as u8 + 1, self.weights[lane / LANES][lane % LANES]);
            for &(cosine, token) in &self.near[lane] {
                for &slot in index.posting(token) {
                    let slot = slot as usize;
                    if found_by[slot] != own {
                        found_by[slot] = own;
                        scores[slot] += weight * cosine;
                    }
                }
            }
        }
        for (slot, tokens) in index.tail() {
            scores[slot as usize] = self.sum(tokens, (SCANNED * ONE) as i16);
        }
        let found = scores.into_iter().zip(0..).filter(|(score, _)| *score > 0.0);
        let mut found: Vec<(PassageId, f32)> =
            found.filter_map(|(score, slot)| Some((index.passage(slot).filter(|&passage| accept(passage))?, score))).collect();
        let better = |a: &(PassageId, f32), b: &(PassageId, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if found.len() > limit {
            found.select_nth_unstable_by(limit, better);
            found.truncate(limit);
        }
        found.sort_unstable_by(better);
        found
    }

    /// The tokens of the question that passages are looked for by: those that say most for the passages that they lead to, within
    /// bounds, and at least one.
    fn affordable(&self, index: &TokenIndex) -> Vec<usize> {
        let visits = |lane: usize| self.near[lane].iter().map(|&(_, token)| index.posting(token).len()).sum::<usize>();
        let worth = |lane: usize, visits: usize| self.weights[lane / LANES][lane % LANES] / (1 + visits) as f32;
        let mut lanes: Vec<(usize, usize)> = (0..self.near.len()).map(|lane| (lane, visits(lane))).collect();
        lanes.sort_by(|a, b| worth(b.0, b.1).total_cmp(&worth(a.0, a.1)));
        let mut left = VISITS_MIN.max(VISITS_PER_PASSAGE * index.len());
        let within = |&(number, (_, visits)): &(usize, (usize, usize))| {
            left = left.saturating_sub(visits);
            number == 0 || left > 0
        };
        lanes.into_iter().enumerate().take_while(within).map(|(_, (lane, _))| lane).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::TokenSet;

    /// Rows of 300 tokens in five dimensions, of no pattern.
    fn table() -> TokenTable {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as i8
        };
        let rows: Vec<i8> = (0..300 * 5).map(|_| next().max(-127)).collect();
        let weights = (0..300).map(|token| 0.5 + (token % 7) as f32).collect();
        TokenTable { dimension: 5, rows, scales: vec![0.02; 300], weights }
    }

    fn passages() -> TokenIndex {
        let mut index = TokenIndex::default();
        for passage in 0..60_u32 {
            let tokens: Vec<u32> = (0..8).map(|n| (passage * 13 + n * n * 29) % 280).collect();
            index.insert(PassageId(passage.into()), &TokenSet::of(&tokens));
        }
        index
    }

    /// The formula as it stands at the top, in plain arithmetic.
    fn plain(question: &[u32], passage: &[u16], index: &TokenIndex) -> f32 {
        let table = table();
        let vectors = table.vectors();
        let row = |token: usize| &vectors[token * 5..][..5];
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let cosine = |a: usize, b: usize| dot(row(a), row(b)) / (dot(row(a), row(a)) * dot(row(b), row(b))).sqrt();
        let (mut sum, mut total) = (0.0, 0.0);
        for &token in question {
            let token = token as usize;
            let near = (0..300).filter(|&other| cosine(token, other) >= NEAR);
            let without: f32 = near.map(|other| 1.0 - index.frequency(other as u16) as f32 / index.len() as f32).product();
            let share = (1.0 - without).max(1.0 / (index.len() as f32 + 1.0));
            let weight = table.weights[token] * (1.0 + 1.0 / share).ln();
            let greatest = passage.iter().map(|&other| cosine(token, usize::from(other))).fold(0.0, f32::max);
            sum += weight * greatest;
            total += weight;
        }
        sum / total
    }

    #[test]
    fn scores_are_those_of_the_formula() {
        let (scorer, index) = (TokenScorer::new(table()).unwrap(), passages());
        let long: Vec<u32> = (0..25).map(|n| n * 11).collect();
        for question in [&[5, 290, 5, 17][..], &[3], &long] {
            let asked = scorer.question(question, &index).unwrap();
            for (passage, tokens) in index.iter() {
                let (got, expect) = (asked.score(tokens), plain(question, tokens, &index));
                assert!((got - expect).abs() < 1e-4, "{question:?}, {passage:?}: {got}, expected {expect}");
            }
        }
    }

    #[test]
    fn the_best_passages_are_found_in_their_order() {
        let (scorer, mut index) = (TokenScorer::new(table()).unwrap(), passages());
        let asked = scorer.question(&[5, 120, 17], &index).unwrap();
        let waiting = asked.nearest(&index, 60, |_| true);
        index.prepare_now();
        let (prepared, rounding) = (asked.nearest(&index, 60, |_| true), 1e-4);
        assert!(waiting.len() == 60 && waiting.iter().zip(&prepared).all(|(a, b)| (a.1 - b.1).abs() < rounding));
        let mut all: Vec<(PassageId, f32)> = index.iter().map(|(passage, tokens)| (passage, asked.score(tokens))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let keys = |found: &[(PassageId, f32)]| found.iter().map(|(passage, _)| passage.0).collect::<Vec<_>>();
        assert_eq!(keys(&asked.nearest(&index, 5, |_| true)), keys(&all[..5]));
        let odd: Vec<_> = all.iter().copied().filter(|(passage, _)| passage.0 % 2 == 1).collect();
        assert_eq!(keys(&asked.nearest(&index, 5, |passage| passage.0 % 2 == 1)), keys(&odd[..5]));
    }

    #[test]
    fn a_token_that_nearly_all_passages_have_finds_none_of_them_by_itself_among_many() {
        // Three tokens that say the same, and another one.
        let rows = vec![127, 0, 0, 127, 127, 0, 127, 0];
        let table = TokenTable { dimension: 2, rows, scales: vec![1.0; 4], weights: vec![1.0; 4] };
        let mut index = TokenIndex::default();
        for passage in 0..VISITS_MIN as u64 {
            let tokens = if passage % 1_000 == 0 { &[0, 1, 2, 3][..] } else { &[0, 2, 3] };
            index.insert(PassageId(passage), &TokenSet::of(tokens));
        }
        index.prepare();
        let asked = TokenScorer::new(table).unwrap().question(&[0, 1], &index).unwrap();
        let found = asked.nearest(&index, 1_000, |_| true);
        assert_eq!(found.len(), 200, "those that have the rare token");
        assert!(found.iter().all(|(passage, score)| passage.0 % 1_000 == 0 && *score < asked.score(&[0, 1])));
    }

    #[test]
    fn a_question_without_known_tokens_finds_nothing() {
        let (scorer, index) = (TokenScorer::new(table()).unwrap(), passages());
        for question in [&[][..], &[400, 70_000]] {
            let asked = scorer.question(question, &index).unwrap();
            assert_eq!((asked.score(&[1, 2]), asked.nearest(&index, 9, |_| true)), (0.0, Vec::new()));
        }
        let nothing = TokenIndex::default();
        assert_eq!(scorer.question(&[5], &nothing).unwrap().nearest(&nothing, 9, |_| true), []);
    }

    #[test]
    fn tokens_of_passages_that_the_table_does_not_have_count_for_nothing() {
        let (scorer, mut index) = (TokenScorer::new(table()).unwrap(), passages());
        let before = scorer.question(&[5, 17], &index).unwrap().nearest(&index, 60, |_| true);
        index.insert(PassageId(900), &TokenSet::of(&[300, 65_535]));
        let asked = scorer.question(&[5, 17], &index).unwrap();
        assert_eq!(asked.score(&[300, 65_535]), 0.0);
        let after = asked.nearest(&index, 60, |_| true);
        assert!(before.len() == after.len() && after.iter().all(|(passage, _)| passage.0 < 900), "{after:?}");
    }

    #[test]
    fn the_nearest_tokens_of_a_passage_are_told_from_those_that_say_little() {
        let scorer = TokenScorer::new(TokenTable {
            dimension: 2,
            rows: vec![127, 0, 0, 127, 120, 40, 90, 90, 126, 12],
            scales: vec![1.0; 5],
            weights: vec![1.0; 5],
        });
        let mut index = TokenIndex::default();
        (0..200).for_each(|passage| index.insert(PassageId(passage), &TokenSet::of(&[1])));
        (200..205).for_each(|passage| index.insert(PassageId(passage), &TokenSet::of(&[0, 2, 3, 4])));
        let asked = scorer.unwrap().question(&[0, 1], &index).unwrap();
        let (near, light, other) = (TokenMatch::Near, TokenMatch::Light, TokenMatch::Other);
        assert_eq!(asked.matches(&[0, 1, 2]), [near, light, other], "all passages have 1");
        assert_eq!(asked.matches(&[2, 4, 4, 1, 999]), [other, near, near, light, other], "only the nearest");
        assert_eq!(asked.matches(&[3]), [near], "as near as 0.7");
        assert_eq!(asked.matches(&[]), []);
    }

    #[test]
    fn a_token_that_most_passages_have_weighs_less() {
        let scorer = TokenScorer::new(TokenTable {
            dimension: 2,
            rows: vec![127, 0, 0, 127, -127, 0],
            scales: vec![1.0; 3],
            weights: vec![1.0; 3],
        });
        let mut index = TokenIndex::default();
        (0..10).for_each(|passage| index.insert(PassageId(passage), &TokenSet::of(&[0])));
        index.insert(PassageId(10), &TokenSet::of(&[1]));
        let asked = scorer.unwrap().question(&[0, 1], &index).unwrap();
        assert!(asked.score(&[1]) > 0.75 && asked.score(&[0]) < 0.25, "{} and {}", asked.score(&[1]), asked.score(&[0]));
    }
}
