//! The 62 languages of EMS (EMS, table I, and English).

mod tag;

pub use tag::LanguageTagError;

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One of the 62 languages, written in the API as its ISO 639-1 code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Language(u8);

/// A language detected in a text, with its confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectedLanguage {
    /// The most likely language.
    pub language: Language,
    /// 0 to 1.
    pub confidence: f32,
}

impl Language {
    /// How many languages there are.
    pub const COUNT: usize = TABLE.len();

    /// Finds a language by its lower-case ISO 639-1 code, such as `fr`, as Dragoman writes it. `from_tag` parses what callers
    /// send.
    pub fn parse(code: &str) -> Option<Self> {
        TABLE.binary_search_by_key(&code, |row| row.0).ok().map(|index| Self(index as u8))
    }

    /// All languages, in the order of their codes.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + Clone {
        (0..TABLE.len() as u8).map(Self)
    }

    /// The ISO 639-1 code.
    pub fn code(self) -> &'static str {
        TABLE[self.index()].0
    }

    /// The English name.
    pub fn name(self) -> &'static str {
        TABLE[self.index()].1
    }

    /// The ISO 15924 code of its main script.
    pub fn script(self) -> &'static str {
        TABLE[self.index()].2
    }

    /// Its index in `all`, from 0: the row of the target-language embedding in training.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Language {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Language {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Self::parse(&code).ok_or_else(|| D::Error::custom(format_args!("{code:?} is not the code of a language")))
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Code, English name, main script; sorted by code.
const TABLE: [(&str, &str, &str); 62] = [
    ("af", "Afrikaans", "Latn"),
    ("ar", "Arabic", "Arab"),
    ("bg", "Bulgarian", "Cyrl"),
    ("bn", "Bengali", "Beng"),
    ("ca", "Catalan", "Latn"),
    ("cs", "Czech", "Latn"),
    ("da", "Danish", "Latn"),
    ("de", "German", "Latn"),
    ("el", "Greek", "Grek"),
    ("en", "English", "Latn"),
    ("eo", "Esperanto", "Latn"),
    ("es", "Spanish", "Latn"),
    ("et", "Estonian", "Latn"),
    ("eu", "Basque", "Latn"),
    ("fa", "Persian", "Arab"),
    ("fi", "Finnish", "Latn"),
    ("fr", "French", "Latn"),
    ("gl", "Galician", "Latn"),
    ("gu", "Gujarati", "Gujr"),
    ("he", "Hebrew", "Hebr"),
    ("hi", "Hindi", "Deva"),
    ("hr", "Croatian", "Latn"),
    ("hu", "Hungarian", "Latn"),
    ("hy", "Armenian", "Armn"),
    ("id", "Indonesian", "Latn"),
    ("it", "Italian", "Latn"),
    ("ja", "Japanese", "Jpan"),
    ("jv", "Javanese", "Latn"),
    ("ka", "Georgian", "Geor"),
    ("kk", "Kazakh", "Cyrl"),
    ("ko", "Korean", "Kore"),
    ("ku", "Kurdish", "Latn"),
    ("lt", "Lithuanian", "Latn"),
    ("lv", "Latvian", "Latn"),
    ("mk", "Macedonian", "Cyrl"),
    ("ml", "Malayalam", "Mlym"),
    ("mn", "Mongolian", "Cyrl"),
    ("mr", "Marathi", "Deva"),
    ("ms", "Malay", "Latn"),
    ("my", "Burmese", "Mymr"),
    ("nb", "Norwegian Bokmål", "Latn"),
    ("nl", "Dutch", "Latn"),
    ("pl", "Polish", "Latn"),
    ("pt", "Portuguese", "Latn"),
    ("ro", "Romanian", "Latn"),
    ("ru", "Russian", "Cyrl"),
    ("sk", "Slovak", "Latn"),
    ("sl", "Slovenian", "Latn"),
    ("sq", "Albanian", "Latn"),
    ("sr", "Serbian", "Cyrl"),
    ("sv", "Swedish", "Latn"),
    ("sw", "Swahili", "Latn"),
    ("ta", "Tamil", "Taml"),
    ("te", "Telugu", "Telu"),
    ("th", "Thai", "Thai"),
    ("tl", "Tagalog", "Latn"),
    ("tr", "Turkish", "Latn"),
    ("uk", "Ukrainian", "Cyrl"),
    ("ur", "Urdu", "Arab"),
    ("vi", "Vietnamese", "Latn"),
    ("yo", "Yoruba", "Latn"),
    ("zh", "Chinese", "Hans"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_is_parsed_from_its_code() {
        for language in Language::all() {
            assert_eq!(Language::parse(language.code()), Some(language));
        }
        assert_eq!(Language::all().len(), 62);
    }

    #[test]
    fn other_codes_are_unknown() {
        for code in ["", "xx", "EN", "eng", "is"] {
            assert_eq!(Language::parse(code), None);
        }
    }
}
