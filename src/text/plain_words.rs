//! Finds the words of a text in their plain form, in the same way for every language, to look up translations.
//!
//! A word is folded as for lexical search but not stemmed, so its language need not be known. In scripts without spaces, the
//! dictionaries of ICU4X find the words; they are part of the program. In Korean, each pair of neighboring characters counts
//! as a word, because particles are attached to words. Each emoji is a word. A long word of Chinese characters also counts
//! as the words within it. In scripts where dictionaries lack foreign names, characters that may be a foreign name become a
//! word that only counts by its sound.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use icu_segmenter::options::WordBreakInvariantOptions;
use icu_segmenter::{WordSegmenter, WordSegmenterBorrowed};

use super::runs::{Class, Run, fold, is_pictograph, join_characters, normalized, pictograph, runs, truncate_term};
use super::sound::sound;
use crate::domain::{Word, hash_key, phrase_key};

/// Minimum and maximum number of characters of a name that is joined from several words in a script without spaces.
const JOINED_NAME_CHARS: std::ops::RangeInclusive<usize> = 2..=8;

/// Number of characters of a word of Chinese characters that may have words within it.
const CHARS_WITH_INNER_WORDS: std::ops::RangeInclusive<usize> = 3..=8;

/// The Thai vowel "am" as NFKC leaves it, and as the dictionaries have it.
const DECOMPOSED_AM: &str = "\u{e4d}\u{e32}";
const COMPOSED_AM: &str = "\u{e33}";

/// Korean particles that names hardly end with.
const PARTICLES: [&str; 11] = ["에서는", "에서", "에게", "으로", "이라", "은", "는", "을", "를", "의", "에"];

/// Returns the words of a text in their plain form, in order, with repetitions.
pub fn plain_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for run in runs(&normalized(text)) {
        for_each_word(&run, |word| words.extend((word.parts == 0 && !word.is_inner).then(|| word.text.into_owned())));
    }
    words
}

/// Whether a text has a letter, a digit or an emoji. Without these it has no words.
pub fn has_words(text: &str) -> bool {
    text.contains(|c: char| c.is_alphanumeric() || is_pictograph(c))
}

/// Returns the number of a word, which has `domain::WORD_KEY_BITS` bits. Different words rarely share one.
pub fn word_key(word: &str) -> u32 {
    hash_key(crc32fast::hash(word.as_bytes()))
}

/// Returns the number of a normalized word with its accents. It is the number of a phrase of one word, so it differs from that of
/// the word in its plain form.
pub(super) fn accented_key(word: &str) -> u32 {
    phrase_key(&[word_key(word)])
}

/// Returns the number of a normalized word in its plain form.
pub(super) fn plain_key(word: &str) -> u32 {
    word_key(&plain(truncate_term(word)))
}

/// Returns a normalized word in its plain form.
pub(super) fn plain(word: &str) -> Cow<'_, str> {
    fold(word).map_or(Cow::Borrowed(word), Cow::Owned)
}

/// Returns the numbers of the words of some runs.
pub(super) fn word_keys(runs: &[Run<'_>]) -> Vec<u32> {
    let mut keys = Vec::new();
    runs.iter().for_each(|run| for_each_word(run, |word| keys.push(word.key())));
    keys
}

/// A word of a run.
pub(super) struct PlainWord<'a> {
    /// The word in its plain form.
    pub(super) text: Cow<'a, str>,
    /// The word as spelled. Empty if it cannot sound like a name.
    spelled: &'a str,
    /// Its bytes in the run.
    pub(super) range: Range<usize>,
    /// Number of words before it that were joined to form it, because they may be parts of a name that no dictionary has.
    parts: u8,
    /// Whether it is a word within a longer one, which comes before it.
    pub(super) is_inner: bool,
}

impl PlainWord<'_> {
    /// Returns its number.
    pub(super) fn key(&self) -> u32 {
        word_key(&self.text)
    }

    /// Returns the number of the word with its accents, if it has some.
    pub(super) fn accented(&self) -> Option<u32> {
        (!self.spelled.is_empty() && self.spelled != self.text).then(|| accented_key(self.spelled))
    }

    /// Whether it is neither put together from others nor within another.
    pub(super) fn is_single(&self) -> bool {
        self.parts == 0 && !self.is_inner
    }

    /// Returns it with its sound.
    pub(super) fn word(&self) -> Word {
        Word { key: self.key(), sound: sound(self.spelled).unwrap_or_default(), parts: self.parts }
    }
}

/// Finds the words of scripts without spaces by the dictionaries of ICU4X.
pub(super) static UNSPACED: LazyLock<WordSegmenterBorrowed<'static>> =
    LazyLock::new(|| WordSegmenter::new_dictionary(WordBreakInvariantOptions::default()));

/// Returns the bytes of the words of a normalized text without spaces.
pub(super) fn unspaced_words(text: &str) -> Vec<Range<usize>> {
    let composed = text.replace(DECOMPOSED_AM, COMPOSED_AM);
    let longer = DECOMPOSED_AM.len() - COMPOSED_AM.len();
    let (mut from, mut start) = (0, 0);
    let boundaries = UNSPACED.segment_str(&composed);
    let ranges = boundaries.map(|boundary| {
        let word = &composed[std::mem::replace(&mut from, boundary)..boundary];
        let length = word.len() + longer * word.matches(COMPOSED_AM).count();
        start += length;
        start - length..start
    });
    ranges.filter(|range| !range.is_empty()).collect()
}

/// Passes the words of a run to `take`.
pub(super) fn for_each_word(run: &Run<'_>, mut take: impl FnMut(PlainWord<'_>)) {
    match run.class {
        Class::Word => {
            let spelled = truncate_term(run.text);
            let text = plain(spelled);
            take(PlainWord { text, spelled, range: 0..run.text.len(), parts: 0, is_inner: false });
        }
        Class::Pictograph => {
            let text = Cow::Borrowed(pictograph(run.text));
            take(PlainWord { text, spelled: "", range: 0..run.text.len(), parts: 0, is_inner: false });
        }
        Class::Unspaced => {
            for_each_unspaced_word(run.text, &unspaced_words(run.text), take);
        }
        Class::Hangul => {
            let units = run.characters();
            let name = PARTICLES.iter().find_map(|particle| run.text.strip_suffix(particle)).unwrap_or(run.text);
            let mut take_part = |text, range: Range<usize>| {
                let spelled = if range == (0..name.len()) { name } else { "" };
                take(PlainWord { text, spelled, range, parts: 0, is_inner: false });
            };
            match units[..] {
                [only] => take_part(Cow::Borrowed(truncate_term(only)), 0..only.len()),
                _ => {
                    let mut from = 0;
                    for pair in units.windows(2) {
                        take_part(Cow::Owned(join_characters(pair)), from..from + pair[0].len() + pair[1].len());
                        from += pair[0].len();
                    }
                }
            }
            let length = name.chars().count();
            if units.len() > 2 && length > 2 && JOINED_NAME_CHARS.contains(&length) {
                take(joined_name(run.text, 0..name.len(), units.len() - 1));
            }
        }
    }
}

/// Passes words in a script without spaces to `take`. Chinese characters that the dictionary leaves alone may be a foreign name,
/// which follows them.
fn for_each_unspaced_word(text: &str, words: &[Range<usize>], mut take: impl FnMut(PlainWord<'_>)) {
    let is_alone = |range: &Range<usize>| is_one_han(&text[range.clone()]);
    for together in words.chunk_by(|a, b| is_alone(a) && is_alone(b)) {
        for range in together {
            let word = truncate_term(&text[range.clone()]);
            let spelled = if is_katakana(word) { word } else { "" };
            take(PlainWord { text: Cow::Borrowed(word), spelled, range: range.clone(), parts: 0, is_inner: false });
            for_each_inner_word(text, range, &mut take);
        }
        if let ([first, .., last], true) = (together, JOINED_NAME_CHARS.contains(&together.len())) {
            take(joined_name(text, first.start..last.end, together.len()));
        }
    }
}

/// Passes the words within a long word of Chinese characters to `take`: 下雨 and 雨天 in 下雨天. They are the words that would be
/// found if they stood alone.
fn for_each_inner_word(text: &str, word: &Range<usize>, mut take: impl FnMut(PlainWord<'_>)) {
    let characters: Vec<usize> =
        text[word.clone()].char_indices().map(|(offset, _)| word.start + offset).chain([word.end]).collect();
    let length = characters.len() - 1;
    if !CHARS_WITH_INNER_WORDS.contains(&length) || !text[word.clone()].chars().all(is_han) {
        return;
    }
    for from in 0..length {
        for to in (from + 2..=length).filter(|to| to - from < length) {
            let range = characters[from]..characters[to];
            let inner = &text[range.clone()];
            if UNSPACED.segment_str(inner).eq([0, inner.len()]) {
                take(PlainWord { text: Cow::Borrowed(inner), spelled: "", range, parts: 0, is_inner: true });
            }
        }
    }
}

fn joined_name(text: &str, range: Range<usize>, parts: usize) -> PlainWord<'_> {
    let spelled = &text[range.clone()];
    PlainWord { text: Cow::Borrowed(spelled), spelled, range, parts: parts as u8, is_inner: false }
}

/// Whether a word is written in katakana.
pub(super) fn is_katakana(word: &str) -> bool {
    word.chars().all(|c| matches!(c, '\u{30a1}'..='\u{30fa}' | '\u{30fc}'))
}

fn is_one_han(word: &str) -> bool {
    let mut characters = word.chars();
    matches!((characters.next(), characters.next()), (Some(c), None) if is_han(c))
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}')
}

#[cfg(test)]
mod tests {
    use super::super::word_counts::word_counts;
    use super::*;
    use crate::domain::Sound;

    #[test]
    fn words_are_lowercased_and_lose_their_accents() {
        assert_eq!(plain_words("Le Marché de Köln, 2024!"), ["le", "marche", "de", "koln", "2024"]);
        assert_eq!(plain_words("Он читает книги."), ["он", "читает", "книги"]);
    }

    #[test]
    fn scripts_without_spaces_are_segmented_by_a_dictionary() {
        assert_eq!(plain_words("河水上涨 a 桥"), ["河水", "上涨", "a", "桥"]);
        assert_eq!(plain_words("エッフェルは技師です"), ["エッフェル", "は", "技師", "です"]);
        assert_eq!(plain_words("ตลาดเปิดทุกวัน"), ["ตลาด", "เปิด", "ทุก", "วัน"]);
        let am = |words: [&str; 3]| words.map(|word| word.replace(COMPOSED_AM, DECOMPOSED_AM));
        assert_eq!(plain_words("น้ำสำคัญมาก"), am(["น้ำ", "สำคัญ", "มาก"]));
    }

    #[test]
    fn the_words_within_a_long_chinese_word_count_too() {
        let has = |text: &str, word: &str| word_counts(text, |_| true).iter().any(|count| count.key == word_key(word));
        assert!(["下雨天", "下雨", "雨天"].iter().all(|word| has("下雨天路滑", word)));
        assert!(["新幹線", "幹線"].iter().all(|word| has("新幹線で行く", word)));
        assert!(!has("下雨天路滑", "雨"), "single characters are not counted, because they say little");
        assert_eq!(plain_words("下雨天路滑")[0], "下雨天", "plain_words returns each character once");
    }

    #[test]
    fn korean_words_are_split_into_character_pairs() {
        assert_eq!(plain_words("도서관에서 책"), ["도서", "서관", "관에", "에서", "책"]);
    }

    #[test]
    fn each_emoji_is_a_word_without_a_sound() {
        assert_eq!(plain_words("Cake🎂🎂 ☀\u{fe0f} 👍🏽"), ["cake", "🎂", "🎂", "☀", "👍"]);
        assert!(word_counts("🎂🇩🇪", |_| true).iter().all(|word| word.sound == Sound::NONE));
    }

    #[test]
    fn a_text_of_signs_has_no_words() {
        assert!(["a", "7", "京", "🎂", "🇩🇪"].into_iter().all(has_words));
        assert!(!["", " ", "?!", "→ €", "\u{fe0f}", "🏽"].into_iter().any(has_words));
    }

    #[test]
    fn transliterated_names_are_joined_into_one_word() {
        let names = |text: &str| {
            let (mut names, shown) = (Vec::new(), normalized(text));
            for run in runs(&shown) {
                for_each_word(&run, |word| names.extend((word.parts > 0).then(|| word.text.into_owned())));
            }
            names
        };
        assert_eq!(names("佩顿·曼宁出生在新奥尔良"), ["佩顿", "曼宁"]);
        assert_eq!(names("페이턴 매닝은 어디에서"), ["페이턴"]);
        assert!(names("Peyton Manning played in Denver.").is_empty(), "words separated by spaces are not joined");
    }
}
