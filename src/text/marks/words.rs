//! Finds the words and phrases of a passage that mean what a query says.

use std::ops::Range;

use super::PassageWords;
use crate::domain::LastWords;
use crate::text::known_words::KnownWords;
use crate::text::word_parts::{also_counted, may_have_part};

impl PassageWords {
    /// Returns the words whose number (`plain_words::word_key`) is wanted, those with a wanted part that is not a known word, and
    /// phrases whose number (`domain::phrase_key`) is wanted: ranges of bytes in the passage, in no particular order.
    pub fn find_words(&self, is_wanted: impl Fn(u32) -> bool, known: &impl KnownWords) -> Vec<Range<usize>> {
        let (mut marks, mut phrases) = (Vec::new(), Vec::new());
        let (mut last_words, mut end) = (LastWords::default(), 0);
        self.for_each_word(|class, word, source| {
            let has_part =
                || may_have_part(class, &word.text, &is_wanted) && also_counted(class, &word, known).into_iter().any(&is_wanted);
            let is_found = is_wanted(word.key()) || word.accented().is_some_and(&is_wanted) || has_part();
            marks.extend(is_found.then(source).flatten());
            if word.is_single() {
                end += 1;
                let longest = last_words.phrases_with(word.key()).filter(|(_, phrase)| is_wanted(*phrase)).last();
                phrases.extend(longest.map(|(length, _)| end - length..end));
            }
        });
        if !phrases.is_empty() {
            let words = self.single_words();
            let bytes = |phrase: Range<usize>| Some(words.get(phrase.start)?.start..words.get(phrase.end - 1)?.end);
            marks.extend(phrases.into_iter().filter_map(bytes));
        }
        marks
    }

    /// Returns the bytes of each word, in order, without words that are put together or within others.
    fn single_words(&self) -> Vec<Range<usize>> {
        let mut words = Vec::new();
        self.for_each_word(|_, word, source| words.extend(word.is_single().then(source).flatten()));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge_marks;
    use super::super::tests::bracketed;
    use super::*;
    use crate::domain::phrase_key;
    use crate::text::plain_words::{accented_key, word_key};

    #[test]
    fn a_word_is_found_by_a_part_unless_it_is_known_itself() {
        let check = |known: &[&str], expect: &str| {
            let known: Vec<u32> = known.iter().map(|word| word_key(word)).collect();
            let passage = "Der Personenaufzug fährt.";
            let words = PassageWords::new(passage, None);
            let marks = merge_marks(words.find_words(|key| key == word_key("aufzug"), &|key| known.contains(&key)));
            assert_eq!(bracketed(passage, &marks), expect, "{known:?}");
        };
        check(&["personen", "aufzug"], "Der [Personenaufzug] fährt.");
        check(&["personen", "aufzug", "personenaufzug"], "Der Personenaufzug fährt.");
    }

    #[test]
    fn words_are_found_by_their_keys_in_several_scripts() {
        let check = |words: &[&str], passage: &str, expect: &str| {
            let wanted: Vec<u32> = words.iter().map(|word| word_key(word)).collect();
            let marks = merge_marks(PassageWords::new(passage, None).find_words(|key| wanted.contains(&key), &|_| true));
            assert_eq!(bracketed(passage, &marks), expect, "{words:?}");
        };
        check(&["fahre", "sechs"], "Die Fähre fährt um SECHS.", "Die [Fähre] fährt um [SECHS].");
        check(&["нет", "паром"], "Паром ушёл в шесть.", "[Паром] ушёл в шесть.");
        check(&["洪水"], "工人们正在修复被洪水冲毁的桥。", "工人们正在修复被[洪水]冲毁的桥。");
        check(&["도서"], "도서관은 조용하다.", "[도서]관은 조용하다.");
        check(&["row"], "ＲＯＷ ｒｏw the rower", "[ＲＯＷ] [ｒｏw] the rower");
        check(&[], "Die Fähre", "Die Fähre");
    }

    #[test]
    fn emoji_are_found_by_their_keys() {
        let wanted = [word_key("👍"), word_key("🇩🇪")];
        let marks = merge_marks(PassageWords::new("👍🏽 👎 🇩🇪", None).find_words(|key| wanted.contains(&key), &|_| true));
        assert_eq!(bracketed("👍🏽 👎 🇩🇪", &marks), "[👍🏽] 👎 [🇩🇪]");
    }

    #[test]
    fn a_word_with_its_accents_is_found_by_their_number() {
        let passage = "Chó cho cho CHÓ, chò";
        let marks = PassageWords::new(passage, None).find_words(|key| key == accented_key("chó"), &|_| true);
        assert_eq!(bracketed(passage, &merge_marks(marks)), "[Chó] cho cho [CHÓ], chò");
    }

    #[test]
    fn a_phrase_is_found_as_a_whole() {
        let check = |phrase: &[&str], passage: &str, expect: &str| {
            let phrase = phrase_key(&phrase.iter().map(|word| word_key(word)).collect::<Vec<_>>());
            let marks = merge_marks(PassageWords::new(passage, None).find_words(|key| key == phrase, &|_| true));
            assert_eq!(bracketed(passage, &marks), expect);
        };
        check(&["may", "giat"], "Bán máy giặt cũ", "Bán [máy giặt] cũ");
        check(&["salle", "de", "bain"], "Salle de bain, salle", "[Salle de bain], salle");
        check(&["may", "giat"], "Giặt máy", "Giặt máy");
    }
}
