//! Finds the words of a collection that sound like a word of a question: names in other scripts and spellings.
//!
//! The words are indexed by their skeletons: their consonants in seven classes. Words whose skeleton equals that of the query
//! word, or differs from it by one consonant, are compared with the query word by edit distance. The costs were chosen on names
//! of people in English and Arabic, Hebrew, Japanese, Korean, Russian and Chinese: with a similarity of 0.75 or more, half of the
//! pairs (Hebrew, Chinese) to 94% (Russian) are recognized, and at most two in 10,000 other words are mistaken for the name.

use std::collections::HashMap;

use crate::domain::{SOUND_SYMBOLS_MAX, Sound, SoundSymbol};

/// Bits of a consonant's class in a skeleton.
const CLASS_BITS: u32 = 3;
/// Number of classes; 0 is the end of a skeleton.
pub(super) const CLASSES: u64 = 7;
/// Minimum number of consonants of a skeleton for which skeletons that differ by one are searched, too.
const VARIED_MIN: usize = 3;
/// Maximum number of words that are compared with a word of a question.
pub(super) const COMPARED_MAX: usize = 2_000;
/// Maximum number of words found, the most similar first.
pub(super) const FOUND_MAX: usize = 12;
/// Minimum similarity of words that are heavy enough, and of the lightest words.
const SIMILAR_MIN: f32 = 0.72;
const LIGHT_MIN: f32 = 0.85;
/// A word of this weight, in consonants, is heavy enough.
const WEIGHTY: f32 = 3.5;
const LIGHT: f32 = 2.2;
/// Minimum number of symbols of each of two words that are written as one.
const PART_SYMBOLS_MIN: usize = 3;
/// A word only counts as the name if no other word is more similar by more than this.
const BEHIND_MAX: f32 = 0.12;

/// Costs are in hundredths of a consonant.
const CONSONANT: u32 = 100;
const COSTS: usize = SoundSymbol::ALL.len() + 1;

/// The costs of an edit distance.
struct Costs {
    /// The cost of leaving out a symbol, by its number.
    gap: [u32; COSTS],
    /// The cost of one symbol in place of another.
    change: [[u32; COSTS]; COSTS],
}

/// The costs where both words are written with their vowels, and where one is not.
static COSTS_OF: [Costs; 2] = [Costs::new(false), Costs::new(true)];

impl Costs {
    const fn new(vowels_omitted: bool) -> Self {
        let mut costs = Self { gap: [0; COSTS], change: [[0; COSTS]; COSTS] };
        let mut a = 0;
        while a < SoundSymbol::ALL.len() {
            costs.gap[a + 1] = gap(SoundSymbol::ALL[a], vowels_omitted);
            let mut b = 0;
            while b < SoundSymbol::ALL.len() {
                if a != b {
                    costs.change[a + 1][b + 1] = change(SoundSymbol::ALL[a], SoundSymbol::ALL[b]);
                }
                b += 1;
            }
            a += 1;
        }
        costs
    }
}

const fn gap(symbol: SoundSymbol, vowels_omitted: bool) -> u32 {
    use SoundSymbol::{A, E, H, I, O, U, W, Y};
    match (symbol, vowels_omitted) {
        (A | E | I | O | U, false) => 25,
        (A | E | I | O | U, true) => 12,
        (H | W | Y, false) => 35,
        (H | W | Y, true) => 20,
        _ => CONSONANT,
    }
}

const fn change(one: SoundSymbol, other: SoundSymbol) -> u32 {
    use SoundSymbol::{A, B, Ch, D, E, F, G, H, I, K, O, S, Sh, T, Ts, U, V, W, Y, Z};
    match (one, other) {
        (A | E | I | O | U, A | E | I | O | U) => 20,
        (A | E | I | O | U | W | Y | H, A | E | I | O | U | W | Y | H) => 25,
        (W, V | B | F | G) | (V | B | F | G, W) => 30,
        (H, G | K | F | Sh) | (G | K | F | Sh, H) => 35,
        (G, Ch | Sh) | (Ch | Sh, G) | (Y, Ch) | (Ch, Y) | (K, Ch | Sh | S) | (Ch | Sh | S, K) => 50,
        (T, Ts | S | Sh | Ch) | (Ts | S | Sh | Ch, T) | (D, Z | Ts | Ch) | (Z | Ts | Ch, D) => 50,
        _ => match class(one) {
            class_of_one if class_of_one != 0 && class_of_one == class(other) => 25,
            _ => CONSONANT + 10,
        },
    }
}

/// Returns the class of a consonant, 1 to `CLASSES`, or 0 for other symbols.
const fn class(symbol: SoundSymbol) -> u64 {
    use SoundSymbol::{B, Ch, D, F, G, K, L, M, N, P, R, S, Sh, T, Ts, V, Z};
    match symbol {
        B | P | F | V => 1,
        D | T => 2,
        G | K => 3,
        S | Z | Sh | Ch | Ts => 4,
        M => 5,
        N => 6,
        L | R => 7,
        _ => 0,
    }
}

/// The words of a collection by their skeletons.
#[derive(Debug, Default)]
pub(super) struct SoundIndex {
    /// The writers of documents choose the skeletons, so their hashes are randomized.
    by_skeleton: HashMap<u64, Vec<SoundingWord>>,
}

/// A word of the collection. The sound is stored next to the posting, because a search compares many words with the same
/// skeleton.
#[derive(Debug, Clone, Copy)]
pub(super) struct SoundingWord {
    pub(super) posting_id: u32,
    pub(super) sound: Sound,
}

impl SoundIndex {
    /// Makes an index of words. Leaves out words without a sound.
    pub(super) fn of(words: impl IntoIterator<Item = SoundingWord>) -> Self {
        let mut index = Self::default();
        for word in words {
            index.insert(word);
        }
        index
    }

    /// Adds a word, unless it has no sound. Returns whether it has one.
    pub(super) fn insert(&mut self, word: SoundingWord) -> bool {
        let has_sound = !word.sound.is_none();
        if has_sound {
            self.by_skeleton.entry(skeleton(&classes(word.sound))).or_default().push(word);
        }
        has_sound
    }

    /// Returns all words, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = SoundingWord> + '_ {
        self.by_skeleton.values().flatten().copied()
    }

    /// Finds the words that sound like this and that `exists` accepts, with their similarities, the most similar first.
    pub(super) fn similar(&self, sound: Sound, exists: impl Fn(u32) -> bool) -> Vec<(SoundingWord, f32)> {
        if sound.is_none() {
            return Vec::new();
        }
        let candidates = self.with_skeletons(variants(&classes(sound), VARIED_MIN), exists);
        let matcher = SoundMatcher::new(sound, similar_min(sound));
        let compared = |word: SoundingWord| Some((word, matcher.similarity(word.sound)?));
        let mut found: Vec<(SoundingWord, f32)> = candidates.take(COMPARED_MAX).filter_map(compared).collect();
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.posting_id.cmp(&b.0.posting_id)));
        let best = found.first().map_or(0.0, |(_, similar)| *similar);
        found.retain(|(_, similar)| *similar >= best - BEHIND_MAX);
        found.truncate(FOUND_MAX);
        found
    }

    /// Finds two words that together sound like this, in this order, with the similarity of the less similar one: a name that is
    /// written without a space. `exists` accepts each of them, and `belong_together` both.
    pub(super) fn similar_pair(
        &self,
        sound: Sound,
        exists: impl Fn(u32) -> bool,
        belong_together: impl Fn(u32, u32) -> bool,
    ) -> Option<([SoundingWord; 2], f32)> {
        let symbols: Vec<SoundSymbol> = sound.symbols().collect();
        let is_pair = |one: &SoundingWord, other: &SoundingWord| belong_together(one.posting_id, other.posting_id);
        let pair_at = |middle: usize| {
            let (first, second) = symbols.split_at_checked(middle)?;
            let [first, second] = [first, second].map(|part| self.similar(Sound::new(sound.script(), part), &exists));
            let pairs = first.iter().flat_map(|one| second.iter().map(move |other| (one, other)));
            let pairs = pairs.filter(|((one, _), (other, _))| is_pair(one, other));
            pairs
                .map(|((one, of_one), (other, of_other))| ([*one, *other], of_one.min(*of_other)))
                .max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let middles = PART_SYMBOLS_MIN..=symbols.len().saturating_sub(PART_SYMBOLS_MIN);
        middles.filter_map(pair_at).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the words with these skeletons that `exists` accepts.
    pub(super) fn with_skeletons(
        &self,
        skeletons: impl IntoIterator<Item = u64>,
        exists: impl Fn(u32) -> bool,
    ) -> impl Iterator<Item = SoundingWord> {
        let words = skeletons.into_iter().filter_map(|skeleton| self.by_skeleton.get(&skeleton)).flatten().copied();
        words.filter(move |word| exists(word.posting_id))
    }
}

/// Returns how certain it is that words with this similarity are the same name, from 0 to 1. `sound` is the sound of one of them.
pub(super) fn probability(sound: Sound, similarity: f32) -> f32 {
    let min = similar_min(sound);
    (0.2 + 0.8 * (similarity - min) / (1.0 - min)).clamp(0.0, 1.0)
}

/// Returns the minimum similarity at which a word is recognized. It is higher for short words, because they often sound
/// alike by chance.
fn similar_min(sound: Sound) -> f32 {
    let weight = symbols(sound).total(&COSTS_OF[0].gap);
    let share = ((weight as f32 / CONSONANT as f32 - LIGHT) / (WEIGHTY - LIGHT)).clamp(0.0, 1.0);
    LIGHT_MIN + share * (SIMILAR_MIN - LIGHT_MIN)
}

/// A sound to compare others with.
struct SoundMatcher {
    sound: Sound,
    symbols: Symbols,
    /// Minimum similarity of a match.
    similarity_min: f32,
    /// What depends on whether both words are written with their vowels, as in `COSTS_OF`.
    own_costs: [OwnCosts; 2],
}

/// The costs of a sound that do not depend on the one that it is compared with.
#[derive(Clone, Copy)]
struct OwnCosts {
    /// Of leaving out all of its symbols.
    weight: u32,
    /// For each symbol of another sound, the least cost of any edit with it: none if this sound has the symbol too.
    costs_min: [u32; COSTS],
}

impl OwnCosts {
    fn new(symbols: &Symbols, costs: &Costs) -> Self {
        let change_min = |symbol: usize| {
            symbols.as_slice().iter().map(|from| costs.change[usize::from(*from)][symbol]).min().unwrap_or(u32::MAX)
        };
        Self {
            weight: symbols.total(&costs.gap),
            costs_min: std::array::from_fn(|symbol| costs.gap[symbol].min(change_min(symbol))),
        }
    }
}

impl SoundMatcher {
    fn new(sound: Sound, similarity_min: f32) -> Self {
        let symbols = symbols(sound);
        let own_costs = [OwnCosts::new(&symbols, &COSTS_OF[0]), OwnCosts::new(&symbols, &COSTS_OF[1])];
        Self { sound, symbols, similarity_min, own_costs }
    }

    /// Returns the similarity of another sound, at most 1, or `None` if it is less than the minimum.
    fn similarity(&self, other: Sound) -> Option<f32> {
        let vowels_omitted = usize::from(self.sound.script().omits_vowels() || other.script().omits_vowels());
        let (costs, costs_of_sound) = (&COSTS_OF[vowels_omitted], &self.own_costs[vowels_omitted]);
        // Each symbol is part of exactly one edit, so the distance is at least the second sum. This rules out most sounds.
        let add = |(weight, least): (u32, u32), symbol| {
            (weight + costs.gap[symbol as usize], least + costs_of_sound.costs_min[symbol as usize])
        };
        let (weight, distance_min) = other.symbols().fold((0, 0), add);
        let total_weight = costs_of_sound.weight.max(weight).max(1) as f32;
        let distance_max = ((1.0 - self.similarity_min) * total_weight) as u32;
        if distance_min > distance_max {
            return None;
        }
        let other = symbols(other);
        let distance = distance(self.symbols.as_slice(), other.as_slice(), costs, distance_max)?;
        Some(1.0 - distance as f32 / total_weight)
    }
}

/// The numbers of a sound's symbols.
pub(super) struct Symbols {
    numbers: [u8; SOUND_SYMBOLS_MAX],
    length: usize,
}

impl Symbols {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.numbers[..self.length]
    }

    /// Returns the sum of the costs of all symbols.
    fn total(&self, costs: &[u32; COSTS]) -> u32 {
        self.as_slice().iter().map(|symbol| costs[usize::from(*symbol)]).sum()
    }
}

pub(super) fn symbols(sound: Sound) -> Symbols {
    let mut symbols = Symbols { numbers: [0; SOUND_SYMBOLS_MAX], length: 0 };
    for symbol in sound.symbols() {
        symbols.numbers[symbols.length] = symbol as u8;
        symbols.length += 1;
    }
    symbols
}

/// Returns the minimum total cost of changing one into the other, or `None` if it is more than `distance_max`.
fn distance(one: &[u8], other: &[u8], costs: &Costs, distance_max: u32) -> Option<u32> {
    let mut row = [0; SOUND_SYMBOLS_MAX + 1];
    for (index, symbol) in other.iter().enumerate() {
        row[index + 1] = row[index] + costs.gap[usize::from(*symbol)];
    }
    for a in one {
        let (gap, change) = (costs.gap[usize::from(*a)], &costs.change[usize::from(*a)]);
        let mut diagonal = row[0];
        row[0] += gap;
        for (index, b) in other.iter().enumerate() {
            let b = usize::from(*b);
            let cost = (diagonal + change[b]).min(row[index + 1] + gap).min(row[index] + costs.gap[b]);
            diagonal = row[index + 1];
            row[index + 1] = cost;
        }
        // Costs only grow from row to row.
        if row[..=other.len()].iter().all(|cost| *cost > distance_max) {
            return None;
        }
    }
    Some(row[other.len()]).filter(|cost| *cost <= distance_max)
}

/// Returns the classes of the consonants.
pub(super) fn classes(sound: Sound) -> Vec<u64> {
    sound.symbols().map(class).filter(|class| *class != 0).collect()
}

pub(super) fn skeleton(classes: &[u64]) -> u64 {
    classes.iter().fold(0, |all, class| all << CLASS_BITS | class)
}

/// Returns the skeleton first, then, if it has at least `varied_min` consonants, those with one more, one less, or one of another
/// class.
pub(super) fn variants(classes: &[u64], varied_min: usize) -> Vec<u64> {
    let mut variants = vec![skeleton(classes)];
    if classes.len() >= varied_min {
        for index in 0..=classes.len() {
            let (before, after) = classes.split_at(index);
            let mut with = |middle: &[u64], after: &[u64]| variants.push(skeleton(&[before, middle, after].concat()));
            (1..=CLASSES).for_each(|class| with(&[class], after));
            if let [same, after @ ..] = after {
                with(&[], after);
                (1..=CLASSES).filter(|class| class != same).for_each(|class| with(&[class], after));
            }
        }
        variants[1..].sort_unstable();
        variants.dedup();
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Script;

    /// A sound in symbols; `$` is `Sh`.
    fn of(script: Script, symbols: &str) -> Sound {
        let symbol = |c: char| {
            let name = if c == '$' { "Sh".to_owned() } else { c.to_ascii_uppercase().to_string() };
            SoundSymbol::ALL.into_iter().find(|symbol| format!("{symbol:?}") == name)
        };
        Sound::new(script, &symbols.chars().filter_map(symbol).collect::<Vec<_>>())
    }

    fn sound(symbols: &str) -> Sound {
        of(Script::Latin, symbols)
    }

    fn similarity(one: Sound, other: Sound, similarity_min: f32) -> Option<f32> {
        SoundMatcher::new(one, similarity_min).similarity(other)
    }

    #[test]
    fn the_same_name_is_similar_in_all_scripts_and_spellings() {
        // Tchaikovsky, Rubinstein, Hodler and Menchik as English, Russian, Greek, Arabic or Hebrew, and Japanese write them.
        let names = [
            ["$aikovsky", "$aykovskiy", "tsaikofski", "t$aykwfsky", "$aikofski"],
            ["rubinstein", "rubin$teyn", "rubinstain", "rwbyn$tyyn", "rubin$tain"],
            ["hodler", "hodler", "hodler", "hwdlr", "hodrar"],
            ["men$ik", "men$ik", "mentsik", "mn$yk", "men$ik"],
        ];
        let scripts = [Script::Latin, Script::Cyrillic, Script::Greek, Script::Hebrew, Script::Kana];
        for name in names {
            let one = sound(name[0]);
            for (script, other) in scripts.into_iter().zip(name) {
                let similar = similarity(one, of(script, other), similar_min(one));
                assert!(similar.is_some(), "{} and {other}: {:?}", name[0], similarity(one, of(script, other), 0.0));
            }
        }
    }

    #[test]
    fn different_names_are_not_similar() {
        for (one, other) in [("hodler", "$i$kin"), ("rubinstein", "rubens"), ("levitan", "leverkuzen"), ("men$ik", "mehiko")] {
            let (one, other) = (sound(one), sound(other));
            assert_eq!(similarity(one, other, similar_min(one)), None, "{one:?} {other:?}");
        }
    }

    #[test]
    fn similarity_is_symmetric_and_one_only_for_equal_sounds() {
        let words = ["manin", "menin", "panters", "paintars", "obama"].map(sound);
        for (one, other) in words.iter().flat_map(|one| words.iter().map(move |other| (*one, *other))) {
            assert_eq!(similarity(one, other, 0.0), similarity(other, one, 0.0));
            assert_eq!(similarity(one, other, 0.0) == Some(1.0), symbols(one).as_slice() == symbols(other).as_slice());
        }
    }

    #[test]
    fn a_similarity_is_that_of_the_edit_distance() {
        let words = ["men$ik", "mn$yk", "mehiko", "manin", "menin", "panters", "paintars", "bntrz", "wb", "obama", "hodler", "a"];
        let scripts = [Script::Latin, Script::Arabic];
        let sounds: Vec<Sound> = words.iter().flat_map(|word| scripts.map(|script| of(script, word))).collect();
        for (one, other) in sounds.iter().flat_map(|one| sounds.iter().map(move |other| (*one, *other))) {
            let costs = &COSTS_OF[usize::from(one.script().omits_vowels() || other.script().omits_vowels())];
            let (a, b) = (symbols(one), symbols(other));
            let (total_weight, edits) =
                (a.total(&costs.gap).max(b.total(&costs.gap)), distance(a.as_slice(), b.as_slice(), costs, u32::MAX));
            let similar = 1.0 - edits.unwrap() as f32 / total_weight as f32;
            for similarity_min in [0.0, 0.5, 0.72, 0.85] {
                let distance_max = ((1.0 - similarity_min) * total_weight as f32) as u32;
                let expected = edits.filter(|edits| *edits <= distance_max).map(|_| similar);
                assert_eq!(similarity(one, other, similarity_min), expected, "{one:?} {other:?} {similarity_min}");
            }
        }
    }

    #[test]
    fn similar_words_are_found_by_their_consonant_skeletons() {
        let names = ["pankreas", "panters", "panterz", "panter", "zebra"].map(sound);
        let index = SoundIndex::of((0..).zip(names).map(|(posting_id, sound)| SoundingWord { posting_id, sound }));
        let found = index.similar(of(Script::Arabic, "bntrz"), |_| true);
        let mut posting_ids: Vec<u32> = found.iter().map(|(word, _)| word.posting_id).collect();
        posting_ids.sort_unstable();
        assert_eq!(posting_ids, [1, 2]);
        assert!(index.similar(Sound::NONE, |_| true).is_empty());
    }

    #[test]
    fn a_name_without_a_space_is_found_as_two_words_that_belong_together() {
        let names = ["ma$u", "pi$u", "pi$a", "hodler"].map(sound);
        let index = SoundIndex::of((0..).zip(names).map(|(posting_id, sound)| SoundingWord { posting_id, sound }));
        let found = |name: &str, together: &[[u32; 2]]| {
            let pair = index.similar_pair(of(Script::Kana, name), |_| true, |one, other| together.contains(&[one, other]));
            pair.map(|(words, _)| words.map(|word| word.posting_id))
        };
        assert_eq!(found("ma$upi$u", &[[0, 1], [0, 2]]), Some([0, 1]), "the most similar");
        assert_eq!(found("ma$upi$u", &[[0, 2]]), Some([0, 2]));
        assert_eq!(found("ma$upi$u", &[]), None);
        assert_eq!(found("ma$u", &[[0, 1]]), None);
    }

    #[test]
    fn a_search_compares_and_returns_at_most_the_maximum() {
        let (near, same) = (sound("banters"), sound("panters"));
        let words = (0..COMPARED_MAX as u32 + 1)
            .map(|posting_id| (posting_id, if posting_id < COMPARED_MAX as u32 { near } else { same }));
        let index = SoundIndex::of(words.map(|(posting_id, sound)| SoundingWord { posting_id, sound }));
        let found = index.similar(same, |_| true);
        assert_eq!(found.len(), FOUND_MAX);
        assert!(found.iter().all(|(word, _)| word.sound == near), "the last word is the most similar, but beyond the maximum");
    }

    #[test]
    fn a_long_name_needs_less_similarity_than_a_short_one() {
        let [long, short] = ["$aikovsky", "obama"].map(sound);
        assert!(similar_min(long) < similar_min(short));
        assert_eq!((probability(long, 1.0), probability(long, similar_min(long) - 0.2)), (1.0, 0.0));
    }
}
