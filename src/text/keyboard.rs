//! Reads words that were typed with the keyboard set to another script: "ghbdtn" as "привет", and "зфыыцщкв" as "password".

use std::ops::Range;

use super::plain_words::plain_key;
use super::query_words::word_ranges;
use super::runs::normalized;

/// The keys of the American keyboard, without shift.
const KEYS: &str = r"qwertyuiop[]asdfghjkl;'zxcvbnm,.`\";
/// The same keys with shift, where they are signs there and letters elsewhere, and without it.
const SHIFTED: [(char, char); 8] =
    [('{', '['), ('}', ']'), (':', ';'), ('"', '\''), ('<', ','), ('>', '.'), ('~', '`'), ('|', '\\')];
/// What these keys type with other settings: Russian, Ukrainian, Hebrew, Arabic, Greek. A space stands for a key without a
/// letter.
const LAYOUTS: [&str; 5] = [
    "йцукенгшщзхъфывапролджэячсмитьбюё ",
    "йцукенгшщзхїфівапролджєячсмитьбю'ґ",
    "  קראטוןםפ  שדגכעיחלךף זסבהנמצתץ  ",
    "ضصثقفغعهخحجدشسيبلاتنمكطئءؤرﻻىةوزذ ",
    " ςερτυθιοπ  ασδφγηξκλ  ζχψωβνμ    ",
];
/// The letters that one Arabic key types, and the letter of `LAYOUTS` for them.
const LAM_ALEF: [&str; 2] = ["لا", "ﻻ"];
/// Signs that may follow a word, although they type a letter with another setting.
const AFTER: [char; 4] = ['.', ',', ';', '\''];
/// Minimum number of letters of a word that shows how the keyboard is set. Shorter ones are often words in both scripts.
const TELLING_MIN: usize = 4;
/// Maximum bytes of a query that may be typed with another setting.
const BYTES_MAX: usize = 256;

/// Returns a query as it reads with the keyboard set to another script, if `is_known` accepts all words of it, by their numbers
/// (`plain_words::word_key`), and no word as typed. Different words may share a number, so it must also have no more tokens:
/// `tokens` counts those of a text, which are many for a text that is in no language.
pub fn retyped(query: &str, is_known: impl Fn(u32) -> bool, tokens: impl Fn(&str) -> usize) -> Option<String> {
    if query.len() > BYTES_MAX {
        return None;
    }
    let typed = query.to_lowercase();
    let is_telling = |range: &Range<usize>| letters(&typed[range.clone()]) >= TELLING_MIN;
    if word_ranges(&typed).iter().any(|(word, range)| is_telling(range) && is_known(*word)) {
        return None;
    }
    let mut settings = LAYOUTS.iter().flat_map(|layout| [(KEYS, *layout), (*layout, KEYS)]);
    settings.find_map(|(from, to)| read(&typed, from, to, &is_known).filter(|read| tokens(read) <= tokens(&typed)))
}

/// Reads a text that was typed with the keys `from` and means the keys `to`. Every word must be known, but for numbers, and one
/// must have enough letters.
fn read(typed: &str, from: &str, to: &str, is_known: impl Fn(u32) -> bool) -> Option<String> {
    let (mut words, mut is_telling) = (Vec::new(), false);
    for word in typed.split_whitespace() {
        if word.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_punctuation()) {
            words.push(word.to_owned());
            continue;
        }
        let known = |text: &str| typed_as(text, from, to).filter(|word| is_known(plain_key(&normalized(word))));
        let bare = word.trim_end_matches(|c: char| AFTER.contains(&c) || matches!(c, '?' | '!'));
        let read = known(word).or_else(|| known(bare)).or_else(|| known(&bare.replace(LAM_ALEF[0], LAM_ALEF[1])))?;
        is_telling |= letters(&read) >= TELLING_MIN;
        words.push(read);
    }
    is_telling.then(|| words.join(" "))
}

/// Returns a word with each key of `from` replaced by that of `to`, or `None` if one of its characters is not on these keys or
/// types no letter.
fn typed_as(word: &str, from: &str, to: &str) -> Option<String> {
    let key = |c: char| SHIFTED.iter().find(|(shifted, _)| *shifted == c).map_or(c, |(_, plain)| *plain);
    let read_as = |c: char| from.chars().zip(to.chars()).find(|(typed, _)| *typed == key(c)).map(|(_, read)| read);
    let read = word.chars().map(read_as).collect::<Option<String>>()?;
    read.chars().all(|c| c.is_alphabetic() || c == '\'').then_some(read)
}

fn letters(word: &str) -> usize {
    word.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, known: &[&str], expect: Option<&str>) {
        let known: Vec<u32> = known.iter().map(|word| plain_key(&normalized(word))).collect();
        assert_eq!(retyped(query, |word| known.contains(&word), |_| 1).as_deref(), expect, "{query}");
    }

    #[test]
    fn every_layout_has_a_character_for_each_key() {
        for layout in LAYOUTS {
            assert_eq!(layout.chars().count(), KEYS.chars().count(), "{layout}");
        }
    }

    #[test]
    fn words_are_read_with_another_setting_of_the_keyboard() {
        check("Ghbdtn", &["привет"], Some("привет"));
        check("en.u", &["утюг"], Some("утюг"));
        check("yt hf,jnftn 12", &["не", "работает"], Some("не работает 12"));
        check("gfhjkm.", &["пароль"], Some("пароль"));
        check("ghfwsdybr", &["працівник"], Some("працівник"));
        check(r"v`zcj \fyjr", &["м'ясо", "ґанок"], Some("м'ясо ґанок"));
        check("akuo", &["שלום"], Some("שלום"));
        check("lvpfh", &["مرحبا"], Some("مرحبا"));
        check("Зфыыцщкв", &["password"], Some("password"));
        check("لاخخن", &["book"], Some("book"));
        check("ىهلاف", &["night"], Some("night"));
    }

    #[test]
    fn known_words_are_read_as_typed() {
        check("Ghbdtn", &["привет", "ghbdtn"], None);
        check("hello ghbdtn", &["привет", "hello"], None);
        check("hello", &["hello"], None);
    }

    #[test]
    fn unknown_words_stay_as_typed() {
        for query in ["ketle", "ghbdtn xyzw", "AB-1234", "", "?!", "12", "rj400"] {
            check(query, &["привет"], None);
        }
    }

    #[test]
    fn a_text_that_would_have_more_tokens_stays_as_typed() {
        let read =
            |of_read| retyped("ghbdtn", |word| word == plain_key("привет"), |text| if text == "привет" { of_read } else { 4 });
        assert_eq!((read(4).as_deref(), read(5)), (Some("привет"), None));
    }

    #[test]
    fn short_words_do_not_show_how_the_keyboard_is_set() {
        check("nen", &["тут"], None);
    }
}
