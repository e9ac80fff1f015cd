//! Separates the topic of a query from words that only announce a search: the topic of "I am looking for information about
//! pumpkins" is "pumpkins". The other words would find passages about information.
//!
//! The words below are English. A bundle's translation table knows which words of other languages mean the same. Such words at
//! the beginning and the end of a query are cut off (stop structures: Huston and Croft, "Evaluating verbose query processing
//! techniques", 2010).

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::ranking::Translations;
use crate::text::plain_words::{has_words, word_key};
use crate::text::query_words::word_ranges;

/// Words of asking. A request has one of them, or else a word for what people ask for and a word that leads to the topic.
const ASKING: &str = "search searching find found look looking show tell explain describe give want need would like know interested please \
    wish help wonder wondering curious ask";
/// Words for what people ask for. Next to the topic, they are part of it: "information desks".
const OBJECTS: &str = "information info documents document articles article details something anything everything materials overview texts \
    files summary explanation more learn read see say stuff question";
/// Words that lead to a topic.
const LEADING: &str = "about on concerning regarding mentions mention related topic subject theme";
/// Words that add little to the words above.
const LITTLE_WORDS: &str = "i me we us you your our am m d ll re ve where can could do does did have has had any some all there that for to thanks kindly";
/// Question words, which are no topic by themselves.
const QUESTION_WORDS: &str = "what how who which when why whose whom is are";

/// Minimum probability that a word means one of these words, to count as one.
const MEANS_MIN: f32 = 0.15;
/// Maximum weight of the tokens of an article or a preposition, as a multiple of that of an average token.
const LIGHT_MAX: f32 = 0.3;
/// Minimum number of words to cut off. A single word, as in "find command", may belong to the topic.
const CUT_MIN: usize = 2;
/// Maximum bytes of a query that may be a request, and minimum number of its words. Longer ones were pasted.
const REQUEST_BYTES_MAX: usize = 1 << 10;
const REQUEST_WORDS_MIN: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Asking,
    Object,
    Leading,
    Little,
    Question,
    Topic,
}

/// The words of each role but `Topic`, which all others have.
const ROLES: [(Role, &str); 5] = [
    (Role::Asking, ASKING),
    (Role::Object, OBJECTS),
    (Role::Leading, LEADING),
    (Role::Little, LITTLE_WORDS),
    (Role::Question, QUESTION_WORDS),
];

/// Finds the topics of requests.
pub(super) struct TopicFinder {
    /// The roles of the words above, by their numbers.
    words: FxHashMap<u32, Role>,
    /// For each of their concepts and each role, the highest probability that a word of the role has the concept.
    concepts: FxHashMap<u32, [f32; ROLES.len()]>,
}

impl TopicFinder {
    pub(super) fn new(translations: &Translations) -> Self {
        let (mut words, mut concepts) = (FxHashMap::default(), FxHashMap::default());
        for (index, (role, list)) in ROLES.into_iter().enumerate() {
            for word in list.split(' ').map(word_key) {
                words.insert(word, role);
                for sense in translations.senses(word) {
                    let highest: &mut [f32; ROLES.len()] = concepts.entry(sense.concept()).or_default();
                    highest[index] = highest[index].max(sense.probability());
                }
            }
        }
        Self { words, concepts }
    }

    /// Returns the topic of a query as a range of bytes, or `None` if the query is not a request. `weight` returns the
    /// weight of the word of some bytes.
    pub(super) fn topic(
        &self,
        query: &str,
        translations: &Translations,
        weight: impl Fn(&Range<usize>) -> f32,
    ) -> Option<Range<usize>> {
        if query.len() > REQUEST_BYTES_MAX {
            return None;
        }
        let words = word_ranges(query);
        let may_ask = |(word, _): &(u32, Range<usize>)| matches!(self.role(*word, translations), Role::Asking | Role::Object);
        if words.len() < REQUEST_WORDS_MIN || !words.iter().any(may_ask) {
            return None;
        }
        let weights: Vec<f32> = words.iter().map(|(_, range)| weight(range)).collect();
        let light =
            |role, weight| if matches!(role, Role::Topic | Role::Question) && weight < LIGHT_MAX { Role::Little } else { role };
        let roles = words.iter().zip(&weights).map(|((word, _), weight)| light(self.role(*word, translations), *weight));
        let roles: Vec<Role> = roles.collect();
        let inside = uncut(&roles)?;
        // The topic of a request is what matters most in it.
        let heaviest = |is_one: &dyn Fn(usize) -> bool| {
            (0..words.len()).filter(|index| is_one(*index)).map(|index| weights[index]).fold(0.0, f32::max)
        };
        let of_topic = heaviest(&|index| inside.contains(&index) && roles[index] == Role::Topic);
        if of_topic <= heaviest(&|index| !inside.contains(&index)) {
            return None;
        }
        let start = inside.start.checked_sub(1).map_or(0, |last| words[last].1.end);
        let end = words.get(inside.end).map_or(query.len(), |first| first.1.start);
        let between = query.get(start..end)?;
        let topic = between.trim();
        let start = end - between.trim_start().len();
        let is_whole = |range: &Range<usize>| ![range.start, range.end].iter().any(|position| is_within_korean(query, *position));
        // Words of some scripts overlap, so nothing may be left between them.
        has_words(topic).then_some(start..start + topic.len()).filter(is_whole)
    }

    /// Returns the role of a word, by its number. Each of the words above always has its own role. Other languages may have
    /// words with the same spelling, but rarely in a request.
    fn role(&self, word: u32, translations: &Translations) -> Role {
        if let Some(role) = self.words.get(&word) {
            return *role;
        }
        let mut means = [0.0; ROLES.len()];
        for sense in translations.senses(word) {
            let concept = self.concepts.get(&sense.concept()).copied().unwrap_or_default();
            means.iter_mut().zip(concept).for_each(|(sum, probability)| *sum += sense.probability() * probability);
        }
        let [asking, object, leading, little, question] = means;
        if asking >= MEANS_MIN && asking >= object {
            Role::Asking
        } else if object >= MEANS_MIN {
            Role::Object
        } else if asking + object + leading >= MEANS_MIN {
            Role::Leading
        } else if little >= MEANS_MIN {
            Role::Little
        } else if question >= MEANS_MIN {
            Role::Question
        } else {
            Role::Topic
        }
    }
}

/// Returns the words that remain if a request is cut at both ends, or `None` if the words to cut off do not make it a request.
fn uncut(roles: &[Role]) -> Option<Range<usize>> {
    let (before, after) = (cut_length(roles.iter()), cut_length(roles.iter().rev()));
    if before + after < CUT_MIN || before + after >= roles.len() {
        return None;
    }
    let inside = before..roles.len() - after;
    let is_cut = |role| [&roles[..before], &roles[inside.end..]].iter().any(|cut| cut.contains(&role));
    (is_cut(Role::Asking) || is_cut(Role::Object) && is_cut(Role::Leading)).then_some(inside.clone())
}

/// Returns how many of the words to cut off, starting at one end of the query.
fn cut_length<'r>(roles: impl Iterator<Item = &'r Role>) -> usize {
    let cut: Vec<Role> = roles.copied().take_while(|role| !matches!(role, Role::Topic | Role::Question)).collect();
    // Words for what people ask for belong to the topic if they are next to it.
    cut.iter().rposition(|role| *role != Role::Object).map_or(0, |last| last + 1)
}

/// Whether a position is inside a Korean word. Pairs of Korean characters count as words.
fn is_within_korean(text: &str, position: usize) -> bool {
    let is_korean = |c: Option<char>| c.is_some_and(|c| matches!(c, '\u{ac00}'..='\u{d7a3}'));
    is_korean(text[..position].chars().next_back()) && is_korean(text[position..].chars().next())
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
            "theory" | "desks" | "net" | "c" | "pumpkins" | "kürbisse" | "필요해요" | "🎂" => 1.2,
            _ => 0.8,
        };
        let topic = TopicFinder::new(&translations).topic(query, &translations, weight).unwrap_or(0..query.len());
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
    fn an_emoji_is_a_topic() {
        check("tell me about 🎂 please", "🎂");
        check("tell me about pumpkins 🎂", "pumpkins 🎂");
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
        let finder = TopicFinder::new(&translations);
        let weight = |word: &Range<usize>| if word.start < 12 { 1.0 } else { 0.1 };
        assert_eq!(finder.topic("도움이필요해", &translations, weight), None);
        assert_eq!(finder.topic("도움이 필요해", &translations, |word| if word.start < 10 { 1.0 } else { 0.1 }), Some(0..9));
    }

    proptest::proptest! {
        #[test]
        fn a_topic_has_a_letter(query in "((tell|me|about|information|x|é|教えて|猫|도움|필요해|，|'|\u{301}|\u{200d}|👍| )){0,14}", seed: u64) {
            let translations = translations();
            let weight = |word: &Range<usize>| (seed.rotate_left(word.start as u32) % 16) as f32 / 8.0;
            if let Some(topic) = TopicFinder::new(&translations).topic(&query, &translations, weight) {
                proptest::prop_assert!(has_words(&query[topic]));
            }
        }
    }
}
