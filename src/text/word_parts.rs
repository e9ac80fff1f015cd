//! Finds the known parts of a word that the vocabulary does not have: the two words of a compound ("Zugriffskontrolle"), the
//! beginning of an inflected word ("katkıyı"), the rest of a word with an attached particle ("ותחזוקה"), and the words that a
//! foreign word in katakana is put together from ("トルココーヒー"). The vocabulary decides which parts are words, so this needs
//! no rules for any language and need not know the language.

use super::known_words::KnownWords;
use super::plain_words::{PlainWord, is_katakana, word_key};
use super::runs::Class;
use super::variants::other_forms;

/// Maximum length in bytes of a word to split, because the time grows with the square of its number of letters.
const BYTES_MAX: usize = 128;
/// Minimum number of letters of each word of a compound.
const PART_MIN: usize = 4;
/// Maximum number of letters between the two words of a compound, and after them: "s" in "Zugriffskontrolle".
const LINK_MAX: usize = 2;
const ENDING_MAX: usize = 2;
/// Minimum share of a word that its beginning has, in percent. Shorter beginnings are often other words.
const BEGINNING_PERCENT_MIN: usize = 60;
/// Maximum number of letters of the particles before a word in Arabic and Hebrew script, and minimum number of the others.
const PARTICLES_MAX: usize = 2;
const REST_MIN: usize = 3;
/// The article of Arabic, which is written together with its word.
const ARABIC_ARTICLE: &str = "ال";
/// Maximum number of words that a word in katakana is put together from, minimum number of characters of each, and maximum number
/// of characters of them together.
const KATAKANA_WORDS_MAX: usize = 3;
const KATAKANA_PART_MIN: usize = 3;
const KATAKANA_MAX: usize = 24;
/// Signs of katakana that do not begin a word.
const KATAKANA_WITHIN: &str = "ーァィゥェォッャュョヮンヵヶ";

/// Returns the known parts of an unknown word of this class. In scripts without spaces, only words in katakana have some.
pub(super) fn parts_of(class: Class, word: &PlainWord<'_>, known: &impl KnownWords) -> Vec<u32> {
    let is_known = |part: u32| known.has_part(part);
    match class {
        _ if known.has_word(word.key()) => Vec::new(),
        Class::Word => known_parts(&word.text, is_known),
        Class::Unspaced if is_katakana(&word.text) => katakana_parts(&word.text, is_known),
        _ => Vec::new(),
    }
}

/// Returns the number of a known Arabic word without its article, if that is a word, too. Each of them may have meanings that the
/// other lacks.
pub(super) fn without_article(class: Class, word: &PlainWord<'_>, known: &impl KnownWords) -> Option<u32> {
    let rest = word.text.strip_prefix(ARABIC_ARTICLE).filter(|rest| class == Class::Word && rest.chars().count() >= REST_MIN)?;
    Some(word_key(rest)).filter(|rest| known.has_word(word.key()) && known.has_part(*rest))
}

/// Returns what a word of a passage counts as in addition to itself. A known Arabic word also counts without its article. An
/// unknown word counts as its parts (`parts_of`) or, in Chinese characters or kana, as the known forms in another writing.
pub(super) fn also_counted(class: Class, word: &PlainWord<'_>, known: &impl KnownWords) -> Vec<u32> {
    if let Some(rest) = without_article(class, word, known) {
        return vec![rest];
    }
    let parts = parts_of(class, word, known);
    match class == Class::Unspaced && parts.is_empty() && word.is_single() && !known.has_word(word.key()) {
        true => other_forms(&word.text).iter().map(|form| word_key(form)).filter(|form| known.has_part(*form)).collect(),
        false => parts,
    }
}

/// Whether one of the parts that `also_counted` may return for a plain word, whatever is known, is wanted. If few words are
/// wanted, this is faster to see. In scripts without spaces, it is not.
pub(super) fn may_have_part(class: Class, word: &str, is_wanted: impl Fn(u32) -> bool) -> bool {
    if class != Class::Word || word.len() > BYTES_MAX {
        return class == Class::Unspaced;
    }
    let letters = letters(word);
    let length = letters.len() - 1;
    let is_part = |from: usize, to: usize| is_wanted(word_key(&word[letters[from]..letters[to]]));
    let mut seconds =
        (PART_MIN..=length.saturating_sub(PART_MIN)).flat_map(|start| second_ends(start, length).map(move |end| (start, end)));
    let particles = if word.starts_with(has_particles) { PARTICLES_MAX.min(length) } else { 0 };
    (PART_MIN..length).any(|end| is_part(0, end))
        || seconds.any(|(start, end)| is_part(start, end))
        || (1..=particles).any(|from| is_part(from, length))
}

/// Returns where the letters of a word begin, and its end.
fn letters(word: &str) -> Vec<usize> {
    word.char_indices().map(|(position, _)| position).chain([word.len()]).collect()
}

/// Returns where the second word of a compound of `length` letters may end if it begins at `start`.
fn second_ends(start: usize, length: usize) -> std::ops::RangeInclusive<usize> {
    (start + PART_MIN).max(length.saturating_sub(ENDING_MAX))..=length
}

/// Whether a letter is of a script whose words have particles attached.
fn has_particles(letter: char) -> bool {
    matches!(letter, '\u{590}'..='\u{6ff}')
}

/// Returns the numbers (`word_key`) of the parts of a plain word that `is_known` accepts: two, one or none. A word with digits
/// has none.
fn known_parts(word: &str, is_known: impl Fn(u32) -> bool) -> Vec<u32> {
    if word.len() > BYTES_MAX || word.chars().any(char::is_numeric) {
        return Vec::new();
    }
    let letters = letters(word);
    let known = |from: usize, to: usize| Some(word_key(&word[letters[from]..letters[to]])).filter(|key| is_known(*key));
    let length = letters.len() - 1;
    if let Some(parts) = two_words(length, known) {
        return parts.into();
    }
    let shortest = PART_MIN.max((length * BEGINNING_PERCENT_MIN).div_ceil(100));
    let beginning = (shortest..length).rev().find_map(|end| known(0, end));
    let after_particles = || {
        let attaches = word.chars().all(has_particles);
        let from_max = if attaches { PARTICLES_MAX.min(length.saturating_sub(REST_MIN)) } else { 0 };
        (1..=from_max).find_map(|from| known(from, length))
    };
    let after_article = || word.starts_with(ARABIC_ARTICLE).then(after_particles).flatten();
    after_article().or(beginning).or_else(after_particles).into_iter().collect()
}

/// Returns the two words of a compound of `length` letters: those with the fewest letters outside of them, and of these the most
/// alike in length.
fn two_words(length: usize, known: impl Fn(usize, usize) -> Option<u32>) -> Option<[u32; 2]> {
    let ends = (PART_MIN..=length.saturating_sub(PART_MIN)).filter_map(|end| Some((end, known(0, end)?)));
    let splits = ends.flat_map(|(end, first)| {
        let starts = end..=(end + LINK_MAX).min(length - PART_MIN);
        let second = |start: usize| second_ends(start, length).rev().find_map(|end| Some((length - end, known(start, end)?)));
        let split = |start: usize| second(start).map(|(ending, second)| ((start - end + ending, end), [first, second]));
        starts.filter_map(split).collect::<Vec<_>>()
    });
    splits.min_by_key(|((outside, end), _)| (*outside, (2 * end).abs_diff(length))).map(|(_, words)| words)
}

/// Returns the words, as few as possible, that a word in katakana is put together from. Of equally many, the first is as long as
/// possible.
fn katakana_parts(word: &str, is_known: impl Fn(u32) -> bool) -> Vec<u32> {
    let letters = letters(word);
    let length = letters.len() - 1;
    if length > KATAKANA_MAX {
        return Vec::new();
    }
    // The fewest words of the characters from each position to the end.
    let mut fewest: Vec<Option<Vec<u32>>> = vec![None; length + 1];
    fewest[length] = Some(Vec::new());
    for from in (0..length).rev().filter(|from| !word[letters[*from]..].starts_with(|c| KATAKANA_WITHIN.contains(c))) {
        let mut best: Option<Vec<u32>> = None;
        for to in (from + KATAKANA_PART_MIN..=length).rev() {
            let Some(rest) = fewest[to].as_ref().filter(|rest| rest.len() < KATAKANA_WORDS_MAX) else { continue };
            let key = word_key(&word[letters[from]..letters[to]]);
            if best.as_ref().is_none_or(|best| best.len() > rest.len() + 1) && is_known(key) {
                best = Some(std::iter::once(key).chain(rest.iter().copied()).collect());
            }
        }
        fewest[from] = best;
    }
    fewest.swap_remove(0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::for_each_word;
    use super::super::runs::runs;
    use super::*;

    #[track_caller]
    fn check(word: &str, vocabulary: &[&str], expect: &[&str]) {
        let keys = |words: &[&str]| words.iter().map(|word| word_key(word)).collect::<Vec<_>>();
        let known = keys(vocabulary);
        assert_eq!(known_parts(word, |key| known.contains(&key)), keys(expect), "{word}");
    }

    #[test]
    fn a_compound_is_split_into_two_known_words() {
        check("fahrradwerkstatt", &["fahrrad", "werkstatt", "fahr", "statt"], &["fahrrad", "werkstatt"]);
        check("zugriffskontrollen", &["zugriff", "kontrolle"], &["zugriff", "kontrolle"]);
        check("cykelverkstaden", &["cykel", "verkstad"], &["cykel", "verkstad"]);
        check("велосервис", &["вело", "сервис"], &["вело", "сервис"]);
    }

    #[test]
    fn the_split_that_leaves_the_fewest_letters_wins() {
        check("abcdesfghij", &["abcd", "abcde", "fghij", "sfghij"], &["abcde", "sfghij"]);
    }

    #[test]
    fn a_word_with_an_unknown_ending_yields_its_longest_known_prefix() {
        check("pyörälläni", &["pyörällä", "pyörä"], &["pyörällä"]);
        check("evlerimizden", &["evlerimiz", "evlerim"], &["evlerimiz"]);
    }

    #[test]
    fn a_known_prefix_that_is_too_short_is_ignored() {
        check("katalogtext", &["kata"], &[]);
        check("carpets", &["car"], &[]);
    }

    #[test]
    fn leading_particles_are_stripped_in_hebrew_and_arabic_but_not_latin() {
        check("וספרים", &["ספרים"], &["ספרים"]);
        check("والمدينة", &["المدينة", "مدينة"], &["المدينة"]);
        check("amoral", &["moral"], &[]);
    }

    #[test]
    fn the_arabic_article_is_removed_before_a_beginning_is_tried() {
        check("الامومه", &["الاموم", "امومه"], &["امومه"]);
        check("الامومه", &["الاموم"], &["الاموم"]);
    }

    #[test]
    fn a_known_arabic_word_also_counts_without_its_article() {
        let also = |word: &str, known: &[&str]| {
            let known: Vec<u32> = known.iter().map(|word| word_key(word)).collect();
            let mut all = Vec::new();
            for run in runs(word) {
                for_each_word(&run, |word| all.extend(also_counted(run.class, &word, &|key| known.contains(&key))));
            }
            all
        };
        assert_eq!(also("المدينه", &["المدينه", "مدينه"]), [word_key("مدينه")]);
        assert!(also("المدينه", &["المدينه"]).is_empty());
        assert!(also("الان", &["الان", "ان"]).is_empty(), "the rest is too short to be the same word");
    }

    #[test]
    fn every_part_of_a_word_is_a_possible_part() {
        let check = |word: &str, known: &[&str]| {
            let known: Vec<u32> = known.iter().map(|word| word_key(word)).collect();
            let parts = known_parts(word, |key| known.contains(&key));
            assert!(!parts.is_empty(), "{word}");
            parts.iter().for_each(|part| assert!(may_have_part(Class::Word, word, |key| key == *part), "{word}"));
        };
        check("fahrradwerkstatt", &["fahrrad", "werkstatt"]);
        check("zugriffskontrollen", &["zugriff", "kontrolle"]);
        check("cykelverkstaden", &["cykel", "verkstad"]);
        check("evlerimizden", &["evlerimiz"]);
        check("וספרים", &["ספרים"]);
        check("والمدينة", &["المدينة"]);
        assert!(!may_have_part(Class::Word, "fahrradwerkstatt", |key| key == word_key("rad")));
    }

    /// What the words of a text count as in addition to themselves.
    fn counted(text: &str, vocabulary: &[&str]) -> Vec<u32> {
        let known: Vec<u32> = vocabulary.iter().map(|word| word_key(word)).collect();
        let mut all = Vec::new();
        for run in runs(text) {
            for_each_word(&run, |word| all.extend(also_counted(run.class, &word, &|key| known.contains(&key))));
        }
        all
    }

    #[test]
    fn a_word_in_katakana_is_split_into_the_fewest_known_words() {
        let check = |vocabulary: &[&str], expect: &[&str]| {
            let expect: Vec<u32> = expect.iter().map(|word| word_key(word)).collect();
            assert_eq!(counted("トルココーヒーメーカー", vocabulary), expect, "{vocabulary:?}");
        };
        check(&["トルコ", "コーヒー", "メーカー"], &["トルコ", "コーヒー", "メーカー"]);
        check(&["トルコ", "コーヒー", "メーカー", "コーヒーメーカー"], &["トルコ", "コーヒーメーカー"]);
        check(&["トルコ", "コーヒー", "メーカー", "トルココーヒーメーカー"], &[]);
        check(&["トルコ", "コーヒー", "ーメーカー", "ト"], &[]);
        check(&["トル", "コ", "コーヒ", "コーヒー", "メー", "カー"], &[]);
    }

    #[test]
    fn a_word_that_is_only_known_in_another_writing_counts_as_that() {
        assert_eq!(counted("發行", &["发行"]), [word_key("发行")]);
        assert_eq!(counted("發行", &["发行", "發行"]), [0; 0]);
        assert_eq!(counted("リンゴ", &["りんご"]), [word_key("りんご")]);
    }

    #[test]
    fn words_with_digits_and_short_words_have_no_parts() {
        check("haus2haus", &["haus"], &[]);
        check("aus", &["a", "au"], &[]);
        check("", &[], &[]);
    }
}
