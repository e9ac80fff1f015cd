//! Removes diacritics from texts, as people do when they type. Lexical search and the trainer share this.

use unicode_normalization::UnicodeNormalization as _;

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

/// Returns what people type for a letter that Unicode does not decompose into another letter and a mark.
pub(super) fn plain_letter(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'ł' => "l",
        'đ' | 'ð' => "d",
        'þ' => "th",
        'ħ' => "h",
        'ı' => "i",
        'ŋ' => "n",
        'ё' => "е",
        _ => return None,
    })
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

    #[track_caller]
    fn check(text: &str, plain: Option<&str>) {
        assert_eq!(without_diacritics(text).as_deref(), plain, "{text}");
    }

    #[test]
    fn marks_of_latin_and_greek_letters_are_removed() {
        check("Nhà máy mới mở cửa", Some("nha may moi mo cua"));
        check("Żółw śpi, ėžeras, Straße, Ọjọ́ kẹta", Some("zolw spi, ezeras, strasse, ojo keta"));
        check("Ⅸ: e\u{301}te\u{301}", Some("ⅸ: ete"));
        check("Η βιβλιοθήκη είναι ΐδια", Some("η βιβλιοθηκη ειναι ιδια"));
    }

    #[test]
    fn cyrillic_stress_marks_and_yo_dots_are_removed_but_letters_stay() {
        check("Ёлка и за\u{301}мок", Some("елка и замок"));
        check("Новый чайник, її ґанок", None);
        check("и\u{306}од", None);
    }

    #[test]
    fn arabic_and_hebrew_vowel_points_are_removed_but_letters_stay() {
        check("كَتَبَ الوَلَدُ", Some("كتب الولد"));
        check("أكل الأستاذ مدرسة إلى آخر", None);
        check("این کتاب ایرانی است", None);
        check("یہ کتاب اردو کی ہے", None);
        check("שָׁלוֹם לְבֵית־סֵפֶר", Some("שלום לבית־ספר"));
        check("בית־ספר", None);
    }

    #[test]
    fn vowels_and_dots_of_other_scripts_stay() {
        check("लड़का बड़ा है", None);
        check("இந்தப் பாலம் மூடப்பட்டுள்ளது", None);
        check("สะพานนี้ปิดแล้ว", None);
        check("東京で会議がある", None);
        check("The bridge is closed.", None);
    }
}
