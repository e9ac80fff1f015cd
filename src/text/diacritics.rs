//! Letters that people type without their diacritics. Lexical search and the trainer share this.

/// Returns what people type for a letter that Unicode does not decompose into another letter and a mark.
pub fn plain_letter(c: char) -> Option<&'static str> {
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
