//! Passages: a long text cut at sentence ends into parts that the model reads whole.
//!
//! Sentence ends follow Unicode (UAX 29), with what that leaves out of the supported languages added and what it takes
//! for an end by mistake removed. They only decide where a passage stops; no text is changed.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::{TextError, Tokenizer};

/// How far past the last possible cut the ends of words are looked for; longer than any one character with its marks.
const LOOKAHEAD_BYTES: usize = 64;

/// Splits `text` into byte ranges of at most `tokens_max` tokens each, at sentence ends where there are any, else between
/// words, else between characters. A short text is one range. Together they cover everything but surrounding white space;
/// there is always at least one.
///
/// The one exception to the bound: a character that is more than `tokens_max` tokens by itself is a range of its own.
pub fn split_passages(tokenizer: &Tokenizer, text: &str, tokens_max: usize) -> Result<Vec<Range<usize>>, TextError> {
    let all = 0..text.len();
    let whole = trimmed(text, all.clone());
    if whole.is_empty() {
        return Ok(vec![all]);
    }
    if !tokenizer.encode(&text[whole.clone()], tokens_max)?.truncated {
        return Ok(vec![whole]);
    }
    let cutter = Cutter::new(tokenizer, text, tokens_max)?;
    let mut passages = Vec::new();
    let mut start = whole.start;
    while start < whole.end {
        let passage = cutter.passage_from(start)?;
        start = passage.end + leading_white_space(&text[passage.end..]);
        passages.push(passage);
    }
    Ok(passages)
}

/// A text with everything that decides where it is cut, found once for the whole of it.
struct Cutter<'a> {
    tokenizer: &'a Tokenizer,
    text: &'a str,
    tokens_max: usize,
    /// Tokens that a passage may have besides those the tokenizer adds to every text.
    budget: usize,
    /// Where each token of the whole text starts, ascending.
    token_starts: Vec<usize>,
    /// Where a sentence starts after another one, ascending.
    sentence_starts: Vec<usize>,
}

impl<'a> Cutter<'a> {
    fn new(tokenizer: &'a Tokenizer, text: &'a str, tokens_max: usize) -> Result<Self, TextError> {
        let added = tokenizer.encode("a", usize::MAX)?.ids.len().saturating_sub(tokenizer.offsets("a")?.len());
        let mut reached = 0;
        let mut token_starts = Vec::new();
        for token in tokenizer.offsets(text)? {
            // Where normalization swaps two marks, starts may step back; a running maximum keeps them sorted.
            reached = token.start.max(reached);
            token_starts.push(reached);
        }
        let budget = tokens_max.saturating_sub(added).max(1);
        Ok(Self { tokenizer, text, tokens_max, budget, token_starts, sentence_starts: sentence_starts(text) })
    }

    /// Gives the longest passage that starts at `start`. A part of a text may have more tokens than it had within the
    /// whole (a word that is cut gains a mark), so its own tokens are counted, and it is made shorter until they fit.
    fn passage_from(&self, start: usize) -> Result<Range<usize>, TextError> {
        let mut budget = self.budget;
        loop {
            let passage = trimmed(self.text, start..self.end_within(start, budget));
            let tokens = self.tokenizer.encode(&self.text[passage.clone()], usize::MAX)?.ids.len();
            if tokens <= self.tokens_max || budget == 0 {
                return Ok(passage);
            }
            let counted = self.token_index(passage.end) - self.token_index(passage.start);
            budget = counted.min(budget).saturating_sub(tokens - self.tokens_max);
        }
    }

    /// Gives the best place to stop after `start` with at most `budget` tokens of the whole text in between; always at
    /// least one character further.
    fn end_within(&self, start: usize, budget: usize) -> usize {
        let Some(&limit) = self.token_starts.get(self.token_index(start) + budget) else {
            return self.text.len();
        };
        let sentences = self.sentence_starts.partition_point(|&sentence| sentence <= limit);
        match self.sentence_starts[..sentences].last() {
            Some(&sentence) if sentence > start => sentence,
            _ => end_within_sentence(self.text, start, limit),
        }
    }

    /// The number of tokens of the whole text that start before `offset`.
    fn token_index(&self, offset: usize) -> usize {
        self.token_starts.partition_point(|&token| token < offset)
    }
}

/// Cuts a sentence that is too long by itself: after white space in the second half of what fits, else before a word,
/// else between what a reader sees as characters, else between code points.
fn end_within_sentence(text: &str, start: usize, limit: usize) -> usize {
    let first = text[start..].chars().next().map_or(0, char::len_utf8);
    let limit = floor_char_boundary(text, limit);
    if limit <= start + first {
        return start + first;
    }
    if text[limit..].starts_with(char::is_whitespace) {
        return limit;
    }
    let room = limit - start;
    // Looking a little further shows whether a word goes on; looking at all that follows would take quadratic time.
    let seen = &text[start..floor_char_boundary(text, limit + LOOKAHEAD_BYTES)];
    let spaced = seen[..room].char_indices().rfind(|(_, c)| c.is_whitespace()).map(|(at, c)| at + c.len_utf8());
    let word = || {
        let words = seen.split_word_bound_indices().take_while(|(at, _)| *at <= room);
        words.filter(|(at, word)| *at > 0 && word.starts_with(char::is_alphanumeric)).last().map(|(at, _)| at)
    };
    let character = || seen.grapheme_indices(true).map(|(at, _)| at).take_while(|at| *at <= room).last().filter(|at| *at > 0);
    start + spaced.filter(|at| *at > room / 2).or_else(word).or(spaced).or_else(character).unwrap_or(room)
}

fn floor_char_boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// Gives the offsets at which a sentence starts, the first one excepted.
fn sentence_starts(text: &str) -> Vec<usize> {
    let by_unicode = text.split_sentence_bound_indices().map(|(at, _)| at).skip(1).filter(|&at| !is_false_end(text, at));
    let mut starts: Vec<usize> = by_unicode.chain(ends_unknown_to_unicode(text)).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Whether the end of a sentence that Unicode sees before `at` is more likely an initial (J. Verne), an ordinal number
/// (am 3. Mai), or a line that was wrapped in mid-sentence.
fn is_false_end(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end();
    if text[at..].starts_with(char::is_whitespace) {
        return true; // Unicode ends a sentence at each line break; the one before the next text is enough.
    }
    let lines = text[before.len()..at].matches('\n').count();
    if lines > 0 {
        return lines == 1 && text[at..].starts_with(char::is_lowercase) && !before.ends_with(['.', '!', '?', '…']);
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

/// Finds the ends of sentences that Unicode's rules do not know: Thai puts nothing but a space between them, Greek asks
/// with a semicolon, Armenian is often typed with a colon for its full stop, and an ellipsis may end one too.
fn ends_unknown_to_unicode(text: &str) -> impl Iterator<Item = usize> {
    let (mut earlier, mut last, mut spaced) = (' ', ' ', false);
    text.char_indices().filter_map(move |(at, c)| {
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
        let found = (spaced && ended).then_some(at);
        (earlier, last, spaced) = (last, c, false);
        found
    })
}

fn is_greek(c: char) -> bool {
    matches!(c, '\u{386}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}')
}

fn leading_white_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Gives `range` without the white space at its ends.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + leading_white_space(part);
    start..start + part.trim().len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokenizers::models::unigram::Unigram;

    use super::*;
    use crate::text::normalize::{normalizer, pre_tokenizer};

    /// A tokenizer that knows the letters of a few scripts, some words, and nothing else.
    fn tokenizer() -> Tokenizer {
        let mut pieces = vec![("<unk>".to_owned(), 0.0), ("▁".to_owned(), -3.0)];
        let letters = "abcdefghijklmnopqrstuvwxyzäöüéñ0123456789.,!?;:…αβγδεζηθικλμνξοπρστυφχψωά。，？！";
        pieces.extend(letters.chars().map(|c| (c.to_string(), -8.0)));
        let words = ["▁the", "▁sea", "▁is", "▁blue", "▁a", "an", "en", "ing", "▁το", "春", "天", "来了", "นี้", "บ้าน"];
        pieces.extend(words.iter().map(|word| ((*word).to_owned(), -4.0)));
        let model = Unigram::from(pieces, Some(0), false).expect("the pieces are well formed");
        let mut inner = tokenizers::Tokenizer::new(model);
        inner.with_normalizer(Some(normalizer())).expect("a normalizer");
        inner.with_pre_tokenizer(Some(pre_tokenizer()));
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        inner.save(file.path(), false).expect("the tokenizer is written");
        Tokenizer::load(file.path()).expect("the tokenizer is read back")
    }

    fn parts(text: &str, tokens_max: usize) -> Vec<&str> {
        let ranges = split_passages(&tokenizer(), text, tokens_max).expect("the text is split");
        ranges.into_iter().map(|range| &text[range]).collect()
    }

    fn check_passages(text: &str, tokens_max: usize, expect: &[&str]) {
        assert_eq!(parts(text, tokens_max), expect, "{text:?} in passages of {tokens_max} tokens");
    }

    /// Checks where the sentences of `expect`, put together, are taken apart.
    fn check_sentences(expect: &[&str]) {
        let text = expect.concat();
        let starts = sentence_starts(&text);
        let bounds: Vec<usize> = [0].into_iter().chain(starts).chain([text.len()]).collect();
        let got: Vec<&str> = bounds.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        assert_eq!(got, expect);
    }

    #[test]
    fn a_short_text_is_one_passage_without_its_margins() {
        check_passages("the sea is blue", 8, &["the sea is blue"]);
        check_passages("  the sea\n", 8, &["the sea"]);
        check_passages("", 8, &[""]);
        check_passages(" \n ", 8, &[" \n "]);
    }

    #[test]
    fn whole_sentences_fill_a_passage() {
        let text = "The sea is blue. The sea is a sea. Is the sea blue?";
        check_passages(text, 16, &["The sea is blue. The sea is a sea.", "Is the sea blue?"]);
        check_passages(text, 8, &["The sea is blue.", "The sea is a sea.", "Is the sea blue?"]);
    }

    #[test]
    fn a_long_sentence_is_cut_between_words() {
        check_passages("the sea is the sea is the sea", 4, &["the sea is the", "sea is the sea"]);
    }

    #[test]
    fn a_text_without_spaces_is_cut_between_characters() {
        check_passages("春天春天春天", 3, &["春天", "春天", "春天"]);
        check_passages("zzzzzz", 3, &["zz", "zz", "zz"]);
    }

    #[test]
    fn one_character_of_many_tokens_is_a_passage_of_its_own() {
        check_passages("㍿a", 1, &["㍿", "a"]);
    }

    #[test]
    fn sentences_end_in_every_script() {
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
    fn sentences_end_where_unicode_knows_of_none() {
        check_sentences(&["ฝนหยุดแล้ว ", "เราออกไปข้างนอกกัน"]);
        check_sentences(&["Έρχεσαι μαζί μας; ", "Ναι, έρχομαι."]);
        check_sentences(&["Անձրևը դադարեց: ", "Դուրս ենք գալիս:"]);
        check_sentences(&["Und dann… ", "Dann kam der Regen."]);
    }

    #[test]
    fn initials_ordinals_and_wrapped_lines_end_no_sentence() {
        check_sentences(&["Es war von J. Verne. ", "Wir lasen es am 3. Mai."]);
        check_sentences(&["The rain went on\nand on.\n", "Then it stopped."]);
        check_sentences(&["A heading\n\n", "and its text"]);
        check_sentences(&["A heading\n", "Its text"]);
    }

    #[test]
    fn splitting_takes_time_in_proportion_to_the_text() {
        let tokenizer = tokenizer();
        for sentence in ["The sea is blue. ", "the sea ", "春天来了。", "春天", "นี้บ้าน ", "z", "\u{1}", "e\u{301}"]
        {
            let timed = |bytes: usize| {
                let text = sentence.repeat(bytes / sentence.len());
                let clock = std::time::Instant::now();
                let passages = split_passages(&tokenizer, &text, 120).expect("the text is split");
                assert!(passages.windows(2).all(|pair| pair[0].end <= pair[1].start));
                clock.elapsed().as_secs_f64()
            };
            let (small, large) = (timed(1 << 14), timed(1 << 17));
            // Eight times the text: 8 when linear, 64 when quadratic; the constant excuses noise in short runs.
            assert!(large < 30.0 * small + 0.5, "{sentence:?}: {small} s for 16 KiB, {large} s for 128 KiB");
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-z]{1,12}",
            "[ \n\t]{1,3}",
            "[.!?;:…。！？।။։؟۔ ]{1,2}",
            "[春天来了雨停出去]{1,20}",
            "[ก-ฮ]{1,9}",
            "[α-ω]{1,9}",
            "[\u{300}-\u{304}]{1,3}",
            "\\PC{1,6}",
            "[\u{0}-\u{1f}]",
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn passages_are_in_order_within_bounds_and_lose_only_white_space(text in any_text(), tokens_max in 2usize..40) {
            let tokenizer = tokenizer();
            let passages = split_passages(&tokenizer, &text, tokens_max).expect("the text is split");
            prop_assert!(!passages.is_empty());
            let mut covered = 0;
            for passage in &passages {
                prop_assert!(passage.start >= covered);
                prop_assert!(text[covered..passage.start].chars().all(char::is_whitespace));
                let part = &text[passage.clone()];
                let fits = !tokenizer.encode(part, tokens_max).expect("tokens").truncated;
                prop_assert!(fits || part.chars().count() == 1, "{part:?} does not fit");
                covered = passage.end;
            }
            prop_assert!(text[covered..].chars().all(char::is_whitespace));
        }
    }
}
