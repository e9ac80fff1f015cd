//! Finds the terms for lexical search, in the same way for passages and queries, in every script.
//!
//! Words between spaces are terms, both with and without their accents, so that "Verspatung" finds "Verspätung" and the exact
//! spelling still counts more. Their stems are terms, too, so that "trees" finds "tree". In scripts without spaces, finding
//! words would need a dictionary. Instead, each pair of neighboring characters is a term, and so is the last character alone.
//! So a query of two characters is a term itself, and a query of one is the prefix of some terms. Korean has both: the word
//! with its particles, and its pairs. Each emoji is a term.

use std::borrow::Cow;
use std::collections::HashSet;

use frostem::Stemmer;

use super::known_words::KnownWords;
use super::runs::{Class, Run, exact, fold, is_normalized_word, join_characters, normalized, runs, truncate_term};
use super::stems::{stem, stemmer};
use super::word_counts::Words;
use crate::domain::Language;
use crate::domain::terms::{PassageTerms, QueryTerm, QueryTerms, TermPhrase};

/// Maximum number of terms of a query. Each one takes a pass over all passages that have it.
pub const QUERY_TERMS_MAX: usize = 200;

/// Returns the terms of a passage. `language` is its language, if known. The known parts of unknown words and the known phrases
/// count as words, too.
pub fn passage_terms(text: &str, language: Option<Language>, known: impl KnownWords) -> PassageTerms {
    let (mut words, mut folded) = (String::new(), String::new());
    let mut plain = Words::default();
    let stemmer = language.and_then(stemmer);
    for run in runs(&normalized(text)) {
        plain.add(&run, &known);
        match run.class {
            Class::Word => {
                let word = truncate_term(run.text);
                let exact = exact(word);
                push(&mut words, &exact);
                let plain = fold(word).filter(|plain| *plain != exact);
                push(&mut folded, plain.as_deref().unwrap_or_default());
                if let Some(stem) = stemmer.as_ref().and_then(|stemmer| plain_stem(stemmer, word))
                    && *stem != *exact
                    && plain.as_deref() != Some(stem.as_ref())
                {
                    push(&mut folded, &stem);
                }
            }
            Class::Pictograph => push(&mut words, run.text),
            Class::Unspaced | Class::Hangul => {
                let units = run.characters();
                if run.class == Class::Hangul && units.len() > 2 {
                    push(&mut words, truncate_term(run.text));
                }
                units.windows(2).for_each(|pair| push(&mut words, &join_characters(pair)));
                units.last().into_iter().for_each(|last| push(&mut words, truncate_term(last)));
            }
        }
    }
    PassageTerms { words, folded, plain: plain.count() }
}

/// Whether `is_wanted` accepts a word of a passage, or one of the word's terms. `stemmer` is for the passage's language. The
/// terms are the same as those of `passage_terms`.
pub(super) fn has_term(text: &str, stemmer: Option<&Stemmer>, is_wanted: impl Fn(&str) -> bool) -> bool {
    let has = |word: &str| {
        is_wanted(&exact(word))
            || fold(word).is_some_and(|plain| is_wanted(&plain))
            || stemmer.and_then(|stemmer| plain_stem(stemmer, word)).is_some_and(|stem| is_wanted(&stem))
    };
    // Most words are already in the form of terms.
    if is_normalized_word(text) {
        return has(truncate_term(text));
    }
    runs(&normalized(text)).any(|run| has(truncate_term(run.text)))
}

/// Returns the stem of a word without accents.
pub(super) fn plain_stem<'w>(stemmer: &Stemmer, word: &'w str) -> Option<Cow<'w, str>> {
    let stem = stem(stemmer, word)?;
    Some(fold(&stem).map_or(stem, Cow::Owned))
}

/// Returns the distinct forms of a word of a query: the word as spelled, without accents, and its stem.
pub(super) fn forms(word: &str, stemmer: Option<&Stemmer>) -> Vec<String> {
    let mut forms = vec![exact(word).into_owned()];
    forms.extend(fold(word).filter(|plain| *plain != forms[0]));
    let stem = stemmer.and_then(|stemmer| plain_stem(stemmer, word)).map(Cow::into_owned);
    forms.extend(stem.filter(|stem| !forms.contains(stem)));
    forms
}

/// Returns at most `QUERY_TERMS_MAX` terms of a query, with stems if its language is known. A query without letters,
/// digits and emoji has none.
pub fn query_terms(text: &str, language: Option<Language>) -> QueryTerms {
    let stemmer = language.and_then(stemmer);
    let mut found = QueryTerms::default();
    let mut seen = HashSet::new();
    let mut add = |text: &str, prefix| {
        let term = QueryTerm { text: text.to_owned(), prefix };
        if term.text.is_empty() || !seen.insert(term.clone()) {
            return;
        }
        if found.terms.len() < QUERY_TERMS_MAX {
            found.terms.push(term);
        } else {
            found.truncated = true;
        }
    };
    for run in runs(&normalized(text)) {
        match run.class {
            Class::Word => {
                forms(truncate_term(run.text), stemmer.as_ref()).iter().for_each(|form| add(form, false));
                continue;
            }
            Class::Pictograph => {
                add(run.text, false);
                continue;
            }
            Class::Unspaced | Class::Hangul => {}
        }
        let units = run.characters();
        if let [only] = units[..] {
            add(truncate_term(only), true);
        }
        if run.class == Class::Hangul && units.len() > 2 {
            add(truncate_term(run.text), false);
        }
        units.windows(2).for_each(|pair| add(&join_characters(pair), false));
    }
    found
}

/// Returns what a quote requires: its terms in the order in which passages have them. In scripts without spaces, and in Korean,
/// the quote may begin and end within a word. Returns `None` for a text without letters, digits and emoji.
pub(super) fn phrase(text: &str) -> Option<TermPhrase> {
    let normal = normalized(text);
    let runs: Vec<Run<'_>> = runs(&normal).collect();
    let last = runs.len().checked_sub(1)?;
    let mut phrase = TermPhrase::default();
    for (index, run) in runs.iter().enumerate() {
        let units = run.characters();
        match run.class {
            Class::Word => phrase.terms.push(exact(run.text).into_owned()),
            Class::Pictograph => phrase.terms.push(run.text.to_owned()),
            // For a word that may continue in the passage, the first term is the whole word.
            Class::Hangul if index == last && index > 0 => {
                phrase.terms.push(truncate_term(run.text).to_owned());
                phrase.prefix = true;
            }
            Class::Unspaced | Class::Hangul => {
                if run.class == Class::Hangul && index > 0 && units.len() > 2 {
                    phrase.terms.push(truncate_term(run.text).to_owned());
                }
                phrase.terms.extend(units.windows(2).map(join_characters));
                if index < last || units.len() == 1 {
                    phrase.terms.extend(units.last().map(|unit| truncate_term(unit).to_owned()));
                    phrase.prefix = index == last;
                }
            }
        }
    }
    Some(phrase)
}

/// Returns what a query requires if every word is required: for each word, the forms that match it. In every script, the text
/// between spaces and punctuation is one word. So is each emoji.
pub(super) fn words(text: &str, language: Option<Language>) -> Vec<Vec<TermPhrase>> {
    let stemmer = language.and_then(stemmer);
    let normal = normalized(text);
    let mut seen = HashSet::new();
    let distinct = runs(&normal).filter(|run| seen.insert(run.text));
    let all_forms = |run: Run<'_>| match run.class {
        Class::Word => forms(truncate_term(run.text), stemmer.as_ref()).into_iter().map(TermPhrase::single_word).collect(),
        Class::Unspaced | Class::Hangul | Class::Pictograph => phrase(run.text).into_iter().collect(),
    };
    distinct.map(all_forms).collect()
}

fn push(terms: &mut String, term: &str) {
    if !terms.is_empty() && !term.is_empty() {
        terms.push(' ');
    }
    terms.push_str(term);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_normalization::char::is_combining_mark;

    use super::super::runs::{TERM_CHARS_MAX, class};
    use super::super::word_counts::word_counts;
    use super::*;

    #[track_caller]
    fn check(text: &str, words: &str, folded: &str) {
        let plain = word_counts(text, |_| true);
        let expect = PassageTerms { words: words.to_owned(), folded: folded.to_owned(), plain };
        assert_eq!(passage_terms(text, None, |_| true), expect, "{text:?}");
    }

    /// Checks the terms of a query. A star marks a prefix.
    #[track_caller]
    fn query(text: &str, expect: &[&str]) {
        let found = query_terms(text, None).terms.into_iter().map(|term| term.text + if term.prefix { "*" } else { "" });
        assert_eq!(found.collect::<Vec<_>>(), expect, "{text:?}");
    }

    #[test]
    fn terms_are_lowercase_with_and_without_accents() {
        check("Der Zug hat Verspätung!", "der zug hat verspätung", "verspatung");
        check("STRASSE und Straße", "strasse und strasse", "");
        check("l’été, e\u{301}te\u{301}", "l été été", "ete ete");
        check("Ｆｕｌｌ ｗｉｄｔｈ １２", "full width 12", "");
        check("Łódź, København, Đà Nẵng", "łódź københavn đà nẵng", "lodz kobenhavn da nang");
        check("İstanbul ISPARTA ılık", "istanbul isparta ilik", "");
    }

    #[test]
    fn marks_inside_a_word_do_not_split_it() {
        check("М'ята, м’ята і мʼята", "мята мята і мята", "");
        check("צה״ל צה\"ל ג׳ירפה", "צהל צהל גירפה", "");
        check("col·lecció", "collecció", "colleccio");
        check("l'hivern 'так' д'", "l hivern так д", "");
    }

    #[test]
    fn phrases_match_regardless_of_case() {
        for (one, other) in [("HAUPTSTRASSE", "Hauptstraße"), ("IŞIK HIZI", "ışık hızı"), ("ISTANBUL", "İstanbul")] {
            assert_eq!(phrase(one), phrase(other), "{one}");
        }
        assert_ne!(phrase("schon"), phrase("schön"));
    }

    #[test]
    fn passage_terms_include_stems_in_the_passage_language() {
        let terms = |text: &str, language: &str| passage_terms(text, Language::parse(language), |_| true);
        assert_eq!(terms("Die Häuser", "de").folded, "hauser haus");
        assert_eq!(terms("groß", "de").folded, "", "the word is its own stem");
        assert_eq!(terms("the houses", "en").folded, "hous");
        assert_eq!(terms("the houses", "ru").folded, "", "Russian rules do not apply to Latin letters");
        assert_eq!(terms("las canciones", "es").folded, "cancion");
        assert_eq!(terms("図書館 houses", "ja").folded, "", "there are no rules for Japanese");
    }

    #[test]
    fn query_terms_include_stems_in_the_query_language() {
        let found = |text: &str, language: &str| {
            query_terms(text, Language::parse(language)).terms.into_iter().map(|term| term.text).collect::<Vec<_>>()
        };
        assert_eq!(found("Häusern", "de"), ["häusern", "hausern", "haus"]);
        assert_eq!(found("ripens", "en"), ["ripens", "ripen"]);
        assert_eq!(words("ripens", Language::parse("en"))[0].len(), 2, "a passage may have either form");
    }

    #[test]
    fn greek_and_cyrillic_keep_their_letters() {
        check("ΛΌΓΟΣ λόγος", "λόγοσ λόγοσ", "λογοσ λογοσ");
        check("Ёлка и мой за\u{301}мок", "ёлка и мой за\u{301}мок", "елка замок");
        check("їжак", "їжак", "");
    }

    #[test]
    fn vowel_points_are_folded_and_keyboard_variants_are_unified() {
        check("كِتَاب", "كِتَاب", "كتاب");
        check("شָלוֹם", "شָלוֹם", "شלום");
        check("أكبر مدرسة", "أكبر مدرسة", "اكبر مدرسه");
        check("می\u{200c}خواهم ۱۴۰۳", "می خواهم 1403", "مي");
        check("كـــتاب", "كتاب", "");
    }

    #[test]
    fn vowel_signs_stay_with_their_letters() {
        check("हिन्दी में ज़मीन २०२४", "हिन्दी में ज\u{93c}मीन 2024", "जमीन");
        check("বাংলা ভাষা", "বাংলা ভাষা", "");
        check("தமிழ் மொழி", "தமிழ் மொழி", "");
        check("മലയാളം", "മലയാളം", "");
    }

    #[test]
    fn scripts_without_spaces_yield_character_pairs_and_the_last_character() {
        check("合約", "合約 約", "");
        check("我们去北京。", "我们 们去 去北 北京 京", "");
        check("天気がいい", "天気 気が がい いい い", "");
        check("ﾀﾜｰ", "タワ ワー ー", "");
        check("iPhoneを買う", "iphone を買 買う う", "");
        check("ที่นี่", "ที่นี่ นี่", "");
        check("ရန်ကုန်", "ရန် န်ကု ကုန် န်", "");
        check("ភ្នំ\u{200b}ពេញ", "ភ្នំពេ ពេញ ញ", "");
        check("ລາວ", "ລາ າວ ວ", "");
    }

    #[test]
    fn korean_words_yield_the_word_and_its_character_pairs() {
        check("도서관에서 책을", "도서관에서 도서 서관 관에 에서 서 책을 을", "");
        check("K팝", "k 팝", "");
    }

    #[test]
    fn a_query_contains_each_term_once() {
        query("Verspätung, verspätung", &["verspätung", "verspatung"]);
        query("Verspatung", &["verspatung"]);
        query("天気", &["天気"]);
        query("京", &["京*"]);
        query("北京北京", &["北京", "京北"]);
        query("도서관", &["도서관", "도서", "서관"]);
        query("책", &["책*"]);
        query("?!… → © \u{0} \"'*()", &[]);
    }

    #[test]
    fn each_emoji_is_a_term() {
        check("I ♥ NY🍗🍺", "i ♥ ny 🍗 🍺", "");
        check("🇩🇪🇫🇷", "🇩🇪 🇫🇷", "");
        query("🎂 cake🎂", &["🎂", "cake"]);
        query("京🎂", &["京*", "🎂"]);
    }

    #[test]
    fn variants_of_an_emoji_are_the_same_term() {
        check("☀\u{fe0f} ☀ 👍🏽 👍", "☀ ☀ 👍 👍", "");
        check("👩🏽\u{200d}🚒 ❤\u{fe0f}\u{200d}🔥", "👩 🚒 ❤ 🔥", "");
        query("☀\u{fe0f} 👍🏽", &["☀", "👍"]);
    }

    #[test]
    fn emoji_have_no_stems() {
        assert_eq!(passage_terms("🎂", Language::parse("en"), |_| true).folded, "");
        let required = words("🎂 🎂", Language::parse("en"));
        assert_eq!(required.iter().flatten().map(|form| form.terms.concat()).collect::<Vec<_>>(), ["🎂"]);
    }

    #[test]
    fn long_words_and_queries_are_truncated() {
        assert_eq!(passage_terms(&"x".repeat(100), None, |_| true).words.len(), TERM_CHARS_MAX);
        let many: String = (0..300).map(|n| format!("w{n} ")).collect();
        let found = query_terms(&many, None);
        assert_eq!((found.terms.len(), found.truncated), (QUERY_TERMS_MAX, true));
        assert!(!query_terms("w1 w2", None).truncated);
    }

    #[test]
    fn a_combining_mark_is_not_a_separate_character() {
        // Unicode does not join the sign of Ahom with the letter before it.
        assert_eq!(passage_terms("ゝ\u{11720}日", None, |_| true).words, "ゝ\u{11720}日 日");
        assert_eq!(passage_terms("ゝ\u{11720}", None, |_| true).words, "ゝ\u{11720}");
    }

    #[test]
    fn every_character_of_a_run_starts_a_term() {
        let terms = passage_terms("图书馆星期一休息", None, |_| true).words;
        for c in "图书馆星期一休息".chars() {
            assert!(terms.split(' ').any(|term| term.starts_with(c)), "{c} begins none of {terms}");
        }
    }

    proptest! {
        #[test]
        fn terms_contain_no_separators(text in "\\PC{0,60}") {
            let terms = passage_terms(&text, None, |_| true);
            for term in terms.words.split(' ').chain(terms.folded.split(' ')) {
                prop_assert!(term.chars().all(|c| class(c).is_some() || is_combining_mark(c)), "{:?} of {:?}", term, text);
                prop_assert!(term.is_empty() || term.chars().next().and_then(class).is_some());
            }
        }

        /// A passage with the same text as a query has each term of the query.
        #[test]
        fn a_passage_has_all_terms_of_an_identical_query(text in any::<String>()) {
            let terms = passage_terms(&text, None, |_| true);
            let stored: HashSet<&str> = terms.words.split(' ').chain(terms.folded.split(' ')).collect();
            for term in query_terms(&text, None).terms {
                prop_assert!(stored.iter().any(|stored_term| *stored_term == term.text || term.prefix && stored_term.starts_with(&term.text)), "{:?}", term);
            }
        }
    }
}
