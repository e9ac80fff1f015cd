//! Parses BCP 47 language tags (RFC 5646), as callers write them: from `pt-BR`, `zh_Hant`, `iw` or `deu` to one of the
//! languages.
//!
//! CLDR (Unicode technical standard 35, annex C) defines well-formed tags and which codes mean the same, including old and
//! three-letter ones. Script and region are parsed and dropped: a detected language has neither, so a filter by `pt-BR` would
//! miss most Brazilian texts.

use icu_locale::{Locale, LocaleCanonicalizer};

use super::Language;
use crate::domain::Code;

/// Maximum characters of a tag. RFC 5646 (section 4.4.1) counts 35 for the longest one in practice.
const CHARACTERS_MAX: usize = 64;
/// The tag of a text whose language is unknown.
const UNDETERMINED: &str = "und";
/// Languages that CLDR names differently, or distinguishes: both written forms of Norwegian are searched as one language,
/// because most tags only say that a text is Norwegian; Filipino is the standard form of Tagalog.
const RENAMED_LANGUAGES: [(&str, &str); 3] = [("no", "nb"), ("nn", "nb"), ("fil", "tl")];

/// Why a tag does not name one of the languages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum LanguageTagError {
    /// It is not a well-formed language tag.
    #[error("must be a BCP 47 language tag, such as fr or pt-BR, of at most {CHARACTERS_MAX} characters, got {got:?}")]
    Malformed { got: String },
    /// It is well-formed and names another language.
    #[error("must be one of the {} languages that GET /v1/models lists, got {got:?}", Language::COUNT)]
    Other { got: String },
    /// It means that the language is unknown, where a language is required.
    #[error("must name a language, got {got:?}, which means that the language is unknown")]
    Undetermined { got: String },
}

impl LanguageTagError {
    /// The error code for callers.
    pub fn code(&self) -> Code {
        match self {
            Self::Malformed { .. } => Code::InvalidRequest,
            Self::Other { .. } | Self::Undetermined { .. } => Code::UnknownLanguage,
        }
    }
}

impl Language {
    /// Parses a tag that must name one of the languages.
    pub fn from_tag(tag: &str) -> Result<Self, LanguageTagError> {
        Self::of_text_from_tag(tag)?.ok_or_else(|| LanguageTagError::Undetermined { got: tag.to_owned() })
    }

    /// Parses the tag of a text: `None` for `und`, an undetermined language.
    pub fn of_text_from_tag(tag: &str) -> Result<Option<Self>, LanguageTagError> {
        if let Some(language) = Self::parse(tag) {
            return Ok(Some(language));
        }
        let malformed = || LanguageTagError::Malformed { got: tag.chars().take(CHARACTERS_MAX).collect() };
        let mut locale = well_formed(tag).ok_or_else(malformed)?;
        LocaleCanonicalizer::new_common().canonicalize(&mut locale);
        let code = locale.id.language.as_str();
        if code == UNDETERMINED {
            return Ok(None);
        }
        let named = RENAMED_LANGUAGES.iter().find(|(other, _)| *other == code).map_or(code, |(_, current)| current);
        Self::parse(named).map(Some).ok_or_else(|| LanguageTagError::Other { got: tag.to_owned() })
    }
}

/// Parses a tag by its syntax alone. Underscores may separate subtags, as in the names of POSIX locales.
fn well_formed(tag: &str) -> Option<Locale> {
    if tag.len() > CHARACTERS_MAX {
        return None;
    }
    let tag = tag.replace('_', "-");
    Locale::try_from_str(&tag).ok().or_else(|| Locale::try_from_str(without_macrolanguage(&tag)?).ok())
}

/// The canonical form of a tag with an extended language: `cmn-Hans` for `zh-cmn-Hans` (RFC 5646, section 4.5).
fn without_macrolanguage(tag: &str) -> Option<&str> {
    let (first, rest) = tag.split_once('-')?;
    let extended = rest.split('-').next()?;
    let are_letters = [first, extended].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_alphabetic()));
    (are_letters && (2..=3).contains(&first.len()) && extended.len() == 3).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(tags: &[&str], expect: &str) {
        for tag in tags {
            assert_eq!(Language::from_tag(tag).map(Language::code), Ok(expect), "{tag}");
        }
    }

    #[test]
    fn every_language_code_is_a_tag_in_either_case() {
        for language in Language::all() {
            assert_eq!(Language::from_tag(language.code()), Ok(language));
            assert_eq!(Language::from_tag(&language.code().to_uppercase()), Ok(language));
        }
    }

    #[test]
    fn scripts_regions_and_variants_do_not_change_the_language() {
        check(&["pt-BR", "PT-br", "pt_BR", "pt-PT", "pt-Latn-BR"], "pt");
        check(&["zh-cn", "zh-Hant", "zh-TW", "zh-Hant-HK", "zh_Hans_CN"], "zh");
        check(&["sr-Latn", "sr-Cyrl-RS", "sr_ME"], "sr");
        check(&["en-US", "en-GB-oxendict", "en-u-ca-gregory", "en-x-mine", "en-001"], "en");
        check(&["es-419", "es-MX"], "es");
    }

    #[test]
    fn deprecated_codes_map_to_their_replacements() {
        check(&["iw", "iw-IL"], "he");
        check(&["in"], "id");
        check(&["jw"], "jv");
        check(&["mo"], "ro");
        check(&["sh"], "sr");
    }

    #[test]
    fn three_letter_codes_map_to_two_letter_codes() {
        check(&["deu", "ger", "DEU-at"], "de");
        check(&["zho", "chi", "cmn", "zh-cmn", "zh-cmn-Hans-CN"], "zh");
        check(&["fra", "fre"], "fr");
        check(&["fas", "per", "pes"], "fa");
        check(&["ell", "gre"], "el");
        check(&["swh", "swa"], "sw");
        check(&["arb", "ara"], "ar");
        check(&["ekk", "est"], "et");
        check(&["lvs", "lav"], "lv");
        check(&["msa", "may", "zsm"], "ms");
        check(&["kmr", "kur"], "ku");
        check(&["khk", "mon"], "mn");
        check(&["sqi", "alb", "als"], "sq");
    }

    #[test]
    fn norwegian_is_one_language_and_filipino_is_tagalog() {
        check(&["no", "nb", "nn", "nor", "nob", "nno", "no-NO", "nn-NO", "nb_NO"], "nb");
        check(&["tl", "fil", "tgl", "fil-PH"], "tl");
    }

    #[test]
    fn a_text_may_have_an_undetermined_language() {
        for tag in ["und", "UND", "und-Latn"] {
            assert_eq!(Language::of_text_from_tag(tag), Ok(None), "{tag}");
            let error = Language::from_tag(tag).unwrap_err();
            assert_eq!((error.code(), error.to_string().contains(tag)), (Code::UnknownLanguage, true), "{error}");
        }
        assert_eq!(Language::of_text_from_tag("fr-CA"), Ok(Language::parse("fr")));
    }

    #[test]
    fn unsupported_languages_are_refused_as_unknown() {
        for tag in ["is", "is-IS", "la", "xx", "ji", "yi", "zh-yue", "yue", "bs", "gsw", "mul", "zxx", "be-BY", "cy_GB"] {
            let error = Language::from_tag(tag).unwrap_err();
            assert_eq!(error, LanguageTagError::Other { got: tag.to_owned() });
            assert_eq!(error.code(), Code::UnknownLanguage);
            assert!(error.to_string().contains("one of the 62"), "{error}");
        }
    }

    #[test]
    fn malformed_tags_are_refused_as_invalid_requests() {
        let long = format!("en-x-{}", "abcd-".repeat(20));
        for tag in [
            "",
            " ",
            "f",
            "fr ",
            " fr",
            "français",
            "german",
            "fr-",
            "-fr",
            "fr--CA",
            "fr CA",
            "de/at",
            "*",
            "x-mine",
            "0",
            &long,
        ] {
            let error = Language::from_tag(tag).unwrap_err();
            assert!(matches!(error, LanguageTagError::Malformed { .. }), "{tag:?}: {error:?}");
            assert_eq!(error.code(), Code::InvalidRequest);
        }
        let error = Language::from_tag(&"ß".repeat(100_000)).unwrap_err().to_string();
        assert!(error.contains("at most 64 characters") && error.len() < 300, "{error}");
    }

    proptest! {
        #[test]
        fn tags_ignore_case_and_accept_underscores(tag in "[a-zA-Z]{2,3}([-_][a-zA-Z]{2,4}){0,2}") {
            let read = |tag: &str| Language::of_text_from_tag(tag).map_err(|error| error.code());
            prop_assert_eq!(read(&tag), read(&tag.to_uppercase()));
            prop_assert_eq!(read(&tag), read(&tag.replace('-', "_")));
        }
    }
}
