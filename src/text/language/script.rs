//! The scripts of letters, as far as they distinguish the 62 languages, and the detection of texts in other scripts.

use crate::domain::Language;

/// Groups of the languages by their script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// A script that only one of the languages has.
    Of(&'static str),
    Han,
    Latin,
    Cyrillic,
    Arabic,
    Devanagari,
}

/// Whether a language is written in a script.
pub(super) fn is_written_in(language: Language, script: Script) -> bool {
    match script {
        Script::Of(code) => language.code() == code,
        Script::Han => matches!(language.code(), "ja" | "zh"),
        Script::Latin => language.script() == "Latn",
        Script::Cyrillic => language.script() == "Cyrl",
        Script::Arabic => language.script() == "Arab",
        Script::Devanagari => language.script() == "Deva",
    }
}

/// Returns the script of a letter. Returns `None` for anything else, and for letters of scripts that none of the languages
/// uses.
pub(super) fn script_of(c: char) -> Option<Script> {
    Some(match c {
        'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' | 'Ａ'..='Ｚ' | 'ａ'..='ｚ' => Script::Latin,
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => Script::Of("el"),
        '\u{400}'..='\u{52f}' => Script::Cyrillic,
        '\u{531}'..='\u{58a}' => Script::Of("hy"),
        '\u{5d0}'..='\u{5f4}' | '\u{fb1d}'..='\u{fb4f}' => Script::Of("he"),
        '\u{620}'..='\u{64a}' | '\u{66e}'..='\u{6d3}' | '\u{6ee}'..='\u{6ff}' | '\u{750}'..='\u{77f}' => Script::Arabic,
        '\u{fb50}'..='\u{fdfb}' | '\u{fe70}'..='\u{fefc}' => Script::Arabic,
        '\u{900}'..='\u{963}' | '\u{970}'..='\u{97f}' => Script::Devanagari,
        '\u{980}'..='\u{9ff}' => Script::Of("bn"),
        '\u{a80}'..='\u{aff}' => Script::Of("gu"),
        '\u{b80}'..='\u{bff}' => Script::Of("ta"),
        '\u{c00}'..='\u{c7f}' => Script::Of("te"),
        '\u{d00}'..='\u{d7f}' => Script::Of("ml"),
        '\u{e01}'..='\u{e4f}' => Script::Of("th"),
        '\u{1000}'..='\u{109f}' | '\u{a9e0}'..='\u{a9fe}' | '\u{aa60}'..='\u{aa7f}' => Script::Of("my"),
        '\u{10a0}'..='\u{10ff}' | '\u{1c90}'..='\u{1cbf}' | '\u{2d00}'..='\u{2d2d}' => Script::Of("ka"),
        '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{ac00}'..='\u{d7a3}' => Script::Of("ko"),
        '\u{3005}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}' => {
            Script::Han
        }
        c if is_kana(c) => Script::Han,
        _ => return None,
    })
}

/// Whether a letter is Hiragana or Katakana.
pub(super) fn is_kana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}' | '\u{30fd}'..='\u{30ff}' | '\u{ff66}'..='\u{ff9d}')
}

/// Maximum number of letters to read to see whether a text is in a known script.
const LETTERS_MAX: usize = 1_536;

/// Whether there is nothing to detect in `text`: it has no letters, or more letters of unknown scripts than of known ones.
pub(super) fn is_foreign(text: &str) -> bool {
    let (mut known, mut foreign) = (0, 0);
    for c in text.chars().filter(|&c| c.is_alphabetic() && !is_mark(c)).take(LETTERS_MAX) {
        if script_of(c).is_some() {
            known += 1;
        } else {
            foreign += 1;
        }
    }
    known == 0 || foreign > known
}

/// Whether a character is a vowel point or accent. Unicode counts those as letters, but they do not belong to a script.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{2b0}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6ed}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_mostly_in_an_unsupported_script_is_foreign() {
        assert!(is_foreign("ᎣᏏᏲ ᎦᏙ ᏕᏣᏙᎥ"));
        assert!(is_foreign("ᚠᚢᚦᚨᚱᚲ"));
        assert!(is_foreign("ሰላም ዓለም"));
        assert!(!is_foreign("The word ᎣᏏᏲ is a greeting."));
    }

    #[test]
    fn a_text_without_letters_is_foreign() {
        for text in ["", "12345", "!?…", "👍🏽", "+49 (0) 30 / 1234"] {
            assert!(is_foreign(text), "{text:?}");
        }
    }

    #[test]
    fn combining_marks_do_not_make_a_text_foreign() {
        assert!(!is_foreign("مَرْحَبًا"));
        assert!(!is_foreign("שָׁלוֹם"));
        assert!(!is_foreign("e\u{301}te\u{301}"));
    }
}
