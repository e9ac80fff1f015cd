//! Decides whether a text is in none of the languages, although a head always returns the nearest one.
//!
//! There are three signs. If a text is in a language, every token is evidence for it. A foreign text resembles its nearest
//! language by a few tokens only, so the mean weight of a token is low (`support_min`). Foreign languages that share most words
//! with one of the 62 either have letters that it lacks (Belarusian, Tajik, Azerbaijani, Pashto), or lack something that every
//! text in it has (Kyrgyz and Tatar, Nepali and Sanskrit).
//!
//! Of 62,744 FLORES sentences in the 62 languages, 0.41% are rejected (Yoruba most: 3.3%), and a fifth of those had been
//! taken for another language anyway. Of their first three words, 1.6% are rejected, and of 13,914 short sentences 0.29%. Of
//! 91 sentences in 35 other languages, most of which are in `tests/outside_languages.rs`, 79 are rejected. It misses the
//! nearest relatives, such as Occitan (Catalan), Luxembourgish (German), Yiddish in plain letters (Hebrew), and Zulu (Swahili).

use unicode_segmentation::UnicodeSegmentation;

use super::head::{HeadPrediction, LanguageHead};
use super::rules::CYRILLIC;
use super::script::Script;

/// Number of tokens from which on the full threshold applies. With fewer tokens, the threshold is proportionally lower, because
/// a name or two say little about any language.
const TOKENS_ENOUGH: usize = 20;
/// Factor by which half a text needs more support than a whole one. A text in two languages has a half with enough support for
/// one of them.
const HALF_SUPPORT: f32 = 1.25;
/// A text counts as having letters of another language if one in this many is foreign.
const FOREIGN_LETTERS: usize = 50;
/// Number of letters from which on a text should have the letters that every text in its language has.
const LETTERS_ENOUGH: usize = 30;
/// Number of words from which on a text should have one of the words that every text in its language has.
const WORDS_ENOUGH: usize = 6;

/// Whether `text`, which has these token ids and most letters in this script, is not in the language that the head found for it.
pub(super) fn is_outside(text: &str, script: Script, ids: &[u32], found: &HeadPrediction, head: &LanguageHead) -> bool {
    has_other_letters(text, script, found.detected.language.code())
        || lacks_expected_features(text, script, found.detected.language.code())
        || !is_supported(ids, found, head, support_min(script))
}

/// Returns the minimum mean weight of a token in a text of a language with this script. It differs between scripts, because in
/// a script of a single language the letters alone give a high weight.
fn support_min(script: Script) -> f32 {
    match script {
        Script::Latin => 0.7,
        Script::Cyrillic => 1.5,
        Script::Arabic | Script::Devanagari => 2.6,
        Script::Of(_) | Script::Han => 1.2,
    }
}

fn is_supported(ids: &[u32], found: &HeadPrediction, head: &LanguageHead, support_min: f32) -> bool {
    let share = |counted: usize| (counted as f32 / TOKENS_ENOUGH as f32).min(1.0);
    if found.support >= support_min * share(found.counted) {
        return true;
    }
    // Below this, halves are too short to say more than the whole.
    if found.counted < TOKENS_ENOUGH {
        return false;
    }
    let (first, second) = ids.split_at(ids.len() / 2);
    [first, second].iter().any(|half| {
        let support = head.support(half, found.detected.language);
        support.is_some_and(|support| support >= support_min * HALF_SUPPORT)
    })
}

/// Letters that all Cyrillic alphabets have.
const CYRILLIC_COMMON: &str = "абвгдежзиклмнопрстуфхцчш";
/// Letters of Arabic. The other languages also have them, or use them in Arabic words.
const ARABIC_COMMON: &str = "ابتثجحخدذرزسشصضطظعغفقلمنهويكةىآءأإؤئٱپچژگڤ";
/// Letters of each language that Arabic does not have.
const ARABIC_OWN: [(&str, &str); 3] = [("ar", "ڨیک"), ("fa", "کیۀ"), ("ur", "کیۀٹڈڑںھہۂۃےۓ")];
/// Latin letters that none of the languages has. They belong to Icelandic, Azerbaijani, Maltese, Welsh, Hausa and languages of
/// West Africa.
const LATIN_FOREIGN: &str = "þðəħċġŵŷɓɗƙŋɛɔǝƴ";
/// Digraphs of Yiddish that Hebrew does not have.
const HEBREW_FOREIGN: &str = "װױײ";

/// Whether at least one in `FOREIGN_LETTERS` letters does not belong to the language.
fn has_other_letters(text: &str, script: Script, language: &str) -> bool {
    let row = |alphabets: &'static [(&str, &'static str)]| alphabets.iter().find(|row| row.0 == language).map(|row| row.1);
    match script {
        Script::Latin => share_is_foreign(text, char::is_alphabetic, |c| LATIN_FOREIGN.contains(c)),
        Script::Of("he") => share_is_foreign(text, |c| ('\u{5d0}'..='\u{5f2}').contains(&c), |c| HEBREW_FOREIGN.contains(c)),
        Script::Cyrillic => row(CYRILLIC).is_some_and(|letters| {
            let is_foreign = |c| !CYRILLIC_COMMON.contains(c) && !letters.contains(c);
            share_is_foreign(text, |c| ('\u{400}'..='\u{52f}').contains(&c), is_foreign)
        }),
        Script::Arabic => row(&ARABIC_OWN).is_some_and(|letters| {
            let is_letter = |c| matches!(c, '\u{620}'..='\u{63f}' | '\u{641}'..='\u{64a}' | '\u{66e}'..='\u{66f}' | '\u{671}'..='\u{6d3}' | '\u{6d5}');
            share_is_foreign(text, is_letter, |c| !ARABIC_COMMON.contains(c) && !letters.contains(c))
        }),
        Script::Of(_) | Script::Han | Script::Devanagari => false,
    }
}

fn share_is_foreign(text: &str, is_letter: impl Fn(char) -> bool, is_foreign: impl Fn(char) -> bool) -> bool {
    let (mut letters, mut foreign) = (0, 0);
    for c in text.chars().flat_map(char::to_lowercase).filter(|&c| is_letter(c)) {
        letters += 1;
        foreign += usize::from(is_foreign(c));
    }
    foreign > 0 && foreign * FOREIGN_LETTERS >= letters
}

/// Letters of Kazakh that the other Turkic alphabets do not have. Nearly every word has one of them.
const KAZAKH: &str = "қғұі";
/// Words of Hindi. Nearly every sentence has one of them.
const HINDI: &str = "है हैं था थी थे हो होता होती में के की का को से और ने पर यह वह ये वे नहीं कि जो तो भी एक \
    इस उस लिए कर करना करने गया गई गए मैं हम तुम आप मुझे मेरा मेरी क्या हूँ हूं";

/// Whether the text lacks what every text in its language has, although it is long enough.
fn lacks_expected_features(text: &str, script: Script, language: &str) -> bool {
    match (language, script) {
        ("kk", Script::Cyrillic) => {
            let mut letters = text.chars().flat_map(char::to_lowercase).filter(|c| ('\u{400}'..='\u{52f}').contains(c));
            let mut count = 0;
            letters.all(|c| {
                count += 1;
                !KAZAKH.contains(c)
            }) && count >= LETTERS_ENOUGH
        }
        ("hi", Script::Devanagari) => {
            let mut count = 0;
            text.unicode_words().all(|word| {
                count += 1;
                !HINDI.split(' ').any(|known| known == word)
            }) && count >= WORDS_ENOUGH
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::main_script;
    use super::*;

    #[track_caller]
    fn check(rule: fn(&str, Script, &str) -> bool, language: &str, letters: &str, others: &[&str]) {
        let applies = |text: &str| rule(text, main_script(text).expect("letters").0, language);
        assert!(!applies(letters), "{letters}");
        for text in others {
            assert!(applies(text), "{text}");
        }
    }

    #[test]
    fn letters_distinguish_a_language_from_its_neighbors() {
        let belarusian = "Заўтра раніцай дзеці пойдуць у школу разам з бабуляй.";
        check(has_other_letters, "ru", "Завтра утром дети пойдут в школу вместе с бабушкой.", &[belarusian]);
        check(has_other_letters, "uk", "Завтра вранці діти підуть до школи разом із бабусею.", &[belarusian]);
        check(
            has_other_letters,
            "tr",
            "Çocuklar yarın okula gidecek.",
            &["Uşaqlar sabah nənələri ilə birlikdə məktəbə gedəcəklər."],
        );
        check(has_other_letters, "fa", "بچه‌ها فردا به مدرسه می‌روند.", &["ماشومان به سبا له خپلې انا سره ښوونځي ته لاړ شي."]);
        check(has_other_letters, "he", "הילדים ילכו מחר לבית הספר.", &["די קאַץ שלאָפֿט אױפֿן טיש."]);
    }

    #[test]
    fn a_foreign_name_does_not_make_a_text_foreign() {
        let named =
            "Gestern haben wir im Museum viele Bilder gesehen, und am Abend erzählte uns Þóra von ihrer Reise an das Meer.";
        assert!(!has_other_letters(named, Script::Latin, "de"));
    }

    #[test]
    fn a_text_without_the_commonest_letters_and_words_is_in_another_language() {
        let kazakh = "Балалар ертең әжесімен бірге мектепке барады, ал біз үйде қаламыз.";
        check(
            lacks_expected_features,
            "kk",
            kazakh,
            &["Балдар эртең чоң энеси менен мектепке барышат.", "Балалар иртәгә әбиләре белән мәктәпкә баралар."],
        );
        let hindi = "बच्चे कल अपनी दादी के साथ विद्यालय जाएँगे।";
        check(lacks_expected_features, "hi", hindi, &["माता पाकशालायां भोजनं पचति पिता च पुस्तकं पठति।"]);
    }

    #[test]
    fn short_texts_may_lack_the_commonest_letters_and_words() {
        check(lacks_expected_features, "kk", "Балалар барады", &[]);
        check(lacks_expected_features, "hi", "नमस्ते दादी", &[]);
    }
}
