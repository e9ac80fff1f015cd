//! Splits a text into sections: the parts between two headings, with the headings above them.
//!
//! A passage never crosses the end of a section. A section that is too short to mean anything on its own joins its neighbor.

use std::ops::Range;

use super::structure::Heading;

/// A part of a text whose ends passages do not cross.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    /// Its bytes, including its own heading.
    pub(super) range: Range<usize>,
    /// The headings above it, by their index among all headings, outermost first.
    pub(super) above: Vec<usize>,
    /// The headings above its content, which include its own.
    pub(super) path: Vec<usize>,
    /// Where its content begins, after its heading.
    body: usize,
}

/// Returns the sections of the part `content` of a text. There is always at least one. The text before the first heading is a
/// section, too.
pub(super) fn sections(text: &str, content: &Range<usize>, headings: &[Heading]) -> Vec<Section> {
    let mut found = Vec::with_capacity(headings.len() + 1);
    let first = headings.first().map_or(content.end, |heading| heading.range.start);
    if !text[content.start..first.max(content.start)].trim().is_empty() || headings.is_empty() {
        found.push(Section { range: content.start..first, above: Vec::new(), path: Vec::new(), body: content.start });
    }
    let mut above: Vec<usize> = Vec::new();
    for (index, heading) in headings.iter().enumerate() {
        while above.last().is_some_and(|&outer| headings[outer].level >= heading.level) {
            above.pop();
        }
        let end = headings.get(index + 1).map_or(content.end, |next| next.range.start);
        let mut path = above.clone();
        path.push(index);
        let range = heading.range.start.max(content.start)..end;
        found.push(Section { range, above: std::mem::replace(&mut above, path.clone()), path, body: heading.range.end });
    }
    found
}

/// Merges sections that are too short to be useful with a neighbor. A heading without a text joins what follows it, and so does
/// a short section at the beginning. A short section elsewhere joins the one before it, if the two fit into one passage.
pub(super) fn merge_short_sections(
    text: &str,
    sections: Vec<Section>,
    is_short: impl Fn(&Range<usize>) -> bool,
    fits: impl Fn(&Range<usize>) -> bool,
) -> Vec<Section> {
    let mut merged: Vec<Section> = Vec::with_capacity(sections.len());
    let mut waiting: Option<Section> = None;
    for section in sections {
        let section = match waiting.take() {
            Some(before) => before.merged_with(section),
            None => section,
        };
        let bare = text[section.body.min(section.range.end)..section.range.end].trim().is_empty();
        if !bare && !is_short(&section.range) {
            merged.push(section);
            continue;
        }
        match merged.last_mut() {
            Some(last) if !bare && fits(&(last.range.start..section.range.end)) => last.range.end = section.range.end,
            _ => waiting = Some(section),
        }
    }
    match (waiting, merged.last_mut()) {
        (Some(rest), Some(last)) => last.range.end = rest.range.end,
        (Some(rest), None) => merged.push(rest),
        (None, _) => (),
    }
    merged
}

impl Section {
    /// Joins both into one section, under the headings that they share.
    fn merged_with(self, next: Self) -> Self {
        let shared = self.above.iter().zip(&next.above).take_while(|(a, b)| a == b).count();
        Self { range: self.range.start..next.range.end, above: self.above[..shared].to_vec(), path: next.path, body: next.body }
    }
}

#[cfg(test)]
mod tests {
    use super::super::structure::structure;
    use super::*;

    /// Checks the sections of a text with the headings above each. Sections of fewer than `short` characters are joined if the
    /// result has at most `long`.
    fn check(text: &str, short: usize, long: usize, expect: &[(&str, &[&str])]) {
        let headings = structure(text).headings;
        let chars = |range: &Range<usize>| text[range.clone()].trim().chars().count();
        let found = sections(text, &(0..text.len()), &headings);
        let found = merge_short_sections(text, found, |range| chars(range) < short, |range| chars(range) <= long);
        let above = |section: &Section| section.above.iter().map(|&index| headings[index].text.clone()).collect::<Vec<_>>();
        let found: Vec<_> = found.iter().map(|section| (text[section.range.clone()].trim().to_owned(), above(section))).collect();
        let expect: Vec<_> = expect
            .iter()
            .map(|(part, above)| ((*part).to_owned(), above.iter().map(|&heading| heading.to_owned()).collect::<Vec<_>>()))
            .collect();
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn each_heading_starts_a_section_below_its_parent_headings() {
        check("no heading", 0, 0, &[("no heading", &[])]);
        check(
            "before\n# A\none\n## B\ntwo\n### C\nthree\n## D\nfour\n# E\nfive",
            0,
            0,
            &[
                ("before", &[]),
                ("# A\none", &[]),
                ("## B\ntwo", &["A"]),
                ("### C\nthree", &["A", "B"]),
                ("## D\nfour", &["A"]),
                ("# E\nfive", &[]),
            ],
        );
        check("### A\none\n# B\ntwo\n## C\nthree", 0, 0, &[("### A\none", &[]), ("# B\ntwo", &[]), ("## C\nthree", &["B"])]);
    }

    #[test]
    fn a_heading_without_text_joins_the_adjacent_section() {
        check("# A\n## B\none\n## C\ntwo", 0, 0, &[("# A\n## B\none", &[]), ("## C\ntwo", &["A"])]);
        check("# A\none\n# B", 0, 0, &[("# A\none\n# B", &[])]);
        check("# A", 0, 0, &[("# A", &[])]);
    }

    #[test]
    fn a_short_section_joins_its_neighbor() {
        check("👍\n# A\na longer text", 9, 99, &[("👍\n# A\na longer text", &[])]);
        check("# A\na longer text\n# B\nx", 9, 99, &[("# A\na longer text\n# B\nx", &[])]);
        check(
            "# A\na longer text\n# B\nx\n# C\nanother text",
            9,
            20,
            &[("# A\na longer text", &[]), ("# B\nx\n# C\nanother text", &[])],
        );
        check("# A\nx\n# B\ny\n# C\nz", 9, 99, &[("# A\nx\n# B\ny\n# C\nz", &[])]);
    }
}
