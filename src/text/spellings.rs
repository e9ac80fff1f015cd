//! Finds other ways to write the words of a query that a collection may use: joined ("smart phone" as "smartphone"), split
//! ("ebike" as "e-bike", "getUserName" as "get_user_name", "USA" as "U.S.A."), abbreviated ("key performance indicator" as
//! "KPI"), by their stems, and with the umlauts that German also writes as two letters.

use super::plain_words::{plain_key, plain_words};
use super::query_words::word_ranges;
use super::runs::{Class, Run, class, exact, normalized, runs, truncate_term};
use super::stems::stemmer;
use super::technical_names::named_otherwise;
use super::terms::{forms, phrase as unspaced};
use super::variants::other_forms;
use crate::domain::Language;
use crate::domain::terms::{LiteralPart, SearchCondition, TermPhrase};

/// Maximum number of words of a query for which other spellings are searched. In a sentence, each word is only a small share.
const QUERY_WORDS_MAX: usize = 8;
/// Maximum number of words that are written as one. A hashtag has most.
const JOINED_MAX: usize = 5;
/// Number of words whose initials may be an abbreviation. Two letters are too often an abbreviation of something else.
const INITIALS: std::ops::RangeInclusive<usize> = 3..=5;
/// Length of a word that is split, in characters.
const SPLIT_CHARS: std::ops::RangeInclusive<usize> = 3..=24;
/// Maximum number of letters of an abbreviation that may be written with dots, in capitals and otherwise.
const CAPITALS_MAX: usize = 5;
const ABBREVIATION_MAX: usize = 3;
/// Maximum number of words of a query that may get umlauts.
const UMLAUT_WORDS_MAX: usize = 256;
/// Umlauts in two letters.
const UMLAUTS: [(&str, &str); 3] = [("ae", "ä"), ("oe", "ö"), ("ue", "ü")];
/// Bytes of the two letters.
const UMLAUT_BYTES: usize = 2;

/// Returns the parts of a query that may be written otherwise. `language` is its language, if known.
pub fn spellings(query: &str, language: Option<Language>) -> Vec<LiteralPart> {
    let normal = normalized(query);
    let words: Vec<Run<'_>> = runs(&normal).take(QUERY_WORDS_MAX + 1).collect();
    if words.len() > QUERY_WORDS_MAX {
        return Vec::new();
    }
    let share = 1.0 / words.len().max(1) as f32;
    let part = |position, part_words: &[Run<'_>], phrases: Vec<TermPhrase>, condition| {
        let words = part_words.iter().map(|word| plain_key(word.text)).collect();
        (!phrases.is_empty()).then_some(LiteralPart {
            phrases,
            dates: Vec::new(),
            position,
            words,
            share: share * part_words.len() as f32,
            condition,
        })
    };
    let mut parts = named_otherwise(&normal, share);
    for position in 0..words.len() {
        for count in 2..=JOINED_MAX {
            let Some(together) = words.get(position..position + count).filter(|words| are_joinable(words)) else { break };
            let joined: String = together.iter().map(|word| word.text).collect();
            parts.extend(part(position, together, vec![single(&joined)], SearchCondition::Joined(plain_key(&joined))));
        }
        for together in INITIALS.filter_map(|count| words.get(position..position + count)) {
            let Some(initials) = initials(together) else { continue };
            parts.extend(part(position, together, vec![single(&initials)], SearchCondition::Initials(plain_key(&initials))));
        }
    }
    for (position, word) in words.iter().enumerate().filter(|(_, word)| word.class == Class::Unspaced) {
        for form in other_forms(word.text) {
            let condition = SearchCondition::OtherForm(keys(&plain_words(&form)));
            parts.extend(part(position, std::slice::from_ref(word), unspaced(&form).into_iter().collect(), condition));
        }
    }
    let cased: Vec<Run<'_>> = runs(query).take(QUERY_WORDS_MAX + 1).collect();
    let stemmer = language.and_then(stemmer);
    for (position, word) in words.iter().enumerate().filter(|(_, word)| is_word(word)) {
        let part_words = std::slice::from_ref(word);
        let mut others: Vec<TermPhrase> =
            forms(truncate_term(word.text), stemmer.as_ref()).into_iter().map(TermPhrase::single_word).collect();
        others.extend(with_umlauts(truncate_term(word.text)).map(|word| single(&word)));
        if others.len() > 1 {
            parts.extend(part(position, part_words, others, SearchCondition::Unfound(plain_key(word.text))));
        }
        // Normalizing may have joined or removed words.
        let cased = cased.get(position).filter(|_| cased.len() == words.len()).map_or("", |run| run.text);
        let (phrases, keys) = splits(word.text, cased).into_iter().map(|terms| (phrase(&terms), keys(&terms))).unzip();
        parts.extend(part(position, part_words, phrases, SearchCondition::Split { word: plain_key(word.text), words: keys }));
    }
    parts
}

/// Returns the ways to split a word: where its case changes in `cased`, into its letters, and into any two parts.
fn splits(word: &str, cased: &str) -> Vec<Vec<String>> {
    let characters: Vec<usize> = word.char_indices().map(|(position, _)| position).collect();
    if !SPLIT_CHARS.contains(&characters.len()) {
        return Vec::new();
    }
    let mut splits: Vec<Vec<String>> = Vec::new();
    let by_case: Vec<String> = camel_case(cased).into_iter().map(str::to_lowercase).collect();
    let by_digits: Vec<String> = letters_and_digits(word).into_iter().map(ToOwned::to_owned).collect();
    splits.extend([by_case, by_digits].into_iter().filter(|split| split.len() > 2));
    let is_capitals = !cased.is_empty() && cased.bytes().all(|letter| letter.is_ascii_uppercase());
    let letters_max = if is_capitals { CAPITALS_MAX } else { ABBREVIATION_MAX };
    if characters.len() <= letters_max && word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        splits.push(word.chars().map(String::from).collect());
    }
    let begins_word = |position: &&usize| word[**position..].starts_with(|c| class(c).is_some());
    let parts = characters.iter().skip(1).filter(begins_word).map(|position| word.split_at(*position));
    splits.extend(parts.filter(|(a, b)| !is_within_number(a, b)).map(|(a, b)| vec![a.to_owned(), b.to_owned()]));
    splits
}

/// Whether these runs are words that may be written as one.
fn are_joinable(words: &[Run<'_>]) -> bool {
    words.iter().all(is_word) && !words.windows(2).any(|two| is_within_number(two[0].text, two[1].text))
}

/// Returns the first letters of words, which may be their abbreviation.
fn initials(words: &[Run<'_>]) -> Option<String> {
    let first = |word: &Run<'_>| word.text.chars().next().filter(|first| is_word(word) && first.is_alphabetic());
    words.iter().map(first).collect()
}

/// Whether a number would be split between these texts or joined from them, which would make another number.
fn is_within_number(before: &str, after: &str) -> bool {
    before.ends_with(|c: char| c.is_ascii_digit()) && after.starts_with(|c: char| c.is_ascii_digit())
}

/// Splits an ASCII word before each upper-case letter that follows a lower-case one.
fn camel_case(word: &str) -> Vec<&str> {
    let word = if word.is_ascii() { word } else { "" };
    let letters = word.as_bytes();
    let changes = letters.windows(2).enumerate().filter(|(_, pair)| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    let mut from = 0;
    let ends = changes.map(|(position, _)| position + 1).chain([word.len()]);
    ends.map(|end| &word[std::mem::replace(&mut from, end)..end]).collect()
}

/// Splits a word between letters and digits.
fn letters_and_digits(word: &str) -> Vec<&str> {
    word.as_bytes()
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .scan(0, |from, part| {
            *from += part.len();
            word.get(*from - part.len()..*from)
        })
        .collect()
}

/// Returns a word that spells an umlaut with two letters in its form with the umlaut. After a, e and q, "ue" is not one:
/// "neue", "Quelle".
fn with_umlauts(word: &str) -> Option<String> {
    let (mut written, mut rest) = (String::with_capacity(word.len()), word);
    while let Some(next) = rest.chars().next() {
        let (as_read, length) = match umlaut_at(word, word.len() - rest.len()) {
            Some(umlaut) => (umlaut, UMLAUT_BYTES),
            None => (&rest[..next.len_utf8()], next.len_utf8()),
        };
        written.push_str(as_read);
        rest = &rest[length..];
    }
    (written != word).then_some(written)
}

/// Returns the umlaut whose two letters begin at this byte.
fn umlaut_at(word: &str, position: usize) -> Option<&'static str> {
    let (_, umlaut) = UMLAUTS.iter().find(|(letters, _)| word[position..].starts_with(letters))?;
    let is_vowel = word[position..].starts_with("ue") && word[..position].ends_with(['a', 'e', 'q']);
    (!is_vowel).then_some(umlaut)
}

/// Returns the parts of a query with words that the model reads otherwise (`with_known_umlauts`, `keyboard::retyped`) as they
/// were typed, for passages that spell them so. `read` is the query as the model reads it, and `parts` are all parts of the query
/// as typed. Their words have the numbers of the read ones, so that no word counts twice.
pub fn as_typed(typed: &str, read: &str, parts: impl IntoIterator<Item = LiteralPart>) -> Vec<LiteralPart> {
    let (normal, read) = (normalized(typed), normalized(read));
    let [count, read_count] = [&normal, &read].map(|text| runs(text).take(QUERY_WORDS_MAX + 1).count());
    if count > QUERY_WORDS_MAX || count != read_count {
        return Vec::new();
    }
    let pairs = runs(&normal).zip(runs(&read)).enumerate().filter(|(_, (typed, read))| typed.text != read.text);
    let changed: Vec<(usize, &str, u32)> =
        pairs.map(|(position, (typed, read))| (position, typed.text, plain_key(read.text))).collect();
    let whole = |(position, typed, read): &(usize, &str, u32)| LiteralPart {
        phrases: vec![single(typed)],
        dates: Vec::new(),
        position: *position,
        words: vec![*read],
        share: 1.0 / count as f32,
        condition: SearchCondition::Joined(plain_key(typed)),
    };
    let read_word = |word: u32| changed.iter().find(|(_, typed, _)| plain_key(typed) == word).map(|(_, _, read)| *read);
    let others = parts.into_iter().filter(|part| part.words.iter().any(|word| read_word(*word).is_some()));
    let with_read_words = |part: LiteralPart| {
        let words = part.words.iter().map(|word| read_word(*word).unwrap_or(*word)).collect();
        LiteralPart { words, ..part }
    };
    changed.iter().map(whole).chain(others.map(with_read_words)).collect()
}

/// Rewrites words of a query that spell an umlaut with two letters, if `is_known` accepts only the word with the umlaut, by
/// its number (`plain_words::word_key`). Returns `None` if no word changes.
pub fn with_known_umlauts(query: &str, is_known: impl Fn(u32) -> bool) -> Option<String> {
    if !UMLAUTS.iter().any(|(letters, _)| query.as_bytes().windows(2).any(|two| two.eq_ignore_ascii_case(letters.as_bytes()))) {
        return None;
    }
    let (mut written, mut from) = (String::new(), 0);
    for (word, range) in word_ranges(query).into_iter().take(UMLAUT_WORDS_MAX) {
        let normal = normalized(&query[range.clone()]);
        let other = with_umlauts(&normal).filter(|other| !is_known(word) && is_known(plain_key(other)));
        let Some(other) = other else { continue };
        written.push_str(&query[from..range.start]);
        written.push_str(&other);
        from = range.end;
    }
    written.push_str(&query[from..]);
    (from > 0).then_some(written)
}

/// Returns the beginning of a word in the ways to spell it.
pub(super) fn beginnings(word: &str) -> impl Iterator<Item = TermPhrase> {
    let variants = [Some(exact(word).into_owned()), with_umlauts(word)];
    variants.into_iter().flatten().map(|variant| TermPhrase { prefix: true, ..TermPhrase::single_word(variant) })
}

fn is_word(run: &Run<'_>) -> bool {
    run.class == Class::Word
}

fn single(word: &str) -> TermPhrase {
    TermPhrase::single_word(exact(word).into_owned())
}

fn phrase(terms: &[String]) -> TermPhrase {
    TermPhrase { terms: terms.iter().map(|term| exact(term).into_owned()).collect(), prefix: false, folded: true }
}

fn keys(words: &[String]) -> Vec<u32> {
    words.iter().map(|word| plain_key(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways to write each part that is searched for under this condition.
    fn variants(query: &str, language: &str, accepts: impl Fn(&SearchCondition) -> bool) -> Vec<Vec<String>> {
        let parts = spellings(query, Language::parse(language)).into_iter().filter(|part| accepts(&part.condition));
        parts.map(|part| part.phrases.iter().map(|phrase| phrase.terms.join(" ")).collect()).collect()
    }

    fn joined(query: &str) -> Vec<Vec<String>> {
        variants(query, "en", |condition| matches!(condition, SearchCondition::Joined(_)))
    }

    fn split(query: &str) -> Vec<Vec<String>> {
        variants(query, "en", |condition| matches!(condition, SearchCondition::Split { .. }))
    }

    fn otherwise(query: &str, language: &str) -> Vec<Vec<String>> {
        variants(query, language, |condition| matches!(condition, SearchCondition::Unfound(_)))
    }

    #[test]
    fn neighboring_words_are_joined() {
        assert_eq!(joined("smart phone"), [["smartphone"]]);
        assert_eq!(joined("U.S.A."), [["us"], ["usa"], ["sa"]]);
        assert_eq!(joined("get_user_name"), [["getuser"], ["getusername"], ["username"]]);
        assert_eq!(joined("猫 カフェ"), [[""; 0]; 0], "these scripts have no spaces");
    }

    #[test]
    fn three_words_or_more_are_abbreviated_by_their_initials() {
        let abbreviated = |query: &str| variants(query, "en", |condition| matches!(condition, SearchCondition::Initials(_)));
        assert_eq!(abbreviated("our Key performance indicators"), [["okp"], ["okpi"], ["kpi"]]);
        assert_eq!(abbreviated("end-of-life"), [["eol"]]);
        assert_eq!(abbreviated("key indicators"), [[""; 0]; 0]);
        assert_eq!(abbreviated("the 12 indicators"), [[""; 0]; 0]);
    }

    #[test]
    fn a_word_is_split_anywhere_and_into_its_letters() {
        assert_eq!(split("usa"), [["u s a", "u sa", "us a"]]);
        assert_eq!(split("hanoi"), [["h anoi", "ha noi", "han oi", "hano i"]]);
        assert!(split("NATO")[0].contains(&"n a t o".to_owned()));
        assert_eq!(split("tv"), [[""; 0]; 0]);
        assert_eq!(split(&"long".repeat(10)), [[""; 0]; 0]);
    }

    #[test]
    fn a_word_without_spaces_is_searched_in_other_writings() {
        let written = |query: &str| variants(query, "", |condition| matches!(condition, SearchCondition::OtherForm(_)));
        assert_eq!(written("らーめん 標籤"), [["ラー ーメ メン"], ["标签"]]);
        assert_eq!(written("昨日らーめんを食べた"), [[""; 0]; 0], "a longer text has words of its own");
    }

    #[test]
    fn a_word_is_split_where_its_case_changes() {
        assert!(split("getUserName")[0].contains(&"get user name".to_owned()));
        assert_eq!(camel_case("HTTPServer"), ["HTTPServer"]);
        assert_eq!(camel_case("straßeWeg"), [""]);
    }

    #[test]
    fn a_number_is_neither_put_together_nor_cut() {
        assert_eq!(joined("10.5 kg"), [["5kg"]]);
        assert_eq!(joined("HX 900"), [["hx900"]]);
        assert_eq!(split("1055"), [[""; 0]; 0]);
        assert_eq!(split("hx900"), [["h x900", "hx 900"]]);
        assert_eq!(split("kb20c"), [["kb 20 c", "k b20c", "kb 20c", "kb20 c"]]);
    }

    #[test]
    fn long_words_have_the_number_of_their_beginning_as_in_passages() {
        let long = "a1".repeat(100);
        assert_eq!(plain_key(&long), super::super::word_counts::word_counts(&long, |_| true).iter().next().unwrap().key);
    }

    #[test]
    fn a_combining_mark_stays_with_its_letter() {
        assert!(split("за\u{301}мок")[0].iter().all(|variant| !variant.contains(" \u{301}")));
    }

    #[test]
    fn a_word_has_its_stem_and_umlauts_as_other_forms() {
        assert_eq!(otherwise("weisses Hemd", "de"), [["weisses", "weiss"]]);
        assert_eq!(otherwise("Muenchen", ""), [["muenchen", "münchen"]]);
        assert_eq!(otherwise("hemd", "de"), [[""; 0]; 0]);
    }

    #[test]
    fn a_word_gets_its_umlaut_if_only_that_word_is_known() {
        let known = [plain_key("kürbis"), plain_key("löffel"), plain_key("blue"), plain_key("blü"), plain_key("duell")];
        let written = |query: &str| with_known_umlauts(query, |word| known.contains(&word));
        assert_eq!(written("Kuerbis und LOEFFEL?").as_deref(), Some("kürbis und löffel?"));
        assert_eq!(written("blue Duell"), None, "these are words");
        assert_eq!(with_umlauts("steuererklaerung").as_deref(), Some("steuererklärung"), "e and ü do not meet");
        assert_eq!(with_umlauts("neue quelle"), None);
        assert_eq!(written("Loeffelstiel"), None, "neither spelling is known");
    }

    #[test]
    fn a_word_that_is_read_otherwise_is_also_searched_as_typed() {
        let (typed, read) = ("drei Loeffel Zucker", "drei löffel Zucker");
        let parts = as_typed(typed, read, spellings(typed, Language::parse("de")));
        let expect = LiteralPart {
            phrases: vec![single("loeffel")],
            dates: Vec::new(),
            position: 1,
            words: vec![plain_key("löffel")],
            share: 1.0 / 3.0,
            condition: SearchCondition::Joined(plain_key("loeffel")),
        };
        assert_eq!(parts[0], expect);
        assert!(parts.iter().all(|part| part.words.contains(&plain_key("löffel"))), "{parts:?}");
    }

    #[test]
    fn longer_words_are_found_by_a_word_as_typed() {
        let variants = |typed: &str, read: &str| -> Vec<String> {
            let parts = as_typed(typed, read, spellings(typed, Language::parse("de")));
            let phrases = parts.into_iter().flat_map(|part| part.phrases);
            phrases.map(|phrase| format!("{}{}", phrase.terms.join(" "), if phrase.prefix { "*" } else { "" })).collect()
        };
        assert!(variants("Kuerbis suppe", "kürbis suppe").contains(&"kuerbissuppe".to_owned()));
    }

    #[test]
    fn parts_say_which_words_of_the_query_they_are() {
        let parts = spellings("nova smart phone", None);
        let found = parts.iter().find(|part| part.phrases == [single("smartphone")]).unwrap();
        assert_eq!((found.position, (found.share * 3.0).round()), (1, 2.0));
    }

    #[test]
    fn sentences_and_texts_have_no_other_spellings() {
        for query in ["one two three four five six seven eight nine", &"a".repeat(1 << 20), ""] {
            assert_eq!(spellings(query, None), []);
        }
    }
}
