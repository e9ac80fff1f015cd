//! Marks the words of a passage that match: those with a term of the query, and those that a model finds near it.
//!
//! Terms are found by the rules of `terms`, one visible character at a time, so that each leads back to its position in the
//! passage and no mark splits a character. Words between spaces are marked as a whole. In scripts without spaces, pairs of
//! neighboring characters are marked, and adjacent pairs become one mark.

mod words;

use std::ops::Range;

use rustc_hash::FxHashSet;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation as _;

use super::graphemes::visible_characters;
use super::plain_words::{self, PlainWord};
use super::runs::{
    self, Class, class, first_letters, is_common_letter, is_inner_mark, normalized, normalized_character, pictograph,
    truncate_term,
};
use super::stems::{keeps_first_letter, stemmer};
use super::terms::has_term;
use crate::domain::Language;
use crate::domain::terms::QueryTerms;

/// Maximum number of marks per passage. More would not help a reader.
pub const MARKS_MAX: usize = 100;
/// Maximum bytes of a passage to read. No model reads that much, but a text that came with its own vector may be longer.
pub const MARKED_BYTES_MAX: usize = 16 << 10;

/// Maximum bytes of a character in the form of terms to which marks are added. No script has more on one letter.
const SHOWN_BYTES_MAX: usize = 64;

/// The terms of a query, ready to be looked up.
#[derive(Debug, Default)]
pub struct TermMatcher {
    words: FxHashSet<String>,
    beginnings: Vec<String>,
    /// The first letters of all of them.
    first_letters: FxHashSet<char>,
}

/// The words of a passage.
#[derive(Debug)]
pub struct PassageWords {
    /// The language, for the stems of its words.
    language: Option<Language>,
    /// All words in the form of terms, one after the other.
    shown: String,
    characters: Vec<Character>,
    /// Runs of characters of one class without a separator in between. Each emoji is a run.
    runs: Vec<Run>,
}

/// A visible character.
#[derive(Debug)]
struct Character {
    /// Its bytes in the passage.
    source: Range<usize>,
    /// Its bytes in `shown`.
    shown: Range<usize>,
}

#[derive(Debug)]
struct Run {
    class: Class,
    characters: Range<usize>,
}

impl TermMatcher {
    /// Takes the terms of a query.
    pub fn new(terms: QueryTerms) -> Self {
        let first_letters = terms.terms.iter().filter_map(|term| term.text.chars().next()).collect();
        let (beginnings, words): (Vec<_>, Vec<_>) = terms.terms.into_iter().partition(|term| term.prefix);
        Self {
            first_letters,
            words: words.into_iter().map(|term| term.text).collect(),
            beginnings: beginnings.into_iter().map(|term| term.text).collect(),
        }
    }

    fn has(&self, term: &str) -> bool {
        self.words.contains(truncate_term(term)) || self.has_prefix(term)
    }

    /// Whether a word may have one of the terms. The first letter rules most words out, and finding the other forms of a word
    /// takes far longer. `keeps_first_letter` says whether the stem of the word does.
    fn may_have(&self, word: &str, keeps_first_letter: bool) -> bool {
        match first_letters(word).filter(|_| keeps_first_letter) {
            Some(letters) => letters.iter().any(|letter| self.first_letters.contains(letter)),
            None => true,
        }
    }

    fn has_prefix(&self, term: &str) -> bool {
        self.beginnings.iter().any(|beginning| term.starts_with(beginning.as_str()))
    }
}

impl PassageWords {
    /// Reads a passage, or its first `MARKED_BYTES_MAX` bytes. `language` is the passage's language, if known.
    pub fn new(passage: &str, language: Option<Language>) -> Self {
        let length = passage.len().min(MARKED_BYTES_MAX);
        let (shown, characters) = (String::with_capacity(length), Vec::with_capacity(length / 2));
        let mut words = Self { language, shown, characters, runs: Vec::new() };
        let mut open = None;
        let mut before = "";
        for (start, grapheme) in
            visible_characters(passage).take_while(|(start, grapheme)| start + grapheme.len() <= MARKED_BYTES_MAX)
        {
            let source = start..start + grapheme.len();
            let last = std::mem::replace(&mut before, grapheme);
            let is_inner = |before: &str, mark: &str| is_within_word(before, mark, &passage[source.end..]);
            if is_inner(last, grapheme) {
                continue;
            }
            match normalized_character(grapheme) {
                Some(shown) => words.add_character(source, shown.encode_utf8(&mut [0; 4]), &mut open),
                // Characters that only control how a text is displayed leave nothing behind and do not separate words.
                None => {
                    // A letter may have a mark within itself: ŀ.
                    let is_alone = grapheme.chars().nth(1).is_none();
                    let mut last = None;
                    for part in normalized(grapheme).graphemes(true) {
                        if !last.is_some_and(|last| is_alone && is_inner(last, part)) {
                            words.add_character(source.clone(), part, &mut open);
                        }
                        last = Some(part);
                    }
                }
            }
        }
        words
    }

    /// Adds a visible character of the passage, or a part of one. `open` is the class of the previous character, unless that
    /// one separates words.
    fn add_character(&mut self, source: Range<usize>, part: &str, open: &mut Option<Class>) {
        let of = part.chars().find_map(class);
        let is_mark = of.is_none() && !part.is_ascii() && part.chars().all(is_combining_mark);
        if is_mark || (of.is_some() && of == *open && self.would_join(part)) {
            return self.extend_last_character(source.end, part, open.is_some());
        }
        if let Some(of) = of {
            self.push(source, part, of, *open == Some(of) && of != Class::Pictograph);
        }
        *open = of;
    }

    fn push(&mut self, source: Range<usize>, part: &str, of: Class, goes_on: bool) {
        let (from, index) = (self.shown.len(), self.characters.len());
        self.shown.push_str(part);
        self.characters.push(Character { source, shown: from..self.shown.len() });
        match self.runs.last_mut().filter(|_| goes_on) {
            Some(run) => run.characters.end = index + 1,
            None => self.runs.push(Run { class: of, characters: index..index + 1 }),
        }
    }

    /// Whether the next character would join the last one if the zero-width characters between them were removed, as they are
    /// in a query. In scripts with spaces this does not matter, because words are marked as a whole.
    fn would_join(&self, part: &str) -> bool {
        let unspaced = self.runs.last().is_some_and(|run| run.class != Class::Word);
        let last = self.characters.last().filter(|_| unspaced);
        last.is_some_and(|last| format!("{}{part}", &self.shown[last.shown.clone()]).graphemes(true).count() == 1)
    }

    /// Adds a mark, or a part of a character, to its letter, if a zero-width character separates the two.
    fn extend_last_character(&mut self, end: usize, part: &str, goes_on: bool) {
        if let Some(last) = self.characters.last_mut().filter(|_| goes_on) {
            if last.shown.len() > SHOWN_BYTES_MAX {
                last.source.end = end;
                return;
            }
            // Letter and mark may have a composed form.
            let composed: String = self.shown[last.shown.start..].chars().chain(part.chars()).nfkc().collect();
            self.shown.truncate(last.shown.start);
            self.shown.push_str(&composed);
            (last.source.end, last.shown.end) = (end, self.shown.len());
        }
    }

    /// Returns the positions of the query's terms: ranges of bytes in the passage, in no particular order.
    pub fn find_terms(&self, term_matcher: &TermMatcher) -> Vec<Range<usize>> {
        let (mut marks, stemmer) = (Vec::new(), self.language.and_then(stemmer));
        let keeps_first_letter = self.language.is_none_or(keeps_first_letter);
        let has = |text: &str| has_term(text, stemmer.as_ref(), |term| term_matcher.has(term));
        for run in &self.runs {
            let characters = &self.characters[run.characters.clone()];
            let text = self.text(characters);
            let is_found = match run.class {
                Class::Word => term_matcher.may_have(text, keeps_first_letter) && has(text),
                Class::Pictograph => term_matcher.has(pictograph(text)),
                Class::Hangul => characters.len() > 2 && term_matcher.has(text),
                Class::Unspaced => false,
            };
            if is_found {
                marks.extend(source(characters));
            }
            if matches!(run.class, Class::Word | Class::Pictograph) {
                continue;
            }
            let pairs = characters.windows(2).filter(|pair| term_matcher.words.contains(truncate_term(self.text(pair))));
            let alone = characters.chunks(1).filter(|character| term_matcher.has_prefix(self.text(character)));
            marks.extend(pairs.chain(alone).filter_map(source));
        }
        marks
    }

    /// Returns the words of which `pieces`, which are ranges of bytes in the passage, make up at least half. In scripts without
    /// spaces, returns the characters of the pieces. In no particular order.
    pub fn find_pieces(&self, pieces: &[Range<usize>]) -> Vec<Range<usize>> {
        let mut marks = Vec::new();
        for run in &self.runs {
            let characters = &self.characters[run.characters.clone()];
            let Some(word) = source(characters) else { continue };
            let near: Vec<&Range<usize>> = pieces.iter().filter(|piece| overlap(piece, &word)).collect();
            let is_in_a_piece = |character: &&Character| near.iter().any(|piece| overlap(piece, &character.source));
            let inside = characters.iter().filter(is_in_a_piece);
            if run.class == Class::Unspaced {
                marks.extend(inside.map(|character| character.source.clone()));
            } else if inside.count() * 2 >= characters.len() {
                marks.push(word);
            }
        }
        marks
    }

    /// Passes the words to `take`, each with the class of its characters and a function that finds its bytes in the passage.
    pub(super) fn for_each_word(&self, mut take: impl FnMut(Class, PlainWord<'_>, &dyn Fn() -> Option<Range<usize>>)) {
        for run in &self.runs {
            let characters = &self.characters[run.characters.clone()];
            let Some(start) = characters.first().map(|first| first.shown.start) else { continue };
            plain_words::for_each_word(&runs::Run { class: run.class, text: self.text(characters) }, |word| {
                let shown = start + word.range.start..start + word.range.end;
                let from = || characters.partition_point(|character| character.shown.end <= shown.start);
                let to = || characters.partition_point(|character| character.shown.start < shown.end);
                take(run.class, word, &|| source(characters.get(from()..to())?));
            });
        }
    }

    fn text(&self, characters: &[Character]) -> &str {
        match (characters.first(), characters.last()) {
            (Some(first), Some(last)) => &self.shown[first.shown.start..last.shown.end],
            _ => "",
        }
    }
}

/// Whether a character is a mark within a word (`is_inner_mark`) after the character `before` and before the text `after`.
fn is_within_word(before: &str, mark: &str, after: &str) -> bool {
    // Few characters are marks, and this check is faster than normalizing.
    let is_letter_or_plain = |c: char| match c.is_ascii() {
        true => !matches!(c, '\'' | '"'),
        false => is_common_letter(c) || c.is_alphanumeric(),
    };
    if mark.chars().next().is_none_or(is_letter_or_plain) {
        return false;
    }
    let mut mark = mark.nfkc();
    let (first, rest) = (mark.next(), mark.next());
    let next = after.graphemes(true).next().and_then(|next| next.nfkc().next());
    match (before.nfkc().last(), first.filter(|_| rest.is_none()), next) {
        (Some(before), Some(mark), Some(next)) => is_inner_mark(before, mark, next),
        _ => false,
    }
}

/// Sorts marks, merges those that overlap or touch, and keeps the first `MARKS_MAX`.
pub fn merge_marks(mut marks: Vec<Range<usize>>) -> Vec<Range<usize>> {
    marks.sort_unstable_by_key(|mark| (mark.start, mark.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for mark in marks {
        match merged.last_mut() {
            Some(last) if mark.start <= last.end => last.end = last.end.max(mark.end),
            _ => merged.push(mark),
        }
    }
    merged.truncate(MARKS_MAX);
    merged
}

/// Whether two ranges overlap.
pub fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

fn source(characters: &[Character]) -> Option<Range<usize>> {
    Some(characters.first()?.source.start..characters.last()?.source.end)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::super::terms::query_terms;
    use super::*;

    fn marks(query: &str, passage: &str) -> Vec<Range<usize>> {
        merge_marks(PassageWords::new(passage, None).find_terms(&TermMatcher::new(query_terms(query, None))))
    }

    /// Returns the passage with brackets around its marks.
    pub(super) fn bracketed(passage: &str, marks: &[Range<usize>]) -> String {
        let mut shown = String::new();
        let mut end_of_last = 0;
        for mark in marks {
            shown += &format!("{}[{}]", &passage[end_of_last..mark.start], &passage[mark.clone()]);
            end_of_last = mark.end;
        }
        shown + &passage[end_of_last..]
    }

    #[track_caller]
    fn check(query: &str, passage: &str, expect: &str) {
        assert_eq!(bracketed(passage, &marks(query, passage)), expect, "{query:?}");
    }

    #[test]
    fn a_diacritic_separated_from_its_letter_is_joined_with_it() {
        let marks = marks("ガラス", "ｶ\u{ad}\u{ff9e}ラス");
        assert_eq!((marks.len(), marks.first()), (1, Some(&(0..14))));
    }

    #[test]
    fn words_are_marked_regardless_of_case_accents_and_width() {
        check("verspatung zug", "Der ZUG hat „Verspätung“.", "Der [ZUG] hat „[Verspätung]“.");
        check("ÉTÉ", "L’e\u{301}te\u{301} dernier, un été", "L’[e\u{301}te\u{301}] dernier, un [été]");
        check("full 12", "Ｆｕｌｌ ｗｉｄｔｈ １２", "[Ｆｕｌｌ] ｗｉｄｔｈ [１２]");
        check("lodz", "Łódź, nie Łódka", "[Łódź], nie Łódka");
        check("istanbul", "İstanbul'da", "[İstanbul]'da");
        check("λογος", "Ο Λόγος του", "Ο [Λόγος] του");
        check("strasse", "Straße", "[Straße]");
        check("м'ята", "Чай із м’ятою, м’ята й м'яч", "Чай із м’ятою, [м’ята] й м'яч");
        check("צה\"ל", "דובר צה״ל מסר", "דובר [צה״ל] מסר");
        check("rain", "l'eau, rain's", "l'eau, [rain]'s");
        check("col·lecció", "una coŀlecció", "una [coŀlecció]");
        check("м'ята", "м＇ята", "[м＇ята]");
        check("ŀl\u{301}", "ŀl\u{301}", "[ŀl\u{301}]");
        check("дай'ю", "даи\u{306}'ю", "[даи\u{306}'ю]");
    }

    #[test]
    fn a_word_is_marked_by_its_stem_even_if_that_begins_differently() {
        let check = |query: &str, passage: &str, language: &str, expect: &str| {
            let language = Language::parse(language);
            let found = PassageWords::new(passage, language).find_terms(&TermMatcher::new(query_terms(query, language)));
            assert_eq!(bracketed(passage, &merge_marks(found)), expect, "{query}");
        };
        check("кращий", "Це найкращий вибір", "uk", "Це [найкращий] вибір");
        check("houses", "A house, a garden", "en", "A [house], a garden");
        check("Häusern", "Ein Haus mit Hof", "de", "Ein [Haus] mit Hof");
    }

    #[test]
    fn a_part_of_a_word_is_not_marked() {
        check("art", "The cart departs, art stays.", "The cart departs, [art] stays.");
        check("?! …", "What?! …", "What?! …");
        check("", "nothing", "nothing");
    }

    #[test]
    fn formatting_characters_do_not_split_words() {
        check("verspätung", "Ver\u{ad}spätung", "[Ver\u{ad}spätung]");
        check("خواهم", "می\u{200c}خواهم یک کتاب", "می\u{200c}[خواهم] یک کتاب");
        check("مدرسة", "الى مَدْرَسَه", "الى [مَدْرَسَه]");
        check("जमीन", "यह ज़मीन है", "यह [ज़मीन] है");
    }

    #[test]
    fn scripts_without_spaces_are_marked_by_character_pairs() {
        check("合約", "雙方昨天簽訂了合約。", "雙方昨天簽訂了[合約]。");
        check("京都大学", "東京大学は東京にある", "東京[大学]は東京にある");
        check("京", "東京と京都", "東[京]と[京]都");
        check("タワー", "東京ﾀﾜｰ", "東京[ﾀﾜｰ]");
        check("ที่นี่", "อยู่ที่นี่แล้ว", "อยู่[ที่นี่]แล้ว");
        check("น้ำ", "ในน้ำมีปลา", "ใน[น้ำ]มีปลา");
        check("iPhone", "iPhoneを買う", "[iPhone]を買う");
        check("도서관", "도서관에서 책을", "[도서관]에서 책을");
        check("책", "도서관에서 책을", "도서관에서 [책]을");
    }

    #[test]
    fn emoji_are_marked_with_what_varies_them() {
        check("🎂", "Cake🎂🎉 and 🎂", "Cake[🎂]🎉 and [🎂]");
        check("☀ 👍", "☀\u{fe0f} or 👍🏽", "[☀\u{fe0f}] or [👍🏽]");
        check("🚒", "👩🏽\u{200d}🚒 🚒", "[👩🏽\u{200d}🚒] [🚒]");
        check("🇩🇪", "🇫🇷🇩🇪🇪🇸", "🇫🇷[🇩🇪]🇪🇸");
        check("1", "1\u{fe0f}\u{20e3} 2\u{fe0f}\u{20e3}", "[1\u{fe0f}\u{20e3}] 2\u{fe0f}\u{20e3}");
    }

    #[test]
    fn a_word_is_marked_if_matched_pieces_cover_half_of_it() {
        let check = |passage: &str, pieces: &[&str], expect: &str| {
            let pieces: Vec<_> =
                pieces.iter().map(|piece| passage.find(piece).map(|start| start..start + piece.len()).unwrap()).collect();
            let marks = merge_marks(PassageWords::new(passage, None).find_pieces(&pieces));
            assert_eq!(bracketed(passage, &marks), expect);
        };
        check("die Züge fahren", &["Züg"], "die [Züge] fahren");
        check("die Züge fahren", &["e fa"], "die Züge fahren");
        check("trenlerimizden biri", &["tren"], "trenlerimizden biri");
        check("도서관에서 책을", &["도서관"], "[도서관에서] 책을");
        check("東京駅で待つ", &["東京", "待"], "[東京]駅で[待]つ");
        check("ที่นี่", &["ท"], "[ที่]นี่");
        check("well, no", &[","], "well, no");
    }

    #[test]
    fn marks_are_limited_in_count_and_text_length() {
        let many = "a ".repeat(60_000);
        assert_eq!(marks("a", &many).len(), MARKS_MAX);
        let late = format!("{}word", "é ".repeat(MARKED_BYTES_MAX));
        assert_eq!(marks("word", &late).len(), 0);
    }

    proptest! {
        #[test]
        fn marks_are_in_order_and_split_no_character(query in "\\PC{0,12}", passage in any::<String>()) {
            let bounds: HashSet<usize> =
                passage.grapheme_indices(true).map(|(start, _)| start).chain([passage.len()]).collect();
            let marks = marks(&format!("{query} {passage}"), &passage);
            prop_assert!(marks.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", marks);
            prop_assert!(marks.iter().all(|mark| mark.start < mark.end), "{:?}", marks);
            prop_assert!(marks.iter().all(|mark| bounds.contains(&mark.start) && bounds.contains(&mark.end)), "{:?}", marks);
        }

        /// A query for a text marks all letters of that text, if its scripts are never mixed within a grapheme cluster.
        #[test]
        fn a_text_as_query_marks_all_letters(text in "[a-zÄéßİıΣŀ·мйя'’＇\"״אבשׁ东京タｶﾞที่น้ำ도서관កភ្នиё0-9 .,‘\u{301}\u{ad}\u{200c}]{0,40}") {
            let marks = marks(&text, &text);
            for run in PassageWords::new(&text, None).characters {
                prop_assert!(marks.iter().any(|mark| mark.start <= run.source.start && run.source.end <= mark.end), "{:?}", marks);
            }
        }
    }
}
