//! Makes a lexicon of concepts, to write the files that the program contains.

use rustc_hash::FxHashMap;

use super::Lexicon;
use crate::domain::ConceptWord;
use crate::ranking::Translations;
use crate::ranking::sense_table::{Sense, SenseTable};

/// The probability that a word with one concept of the lexicon has it. Two such words mean the same with the square of this.
/// `training/README.md` shows how it was chosen.
const IN_LEXICON: f32 = 0.7;
/// The probability that a phrase with one concept of the lexicon has it. Few phrases have another meaning.
const PHRASE_IN_LEXICON: f32 = 0.9;

/// The concepts of words or phrases, by their numbers, each with a share of an entry.
type Entries = FxHashMap<u32, Vec<(u32, f32)>>;

impl Lexicon {
    /// Makes a lexicon of concepts. A word or phrase with several has them in equal parts.
    pub(crate) fn new(concepts: &[Vec<ConceptWord>]) -> Self {
        let (mut words, mut phrases): (Entries, Entries) = Default::default();
        for (concept, entries) in (0..).zip(concepts) {
            for entry in entries {
                match entry {
                    ConceptWord::Word { key, share } => words.entry(*key).or_default().push((concept, *share)),
                    ConceptWord::Phrase(key) => phrases.entry(*key).or_default().push((concept, 1.0)),
                }
            }
        }
        let table = |entries: Entries, probability: f32| {
            SenseTable::new(entries.into_iter().map(|(key, entries)| (key, senses(&entries, probability))).collect())
        };
        Self { words: table(words, IN_LEXICON), phrases: table(phrases, PHRASE_IN_LEXICON) }
    }

    /// Returns the files of words and phrases.
    pub(crate) fn to_bytes(&self) -> Result<[Vec<u8>; 2], String> {
        Ok([self.words.to_bytes()?, self.phrases.to_bytes()?])
    }
}

/// Returns the senses of a word that has entries of these concepts, each a share of an entry.
fn senses(entries: &[(u32, f32)], probability: f32) -> Vec<Sense> {
    let entries_sum: f32 = entries.iter().map(|(_, share)| share).sum();
    let whole = entries.iter().map(|(_, share)| *share).fold(0.0, f32::max);
    let of_concept = entries.chunk_by(|a, b| a.0 == b.0);
    let sense = |entries: &[(u32, f32)]| {
        let share: f32 = entries.iter().map(|(_, share)| share).sum();
        Sense::new(entries[0].0, (probability * whole * share / entries_sum).into())
    };
    of_concept.map(sense).collect()
}

impl Translations {
    /// Adds concepts.
    pub(crate) fn with_concepts(&self, concepts: &[Vec<ConceptWord>]) -> Self {
        self.clone().with_lexicon(Lexicon::new(concepts))
    }
}

mod tests {
    use super::*;

    const MUELL: u32 = 10;
    const TRASH: u32 = 20;
    const GARBAGE: u32 = 30;

    fn table() -> Translations {
        Translations::new(vec![(TRASH, vec![Sense::new(3, 1.0)]), (40, vec![Sense::new(4, 0.5)])])
    }

    fn word(key: u32) -> ConceptWord {
        ConceptWord::Word { key, share: 1.0 }
    }

    fn senses_of(table: &Translations, word: u32) -> Vec<(u32, f32)> {
        table.senses(word).map(|sense| (sense.concept(), sense.probability())).collect()
    }

    #[track_caller]
    fn assert_senses(table: &Translations, word: u32, expect: &[(u32, f32)]) {
        let senses = senses_of(table, word);
        let alike = senses.len() == expect.len()
            && senses.iter().zip(expect).all(|(got, expect)| got.0 == expect.0 && (got.1 - expect.1).abs() < 0.005);
        assert!(alike, "{senses:?}, expected {expect:?}");
    }

    #[test]
    fn words_of_a_concept_share_it_and_keep_their_senses() {
        let table = table().with_concepts(&[vec![word(TRASH), word(GARBAGE), word(MUELL)]]);
        assert_senses(&table, TRASH, &[(3, 1.0), (5, IN_LEXICON)]);
        assert_senses(&table, GARBAGE, &[(5, IN_LEXICON)]);
        assert_senses(&table, MUELL, &[(5, IN_LEXICON)]);
        assert_senses(&table, 40, &[(4, 0.5)]);
        assert_eq!(table.len(), 2, "the lexicon's words are not counted");
        assert!(table.is_of_lexicon(5) && !table.is_of_lexicon(4));
        assert!(table.has_learned(TRASH) && !table.has_learned(GARBAGE) && table.has(GARBAGE));
    }

    #[test]
    fn a_word_divides_its_probability_among_its_concepts() {
        let table = table().with_concepts(&[vec![word(MUELL)], vec![word(MUELL), word(MUELL)]]);
        assert_senses(&table, MUELL, &[(5, IN_LEXICON / 3.0), (6, IN_LEXICON * 2.0 / 3.0)]);
    }

    #[test]
    fn a_part_of_an_entry_has_its_share() {
        let table = table().with_concepts(&[vec![ConceptWord::Word { key: MUELL, share: 0.5 }]]);
        assert_senses(&table, MUELL, &[(5, IN_LEXICON / 2.0)]);
    }

    #[test]
    fn a_phrase_has_concepts_apart_from_the_word_with_its_number() {
        let table = table().with_concepts(&[vec![ConceptWord::Phrase(TRASH)], vec![word(MUELL), ConceptWord::Phrase(TRASH)]]);
        let senses: Vec<_> = table.phrase_senses(TRASH).map(|sense| sense.concept()).collect();
        assert_eq!(senses, [5, 6]);
        assert_senses(&table, TRASH, &[(3, 1.0)]);
        assert_eq!(table.phrase_senses(MUELL).count(), 0);
    }

    #[test]
    fn the_words_of_passages_depend_on_the_words_and_phrases_of_the_lexicon() {
        let [none, of_word, of_phrase] = [vec![], vec![word(TRASH), word(MUELL)], vec![ConceptWord::Phrase(MUELL)]]
            .map(|concept| table().with_concepts(&[concept]).vocabulary_checksum());
        assert_eq!(none, table().vocabulary_checksum());
        assert!(of_word != none && of_phrase != none);
    }

    #[test]
    fn a_phrase_with_the_number_of_a_word_is_no_word_of_passages() {
        let table = table().with_concepts(&[vec![word(MUELL), ConceptWord::Phrase(TRASH), ConceptWord::Phrase(50)]]);
        assert_eq!([TRASH, 50, MUELL].map(|phrase| table.has_phrase(phrase)), [false, true, false]);
        assert_eq!(table.passage_senses(50).count(), 1);
    }

    #[test]
    fn a_lexicon_round_trips() {
        let lexicon = Lexicon::new(&[vec![word(MUELL), word(TRASH)], vec![ConceptWord::Phrase(TRASH)], vec![word(MUELL)]]);
        let [words, phrases] = lexicon.to_bytes().unwrap();
        assert_eq!(Lexicon::from_bytes(&words, &phrases).unwrap(), lexicon);
        let problem = Lexicon::from_bytes(&words, b"phrases").unwrap_err().to_string();
        assert!(problem.starts_with("lexicon of phrases is not a translation table"), "{problem}");
    }

    #[test]
    fn no_concepts_change_nothing() {
        let (before, after) = (table(), table().with_concepts(&[]));
        for word in [TRASH, 40, MUELL, GARBAGE] {
            assert_eq!(senses_of(&after, word), senses_of(&before, word));
        }
    }
}
