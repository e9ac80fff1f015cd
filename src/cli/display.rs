//! Formats untrusted text for a terminal: on one line, without control characters, truncated and wrapped by display width.
//!
//! Text stays in logical order, because terminals reorder right-to-left text themselves. Such text is wrapped in U+2068 and
//! U+2069 (isolates), so that it does not reorder neighboring columns.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

const ELLIPSIS: &str = "…";
const FIRST_STRONG_ISOLATE: char = '\u{2068}';
const POP_DIRECTIONAL_ISOLATE: char = '\u{2069}';

/// Puts a text on one line: collapses white space to single spaces, and removes control characters and bidirectional controls.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_whitespace() {
            if !line.is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
        } else if !character.is_control() && !is_direction_control(character) {
            line.push(character);
        }
    }
    line.truncate(line.trim_end().len());
    line
}

pub fn width(text: &str) -> usize {
    text.graphemes(true).map(|grapheme| grapheme.width()).sum()
}

/// Truncates a text to `columns`, with an ellipsis at the end.
pub fn truncate(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        used += grapheme.width();
        if used + ELLIPSIS.width() > columns {
            break;
        }
        shown.push_str(grapheme);
    }
    shown.truncate(shown.trim_end().len());
    shown.push_str(ELLIPSIS);
    shown
}

/// Wraps a line of text to at most `lines_max` lines of at most `columns`, with an ellipsis if the text is longer.
///
/// Lines break at spaces. Text without spaces, as in Chinese, Japanese and Thai, and words longer than a line break between any
/// two grapheme clusters.
pub fn wrap(text: &str, columns: usize, lines_max: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if lines.len() > lines_max {
            break;
        }
        let needed = width(word);
        let space = usize::from(used > 0);
        if used + space + needed <= columns {
            append(&mut lines, word, space);
            used += space + needed;
        } else if needed <= columns && !word.chars().any(is_written_without_spaces) {
            lines.push(word.to_owned());
            used = needed;
        } else {
            // Avoid a line with only a trailing space.
            let mut space = if used + 2 < columns { space } else { 0 };
            for grapheme in word.graphemes(true) {
                let needed = grapheme.width();
                if used + space + needed > columns {
                    lines.push(String::new());
                    (used, space) = (0, 0);
                }
                append(&mut lines, grapheme, space);
                used += space + needed;
                space = 0;
            }
        }
    }
    if lines.len() > lines_max {
        lines.truncate(lines_max);
        if let Some(last) = lines.last_mut() {
            *last = truncate(&format!("{last}{ELLIPSIS}"), columns);
        }
    }
    lines
}

fn append(lines: &mut [String], text: &str, spaces: usize) {
    if let Some(line) = lines.last_mut() {
        line.extend(std::iter::repeat_n(' ', spaces));
        line.push_str(text);
    }
}

/// Wraps a text in isolates if it contains right-to-left characters.
pub fn isolate(text: &str) -> String {
    if text.chars().any(is_right_to_left) {
        format!("{FIRST_STRONG_ISOLATE}{text}{POP_DIRECTIONAL_ISOLATE}")
    } else {
        text.to_owned()
    }
}

/// Whether a character is a bidirectional embedding, override or isolate, which can reorder the text around it.
fn is_direction_control(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is Thai, Lao, Tibetan, Burmese or Khmer, or between the CJK radicals and the end of the wide characters,
/// except Korean.
fn is_written_without_spaces(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{a4cf}' | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
}

/// Whether a character is in a block of Hebrew, Arabic, Syriac, Thaana, N'Ko or another right-to-left script.
fn is_right_to_left(character: char) -> bool {
    matches!(character, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_line_removes_line_breaks_and_control_characters() {
        for (text, expect) in [
            ("  two\n\twords  ", "two words"),
            ("\u{1b}[31mred\u{7}", "[31mred"),
            ("a\u{202e}b\u{2067}c", "abc"),
            ("שלום\u{200f}!", "שלום\u{200f}!"),
            ("日本\u{3000}語", "日本 語"),
            ("\r\n", ""),
        ] {
            assert_eq!(one_line(text), expect, "{text:?}");
        }
    }

    #[test]
    fn truncation_counts_display_columns() {
        for (text, columns, expect) in [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("東京都庁", 8, "東京都庁"),
            ("東京都庁", 7, "東京都…"),
            ("東京都庁", 6, "東京…"),
            ("two words", 5, "two…"),
            // A letter and its combining accent take one column and stay together.
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
        ] {
            assert_eq!(truncate(text, columns), expect, "{text:?} in {columns}");
        }
    }

    fn check(text: &str, columns: usize, lines_max: usize, expect: &[&str]) {
        assert_eq!(wrap(text, columns, lines_max), expect, "{text:?} in {columns}");
    }

    #[test]
    fn lines_break_at_spaces() {
        check("the old bridge was opened again", 14, 3, &["the old bridge", "was opened", "again"]);
        check("the old bridge was opened again", 14, 2, &["the old bridge", "was opened…"]);
        check("", 10, 3, &[""]);
        check("המוזיאון מציג ציור שהיה אבוד", 13, 2, &["המוזיאון מציג", "ציור שהיה…"]);
    }

    #[test]
    fn text_without_spaces_breaks_between_characters() {
        check("新しい高速列車は二つの都市を", 10, 3, &["新しい高速", "列車は二つ", "の都市を"]);
        check("The 新しい高速列車", 10, 3, &["The 新しい", "高速列車"]);
        check("과학자들이 바다에서", 12, 3, &["과학자들이", "바다에서"]);
        check("abcdefghij", 4, 2, &["abcd", "efg…"]);
    }

    #[test]
    fn only_right_to_left_texts_are_isolated() {
        assert_eq!(isolate("plain"), "plain");
        assert_eq!(isolate("خبز"), "\u{2068}خبز\u{2069}");
        assert_eq!(width(&isolate("خبز")), width("خبز"));
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit_the_width_and_lose_no_text(text in "[a-z 日本語ก-ฮא-ת]{0,80}", columns in 2usize..40) {
            let text = one_line(&text);
            let lines = wrap(&text, columns, usize::MAX);
            for line in &lines {
                prop_assert!(width(line) <= columns, "{line:?} in {columns}");
            }
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
        }
    }
}
