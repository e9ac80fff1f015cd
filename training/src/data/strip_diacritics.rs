//! Texts as people type them without diacritics: "verspatung" for "verspätung", "nha may" for "nhà máy". Their pieces differ
//! from those of the full spelling, so an encoder that never saw such texts embeds them badly.

use dragoman::text::Tokenizer;
use dragoman::text::diacritics::plain_letter;
use unicode_normalization::UnicodeNormalization as _;

/// A tokenizer and its pieces, for converting token ids to text and back.
pub struct DiacriticsRemover {
    tokenizer: Tokenizer,
    /// By id, with a space in place of the word mark; `None` for ids that are not text.
    pieces: Vec<Option<String>>,
}

impl DiacriticsRemover {
    /// Reads the pieces.
    pub fn new(tokenizer: Tokenizer) -> Self {
        let text = |id: u32| tokenizer.token(id).filter(|piece| !piece.starts_with('<')).map(|piece| piece.replace('▁', " "));
        let pieces = (0..tokenizer.vocabulary_size() as u32).map(text).collect();
        Self { tokenizer, pieces }
    }

    /// The token ids of a text without its diacritics; `None` if it has no diacritics, or has characters that the tokenizer
    /// does not know.
    pub fn strip(&self, ids: &[u16]) -> Option<Vec<u16>> {
        let pieces = ids.iter().map(|&id| self.pieces.get(usize::from(id))?.as_deref());
        let text: String = pieces.collect::<Option<_>>()?;
        let plain = without_diacritics(text.trim_start())?;
        let tokens = self.tokenizer.encode(&plain, usize::MAX).ok()?;
        tokens.ids.into_iter().map(|id| u16::try_from(id).ok()).collect()
    }
}

impl std::fmt::Debug for DiacriticsRemover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiacriticsRemover").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

/// Returns a text in lower case as people type it without diacritics, or `None` if it has none.
///
/// Only removes what readers see as an addition: marks of Latin and Greek letters, the dots of ё, stress in Cyrillic, and vowel
/// points of Arabic and Hebrew. Keeps letters in their own right, such as й and the Persian ی, and the vowels of Indic scripts.
pub fn without_diacritics(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let full: String = text.to_lowercase().nfc().collect();
    let mut plain = String::with_capacity(full.len());
    for c in full.chars() {
        match plain_letter(c) {
            Some(replaced) => plain.push_str(replaced),
            None if is_latin_or_greek(c) => plain.extend(std::iter::once(c).nfd().filter(|part| !is_mark(*part))),
            None if is_mark(c) || is_vowel_point(c) => {}
            None => plain.push(c),
        }
    }
    (plain != full).then_some(plain)
}

fn is_latin_or_greek(c: char) -> bool {
    matches!(c, '\u{c0}'..='\u{24f}' | '\u{370}'..='\u{3ff}' | '\u{1e00}'..='\u{1fff}')
}

/// Whether a character is a mark of Latin or Greek letters, or of stress.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}')
}

/// Whether a character is a short vowel or the doubling of a consonant in Arabic, or a point or accent in Hebrew. Hebrew
/// punctuation lies between those and does not count.
fn is_vowel_point(c: char) -> bool {
    matches!(c, '\u{64b}'..='\u{652}' | '\u{670}' | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}')
        || matches!(c, '\u{5c4}' | '\u{5c5}' | '\u{5c7}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::shipped_tokens::{ids, tokenizer};

    #[track_caller]
    fn check(text: &str, plain: Option<&str>) {
        assert_eq!(DiacriticsRemover::new(tokenizer()).strip(&ids(text)), plain.map(ids));
    }

    #[test]
    fn diacritics_are_stripped_from_latin_greek_and_cyrillic() {
        check("Nhà máy mới mở cửa lúc 8 giờ.", Some("nha may moi mo cua luc 8 gio."));
        check("Żółw śpi (wciąż)!", Some("zolw spi (wciaz)!"));
        check("Η βιβλιοθήκη είναι κλειστή", Some("η βιβλιοθηκη ειναι κλειστη"));
        check("Ёлка стоит у двери", Some("елка стоит у двери"));
    }

    #[test]
    fn texts_without_removable_diacritics_return_none() {
        check("The bridge is closed.", None);
        check("Мост закрыт, но чайник новый", None);
        check("இந்தப் பாலம் மூடப்பட்டுள்ளது", None);
        check("この橋は閉まっている", None);
        check("این کتاب ایرانی است", None);
        check("लड़का बड़ा है", None);
        check("בית־ספר", None);
    }

    #[test]
    fn token_ids_without_text_return_none() {
        assert_eq!(DiacriticsRemover::new(tokenizer()).strip(&[1, 1]), None);
    }

    #[track_caller]
    fn check_text(text: &str, plain: Option<&str>) {
        assert_eq!(without_diacritics(text).as_deref(), plain, "{text}");
    }

    #[test]
    fn marks_of_latin_and_greek_letters_are_removed() {
        check_text("Nhà máy mới mở cửa", Some("nha may moi mo cua"));
        check_text("Żółw śpi, ėžeras, Straße, Ọjọ́ kẹta", Some("zolw spi, ezeras, strasse, ojo keta"));
        check_text("Ⅸ: e\u{301}te\u{301}", Some("ⅸ: ete"));
        check_text("Η βιβλιοθήκη είναι ΐδια", Some("η βιβλιοθηκη ειναι ιδια"));
    }

    #[test]
    fn cyrillic_stress_marks_and_yo_dots_are_removed_but_letters_stay() {
        check_text("Ёлка и за\u{301}мок", Some("елка и замок"));
        check_text("Новый чайник, її ґанок", None);
        check_text("и\u{306}од", None);
    }

    #[test]
    fn arabic_and_hebrew_vowel_points_are_removed_but_letters_stay() {
        check_text("كَتَبَ الوَلَدُ", Some("كتب الولد"));
        check_text("أكل الأستاذ مدرسة إلى آخر", None);
        check_text("این کتاب ایرانی است", None);
        check_text("یہ کتاب اردو کی ہے", None);
        check_text("שָׁלוֹם לְבֵית־סֵפֶר", Some("שלום לבית־ספר"));
        check_text("בית־ספר", None);
    }

    #[test]
    fn vowels_and_dots_of_other_scripts_stay() {
        check_text("लड़का बड़ा है", None);
        check_text("இந்தப் பாலம் மூடப்பட்டுள்ளது", None);
        check_text("สะพานนี้ปิดแล้ว", None);
        check_text("東京で会議がある", None);
        check_text("The bridge is closed.", None);
    }
}
