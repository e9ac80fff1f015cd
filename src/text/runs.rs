//! Normalizes texts, splits them into runs of letters and digits of one class and into pictographs, and folds words to their
//! plain form.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick, is_nfkc_quick};
use unicode_segmentation::UnicodeSegmentation as _;

use super::diacritics;

/// Maximum number of characters of a term. Further ones are ignored.
pub(super) const TERM_CHARS_MAX: usize = 64;

/// Whether a character is a letter or digit of a script with spaces between words and no attached particles.
pub(super) fn is_spaced_letter(c: char) -> bool {
    class(c) == Some(Class::Word)
}

/// How to find the terms in a character's script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Words are separated by spaces or punctuation.
    Word,
    /// There are no spaces between words: Han, kana, Thai, Lao, Khmer, Burmese.
    Unspaced,
    /// Words have particles attached to them.
    Hangul,
    /// Each is a word: emoji and other small pictures.
    Pictograph,
}

/// Neighboring characters of one class, or one pictograph.
pub(super) struct Run<'a> {
    pub(super) class: Class,
    pub(super) text: &'a str,
}

impl<'a> Run<'a> {
    /// Returns its visible characters. A mark belongs to the letter before it even where Unicode does not join the two.
    pub(super) fn characters(&self) -> Vec<&'a str> {
        let begins = |(position, unit): &(usize, &str)| *position == 0 || unit.chars().next().and_then(class).is_some();
        let starts: Vec<usize> = self.text.grapheme_indices(true).filter(begins).map(|(position, _)| position).collect();
        let ends = starts.iter().skip(1).copied().chain([self.text.len()]);
        starts.iter().zip(ends).map(|(start, end)| &self.text[*start..end]).collect()
    }
}

/// Returns the runs of a normalized text.
pub(super) fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let start = rest.find(|c| class(c).is_some())?;
        let from = &rest[start..];
        let of = from.chars().next().and_then(class)?;
        let end = match of {
            Class::Pictograph => pictograph(from).len(),
            _ => from.find(|c| class(c) != Some(of) && !is_combining_mark(c)).unwrap_or(from.len()),
        };
        rest = &from[end..];
        Some(Run { class: of, text: &from[..end] })
    })
}

/// Returns the first pictograph of a text: one character, or the two letters of a flag. What only varies it, such as a skin tone,
/// is left out.
pub(super) fn pictograph(text: &str) -> &str {
    let from = text.find(is_pictograph).map_or("", |start| &text[start..]);
    let flag: usize = from.chars().take(2).take_while(|c| is_flag_letter(*c)).map(char::len_utf8).sum();
    let length = if flag > 0 { flag } else { from.chars().next().map_or(0, char::len_utf8) };
    &from[..length]
}

/// Whether a character is an emoji or another small picture, or a letter of a flag. Digits, signs of a trade mark, arrows,
/// geometric shapes, box drawing, and signs of mathematics, musical notation and currencies are not.
pub(super) fn is_pictograph(c: char) -> bool {
    match c {
        // Clocks, the keyboard, the signs of a media player.
        '\u{231a}'..='\u{231b}' | '\u{2328}' | '\u{23cf}' | '\u{23e9}'..='\u{23f3}' | '\u{23f8}'..='\u{23fa}' => true,
        // Miscellaneous symbols without the flat, natural and sharp signs, and dingbats without multiplication signs, brackets,
        // digits and arrows.
        '\u{2600}'..='\u{266c}' | '\u{2670}'..='\u{26ff}' | '\u{2700}'..='\u{2714}' | '\u{2717}'..='\u{2767}' => true,
        '\u{27b0}' | '\u{27bf}' | '\u{2b1b}'..='\u{2b1c}' | '\u{2b50}' | '\u{2b55}' => true,
        // Tiles and cards, words in squares, colored circles and squares.
        '\u{1f000}'..='\u{1f0ff}' | '\u{1f18e}' | '\u{1f191}'..='\u{1f19a}' | '\u{1f7e0}'..='\u{1f7eb}' => true,
        '\u{1f300}'..='\u{1f64f}' | '\u{1f680}'..='\u{1f6ff}' | '\u{1f900}'..='\u{1faff}' => !is_skin_tone(c),
        _ => is_flag_letter(c),
    }
}

/// Whether a character only varies how the emoji before it looks.
pub(super) fn is_emoji_modifier(c: char) -> bool {
    matches!(c, '\u{200d}' | '\u{fe0e}' | '\u{fe0f}') || is_skin_tone(c)
}

fn is_skin_tone(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// Whether a character is a regional indicator. Two of them are the flag of a country.
fn is_flag_letter(c: char) -> bool {
    matches!(c, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Whether a character is certainly a letter, because it belongs to the most frequent letters of Latin, Cyrillic and Chinese
/// texts. This check is faster than looking up a character in Unicode's tables.
pub(super) fn is_common_letter(c: char) -> bool {
    match c {
        '\u{c0}'..='\u{24f}' => !matches!(c, '×' | '÷'),
        _ => matches!(c, '\u{400}'..='\u{481}' | '\u{48a}'..='\u{52f}' | '\u{4e00}'..='\u{9fff}'),
    }
}

/// Returns the class of a letter, digit or pictograph. Returns `None` for separators, and for marks, because they belong to the
/// letter before them.
pub(super) fn class(c: char) -> Option<Class> {
    match c {
        '\0'..='\u{7f}' => c.is_ascii_alphanumeric().then_some(Class::Word),
        _ if is_common_letter(c) => Some(if c < '\u{4e00}' { Class::Word } else { Class::Unspaced }),
        '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{a960}'..='\u{a97c}' | '\u{ac00}'..='\u{d7fb}' => {
            Some(Class::Hangul)
        }
        _ if is_combining_mark(c) || !c.is_alphanumeric() => is_pictograph(c).then_some(Class::Pictograph),
        // Thai, Lao, Burmese, Khmer; then Han with its marks of repetition, kana, Bopomofo.
        '\u{e01}'..='\u{e4e}' | '\u{e81}'..='\u{edf}' | '\u{1000}'..='\u{109f}' | '\u{a9e0}'..='\u{a9fe}' => {
            Some(Class::Unspaced)
        }
        '\u{aa60}'..='\u{aa7f}' | '\u{1780}'..='\u{17dd}' => Some(Class::Unspaced),
        '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{303b}' | '\u{3041}'..='\u{30ff}' => Some(Class::Unspaced),
        '\u{3105}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' => Some(Class::Unspaced),
        '\u{f900}'..='\u{faff}' | '\u{1b000}'..='\u{1b16f}' | '\u{20000}'..='\u{323af}' => Some(Class::Unspaced),
        _ => Some(Class::Word),
    }
}

/// Normalizes a text: NFKC, lower case, ASCII digits, and one form of sigma. Removes characters that only control how a text is
/// displayed, and marks within a word (`is_inner_mark`).
pub(super) fn normalized(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    // Most texts are already in this form, and checking is faster than converting.
    let shown = match is_nfkc_quick(text.chars()) {
        IsNormalized::Yes => fold_characters(text.chars(), text.len()),
        _ => fold_characters(text.nfkc(), text.len()),
    };
    // Composes again, because some letters and marks only have a composed form in lower case.
    match is_nfkc_quick(shown.chars()) {
        IsNormalized::Yes => shown,
        _ => shown.nfkc().collect(),
    }
}

/// Returns the characters of a text in NFKC as they are shown in terms.
fn fold_characters(text: impl Iterator<Item = char>, length: usize) -> String {
    let mut shown = String::with_capacity(length);
    let (mut before, mut rest) = (' ', text.peekable());
    while let Some(c) = rest.next() {
        match c {
            // Persian uses the zero-width non-joiner between parts of a word, where some people type a space. In Indic scripts
            // it only affects the shape of letters.
            '\u{200c}' if is_arabic(before) => shown.push(' '),
            _ if rest.peek().is_some_and(|next| is_inner_mark(before, c, *next)) => {}
            _ => shown.extend(lower_case(c)),
        }
        before = c;
    }
    shown
}

/// Whether a character between two letters is a mark within one word: the apostrophe of "м'ята", the gershayim of "צה״ל" and the
/// geresh of "ג׳ירפה", however they are typed, and the middle dot of "col·lecció". An apostrophe between Latin letters separates
/// words, as in "l'été".
pub(super) fn is_inner_mark(before: char, mark: char, next: char) -> bool {
    let in_hebrew = || (is_hebrew(before) || is_hebrew_point(before)) && is_hebrew(next);
    match mark {
        '\'' | '\u{2019}' | '\u{2bc}' => is_cyrillic(before) && is_cyrillic(next) || in_hebrew(),
        '"' | '\u{201d}' | '\u{5f3}' | '\u{5f4}' => in_hebrew(),
        '\u{b7}' => [before, next].iter().all(|letter| matches!(letter, 'l' | 'L')),
        _ => false,
    }
}

fn is_cyrillic(c: char) -> bool {
    matches!(c, '\u{400}'..='\u{481}' | '\u{48a}'..='\u{52f}')
}

fn is_hebrew(c: char) -> bool {
    matches!(c, '\u{5d0}'..='\u{5ea}' | '\u{5ef}'..='\u{5f2}')
}

fn is_hebrew_point(c: char) -> bool {
    matches!(c, '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c7}')
}

/// Returns the term by which quotes and minuses match a normalized word regardless of case: with "ss" for "ß", and a single
/// i for i with and without a dot, because their upper-case letters differ between languages.
pub(super) fn exact(word: &str) -> Cow<'_, str> {
    let word = truncate_term(word);
    if word.is_ascii() || !word.contains(['ß', 'ı', '\u{307}']) {
        return Cow::Borrowed(word);
    }
    let plain = word.replace('ß', "ss").replace('ı', "i").replace("i\u{307}", "i");
    Cow::Owned(truncate_term(&plain).to_owned())
}

/// Returns the form of `normalized` for a text of a single character, if that is also a single character and quick to determine.
pub(super) fn normalized_character(text: &str) -> Option<char> {
    let mut characters = text.chars();
    let c = characters.next().filter(|_| characters.next().is_none())?;
    if c.is_ascii() {
        return Some(c.to_ascii_lowercase());
    }
    if is_normalized_letter(c) || matches!(c, '\u{3041}'..='\u{3096}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}') {
        return Some(c);
    }
    let mut lower = lower_case(c);
    let shown = lower.next().filter(|_| lower.next().is_none())?;
    let is_normalized = |c: char| is_nfkc_quick(std::iter::once(c)) == IsNormalized::Yes;
    (is_normalized(c) && is_normalized(shown)).then_some(shown)
}

/// Whether a text is one word that `normalized` leaves as it is. Recognizes words in ASCII and most others in Latin, Greek
/// and Cyrillic letters, which is faster than normalizing them.
pub(super) fn is_normalized_word(text: &str) -> bool {
    text.chars().all(is_normalized_letter)
}

fn is_normalized_letter(c: char) -> bool {
    matches!(c, 'a'..='z' | '0'..='9' | 'ß'..='ö' | 'ø'..='ÿ' | 'а'..='џ' | 'ά'..='ρ' | 'σ'..='ώ')
}

/// Returns the letters with which the terms of a word may begin: the first letter of the word as it is matched exactly, and that
/// letter without its accent. `None` if this is not quick to see (`is_normalized_word`).
pub(super) fn first_letters(word: &str) -> Option<[char; 2]> {
    let first = word.chars().next().filter(|_| is_normalized_word(word))?;
    if first.is_ascii() {
        return Some([first; 2]);
    }
    let mut buffer = [0; 4];
    let text = &*first.encode_utf8(&mut buffer);
    let (exact, plain) = (exact(text).chars().next(), fold(text).and_then(|plain| plain.chars().next()));
    Some([exact.unwrap_or(first), plain.unwrap_or(first)])
}

/// Returns a character in lower case: an ASCII digit for one of another script, one form of sigma, a space for the frame of a
/// keycap, and nothing for a character that is left out.
fn lower_case(c: char) -> impl Iterator<Item = char> {
    let shown = match c {
        'ς' => Some('σ'),
        '\u{20e3}' => Some(' '),
        _ if is_ignorable(c) => None,
        _ => Some(digit(c).unwrap_or(c)),
    };
    shown.into_iter().flat_map(char::to_lowercase)
}

/// Whether a character only controls how a text is displayed: joiners, zero-width spaces, direction marks, the soft hyphen, the
/// Arabic tatweel, variation selectors.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{640}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fe00}'..='\u{fe0f}')
}

fn is_arabic(c: char) -> bool {
    matches!(c, '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}')
}

/// Returns the ASCII digit for a decimal digit of another script.
fn digit(c: char) -> Option<char> {
    /// Zeros of the scripts of the supported languages; the other nine digits follow each.
    const ZEROS: [u32; 14] = [0x660, 0x6f0, 0x966, 0x9e6, 0xa66, 0xae6, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0x1040, 0x17e0];
    let value = ZEROS.iter().find_map(|zero| u32::from(c).checked_sub(*zero).filter(|value| *value < 10))?;
    char::from_digit(value, 10)
}

/// Returns a word without its accents, and with the plain form of letters that people type differently. Returns `None` if it
/// has neither.
///
/// Only removes marks that readers see as an addition: those of Latin and Greek letters, stress in Cyrillic, and vowel points
/// in Arabic and Hebrew. In Indic scripts a mark is a vowel, and in Cyrillic й is a separate letter, not an и with a breve.
pub(super) fn fold(word: &str) -> Option<String> {
    if word.is_ascii() {
        return None;
    }
    let mut plain = String::with_capacity(word.len());
    for c in word.chars() {
        if c.is_ascii() {
            plain.push(c);
        } else if let Some(replaced) = plain_letter(c) {
            plain.push_str(replaced);
        } else if matches!(c, '\u{400}'..='\u{52f}') {
            plain.push(c);
        } else {
            plain.extend(std::iter::once(c).nfd().filter(|part| !is_accent(*part)));
        }
    }
    let plain = match is_nfc_quick(plain.chars()) {
        IsNormalized::Yes => plain,
        _ => plain.nfc().collect(),
    };
    (plain != word).then_some(plain)
}

fn plain_letter(c: char) -> Option<&'static str> {
    Some(match c {
        // Arabic and Persian keyboards have different letters for the same sound.
        'ى' | 'ی' => "ي",
        'ک' => "ك",
        'ة' => "ه",
        _ => return diacritics::plain_letter(c),
    })
}

/// Whether folding removes a mark. U+093C is the dot of Devanagari, which many leave out.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}')
        || matches!(c, '\u{6d6}'..='\u{6e4}' | '\u{6e7}'..='\u{6ed}' | '\u{93c}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}')
}

/// Joins neighboring characters to one term.
pub(super) fn join_characters(pair: &[&str]) -> String {
    truncate_term(&pair.concat()).to_owned()
}

/// Cuts a term off after the maximum number of characters.
pub(super) fn truncate_term(term: &str) -> &str {
    term.char_indices().nth(TERM_CHARS_MAX).map_or(term, |(end, _)| &term[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        runs(text).map(|run| run.text).collect()
    }

    #[test]
    fn each_pictograph_is_a_run() {
        assert_eq!(texts("a🍗🍺b ⚽⚽"), ["a", "🍗", "🍺", "b", "⚽", "⚽"]);
        assert!(runs("🎂🎧☀✈♥🀄").all(|run| run.class == Class::Pictograph));
    }

    #[test]
    fn a_flag_is_one_run() {
        assert_eq!(texts("🇩🇪🇫🇷 🇩"), ["🇩🇪", "🇫🇷", "🇩"]);
    }

    #[test]
    fn variants_of_an_emoji_are_the_same_run() {
        assert_eq!(texts("☀\u{fe0f} ☀\u{fe0e} 👍🏽 👍"), ["☀", "☀", "👍", "👍"]);
        assert_eq!(texts(&normalized("👩🏽\u{200d}🚒")), ["👩", "🚒"], "a sequence counts as its parts");
        assert_eq!(texts("🏽 \u{fe0f} \u{200d}"), [""; 0], "alone they are nothing");
    }

    #[test]
    fn other_signs_are_no_pictographs() {
        assert_eq!(texts("© ® ™ → ⇒ ➜ ─ │ ■ ▶ ∑ ≠ ✖ ➕ € $ ♯ # * ❨"), [""; 0]);
    }

    #[test]
    fn a_keycap_is_its_digit() {
        assert_eq!(texts(&normalized("1\u{fe0f}\u{20e3}2\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3}")), ["1", "2"]);
    }

    #[test]
    fn every_letter_digit_and_pictograph_has_a_class_and_nothing_else() {
        for c in ('\0'..=char::MAX).filter(|c| class(*c) != Some(Class::Hangul)) {
            let expect = !is_combining_mark(c) && c.is_alphanumeric() || is_pictograph(c);
            assert_eq!(class(c).is_some(), expect, "{c:?}");
        }
    }

    #[test]
    fn a_word_of_plain_letters_is_recognized_as_normalized() {
        for c in ('\0'..=char::MAX).filter(|c| is_normalized_word(&c.to_string())) {
            let text = c.to_string();
            assert_eq!((normalized(&text), class(c)), (text, Some(Class::Word)));
        }
        assert!(["größe", "2024", "ёлка", "νερό"].iter().all(|word| is_normalized_word(word)));
        assert!(["Größe", "two words", "हिन्दी", "٣", "ος"].iter().all(|text| !is_normalized_word(text)));
    }

    #[test]
    fn the_terms_of_a_word_begin_with_its_first_letters() {
        for c in ('\0'..=char::MAX).filter(|c| is_normalized_word(&c.to_string())) {
            let word = format!("{c}s");
            let letters = first_letters(&word).expect("letters");
            let forms = [exact(&word).into_owned(), fold(&word).unwrap_or_default()];
            let begins = |form: &String| form.chars().next().is_none_or(|first| letters.contains(&first));
            assert!(forms.iter().all(begins), "{forms:?} {letters:?}");
        }
        assert_eq!(first_letters("日本"), None);
    }

    #[test]
    fn fast_character_normalization_matches_full_normalization() {
        for c in '\0'..='\u{1ffff}' {
            let text = c.to_string();
            if let Some(shown) = normalized_character(&text) {
                assert_eq!(normalized(&text), shown.to_string(), "{c:?}");
            }
        }
        assert_eq!(
            ["Ä", "Ж", "٣", "ς", "京", "각"].map(normalized_character),
            ["ä", "ж", "3", "σ", "京", "각"].map(|letter| letter.chars().next())
        );
    }
}
