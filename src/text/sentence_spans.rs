//! Finds the sentences of a text. Sentences do not cross blocks or items, and headings are separate sentences.

use std::ops::Range;

use super::segment::trimmed;
use super::sentences::sentence_starts;
use super::structure::structure;

/// Returns the sentences of a text as ranges of bytes, without the white space around them. Parts without letters and digits,
/// such as a line of dashes, are left out.
pub fn sentence_spans(text: &str) -> Vec<Range<usize>> {
    let structure = structure(text);
    let mut starts = sentence_starts(text);
    // A heading is always a separate sentence, so sentence ends within it do not count.
    starts.retain(|start| {
        let before = structure.headings.partition_point(|heading| heading.range.start < *start);
        before.checked_sub(1).is_none_or(|index| structure.headings[index].range.end <= *start)
    });
    starts.extend(structure.blocks.into_iter().chain(structure.items));
    starts.extend(structure.headings.into_iter().flat_map(|heading| [heading.range.start, heading.range.end]));
    starts.extend([0, text.len()]);
    starts.sort_unstable();
    starts.dedup();
    let spans = starts.windows(2).map(|pair| trimmed(text, pair[0]..pair[1]));
    spans.filter(|range| text[range.clone()].chars().any(char::is_alphanumeric)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        assert_eq!(sentence_spans(text).into_iter().map(|range| &text[range]).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn text_is_split_at_sentence_ends() {
        check("  The ferry leaves at six. Bring a coat!  ", &["The ferry leaves at six.", "Bring a coat!"]);
        check("渡船六点开。请带外套！", &["渡船六点开。", "请带外套！"]);
    }

    #[test]
    fn headings_list_items_and_blocks_are_separate_sentences() {
        check(
            "# The ferry. Times\nIt leaves\nat six.\n\n* Mondays\n* Fridays\n",
            &["# The ferry. Times", "It leaves\nat six.", "* Mondays", "* Fridays"],
        );
    }

    #[test]
    fn each_of_many_headings_is_one_sentence() {
        // So many that work in proportion to the square of their number would take minutes.
        let text = "# A ferry. At six.\n".repeat(150_000);
        assert_eq!(sentence_spans(&text).len(), 150_000);
    }

    #[test]
    fn parts_without_letters_or_digits_are_not_sentences() {
        check("Six.\n\n---\n\n…", &["Six."]);
        check(" \n", &[]);
        check("", &[]);
    }
}
