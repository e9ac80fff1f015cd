//! Detects which of the 62 languages a text is written in.
//!
//! A bundle may have a language head, trained on the same text as the encoder: `head`. `outside` rejects its result if the
//! evidence is weak, or if letters contradict it. Without a head, `rules` decides. In both cases, a text without letters, or in
//! a script that none of the languages uses, has no language.

pub mod head;
mod outside;
pub mod rules;
mod script;

use std::borrow::Cow;

use super::{TextError, TextPassage, Tokenizer};
use crate::bundle::{Bundle, LANGUAGE_HEAD};
use crate::domain::DetectedLanguage;
use head::LanguageHead;
use rules::RuleDetector;
use script::Script;

/// Number of characters in each part of a long text that a head reads: beginning, middle and end. A hundred are nearly always
/// enough, but a text may begin with a notice or end with a list in another language. This makes a book as fast as a page.
const PART_CHARACTERS: usize = 512;
/// Maximum number of characters of a text that is read as a whole.
const CHARACTERS_MAX: usize = 3 * PART_CHARACTERS;

/// Detects languages. Build it once; detection takes `&self`.
pub struct LanguageDetector {
    method: Method,
}

enum Method {
    Head { head: LanguageHead, tokenizer: Tokenizer },
    Rules(RuleDetector),
}

impl LanguageDetector {
    /// Opens the detector of a bundle: its head if it has one, otherwise the rules. `tokenizer` is the bundle's.
    pub fn open(bundle: &Bundle, tokenizer: &Tokenizer) -> Result<Self, TextError> {
        if !bundle.manifest.files.contains_key(LANGUAGE_HEAD) {
            return Ok(Self::by_rules());
        }
        let path = bundle.path(LANGUAGE_HEAD);
        let head = LanguageHead::load(&path)?;
        Self::with_head(head, tokenizer.clone()).map_err(|problem| TextError::LanguageHead { path, problem })
    }

    /// Makes a detector with a head whose rows are the tokens of `tokenizer`. The error says what does not fit.
    pub fn with_head(head: LanguageHead, tokenizer: Tokenizer) -> Result<Self, String> {
        let (expected, got) = (tokenizer.vocabulary_size(), head.vocabulary());
        if expected != got {
            return Err(format!("expected a row for each of the tokenizer's {expected} tokens, got {got} rows"));
        }
        Ok(Self { method: Method::Head { head, tokenizer } })
    }

    /// Makes a detector without a head.
    pub fn by_rules() -> Self {
        Self { method: Method::Rules(RuleDetector::new()) }
    }

    /// Returns the most likely language of `text`, or `None` if it has none: if it has no letters, has letters of foreign
    /// scripts, or has nothing seen in training. With a head, also returns `None` if the text is in a language other than the
    /// 62.
    pub fn detect(&self, text: &str) -> Option<DetectedLanguage> {
        self.detect_passage(text, None)
    }

    /// Like `detect`, but if `passage` is given, it is the only passage of the text. Its tokens are usually those that the head
    /// needs.
    pub fn detect_passage(&self, text: &str, passage: Option<&TextPassage>) -> Option<DetectedLanguage> {
        match &self.method {
            Method::Rules(rules) => rules.detect(text),
            Method::Head { head, tokenizer } => {
                let seen = sample(text);
                if script::is_foreign(&seen) {
                    return None;
                }
                let is_whole = |passage: &&TextPassage| passage.context.is_empty() && passage.range.len() == text.len();
                let only_passage = passage.filter(is_whole).filter(|_| seen.len() == text.len());
                let encoded = only_passage.is_none().then(|| tokenizer.encode(&seen, CHARACTERS_MAX).ok()).flatten();
                let ids = only_passage.map(|passage| &passage.tokens.ids).or(encoded.as_ref().map(|encoded| &encoded.ids))?;
                let (script, _) = rules::main_script(&seen)?;
                let whole = inside(&seen, script, ids, head);
                if script == Script::Latin || whole.is_some_and(|found| script::is_written_in(found.language, script)) {
                    return whole;
                }
                // Words in Latin letters, such as names of products, are evidence for other languages.
                let without = rules::letters_in(&seen, script).and_then(|letters| {
                    let tokens = tokenizer.encode(&letters, CHARACTERS_MAX).ok()?;
                    inside(&letters, script, &tokens.ids, head)
                });
                without.or(whole)
            }
        }
    }
}

/// Returns the language that the head finds for a text with these token ids, most of whose letters are in this script. `None` if
/// the text is in none of the languages.
fn inside(text: &str, script: Script, ids: &[u32], head: &LanguageHead) -> Option<DetectedLanguage> {
    let found = head.predict(ids)?;
    (!outside::is_outside(text, script, ids, &found, head)).then_some(found.detected)
}

/// Returns the parts of `text` that a head reads: everything from its first letter on, or beginning, middle and end of a long
/// text.
fn sample(text: &str) -> Cow<'_, str> {
    let text = &text[text.find(char::is_alphabetic).unwrap_or(0)..];
    if text.char_indices().nth(CHARACTERS_MAX).is_none() {
        return Cow::Borrowed(text);
    }
    let text = text.trim_end_matches(|c: char| !c.is_alphabetic());
    let from = |text: &str| text.char_indices().nth(PART_CHARACTERS).map_or(text.len(), |(end, _)| end);
    let middle = &text[text.floor_char_boundary(text.len() / 2)..];
    let middle = &middle[middle.find(char::is_alphabetic).unwrap_or(0)..];
    let end = text.char_indices().rev().nth(PART_CHARACTERS - 1).map_or(0, |(start, _)| start);
    Cow::Owned([&text[..from(text)], &middle[..from(middle)], &text[end..]].join("\n"))
}

#[cfg(test)]
mod tests {
    use super::head::Features;
    use super::*;
    use crate::domain::{Language, PassageBounds};
    use crate::text::tokenize::tests::tokenizer_of;

    /// Words that the tokenizer has as tokens. All other tokens are letters.
    const WORDS: [&str; 4] = ["▁katze", "▁hund", "▁chat", "▁chien"];

    fn tokenizer() -> Tokenizer {
        let mut pieces = vec![("<unk>".to_owned(), 0.0)];
        pieces.extend(WORDS.iter().map(|word| ((*word).to_owned(), -2.0)));
        pieces.extend("▁abcdefghijklmnopqrstuvwxyz0123456789".chars().map(|c| (c.to_string(), -8.0)));
        tokenizer_of(pieces)
    }

    /// Katze and Hund have a weight of 4 for German, chat and chien for French. Nothing else has a weight.
    fn head(tokenizer: &Tokenizer) -> LanguageHead {
        let features = Features::new(tokenizer, 2);
        let (mut scales, mut weights) = (vec![0.0; features.rows()], vec![0; 2 * features.rows()]);
        for word in 1..=WORDS.len() {
            scales[word] = 1.0;
            weights[2 * word + usize::from(word > 2)] = 4;
        }
        let languages = ["de", "fr"].into_iter().filter_map(Language::parse).collect();
        LanguageHead { languages, exponent: 0.5, temperature: 1.0, features, scales, weights }
    }

    fn detect(text: &str) -> Option<(&'static str, f32)> {
        let tokenizer = tokenizer();
        let detector = LanguageDetector::with_head(head(&tokenizer), tokenizer).expect("the head fits");
        detector.detect(text).map(|found| (found.language.code(), found.confidence))
    }

    #[test]
    fn detecting_from_tokens_matches_detecting_from_text() {
        let tokenizer = tokenizer();
        let detector = LanguageDetector::with_head(head(&tokenizer), tokenizer.clone()).expect("the head fits");
        for text in ["katze hund", "chat, chien", "  katze", "hund katze ", "1. chien", "123", " ", &"katze ".repeat(200)] {
            let cuts = crate::text::split_passages(&tokenizer, text, PassageBounds::adjacent(1_000)).expect("the text is split");
            assert_eq!(cuts.len(), 1);
            assert_eq!(detector.detect_passage(text, cuts.first()), detector.detect(text), "{text:?}");
        }
    }

    #[test]
    fn the_head_detects_languages_by_tokens_case_insensitively() {
        assert_eq!(detect("KATZE").map(|found| found.0), Some("de"));
        assert_eq!(detect("Le chien et le chat.").map(|found| found.0), Some("fr"));
    }

    #[test]
    fn confidence_grows_with_evidence_and_is_one_half_for_a_tie() {
        // One word: scores 4 and 0, e^4 / (e^4 + 1) = 0.98201. Four: 16 / 2 = 8 and 0, 0.99966. One of each: even.
        let near = |text: &str, expect: f32| {
            let confidence = detect(text).expect("a language").1;
            assert!((confidence - expect).abs() < 1e-4, "{text}: {confidence}");
        };
        near("Hund", 0.982_01);
        near("Hund, Katze, Hund, Katze", 0.999_66);
        near("Hund chat", 0.5);
    }

    #[test]
    fn a_text_without_tokens_seen_in_training_has_no_language() {
        assert_eq!(detect("qqq xyz"), None);
    }

    #[test]
    fn a_text_without_letters_or_in_an_unsupported_script_has_no_language() {
        for text in ["", " \n", "12345", "!?…", "👍🏽 🎉", "+49 (0) 30 / 1234", "ᎣᏏᏲ ᎦᏙ ᏕᏣᏙᎥ", "ᎣᏏᏲ ᎦᏙ ᏕᏣᏙᎥ Hund"]
        {
            assert_eq!(detect(text), None, "{text:?}");
            assert_eq!(LanguageDetector::by_rules().detect(text), None, "{text:?} by rules");
        }
    }

    #[test]
    fn a_long_text_is_sampled_at_its_beginning_middle_and_end() {
        let [notice, body] = ["chat chien ".repeat(40), "Hund Katze ".repeat(20_000)];
        let found = |text: &str| detect(text).map(|found| found.0);
        assert_eq!(found(&notice), Some("fr"));
        assert_eq!(found(&format!("{notice}{body}")), Some("de"), "a notice at the beginning");
        assert_eq!(found(&format!("{body}{notice}")), Some("de"), "and at the end");
        assert_eq!(found(&format!("{body}{}", "chat ".repeat(80_000))), Some("fr"), "most of the sampled text is French");
        let parts = sample(&body);
        assert_eq!(parts.chars().count(), CHARACTERS_MAX + 2, "three parts and two line breaks between them");
    }

    #[test]
    fn only_the_sample_of_a_long_text_decides_its_language() {
        let (sampled, skipped) = ("chat ".repeat(400), "Hund ".repeat(50_000));
        let text = format!("{}{sampled}{skipped}{sampled}{skipped}{sampled}", "1234567890 ".repeat(10_000));
        assert!(!sample(&text).contains("Hund"));
        assert_eq!(detect(&text).map(|found| found.0), Some("fr"));
    }

    #[test]
    fn samples_start_at_letters_and_do_not_split_characters() {
        let text = format!("ü{}é{}", "ß".repeat(5_000), " 12345".repeat(5_000));
        let parts = sample(&text);
        assert!(parts.starts_with("üß") && parts.ends_with("ßé"), "{parts}");
        assert_eq!(sample("12 Hund 34"), "Hund 34");
        assert_eq!(sample("12345"), "12345");
    }

    #[test]
    fn a_text_with_weak_evidence_has_no_language() {
        // Each letter counts against both languages, so that a word or two among many letters are not enough.
        let tokenizer = tokenizer();
        let mut head = head(&tokenizer);
        let letters = WORDS.len() + 2..WORDS.len() + 2 + 26;
        for letter in letters {
            head.scales[letter] = 1.0;
            head.weights[2 * letter..2 * letter + 2].fill(-1);
        }
        let detector = LanguageDetector::with_head(head, tokenizer).expect("the head fits");
        let found = |text: &str| detector.detect(text).map(|found| found.language.code());
        assert_eq!(found("Hund Katze Hund Katze Hund b"), Some("de"));
        assert_eq!(found(&format!("Hund {}", "xyzw ".repeat(10))), None);
        assert_eq!(
            found(&format!("{} {}", "Hund ".repeat(30), "xyzw ".repeat(30))),
            Some("de"),
            "it is enough that one half has strong evidence"
        );
    }

    #[test]
    fn a_head_for_another_tokenizer_is_refused_with_both_sizes() {
        let tokenizer = tokenizer();
        let mut head = head(&tokenizer);
        head.features.kinds.pop();
        let problem = LanguageDetector::with_head(head, tokenizer).err().expect("a refusal");
        assert_eq!(problem, "expected a row for each of the tokenizer's 42 tokens, got 41 rows");
    }
}
