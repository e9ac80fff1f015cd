//! Finds the structure of a text line by line: headings, paragraphs, lists, tables and code, in Markdown or without any markup.
//!
//! It only finds where parts begin. Anything unknown is a paragraph, so a text without this structure loses nothing. At worst,
//! passages end in different places.

use std::ops::Range;

use crate::domain::passages::{HEADING_CHARS_MAX, HEADINGS_MAX};

/// Maximum number of characters and words of an unmarked heading.
const PLAIN_CHARS_MAX: usize = 60;
const PLAIN_WORDS_MAX: usize = 8;
/// Minimum number of characters of a line that counts as prose even without the end of a sentence, because it is too long for a
/// heading or a caption.
const PROSE_CHARS_MIN: usize = 60;
/// Minimum number of characters of a line that underlines a heading. Fewer are often a typo or a list marker.
const UNDERLINE_CHARS_MIN: usize = 3;
/// Minimum white space before a line that makes the line part of the list item above it.
const ITEM_INDENT_MIN: usize = 2;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Structure {
    /// The headings, in order.
    pub(super) headings: Vec<Heading>,
    /// Where a paragraph, list, table or code block begins after another block, ascending. The text after a heading does not
    /// begin a new block, because the two belong together.
    pub(super) blocks: Vec<usize>,
    /// Where a list item, table row or line of code begins after another one, ascending.
    pub(super) items: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heading {
    /// The bytes of its lines.
    pub(super) range: Range<usize>,
    /// 1 for the outermost.
    pub(super) level: u8,
    /// Its text without markup.
    pub(super) text: String,
}

pub(super) fn structure(text: &str) -> Structure {
    let mut scan = Scan { text, found: Structure::default(), blocks: Vec::new(), fence: None, blank: false, leads: true };
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        scan.line(start, line.trim_end());
        start += line.len();
    }
    let Scan { mut found, blocks, .. } = scan;
    // Unmarked headings are only looked for if no heading is marked.
    if found.headings.is_empty() {
        found.headings = plain_headings(text, &blocks);
        let (headings, contents) = (&found.headings, content_starts(text, &found.headings));
        let before = |start| headings.partition_point(|heading| heading.range.end <= start).checked_sub(1);
        found.blocks.retain(|&start| before(start).is_none_or(|heading| start > contents[heading]));
    }
    found
}

/// Returns where the text after each heading begins.
pub(super) fn content_starts(text: &str, headings: &[Heading]) -> Vec<usize> {
    let start = |heading: &Heading| text.len() - text[heading.range.end..].trim_start().len();
    headings.iter().map(start).collect()
}

/// The kind of a line's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Paragraph,
    List,
    Table,
    Code,
    Rule,
}

/// Lines that belong together.
#[derive(Debug)]
struct Block {
    kind: Kind,
    range: Range<usize>,
    lines: usize,
    /// Whether a blank line or nothing comes before it.
    apart: bool,
}

struct Scan<'a> {
    text: &'a str,
    found: Structure,
    blocks: Vec<Block>,
    /// The fence that ends the current code block: this character, repeated at least this many times.
    fence: Option<(char, usize)>,
    /// Whether the previous line is blank.
    blank: bool,
    /// Whether the next block belongs to the heading or rule before it, or is the first block.
    leads: bool,
}

impl Scan<'_> {
    fn line(&mut self, start: usize, line: &str) {
        let end = start + line.len();
        if let Some((mark, length)) = self.fence {
            let closes = fence(line).is_some_and(|(other, count, bare)| other == mark && count >= length && bare);
            self.fence = self.fence.filter(|_| !closes);
            if !line.is_empty() {
                // The fences stay together with the first and the last line of code.
                let first = self.blocks.last().is_some_and(|block| block.lines == 1);
                self.continue_block(end, Some(start).filter(|_| !closes && !first));
            }
            return;
        }
        if line.is_empty() {
            self.blank = true;
            return;
        }
        if let Some((level, words)) = marked_heading(line) {
            return self.heading(start..end, level, words);
        }
        if let Some(level) = underline(line)
            && let Some(above) = self.underlined()
        {
            let words = self.text[above.clone()].trim().to_owned();
            self.blocks.pop();
            self.found.blocks.pop_if(|start| *start == above.start);
            return self.heading(above.start..end, level, &words);
        }
        if is_rule(line) {
            self.begin_block(Kind::Rule, start..end, false);
            self.leads = true;
        } else if let Some((mark, length, _)) = fence(line) {
            self.fence = Some((mark, length));
            self.begin_block(Kind::Code, start..end, !self.blank);
        } else if is_item(line) {
            match self.kind() {
                Some(Kind::List) => self.continue_block(end, Some(start)),
                _ => self.begin_block(Kind::List, start..end, !self.blank),
            }
        } else if line.trim_start().starts_with('|') {
            match self.kind() {
                Some(Kind::Table) if !self.blank => self.continue_block(end, Some(start).filter(|_| !is_table_separator(line))),
                _ => self.begin_block(Kind::Table, start..end, false),
            }
        } else {
            self.handle_plain_line(start..end, line);
        }
    }

    /// Handles a line without markup.
    fn handle_plain_line(&mut self, range: Range<usize>, line: &str) {
        let indented = line.len() - line.trim_start().len() >= ITEM_INDENT_MIN || line.starts_with('\t');
        match self.kind() {
            Some(Kind::Paragraph | Kind::List) if !self.blank => self.continue_block(range.end, None),
            Some(Kind::List) if indented => self.continue_block(range.end, Some(range.start)),
            _ => self.begin_block(Kind::Paragraph, range, false),
        }
    }

    /// Returns the kind of the previous line's block, or `None` after a heading or rule.
    fn kind(&self) -> Option<Kind> {
        self.blocks.last().map(|block| block.kind).filter(|_| !self.leads)
    }

    fn heading(&mut self, range: Range<usize>, level: u8, words: &str) {
        self.found.headings.push(Heading { range, level, text: words.to_owned() });
        (self.leads, self.blank) = (true, false);
    }

    /// Begins a block. `close` is true if it is hardly separate from the previous one, such as a list below the line that
    /// announces it.
    fn begin_block(&mut self, kind: Kind, range: Range<usize>, close: bool) {
        if !self.leads {
            if close { &mut self.found.items } else { &mut self.found.blocks }.push(range.start);
        }
        let apart = self.blank || self.blocks.is_empty();
        self.blocks.push(Block { kind, range, lines: 1, apart });
        (self.leads, self.blank) = (false, false);
    }

    /// Continues the current block with a line up to `end`. `item` is where the line begins an item, if it does.
    fn continue_block(&mut self, end: usize, item: Option<usize>) {
        self.found.items.extend(item);
        if let Some(block) = self.blocks.last_mut() {
            (block.range.end, block.lines) = (end, block.lines + 1);
        }
        self.blank = false;
    }

    /// Returns the previous line, if it is a single-line paragraph that an underline can turn into a heading.
    fn underlined(&self) -> Option<Range<usize>> {
        let above = self.blocks.last().filter(|block| block.kind == Kind::Paragraph && block.lines == 1);
        let above = above.filter(|_| !self.blank && !self.leads)?;
        let chars = self.text[above.range.clone()].trim().chars().count();
        (chars <= HEADING_CHARS_MAX).then(|| above.range.clone())
    }
}

/// Returns the level and the words of a Markdown heading.
fn marked_heading(line: &str) -> Option<(u8, &str)> {
    let line = unindented(line)?;
    let words = line.trim_start_matches('#');
    let level = u8::try_from(line.len() - words.len()).ok().filter(|level| (1..=HEADINGS_MAX).contains(&usize::from(*level)))?;
    let words = words.strip_prefix([' ', '\t'])?.trim();
    // Marks at the end are only removed if they are separate from the words, so that C# stays intact.
    let closed = words.trim_end_matches('#');
    let words = if closed.ends_with([' ', '\t']) { closed.trim_end() } else { words };
    (!words.trim_matches('#').is_empty() && words.chars().count() <= HEADING_CHARS_MAX).then_some((level, words))
}

/// Returns the level of the heading that this line would underline.
fn underline(line: &str) -> Option<u8> {
    let line = unindented(line)?;
    let only = |mark: char| line.len() >= UNDERLINE_CHARS_MIN && line.chars().all(|c| c == mark);
    if only('=') { Some(1) } else { only('-').then_some(2) }
}

/// Returns a line without up to three leading spaces, or `None` if there are more, because that makes it code.
fn unindented(line: &str) -> Option<&str> {
    let bare = line.trim_start_matches(' ');
    (line.len() - bare.len() <= 3).then_some(bare)
}

fn is_rule(line: &str) -> bool {
    let marks: Vec<char> = line.chars().filter(|c| !c.is_whitespace()).collect();
    marks.len() >= 3 && matches!(marks[0], '-' | '*' | '_') && marks.iter().all(|mark| *mark == marks[0])
}

/// Whether this is the line between the header of a table and its rows.
fn is_table_separator(line: &str) -> bool {
    line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
}

/// Returns the character of a code fence, how often it is repeated, and whether nothing follows.
fn fence(line: &str) -> Option<(char, usize, bool)> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = line.trim_start_matches(mark);
    let count = line.len() - rest.len();
    // Inline code may begin with as many marks, but the name of a language does not contain any.
    (count >= 3 && !rest.contains('`')).then(|| (mark, count, rest.trim().is_empty()))
}

/// Whether this line begins a list item.
fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    if let Some(rest) = line.strip_prefix(['-', '*', '+', '•', '◦', '▪', '‣', '·', '–']) {
        return rest.starts_with(char::is_whitespace);
    }
    let digits = line.chars().take_while(|c| is_number(*c)).count();
    let rest = line.trim_start_matches(is_number);
    match rest.strip_prefix(['.', ')', '．', '）', '、']) {
        // Chinese and Japanese have no space after the number.
        Some(words) => {
            (1..=3).contains(&digits) && (words.starts_with(char::is_whitespace) || rest.starts_with(['）', '、', '．']))
        }
        None => false,
    }
}

/// Whether a character is a digit. `char::is_numeric` does not include Chinese numerals.
fn is_number(c: char) -> bool {
    c.is_numeric() || "一二三四五六七八九十".contains(c)
}

/// Finds unmarked headings: a short line between blank ones that does not end like a sentence, with prose or a list below it.
fn plain_headings(text: &str, blocks: &[Block]) -> Vec<Heading> {
    let found = blocks.windows(2).filter_map(|pair| {
        let [block, next] = pair else { return None };
        let line = text[block.range.clone()].trim().trim_matches(['*', '_']).trim();
        let heads = match next.kind {
            Kind::List => true,
            Kind::Paragraph => is_prose(text[next.range.clone()].trim(), next.lines),
            Kind::Table | Kind::Code | Kind::Rule => false,
        };
        let alone = block.kind == Kind::Paragraph && block.lines == 1 && block.apart && next.apart;
        (alone && heads && is_plain_heading(line)).then(|| Heading {
            range: block.range.clone(),
            level: 1,
            text: line.to_owned(),
        })
    });
    found.collect()
}

fn is_plain_heading(line: &str) -> bool {
    let begins = line.chars().next().is_some_and(|c| c.is_numeric() || (c.is_alphabetic() && !c.is_lowercase()));
    let short = line.chars().count() <= PLAIN_CHARS_MAX && line.split_whitespace().count() <= PLAIN_WORDS_MAX;
    let plain = !line.contains(['@', '=', '|', '<', '>', '{', '}']) && !line.contains("://");
    begins && short && plain && line.contains(char::is_alphabetic) && !line.ends_with(ends_a_clause)
}

fn is_prose(block: &str, lines: usize) -> bool {
    lines > 1 || block.ends_with(ends_a_sentence) || block.chars().count() >= PROSE_CHARS_MIN
}

fn ends_a_sentence(c: char) -> bool {
    ".!?…。！？\u{964}\u{965}\u{61f}\u{6d4}\u{589}\u{104b}\u{17d4}".contains(c)
}

fn ends_a_clause(c: char) -> bool {
    ends_a_sentence(c)
        || matches!(c, ',' | ';' | ':' | '-' | '–' | '—' | '/' | '\\' | '+' | '*' | '、' | '，' | '；' | '：' | '،' | '؛' | '၊')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the headings of a text, with their levels.
    #[track_caller]
    fn headings(text: &str, expect: &[(u8, &str)]) {
        let found = structure(text).headings;
        let found: Vec<_> = found.iter().map(|heading| (heading.level, heading.text.as_str())).collect();
        assert_eq!(found, expect, "{text:?}");
    }

    /// Checks the first lines of the blocks and of the items after the first.
    #[track_caller]
    fn parts(text: &str, blocks: &[&str], items: &[&str]) {
        let found = structure(text);
        let lines =
            |starts: &[usize]| starts.iter().map(|&start| text[start..].lines().next().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            (lines(&found.blocks), lines(&found.items)),
            (blocks.iter().map(|line| (*line).to_owned()).collect(), items.iter().map(|line| (*line).to_owned()).collect()),
            "{text:?}"
        );
    }

    #[test]
    fn number_signs_mark_headings_up_to_level_six() {
        headings("# One\ntext\n### Three ###\n###### Six", &[(1, "One"), (3, "Three"), (6, "Six")]);
        headings("   ## 天気 ##\n", &[(2, "天気")]);
        headings("## Learning C#\n", &[(2, "Learning C#")]);
        headings("####### seven\n#hashtag\n    # code\n#\n## ##\n", &[]);
        headings(&format!("# {}", "long ".repeat(50)), &[]);
    }

    #[test]
    fn an_underlined_line_is_a_heading() {
        headings("Öffnungszeiten\n=====\nTäglich.\n\nPreise\n---\nFrei.", &[(1, "Öffnungszeiten"), (2, "Preise")]);
        headings("Two lines\nof a paragraph\n---\nand more", &[]);
        headings("A paragraph.\n\n---\n\nAnother.", &[]);
        headings("- item\n---\n", &[]);
        headings("a\n--\n", &[]);
    }

    #[test]
    fn a_standalone_short_line_before_prose_is_a_heading() {
        headings(
            "Opening hours\n\nThe museum is open every day.\n\nTickets\n\n- adults\n- children",
            &[(1, "Opening hours"), (1, "Tickets")],
        );
        headings("**Arrivée**\n\nLe train arrive à midi.", &[(1, "Arrivée")]);
        headings("开放时间\n\n博物馆每天开放。", &[(1, "开放时间")]);
        headings("ساعات العمل\n\nالمتحف مفتوح كل يوم.", &[(1, "ساعات العمل")]);
        headings("เวลาทำการ\n\nพิพิธภัณฑ์เปิดทุกวันตั้งแต่เก้าโมงเช้าถึงห้าโมงเย็นยกเว้นวันจันทร์ที่เป็นวันหยุดราชการ", &[(1, "เวลาทำการ")]);
    }

    #[test]
    fn other_short_lines_are_not_headings() {
        headings("Dear Anna,\n\nI am coming tomorrow.", &[]);
        headings("It rains.\n\nWe stay at home.", &[]);
        headings("and then\n\nwe went home.", &[]);
        headings("Roses\n\nViolets\n\nTulips", &[]);
        headings("Opening hours\nThe museum is open every day.", &[]);
        headings("Write to us at\n\nmail@example.org", &[]);
        headings("This line has more words in it than any heading\n\nThe text goes on.", &[]);
        headings("# Marked\n\nOpening hours\n\nThe museum is open every day.", &[(1, "Marked")]);
    }

    #[test]
    fn blank_lines_end_paragraphs_but_not_lists() {
        parts("One.\nStill one.\n\nTwo.\n\n\nThree.", &["Two.", "Three."], &[]);
        parts("Buy:\n- bread\n- milk\n\n- salt\n\nThat is all.", &["That is all."], &["- bread", "- milk", "- salt"]);
        parts("1. One\n   goes on\n\n   and on\n2. Two", &[], &["   and on", "2. Two"]);
        parts("一、面包\n二、牛奶\n三、盐", &[], &["二、牛奶", "三、盐"]);
    }

    #[test]
    fn a_heading_and_its_first_paragraph_form_one_block() {
        parts("# A\n\nOne.\n\nTwo.\n\n# B\nThree.", &["Two."], &[]);
        parts(
            "Intro of this page.\n\nOpening hours\n\nThe museum is open.\n\nIt is free.",
            &["Opening hours", "It is free."],
            &[],
        );
    }

    #[test]
    fn code_and_tables_are_blocks_of_lines() {
        let code = "Run this:\n```sh\n# no heading\n\nmake run\n```\nIt works.";
        headings(code, &[]);
        parts(code, &["It works."], &["```sh", "make run"]);
        parts("~~~\n```\n~~~\nEnd.", &["End."], &[]);
        parts("Prices\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.", &["| a | b |", "End."], &["| 1 | 2 |"]);
        headings("```\n# never closed\n", &[]);
    }
}
