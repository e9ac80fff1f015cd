//! Finds the ends of sentences.
//!
//! Sentence ends follow Unicode (UAX 29). Rules that the supported languages need are added, and false ends are removed.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// Maximum number of neighboring characters without a letter or digit in which sentences may end. Finding the end of a sentence
/// takes time in proportion to the square of the white space and brackets after it.
const SEPARATORS_MAX: usize = 100;

/// Returns the offsets where a sentence starts, except the first.
pub(super) fn sentence_starts(text: &str) -> Vec<usize> {
    let by_unicode = starts_by_unicode(text).into_iter().filter(|&position| !is_false_end(text, position));
    let mut starts: Vec<usize> = by_unicode.chain(sentence_ends_beyond_unicode(text)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Returns the offsets where a sentence starts by the rules of Unicode, except the first, in linear time: what follows more than
/// `SEPARATORS_MAX` separators is a new sentence.
fn starts_by_unicode(text: &str) -> Vec<usize> {
    let within = |part: Range<usize>| {
        let bounds = text[part.clone()].split_sentence_bound_indices();
        bounds.map(move |(position, _)| part.start + position).skip(1)
    };
    let (mut starts, mut from) = (Vec::new(), 0);
    let mut separators = 0;
    // The end of the part before the separators beyond the maximum.
    let mut end = None;
    for (position, c) in text.char_indices() {
        separators = if c.is_alphanumeric() { 0 } else { separators + 1 };
        if separators > SEPARATORS_MAX {
            end.get_or_insert(position);
        } else if let Some(end) = end.take() {
            starts.extend(within(from..end));
            starts.push(position);
            from = position;
        }
    }
    starts.extend(within(from..end.unwrap_or(text.len())));
    starts
}

/// Whether the end of a sentence that Unicode finds before `position` is more likely an initial (J. Verne), an ordinal number (am 3.
/// Mai), or the end of a line that was wrapped in mid-sentence.
fn is_false_end(text: &str, position: usize) -> bool {
    if text[position..].starts_with(char::is_whitespace) {
        return true; // Unicode ends a sentence at each line break; the one before the next text is enough.
    }
    let before = text[..position].trim_end();
    let lines = text[before.len()..position].matches('\n').count();
    if lines > 0 {
        return lines == 1 && text[position..].starts_with(char::is_lowercase) && !before.ends_with(['.', '!', '?', '…']);
    }
    let Some(stem) = before.strip_suffix('.') else {
        return false;
    };
    let word: Vec<char> = stem.chars().rev().take(3).take_while(|c| c.is_alphanumeric()).collect();
    match word[..] {
        [c] => c.is_numeric() || c.is_lowercase() || c.is_uppercase(),
        [units, tens] => units.is_numeric() && tens.is_numeric(),
        _ => false,
    }
}

/// Finds the ends of sentences that Unicode's rules do not cover: Thai only has a space between sentences, Greek uses a
/// semicolon as its question mark, Armenian is often typed with a colon for its full stop, and an ellipsis may end a sentence,
/// too.
fn sentence_ends_beyond_unicode(text: &str) -> impl Iterator<Item = usize> {
    let (mut earlier, mut last, mut spaced) = (' ', ' ', false);
    text.char_indices().filter_map(move |(position, c)| {
        if c.is_whitespace() {
            spaced = true;
            return None;
        }
        let ended = match last {
            '\u{e01}'..='\u{e5b}' => c != 'ๆ' && c != 'ฯ',
            ';' | '\u{37e}' => is_greek(earlier),
            ':' => ('\u{531}'..='\u{58a}').contains(&earlier),
            '…' => !c.is_lowercase(),
            _ => false,
        };
        let found = (spaced && ended).then_some(position);
        (earlier, last, spaced) = (last, c, false);
        found
    })
}

fn is_greek(c: char) -> bool {
    matches!(c, '\u{386}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the concatenation of `expect` is split into the same sentences.
    fn check_sentences(expect: &[&str]) {
        let text = expect.concat();
        let starts = sentence_starts(&text);
        let bounds: Vec<usize> = [0].into_iter().chain(starts).chain([text.len()]).collect();
        let got: Vec<&str> = bounds.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn sentence_ends_are_found_in_many_scripts() {
        check_sentences(&["Der Regen hört auf. ", "Wir gehen hinaus! ", "Kommst du mit?"]);
        check_sentences(&["雨停了。", "我们出去吧！", "你来吗？"]);
        check_sentences(&["「雨がやんだ。」", "出かけよう。"]);
        check_sentences(&["बारिश रुक गई। ", "हम बाहर जाते हैं।"]);
        check_sentences(&["বৃষ্টি থেমে গেছে। ", "আমরা বাইরে যাই।"]);
        check_sentences(&["توقف المطر. ", "هل تأتي معنا؟ ", "نعم."]);
        check_sentences(&["بارش رک گئی۔ ", "ہم باہر جاتے ہیں۔"]);
        check_sentences(&["မိုးတိတ်သွားပြီ။ ", "အပြင်ထွက်ကြစို့။"]);
        check_sentences(&["Անձրևը դադարեց։ ", "Դուրս ենք գալիս։"]);
        check_sentences(&["წვიმა შეწყდა. ", "გარეთ გავდივართ."]);
        check_sentences(&["비가 그쳤다. ", "밖으로 나가자."]);
    }

    #[test]
    fn sentence_ends_are_found_where_unicode_has_no_rule() {
        check_sentences(&["ฝนหยุดแล้ว ", "เราออกไปข้างนอกกัน"]);
        check_sentences(&["Έρχεσαι μαζί μας; ", "Ναι, έρχομαι."]);
        check_sentences(&["Անձրևը դադարեց: ", "Դուրս ենք գալիս:"]);
        check_sentences(&["Und dann… ", "Dann kam der Regen."]);
    }

    #[test]
    fn long_runs_of_separators_are_split_correctly_and_quickly() {
        check_sentences(&[&format!("Rain. {}", "\t".repeat(200)), "b"]);
        check_sentences(&[&format!("No end here {}", "(".repeat(200)), "begin. ", "And on."]);
        check_sentences(&["Rain. ", &format!("{} Then.", "=".repeat(50))]);
        let started = std::time::Instant::now();
        for separator in [" ", "\t", "\n", "(", "\u{a0}", "\r"] {
            assert!(sentence_starts(&format!("x.{}b", separator.repeat(1 << 20))).len() <= 102, "{separator:?}");
        }
        // Work in proportion to the square of a million would take an hour.
        assert!(started.elapsed() < std::time::Duration::from_secs(60));
    }

    #[test]
    fn initials_ordinals_and_wrapped_lines_do_not_end_a_sentence() {
        check_sentences(&["Es war von J. Verne. ", "Wir lasen es am 3. Mai."]);
        check_sentences(&["The rain went on\nand on.\n", "Then it stopped."]);
        check_sentences(&["A heading\n\n", "and its text"]);
        check_sentences(&["A heading\n", "Its text"]);
    }
}
