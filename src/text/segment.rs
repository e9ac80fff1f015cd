//! Passages: a long text cut at sentence ends into parts that the model reads whole.
//!
//! Sentence ends follow Unicode (UAX 29), with what that leaves out of the supported languages added and what it takes
//! for an end by mistake removed. They only decide where a passage stops; no text is changed.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::{TextError, Tokenizer, Tokens};
use crate::domain::PassageBounds;

/// How far past the last possible cut the ends of words are looked for; longer than any one character with its marks.
const LOOKAHEAD_BYTES: usize = 64;

/// A part of a text that the model reads whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// Its tokens, which had to be found to cut there.
    pub tokens: Tokens,
}

/// Splits `text` into byte ranges of at most `bounds.tokens_max` tokens each, at sentence ends where there are any, else
/// between words, else between characters. A short text is one range. Together they cover everything but surrounding white
/// space; there is always at least one, and each starts and ends after the one before. With an overlap, a range begins with
/// the last sentences of the one before, or else with its last words.
///
/// The one exception to the bound: a character that is more than `tokens_max` tokens by itself is a range of its own.
pub fn split_passages(tokenizer: &Tokenizer, text: &str, bounds: PassageBounds) -> Result<Vec<Cut>, TextError> {
    let all = 0..text.len();
    let whole = trimmed(text, all.clone());
    if whole.is_empty() {
        return Ok(vec![Cut { tokens: tokenizer.encode(text, bounds.tokens_max)?, range: all }]);
    }
    let tokens = tokenizer.encode(&text[whole.clone()], bounds.tokens_max)?;
    if !tokens.truncated {
        return Ok(vec![Cut { range: whole, tokens }]);
    }
    let cutter = Cutter::new(tokenizer, text, bounds.tokens_max)?;
    let mut passages = vec![cutter.passage_from(whole.start)?];
    while let Some(last) = passages.last().map(|cut| cut.range.clone()) {
        let next = last.end + leading_white_space(&text[last.end..]);
        if next >= whole.end {
            break;
        }
        let repeating = cutter.overlap_start(&last, bounds.overlap_tokens).map(|start| cutter.passage_from(start)).transpose()?;
        passages.push(match repeating {
            Some(passage) if passage.range.end > next => passage,
            // Nothing to repeat, or a long sentence that does not fit beside it.
            _ => cutter.passage_from(next)?,
        });
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
    fn passage_from(&self, start: usize) -> Result<Cut, TextError> {
        let mut budget = self.budget;
        loop {
            let range = trimmed(self.text, start..self.end_within(start, budget));
            let tokens = self.tokenizer.encode(&self.text[range.clone()], usize::MAX)?;
            let count = tokens.ids.len();
            if count <= self.tokens_max || budget == 0 {
                return Ok(Cut { range, tokens });
            }
            let counted = self.token_index(range.end) - self.token_index(range.start);
            budget = counted.min(budget).saturating_sub(count - self.tokens_max);
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

    /// Where the part of `passage` begins that the next one repeats: at its first sentence, else its first word, of which at most
    /// `overlap` tokens are left; `None` when there is none.
    fn overlap_start(&self, passage: &Range<usize>, overlap: usize) -> Option<usize> {
        let first = self.token_index(passage.end).saturating_sub(overlap);
        let from = (*self.token_starts.get(first)?).max(passage.start + 1);
        let sentence = self.sentence_starts.partition_point(|&sentence| sentence < from);
        let sentence = self.sentence_starts.get(sentence).copied().filter(|&sentence| sentence < passage.end);
        sentence.or_else(|| word_start(self.text, from, passage.end))
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

/// Where the first word begins at or after `from`, before `end`. In a script without spaces every character may begin one.
fn word_start(text: &str, from: usize, end: usize) -> Option<usize> {
    let from = (from..=end).find(|&at| text.is_char_boundary(at))?;
    let before = text[..from].chars().next_back();
    let inside = before.is_some_and(|c| !c.is_whitespace());
    let spaced = text.get(from..end)?.char_indices().find(|(_, c)| inside && c.is_whitespace()).map_or(0, |(at, _)| at);
    let start = from + spaced;
    let start = start + leading_white_space(&text[start..]);
    (start < end).then_some(start)
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
        overlapping_parts(text, tokens_max, 0)
    }

    fn overlapping_parts(text: &str, tokens_max: usize, overlap_tokens: usize) -> Vec<&str> {
        let bounds = PassageBounds { tokens_max, overlap_tokens };
        let ranges = split_passages(&tokenizer(), text, bounds).expect("the text is split");
        ranges.into_iter().map(|cut| &text[cut.range]).collect()
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
    fn a_passage_repeats_the_last_sentences_of_the_one_before() {
        let text = "The sea is blue. Is it? The sea is a sea. Is the sea blue?";
        let check = |overlap, expect: &[&str]| assert_eq!(overlapping_parts(text, 16, overlap), expect, "{overlap}");
        check(0, &["The sea is blue. Is it?", "The sea is a sea. Is the sea blue?"]);
        check(8, &["The sea is blue. Is it?", "Is it? The sea is a sea.", "The sea is a sea. Is the sea blue?"]);
    }

    #[test]
    fn a_passage_repeats_words_when_no_sentence_is_short_enough() {
        let text = "the sea is the sea is the sea";
        assert_eq!(overlapping_parts(text, 4, 2), ["the sea is the", "is the sea is", "sea is the sea"]);
        assert_eq!(overlapping_parts("春天春天春天", 3, 1), ["春天", "天春", "春天", "天春", "春天"]);
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
            let timed = |bytes: usize, overlap_tokens: usize| {
                let text = sentence.repeat(bytes / sentence.len());
                let clock = std::time::Instant::now();
                let passages = split_passages(&tokenizer, &text, PassageBounds { tokens_max: 120, overlap_tokens })
                    .expect("the text is split");
                assert!(passages.windows(2).all(|pair| pair[0].range.end < pair[1].range.end));
                clock.elapsed().as_secs_f64()
            };
            for overlap in [0, 40] {
                let (small, large) = (timed(1 << 14, overlap), timed(1 << 17, overlap));
                // Eight times the text: 8 when linear, 64 when quadratic; the constant excuses noise in short runs.
                assert!(large < 30.0 * small + 0.5, "{sentence:?}: {small} s for 16 KiB, {large} s for 128 KiB");
            }
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
        fn passages_are_in_order_within_bounds_and_lose_only_white_space(
            text in any_text(), tokens_max in 2usize..40, overlap in 0usize..20,
        ) {
            let tokenizer = tokenizer();
            let bounds = PassageBounds { tokens_max, overlap_tokens: overlap.min(tokens_max / 2) };
            let passages = split_passages(&tokenizer, &text, bounds).expect("the text is split");
            prop_assert!(!passages.is_empty());
            let (mut start, mut covered) = (0, 0);
            for Cut { range: passage, tokens } in &passages {
                prop_assert_eq!(tokens, &tokenizer.encode(&text[passage.clone()], usize::MAX).expect("tokens"));
                prop_assert!(covered == 0 || (passage.start > start && passage.end > covered), "no step forward");
                prop_assert!(bounds.overlap_tokens > 0 || passage.start >= covered);
                prop_assert!(passage.start <= covered || text[covered..passage.start].chars().all(char::is_whitespace));
                let part = &text[passage.clone()];
                let fits = !tokenizer.encode(part, tokens_max).expect("tokens").truncated;
                prop_assert!(fits || part.chars().count() == 1, "{part:?} does not fit");
                (start, covered) = (passage.start, passage.end);
            }
            prop_assert!(text[covered..].chars().all(char::is_whitespace));
        }
    }
}
