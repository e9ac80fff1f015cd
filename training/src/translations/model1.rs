//! IBM Model 1 (Brown et al., "The mathematics of statistical machine translation", 1993, section 4.1): learns which words of
//! one language translate those of another.

use rayon::prelude::*;

/// Rounds of expectation maximization.
const ROUNDS: usize = 5;
/// Maximum translations of a word.
const TRANSLATIONS_MAX: usize = 8;
/// Minimum probability of a translation.
const PROBABILITY_MIN: f64 = 0.03;
/// Added to a word's count in the last round, because translations seen only once are uncertain.
const DOUBT: f64 = 0.5;

/// Sentences and their translations, as word numbers.
#[derive(Debug, Default)]
pub struct Model {
    sentences: Vec<(Vec<u32>, Vec<u32>, f32)>,
}

impl Model {
    /// Adds a sentence of distinct words and the distinct words of its translation, which counts `weight` times. The null word
    /// 0 is added to the sentence.
    pub fn add(&mut self, mut words: Vec<u32>, translation: Vec<u32>, weight: f32) {
        if !words.is_empty() && !translation.is_empty() {
            words.push(0);
            self.sentences.push((words, translation, weight));
        }
    }

    /// The translations of each word except 0, each with its probability, most probable first.
    pub fn fit(&self) -> Vec<(u32, Vec<(u32, f64)>)> {
        let pairs = self.pairs();
        // The positions in `pairs` of all co-occurring word pairs, sentence after sentence.
        let positions: Vec<u32> = self
            .sentences
            .par_iter()
            .flat_map_iter(|(words, translation, _)| {
                let of = |other: u32| words.iter().map(move |word| key(*word, other));
                translation.iter().flat_map(move |other| of(*other)).map(|pair| pairs.binary_search(&pair).unwrap_or(0) as u32)
            })
            .collect();
        let mut likely = vec![1.0_f32; pairs.len()];
        for round in 0..ROUNDS {
            let counts = self.expect(&positions, &likely);
            let doubt = if round + 1 == ROUNDS { DOUBT } else { 0.0 };
            maximize(&pairs, &counts, doubt, &mut likely);
        }
        strongest(&pairs, &likely)
    }

    /// All word pairs that co-occur in a sentence pair, sorted and distinct.
    fn pairs(&self) -> Vec<u64> {
        let of = |(words, translation, _): &(Vec<u32>, Vec<u32>, f32)| -> Vec<u64> {
            translation.iter().flat_map(|other| words.iter().map(|word| key(*word, *other))).collect()
        };
        let mut pairs: Vec<u64> = self.sentences.par_iter().flat_map_iter(of).collect();
        pairs.par_sort_unstable();
        pairs.dedup();
        pairs
    }

    /// The expected number of times that the words of each pair translate each other.
    fn expect(&self, positions: &[u32], likely: &[f32]) -> Vec<f32> {
        let mut counts = vec![0.0; likely.len()];
        let mut rest = positions;
        for (words, translation, weight) in &self.sentences {
            for _ in translation {
                let (own, others) = rest.split_at(words.len());
                rest = others;
                let total: f32 = own.iter().map(|&position| likely[position as usize]).sum();
                for &position in own {
                    counts[position as usize] += weight * likely[position as usize] / total.max(f32::MIN_POSITIVE);
                }
            }
        }
        counts
    }
}

fn key(word: u32, translation: u32) -> u64 {
    (u64::from(word) << 32) | u64::from(translation)
}

/// Turns counts into probabilities: those of each word sum to 1, or to less if `doubt` is added to the total.
fn maximize(pairs: &[u64], counts: &[f32], doubt: f64, likely: &mut [f32]) {
    let mut from = 0;
    for word in pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
        let own = from..from + word.len();
        let total = counts[own.clone()].iter().map(|count| f64::from(*count)).sum::<f64>() + doubt;
        for position in own {
            likely[position] = (f64::from(counts[position]) / total.max(f64::MIN_POSITIVE)) as f32;
        }
        from += word.len();
    }
}

fn strongest(pairs: &[u64], likely: &[f32]) -> Vec<(u32, Vec<(u32, f64)>)> {
    let mut found = Vec::new();
    let mut from = 0;
    for word in pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
        let own = word.iter().zip(&likely[from..from + word.len()]);
        let likely = own.map(|(pair, probability)| (*pair as u32, f64::from(*probability)));
        let mut likely: Vec<(u32, f64)> = likely.filter(|(_, probability)| *probability >= PROBABILITY_MIN).collect();
        likely.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        likely.truncate(TRANSLATIONS_MAX);
        let number = (word[0] >> 32) as u32;
        if number > 0 && !likely.is_empty() {
            found.push((number, likely));
        }
        from += word.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translations_are_learned_from_shared_sentences() {
        // 1 das, 2 haus, 3 buch, 4 ein; translations 1 the, 2 house, 3 book, 4 a.
        let mut model = Model::default();
        for _ in 0..5 {
            model.add(vec![1, 2], vec![1, 2], 1.0);
            model.add(vec![1, 3], vec![1, 3], 1.0);
            model.add(vec![4, 3], vec![4, 3], 1.0);
        }
        let found = model.fit();
        for (word, translations) in &found {
            let (first, probability) = translations[0];
            assert!(first == *word && probability > 0.5, "{word}: {translations:?}");
        }
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn a_word_seen_once_is_less_certain_than_one_seen_often() {
        let mut model = Model::default();
        model.add(vec![1], vec![1], 1.0);
        for _ in 0..20 {
            model.add(vec![2], vec![2], 1.0);
        }
        let found = model.fit();
        let probability = |word| found.iter().find(|(number, _)| *number == word).map(|(_, found)| found[0].1).unwrap();
        assert!(probability(1) < probability(2), "{found:?}");
    }
}
