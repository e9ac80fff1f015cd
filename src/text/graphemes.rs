//! Splits a text into what readers see as characters.

use unicode_segmentation::{GraphemeIndices, UnicodeSegmentation as _};

use super::runs::is_common_letter;

/// Returns the graphemes of a text with their positions. Two neighbors of `is_single_character` are two graphemes, which is
/// faster to see than by the rules for all characters.
pub(super) fn visible_characters(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut position = 0;
    // The graphemes from a position on.
    let mut others: Option<(usize, GraphemeIndices<'_>)> = None;
    std::iter::from_fn(move || {
        let mut characters = text[position..].chars();
        let first = characters.next()?;
        let is_plain = is_single_character(first) && characters.next().is_none_or(is_single_character);
        let found = match is_plain {
            true => {
                others = None;
                (position, &text[position..position + first.len_utf8()])
            }
            false => {
                let (from, graphemes) = others.get_or_insert_with(|| (position, text[position..].grapheme_indices(true)));
                let (offset, grapheme) = graphemes.next()?;
                (*from + offset, grapheme)
            }
        };
        position = found.0 + found.1.len();
        Some(found)
    })
}

/// Whether a character is certainly visible by itself, before and after any other such character. Says so of most letters in
/// Latin, Greek, Cyrillic, Hebrew, Arabic, Chinese, Japanese and Korean texts, and of ASCII characters other than the beginning
/// of a line break.
fn is_single_character(c: char) -> bool {
    match c {
        '\r' => false,
        '\0'..='\u{7f}' => true,
        '\u{386}'..='\u{3ff}' | '\u{5d0}'..='\u{5ea}' | '\u{620}'..='\u{64a}' | '\u{671}'..='\u{6d3}' => true,
        '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fc}' | '\u{ac00}'..='\u{d7a3}' => true,
        _ => is_common_letter(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn single_characters_are_graphemes_of_their_own() {
        let single = ('\0'..=char::MAX).filter(|c| is_single_character(*c));
        for c in single.flat_map(|c| [[c, 'a'], ['a', c], [c, '가'], ['각', c], [c, 'ア'], ['س', c], [c, c]]) {
            assert_eq!(String::from_iter(c).graphemes(true).count(), 2, "{c:?}");
        }
    }

    proptest! {
        #[test]
        fn visible_characters_are_graphemes(text in "[a\r\n .é\u{301}\u{200d}\u{600}👍🇦न्क가각\u{1161}\u{11a8}жά京がハ\u{3099}سٌ\u{6dd}ש]{0,20}") {
            let expect: Vec<_> = text.grapheme_indices(true).collect();
            prop_assert_eq!(visible_characters(&text).collect::<Vec<_>>(), expect);
        }
    }
}
