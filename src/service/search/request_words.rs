//! Tells the topic of a query from the words that only say that somebody searches: "pumpkins" in "I am looking for information
//! about pumpkins". Those words would find passages about information.
//!
//! The words below are English. A bundle's translation table knows which words of other languages mean the same. Such words at the
//! beginning and the end of a query are cut off (stop structures: Huston and Croft, "Evaluating verbose query processing
//! techniques", 2010).

use std::cell::OnceCell;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::embed::{Embedder, overlap, word_key, word_ranges};
use crate::ranking::Translations;

/// Words that ask. A request has one of them, or what people ask for and a word that leads to the topic.
const ASKING: &str = "search searching find found look looking show tell explain describe give want need would like know interested please \
    wish help wonder wondering curious ask";
/// What people ask for. Beside the topic, these words belong to it: "information desks".
const OBJECTS: &str = "information info documents document articles article details something anything everything materials overview texts \
    files summary explanation more learn read see say stuff question";
/// Words that lead to a topic.
const LEADING: &str = "about on concerning regarding mentions mention related topic subject theme";
/// Words that only say little beside the words above.
const LITTLE_WORDS: &str = "i me we us you your our am m d ll re ve where can could do does did have has had any some all there that for to thanks kindly";
/// Words of questions, which are no topic alone.
const QUESTION_WORDS: &str = "what how who which when why whose whom is are";

/// Minimum probability that a word means one of these words, to count as one.
const MEANS_MIN: f32 = 0.15;
/// Maximum weight of the tokens of an article or a preposition, as a multiple of that of an average token.
const LIGHT_MAX: f32 = 0.3;
/// Minimum number of words to cut off. One alone, as in "find command", may belong to the topic.
const CUT_MIN: usize = 2;
/// Maximum bytes of a query that may be a request, and minimum number of its words. Longer ones were pasted.
const REQUEST_BYTES_MAX: usize = 1 << 10;
const REQUEST_WORDS_MIN: usize = 3;

/// The role of a word in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Topic,
    Asking,
    Object,
    Leading,
    Little,
}

/// Recognizes the words of requests.
pub(super) struct RequestWords<'a> {
    translations: &'a Translations,
    asking: Meaning,
    objects: Meaning,
    leading: Meaning,
    little: Meaning,
    questions: Meaning,
}

/// What some words mean.
struct Meaning {
    /// The words by their numbers.
    words: Vec<u32>,
    /// Their concepts, each with the highest probability that one of the words has it.
    concepts: FxHashMap<u16, f32>,
}

impl Meaning {
    fn of(words: &str, translations: &Translations) -> Self {
        let words: Vec<u32> = words.split(' ').map(word_key).collect();
        let mut concepts = FxHashMap::default();
        for sense in words.iter().flat_map(|word| translations.senses(*word)) {
            let highest: &mut f32 = concepts.entry(sense.concept).or_default();
            *highest = highest.max(sense.probability());
        }
        Self { words, concepts }
    }

    /// Returns the probability that a word, by its number, means one of the words.
    fn probability(&self, word: u32, translations: &Translations) -> f32 {
        let senses = translations.senses(word).iter();
        senses.filter_map(|sense| Some(sense.probability() * self.concepts.get(&sense.concept)?)).sum()
    }

    /// Returns the same to find the role of a word. There, a word certainly means itself: other languages may have words that are
    /// spelled like it, but hardly in a request.
    fn role_probability(&self, word: u32, translations: &Translations) -> f32 {
        if self.words.contains(&word) { 1.0 } else { self.probability(word, translations) }
    }
}

impl<'a> RequestWords<'a> {
    pub(super) fn new(translations: &'a Translations) -> Self {
        let meaning = |words| Meaning::of(words, translations);
        let (asking, objects) = (meaning(ASKING), meaning(OBJECTS));
        Self {
            translations,
            asking,
            objects,
            leading: meaning(LEADING),
            little: meaning(LITTLE_WORDS),
            questions: meaning(QUESTION_WORDS),
        }
    }

    /// Returns the part of a query that says what is searched for, as a range of bytes. `None` if it is no request.
    pub(super) fn topic(&self, query: &str, embedder: &Embedder) -> Option<Range<usize>> {
        let pieces = OnceCell::new();
        let weight = |word: &Range<usize>| {
            let pieces = pieces.get_or_init(|| embedder.pieces(query).unwrap_or_default());
            let own = pieces.iter().filter(|(token, range)| overlap(range, word) && !embedder.is_blank(*token));
            let weights = embedder.scorer().map(|scorer| own.map(|(token, _)| scorer.relative_weight(*token)));
            weights.map_or(1.0, Iterator::sum)
        };
        self.find_topic(query, weight)
    }

    /// Finds the topic. `weight` returns the weight of the word of these bytes, as a multiple of that of an average token.
    fn find_topic(&self, query: &str, weight: impl Fn(&Range<usize>) -> f32) -> Option<Range<usize>> {
        if query.len() > REQUEST_BYTES_MAX {
            return None;
        }
        let words = word_ranges(query);
        if words.len() < REQUEST_WORDS_MIN || !words.iter().any(|(word, _)| self.asks(*word) || self.is_object(*word)) {
            return None;
        }
        let weights: Vec<f32> = words.iter().map(|(_, range)| weight(range)).collect();
        let roles: Vec<Role> = words.iter().zip(&weights).map(|((word, _), weight)| self.role(*word, *weight)).collect();
        let (before, after) = (cut_length(roles.iter()), cut_length(roles.iter().rev()));
        if before + after < CUT_MIN || before + after >= words.len() {
            return None;
        }
        let inside = before..words.len() - after;
        let cut = || (0..words.len()).filter(|index| !inside.contains(index));
        let is_cut = |role| cut().any(|index| roles[index] == role);
        let is_request = is_cut(Role::Asking) || is_cut(Role::Object) && is_cut(Role::Leading);
        if !is_request {
            return None;
        }
        // What matters most in a request is its topic.
        let is_topic = |index: &usize| roles[*index] == Role::Topic && !self.is_question_word(words[*index].0);
        let heaviest = |indices: &mut dyn Iterator<Item = usize>| indices.map(|index| weights[index]).fold(0.0, f32::max);
        if heaviest(&mut inside.clone().filter(is_topic)) <= heaviest(&mut cut()) {
            return None;
        }
        let start = before.checked_sub(1).map_or(0, |last| words[last].1.end);
        let end = words.get(inside.end).map_or(query.len(), |first| first.1.start);
        let topic = query[start..end].trim();
        let start = end - query[start..end].trim_start().len();
        Some(start..start + topic.len()).filter(|topic| ![topic.start, topic.end].iter().any(|at| is_within_korean(query, *at)))
    }

    fn role(&self, word: u32, weight: f32) -> Role {
        let probability = |meaning: &Meaning| meaning.role_probability(word, self.translations);
        let [asking, object, leading] = [&self.asking, &self.objects, &self.leading].map(probability);
        if asking >= MEANS_MIN && asking >= object {
            Role::Asking
        } else if object >= MEANS_MIN {
            Role::Object
        } else if asking + object + leading >= MEANS_MIN {
            Role::Leading
        } else if probability(&self.little) >= MEANS_MIN || weight < LIGHT_MAX {
            Role::Little
        } else {
            Role::Topic
        }
    }

    fn is_object(&self, word: u32) -> bool {
        self.objects.role_probability(word, self.translations) >= MEANS_MIN
    }

    fn asks(&self, word: u32) -> bool {
        self.asking.role_probability(word, self.translations) >= MEANS_MIN
    }

    fn is_question_word(&self, word: u32) -> bool {
        self.questions.role_probability(word, self.translations) >= MEANS_MIN
    }
}

/// Whether a position is inside a Korean word. Pairs of Korean characters count as words.
fn is_within_korean(text: &str, at: usize) -> bool {
    let is_korean = |c: Option<char>| c.is_some_and(|c| matches!(c, '\u{ac00}'..='\u{d7a3}'));
    is_korean(text[..at].chars().next_back()) && is_korean(text[at..].chars().next())
}

/// Returns how many of the words to cut off, given from one end of the query on.
fn cut_length<'r>(roles: impl Iterator<Item = &'r Role>) -> usize {
    let cut: Vec<Role> = roles.copied().take_while(|role| *role != Role::Topic).collect();
    // Objects beside the topic belong to it.
    cut.iter().rposition(|role| *role != Role::Object).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::Sense;

    /// The concepts of asking, information, "about" and pumpkins, in English and German.
    fn translations() -> Translations {
        let words = [
            ("tell", 1),
            ("find", 1),
            ("erzahl", 1),
            ("information", 2),
            ("informationen", 2),
            ("about", 3),
            ("please", 1),
            ("bitte", 1),
            ("pumpkins", 4),
            ("kurbisse", 4),
        ];
        let senses = |concept| vec![Sense::new(concept, 0.9), Sense::new(9, 0.1)];
        Translations::new(words.into_iter().map(|(word, concept)| (word_key(word), senses(concept))).collect())
    }

    #[track_caller]
    fn check(query: &str, expect: &str) {
        let translations = translations();
        let weight = |word: &Range<usize>| match query[word.clone()].to_lowercase().as_str() {
            "me" | "mir" | "über" | "the" | "a" => 0.1,
            "how" | "what" | "do" | "i" => 0.5,
            "theory" | "desks" | "net" | "c" | "pumpkins" | "kürbisse" | "필요해요" => 1.2,
            _ => 0.8,
        };
        let topic = RequestWords::new(&translations).find_topic(query, weight).unwrap_or(0..query.len());
        assert_eq!(&query[topic], expect, "{query:?}");
    }

    #[test]
    fn words_of_asking_are_cut_off_in_all_languages() {
        check("Tell me about pumpkins", "pumpkins");
        check("please, find information about the pumpkins!", "pumpkins!");
        check("Erzähl mir bitte über Kürbisse", "Kürbisse");
        check("Kürbisse: Informationen bitte", "Kürbisse: Informationen bitte");
        check("tell me about C++ please", "C++");
        check("tell me about .NET", ".NET");
        check("information about pumpkins", "pumpkins");
    }

    #[test]
    fn what_is_asked_for_belongs_to_the_topic_beside_it() {
        check("tell me about information theory", "information theory");
        check("find me information desks", "information desks");
    }

    #[test]
    fn other_queries_are_their_own_topic() {
        for query in ["the pumpkins about", "find pumpkins", "tell me please", "tell", "", "?!"] {
            check(query, query);
        }
        let long = format!("tell me about {}", "pumpkins ".repeat(200));
        check(&long, &long);
    }

    #[test]
    fn a_question_word_is_no_topic() {
        check("how do I find information", "how do I find information");
        check("tell me what please", "tell me what please");
    }

    #[test]
    fn what_matters_less_than_the_words_of_asking_is_no_topic() {
        check("tell me something about things", "tell me something about things");
    }

    #[test]
    fn korean_words_are_not_split() {
        let sense = || vec![Sense::new(1, 0.9)];
        let translations = Translations::new(["tell", "요해"].into_iter().map(|word| (word_key(word), sense())).collect());
        let request_words = RequestWords::new(&translations);
        let weight = |word: &Range<usize>| if word.start < 12 { 1.0 } else { 0.1 };
        assert_eq!(request_words.find_topic("도움이필요해", weight), None);
        assert_eq!(request_words.find_topic("도움이 필요해", |word| if word.start < 10 { 1.0 } else { 0.1 }), Some(0..9));
    }
}
