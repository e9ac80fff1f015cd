//! Splits a text into passages: parts that the model reads in full, each with its title and headings.
//!
//! A passage stays within its section and takes as many whole blocks (paragraphs, lists, tables, code) as fit. A block that is
//! too long is split between its items, otherwise between sentences. Only a sentence that is too long on its own is split
//! within. A piece that is too short to mean anything joins its neighbor. The text itself is never changed.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::context::{CONTEXT_SHARE, shorten_context};
use super::sections::{Section, merge_short_sections, sections};
use super::sentences::sentence_starts;
use super::structure::{Heading, Structure, content_starts, structure};
use super::{TextError, Tokenize, Tokens};
use crate::domain::passages::TOKENS_MIN;
use crate::domain::{PassageBounds, PassageContext};

/// How far past the last possible split to look for the ends of words. Longer than any character with its marks.
const LOOKAHEAD_BYTES: usize = 64;
/// If passages are short, a piece only counts as too short if it is less than one in this many of a passage.
const SHORT_SHARE: usize = 4;

/// A part of a text that the model reads in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPassage {
    /// Its bytes in the text.
    pub range: Range<usize>,
    /// Its context.
    pub context: PassageContext,
    /// The tokens to embed: those of its context, then its own. Splitting needed them anyway.
    pub tokens: Tokens,
}

/// The limits of a passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassageLimits {
    /// The limits of the passage itself.
    pub bounds: PassageBounds,
    /// Maximum number of tokens of the model, for the passage and its context together.
    pub tokens_max: usize,
}

/// Splits a text without a title like `split_text`, for a model that reads no more than one passage.
pub fn split_passages(tokenizer: &dyn Tokenize, text: &str, bounds: PassageBounds) -> Result<Vec<TextPassage>, TextError> {
    split_text(tokenizer, None, text, PassageLimits { bounds, tokens_max: bounds.tokens_max })
}

/// Splits `text` into byte ranges of at most `limits.bounds.tokens_max` tokens each. With their context they have at most
/// `limits.tokens_max`. Splits at the ends of sections, blocks, items or sentences, otherwise between words, otherwise between
/// characters. A short text of one section is one range. Together the ranges cover everything except white space between and
/// around them. There is always at least one, and each starts and ends after the previous one. With an overlap, a range begins
/// with the last sentences of the previous one in its section, or otherwise with its last words.
///
/// There is one exception to the limits: a single character with more tokens is a separate range.
pub fn split_text(
    tokenizer: &dyn Tokenize,
    title: Option<&str>,
    text: &str,
    limits: PassageLimits,
) -> Result<Vec<TextPassage>, TextError> {
    let all = 0..text.len();
    let content = trimmed(text, all.clone());
    let added = tokenizer.encode("a", usize::MAX)?.ids.len().saturating_sub(tokenizer.offsets("a")?.len());
    let above = PassageContext { title: title.map(str::to_owned), headings: None };
    let budget = PassageBudget::for_context(tokenizer, above, limits, added)?;
    if content.is_empty() {
        return Ok(vec![budget.make_passage(tokenizer, text, all)?]);
    }
    let structure = structure(text);
    let sections = sections(text, &content, &structure.headings);
    if sections.len() == 1
        && let Some(only) = budget.make_fitting_passage(tokenizer, text, content.clone())?
    {
        return Ok(vec![only]);
    }
    let splitter = Splitter::new(tokenizer, text, structure, Frame { title, limits, added })?;
    let mut passages = Vec::new();
    // Neighboring sections often share the headings above them.
    let (mut above, mut budget) = (Vec::new(), splitter.budget_under(&[])?);
    for section in merge_short_sections(text, sections, |range| splitter.is_short(range), |range| splitter.fits(range)) {
        if above != section.above {
            (above, budget) = (section.above.clone(), splitter.budget_under(&section.above)?);
        }
        splitter.split_section(&section, &budget, &mut passages)?;
    }
    Ok(passages)
}

/// The settings that all passages of a text share.
struct Frame<'a> {
    title: Option<&'a str>,
    limits: PassageLimits,
    /// Number of tokens that the tokenizer adds to every text.
    added: usize,
}

/// A context, and how many tokens it leaves for the passage.
struct PassageBudget {
    context: PassageContext,
    /// The part of the context that is embedded.
    embedded: PassageContext,
    /// Maximum number of tokens of context and passage together.
    tokens_max: usize,
    /// Maximum number of tokens of the passage alone.
    passage_tokens_max: usize,
}

impl PassageBudget {
    fn for_context(
        tokenizer: &dyn Tokenize,
        context: PassageContext,
        limits: PassageLimits,
        added: usize,
    ) -> Result<Self, TextError> {
        let (embedded, context_tokens) = match context.is_empty() {
            true => (PassageContext::default(), 0),
            false => shorten_context(tokenizer, &context, limits.tokens_max)?,
        };
        let tokens_max = limits.bounds.tokens_max.saturating_add(context_tokens).min(limits.tokens_max);
        let passage_tokens_max = tokens_max.saturating_sub(context_tokens + added).max(1);
        Ok(Self { context, embedded, tokens_max, passage_tokens_max })
    }

    /// Makes a passage of the part `range` of `text`, whether it fits or not.
    fn make_passage(&self, tokenizer: &dyn Tokenize, text: &str, range: Range<usize>) -> Result<TextPassage, TextError> {
        let tokens = tokenizer.encode(&self.embedded.prepend_to(&text[range.clone()]), usize::MAX)?;
        Ok(TextPassage { range, context: self.context.clone(), tokens })
    }

    /// Makes a passage of the part `range` of `text`, if it is not too long.
    fn make_fitting_passage(
        &self,
        tokenizer: &dyn Tokenize,
        text: &str,
        range: Range<usize>,
    ) -> Result<Option<TextPassage>, TextError> {
        let passage = self.make_passage(tokenizer, text, range)?;
        Ok(Some(passage).filter(|passage| passage.tokens.ids.len() <= self.tokens_max))
    }
}

/// A text, with everything that decides where to split it. This is computed once for the whole text.
struct Splitter<'a> {
    tokenizer: &'a dyn Tokenize,
    text: &'a str,
    frame: Frame<'a>,
    headings: Vec<Heading>,
    /// Where the content of each heading begins.
    contents: Vec<usize>,
    /// Number of tokens below which a piece is too short to mean anything.
    tokens_min: usize,
    /// Where each token of the whole text starts, ascending.
    token_starts: Vec<usize>,
    /// Where each word starts: the first of neighboring letters, ascending.
    words: Vec<usize>,
    /// Possible starts of a passage, ascending: starts of blocks; also of items; also of sentences.
    starts: [Vec<usize>; 3],
}

impl<'a> Splitter<'a> {
    fn new(tokenizer: &'a dyn Tokenize, text: &'a str, structure: Structure, frame: Frame<'a>) -> Result<Self, TextError> {
        let mut end_of_last = 0;
        let mut token_starts = Vec::new();
        for token in tokenizer.offsets(text)? {
            // If normalization swaps two marks, a start may be before the previous one. A running maximum keeps them sorted.
            end_of_last = token.start.max(end_of_last);
            token_starts.push(end_of_last);
        }
        let Structure { headings, blocks, items } = structure;
        let tokens_min = TOKENS_MIN.min(frame.limits.bounds.tokens_max.saturating_sub(frame.added) / SHORT_SHARE);
        let words = word_starts(text);
        let contents = content_starts(text, &headings);
        let mut splitter =
            Self { tokenizer, text, frame, headings, contents, tokens_min, token_starts, words, starts: Default::default() };
        let mut seen: Vec<usize> = splitter.headings.iter().map(|heading| heading.range.start).collect();
        for (rank, more) in [blocks, items, sentence_starts(text)].into_iter().enumerate() {
            seen.extend(more.into_iter().filter(|&position| !splitter.splits_heading(position)));
            seen.sort_unstable();
            seen.dedup();
            splitter.starts[rank].clone_from(&seen);
        }
        Ok(splitter)
    }

    /// Whether `position` is within a heading, or between it and its content.
    fn splits_heading(&self, position: usize) -> bool {
        let before = self.headings.partition_point(|heading| heading.range.start < position);
        before.checked_sub(1).is_some_and(|heading| position <= self.contents[heading])
    }

    /// Whether a part of the text is too short to mean anything on its own: an emoji, a number, a word or two.
    fn is_short(&self, range: &Range<usize>) -> bool {
        self.tokens_min > 0 && (self.tokens_in(range) < self.tokens_min || !self.has_letters(range))
    }

    /// Whether a part of the text fits into one passage, whatever its context.
    fn fits(&self, range: &Range<usize>) -> bool {
        let PassageLimits { bounds, tokens_max } = self.frame.limits;
        self.tokens_in(range) <= bounds.tokens_max.min(tokens_max - tokens_max / CONTEXT_SHARE).saturating_sub(self.frame.added)
    }

    /// Splits a section and adds its passages. `first` has the limits of the first one, under the headings above the section.
    fn split_section(&self, section: &Section, first: &PassageBudget, passages: &mut Vec<TextPassage>) -> Result<(), TextError> {
        let content = trimmed(self.text, section.range.clone());
        let after = |passage: &TextPassage| {
            let next = passage.range.end + leading_white_space(&self.text[passage.range.end..]);
            (next < content.end).then(|| (passage.range.clone(), next))
        };
        let only = self.longest_passage_from(content.start, content.end, first)?;
        if after(&only).is_none() {
            passages.push(only);
            return Ok(());
        }
        let (mut found, further) = (vec![only], self.budget_under(&section.path)?);
        while let Some((last, next)) = found.last().and_then(after) {
            let overlap = self.overlap_start(&last, self.frame.limits.bounds.overlap_tokens);
            let repeating = overlap.map(|start| self.longest_passage_from(start, content.end, &further)).transpose()?;
            found.push(match repeating {
                Some(passage) if passage.range.end > next => passage,
                // There is nothing to repeat, or a long sentence does not fit together with it.
                _ => self.longest_passage_from(next, content.end, &further)?,
            });
        }
        self.lengthen_last(&mut found, first, &further)?;
        passages.extend(found);
        Ok(())
    }

    /// Returns the limits of a passage under these headings. Leaves out a heading that repeats the title.
    fn budget_under(&self, above: &[usize]) -> Result<PassageBudget, TextError> {
        let title = self.frame.title;
        let headings = above.iter().map(|&index| self.headings[index].text.as_str());
        let headings: Vec<&str> =
            headings.filter(|heading| title.is_none_or(|title| title.trim().to_lowercase() != heading.to_lowercase())).collect();
        let headings = (!headings.is_empty()).then(|| headings.join("\n"));
        let context = PassageContext { title: title.map(str::to_owned), headings };
        PassageBudget::for_context(self.tokenizer, context, self.frame.limits, self.frame.added)
    }

    /// Returns the longest passage that starts at `start` and ends by `end`. A part of a text may have more tokens than it had
    /// within the whole text (a split word gains a mark), so this counts its own tokens and shortens it until they fit.
    fn longest_passage_from(&self, start: usize, end: usize, budget: &PassageBudget) -> Result<TextPassage, TextError> {
        let mut tokens_max = budget.passage_tokens_max;
        loop {
            let range = trimmed(self.text, start..self.end_within(start, end, tokens_max));
            let passage = budget.make_passage(self.tokenizer, self.text, range)?;
            let count = passage.tokens.ids.len();
            if count <= budget.tokens_max || tokens_max == 0 {
                return Ok(passage);
            }
            tokens_max = self.tokens_in(&passage.range).min(tokens_max).saturating_sub(count - budget.tokens_max);
        }
    }

    /// Returns the best place to stop after `start` and up to `end`, with at most `budget` tokens of the whole text in between.
    /// The result is always at least one character after `start`.
    fn end_within(&self, start: usize, end: usize, budget: usize) -> usize {
        let limit = match self.token_starts.get(self.token_index(start) + budget) {
            Some(&limit) if limit < end => limit,
            _ => return end,
        };
        for (rank, starts) in self.starts.iter().enumerate() {
            let next = starts.partition_point(|&position| position <= limit);
            let Some(position) = next.checked_sub(1).map(|last| starts[last]).filter(|&position| position > start) else {
                continue;
            };
            if self.is_short(&(start..position)) {
                continue;
            }
            // Only a block that must be split anyway may begin in this passage. A block that fits into its own passage must
            // not.
            let block = position..starts.get(next).map_or(end, |&next| next.min(end));
            if rank + 1 == self.starts.len() || self.tokens_in(&block) <= budget {
                return position;
            }
        }
        end_within_sentence(self.text, start, self.leaving_enough(start, end, limit))
    }

    /// Returns where to stop in a sentence, at `limit` at the latest, so that the rest of it is not too short.
    fn leaving_enough(&self, start: usize, end: usize, limit: usize) -> usize {
        let [.., sentences] = &self.starts;
        let next = sentences.partition_point(|&position| position <= limit);
        let sentence_end = sentences.get(next).map_or(end, |&next| next.min(end));
        if self.tokens_in(&(limit..sentence_end)) >= self.tokens_min {
            return limit;
        }
        let earlier = self.token_starts.get(self.token_index(sentence_end).saturating_sub(self.tokens_min));
        let earlier = earlier.copied().filter(|&position| position < limit && position > start);
        earlier.filter(|&position| self.tokens_in(&(start..position)) >= self.tokens_min).unwrap_or(limit)
    }

    /// If the last passage of a section is too short, joins it to the one before, or makes it start earlier if the two do not
    /// fit into one.
    fn lengthen_last(
        &self,
        found: &mut Vec<TextPassage>,
        first: &PassageBudget,
        further: &PassageBudget,
    ) -> Result<(), TextError> {
        let [.., before, last] = &found[..] else { return Ok(()) };
        let (before, last) = (before.range.clone(), last.range.clone());
        if !self.is_short(&last) {
            return Ok(());
        }
        let budget = if found.len() == 2 { first } else { further };
        if let Some(both) = budget.make_fitting_passage(self.tokenizer, self.text, before.start..last.end)? {
            found.truncate(found.len() - 2);
            found.push(both);
            return Ok(());
        }
        let counted = if self.has_letters(&last) { last.end } else { last.start };
        let Some(&latest) = self.token_starts.get(self.token_index(counted).saturating_sub(self.tokens_min)) else {
            return Ok(());
        };
        // What remains of the previous passage must still end after the passage before that.
        let earliest = found.len().checked_sub(3).map_or(before.start, |index| found[index].range.end.max(before.start));
        let known = self.starts.iter().filter_map(|starts| {
            let next = starts.partition_point(|&split| split <= latest);
            next.checked_sub(1).map(|last| starts[last])
        });
        let within = (latest > before.start).then(|| end_within_sentence(self.text, before.start, latest));
        for split in known.chain(within).filter(|&split| split > earliest && split < last.start) {
            let (head, tail) = (trimmed(self.text, before.start..split), trimmed(self.text, split..last.end));
            if self.is_short(&head) || head.end <= earliest {
                continue;
            }
            let head = budget.make_fitting_passage(self.tokenizer, self.text, head)?;
            let tail = further.make_fitting_passage(self.tokenizer, self.text, tail)?;
            if let (Some(head), Some(tail)) = (head, tail) {
                found.truncate(found.len() - 2);
                found.extend([head, tail]);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns where the part of `passage` begins that the next one repeats: at the first sentence, otherwise at the first
    /// word, from which at most `overlap` tokens remain. Returns `None` if there is no such place.
    fn overlap_start(&self, passage: &Range<usize>, overlap: usize) -> Option<usize> {
        let first = self.token_index(passage.end).saturating_sub(overlap);
        let from = (*self.token_starts.get(first)?).max(passage.start + 1);
        let [.., sentences] = &self.starts;
        let sentence = sentences.partition_point(|&sentence| sentence < from);
        let sentence = sentences.get(sentence).copied().filter(|&sentence| sentence < passage.end);
        sentence.or_else(|| word_start(self.text, from, passage.end))
    }

    fn has_letters(&self, range: &Range<usize>) -> bool {
        let begins_within_a_word = self.text[range.clone()].starts_with(char::is_alphabetic);
        let next = self.words.get(self.words.partition_point(|&word| word < range.start));
        begins_within_a_word || next.is_some_and(|&word| word < range.end)
    }

    fn tokens_in(&self, range: &Range<usize>) -> usize {
        self.token_index(range.end) - self.token_index(range.start)
    }

    /// Returns the number of tokens of the whole text that start before `offset`.
    fn token_index(&self, offset: usize) -> usize {
        self.token_starts.partition_point(|&token| token < offset)
    }
}

/// Returns where each word starts: the first of neighboring letters.
fn word_starts(text: &str) -> Vec<usize> {
    let mut after_letter = false;
    let mut begins = |c: char| {
        let was = std::mem::replace(&mut after_letter, c.is_alphabetic());
        after_letter && !was
    };
    text.char_indices()
        .map(|(position, c)| (position, begins(c)))
        .filter_map(|(position, begins)| begins.then_some(position))
        .collect()
}

/// Splits a sentence that is too long on its own: after white space in the second half of what fits, otherwise before a word,
/// otherwise between visible characters, otherwise between code points.
fn end_within_sentence(text: &str, start: usize, limit: usize) -> usize {
    let first = text[start..].chars().next().map_or(0, char::len_utf8);
    let limit = text.floor_char_boundary(limit);
    if limit <= start + first {
        return start + first;
    }
    if text[limit..].starts_with(char::is_whitespace) {
        return limit;
    }
    let space = limit - start;
    // Looks a little further to see whether a word continues. Looking at everything that follows would take quadratic time.
    let seen = &text[start..text.floor_char_boundary(limit + LOOKAHEAD_BYTES)];
    let spaced = seen[..space].char_indices().rfind(|(_, c)| c.is_whitespace()).map(|(position, c)| position + c.len_utf8());
    let word = || {
        let words = seen.split_word_bound_indices().take_while(|(position, _)| *position <= space);
        words
            .filter(|(position, word)| *position > 0 && word.starts_with(char::is_alphanumeric))
            .last()
            .map(|(position, _)| position)
    };
    let character = || {
        seen.grapheme_indices(true)
            .map(|(position, _)| position)
            .take_while(|position| *position <= space)
            .last()
            .filter(|position| *position > 0)
    };
    start + spaced.filter(|position| *position > space / 2).or_else(word).or(spaced).or_else(character).unwrap_or(space)
}

/// Returns the start of the first word at or after `from`, before `end`. In a script without spaces, every character may start
/// a word.
fn word_start(text: &str, from: usize, end: usize) -> Option<usize> {
    let from = (from..=end).find(|&position| text.is_char_boundary(position))?;
    let before = text[..from].chars().next_back();
    let inside = before.is_some_and(|c| !c.is_whitespace());
    let spaced =
        text.get(from..end)?.char_indices().find(|(_, c)| inside && c.is_whitespace()).map_or(0, |(position, _)| position);
    let start = from + spaced;
    let start = start + leading_white_space(&text[start..]);
    (start < end).then_some(start)
}

fn leading_white_space(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

/// Returns `range` without the white space at its ends.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + leading_white_space(part);
    start..start + part.trim().len()
}

#[cfg(test)]
mod tests;
