//! Builds the text to embed for a passage: its title and headings, as far as they fit, followed by the passage.

use std::borrow::Cow;

use super::{TextError, Tokenize};
use crate::domain::PassageContext;

/// The context may use up to one in this many of the model's tokens.
pub(super) const CONTEXT_SHARE: usize = 4;

/// Returns the text to embed for a passage with a model that reads `tokens_max` tokens.
pub fn embedded_text<'p>(
    tokenizer: &dyn Tokenize,
    context: &PassageContext,
    passage: &'p str,
    tokens_max: usize,
) -> Result<Cow<'p, str>, TextError> {
    if context.is_empty() {
        return Ok(Cow::Borrowed(passage));
    }
    Ok(shorten_context(tokenizer, context, tokens_max)?.0.prepend_to(passage))
}

/// Returns as much of a context as fits for a model that reads `tokens_max` tokens, and its number of tokens. If the context is
/// too long, the outermost headings are dropped first. The title keeps at least half of the room.
pub(super) fn shorten_context(
    tokenizer: &dyn Tokenize,
    context: &PassageContext,
    tokens_max: usize,
) -> Result<(PassageContext, usize), TextError> {
    let budget = tokens_max / CONTEXT_SHARE;
    let count = |text: &str| Ok::<_, TextError>(tokenizer.offsets(text)?.len());
    let tokens = count(&context.prepend_to(""))?;
    if tokens <= budget {
        return Ok((context.clone(), tokens));
    }
    let headings: Vec<&str> = context.headings.iter().flat_map(|headings| headings.lines()).collect();
    let innermost = headings.last().map_or(Ok(0), |heading| count(heading))?;
    let of_title = (budget - budget / 2).max(budget.saturating_sub(innermost));
    let title = context.title.as_deref().map(|title| beginning(tokenizer, title, of_title)).transpose()?.flatten();
    let mut left = budget - title.map_or(Ok(0), count)?.min(budget);
    let mut fitting: Vec<&str> = Vec::new();
    for heading in headings.into_iter().rev() {
        let needed = count(heading)?;
        if needed > left {
            if fitting.is_empty() {
                fitting.extend(beginning(tokenizer, heading, left)?);
            }
            break;
        }
        left -= needed;
        fitting.push(heading);
    }
    fitting.reverse();
    let headings = (!fitting.is_empty()).then(|| fitting.join("\n"));
    let shortened = PassageContext { title: title.map(str::to_owned), headings };
    let tokens = if shortened.is_empty() { 0 } else { count(&shortened.prepend_to(""))? };
    Ok((shortened, tokens))
}

/// Returns the first words of a text, with at most this many tokens, or `None` if not even one word fits.
fn beginning<'t>(tokenizer: &dyn Tokenize, text: &'t str, tokens_max: usize) -> Result<Option<&'t str>, TextError> {
    let offsets = tokenizer.offsets(text)?;
    let Some(next) = offsets.get(tokens_max) else { return Ok(Some(text)) };
    let end = text.floor_char_boundary(next.start);
    let cut = &text[..end];
    // A word is not split, unless it is the only one.
    let inside = !text[end..].starts_with(char::is_whitespace) && !cut.ends_with(char::is_whitespace);
    let words = cut.rfind(char::is_whitespace).filter(|_| inside).map_or(cut, |space| &cut[..space]);
    Ok(Some(words.trim_end()).filter(|words| !words.is_empty()))
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::Range;

    use super::super::Tokens;
    use super::*;

    /// A token is a word of ASCII characters, or any other character.
    pub(in crate::text) struct Words;

    impl Tokenize for Words {
        fn encode(&self, text: &str, tokens_max: usize) -> Result<Tokens, TextError> {
            let count = self.pieces(text)?.len();
            Ok(Tokens { ids: vec![1; count.min(tokens_max)], truncated: count > tokens_max })
        }

        fn pieces(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TextError> {
            let mut found: Vec<Range<usize>> = Vec::new();
            for (start, c) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
                let end = start + c.len_utf8();
                match found.last_mut() {
                    Some(last) if last.end == start && c.is_ascii() => last.end = end,
                    _ => found.push(start..end),
                }
            }
            Ok(found.into_iter().map(|range| (1, range)).collect())
        }
    }

    #[track_caller]
    fn check(title: &str, headings: &str, tokens_max: usize, expect: &str) {
        let part = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let context = PassageContext { title: part(title), headings: part(headings) };
        assert_eq!(embedded_text(&Words, &context, "passage", tokens_max).unwrap(), expect);
        let (shortened, tokens) = shorten_context(&Words, &context, tokens_max).unwrap();
        assert!(
            tokens <= tokens_max / CONTEXT_SHARE && tokens == Words.offsets(&shortened.prepend_to("")).unwrap().len(),
            "{shortened:?}"
        );
    }

    #[test]
    fn a_short_context_is_kept_whole() {
        check("", "", 8, "passage");
        check("a title", "", 8, "a title\npassage");
        check("a title", "one\ntwo", 16, "a title\none\ntwo\npassage");
    }

    #[test]
    fn a_long_context_keeps_the_title_and_the_innermost_heading() {
        check("a title", "outer one\ninner", 16, "a title\ninner\npassage");
        check("one two three four five six", "inner", 16, "one two three\ninner\npassage");
        check("one two three four five six", "a long inner heading", 16, "one two\na long\npassage");
        check("", "outer\na long inner heading of words", 16, "a long inner heading\npassage");
        check("one two three four five six", "", 16, "one two three four\npassage");
        check("气象台发布暴雨警报", "", 16, "气象台发\npassage");
        check("title", "", 3, "passage");
    }
}
