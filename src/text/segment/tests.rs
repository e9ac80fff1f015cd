//! Tests of splitting: where passages end, and that nothing is lost.

use proptest::prelude::*;

use super::*;
use crate::text::Tokenizer;
use crate::text::context::embedded_text;
use crate::text::context::tests::Words;
use crate::text::tokenize::tests::tokenizer_of;

/// Makes a tokenizer that only knows the letters of a few scripts and some words.
fn tokenizer() -> Tokenizer {
    let mut pieces = vec![("<unk>".to_owned(), 0.0), ("▁".to_owned(), -3.0)];
    let letters = "abcdefghijklmnopqrstuvwxyzäöüéñ0123456789.,!?;:…αβγδεζηθικλμνξοπρστυφχψωά。，？！";
    pieces.extend(letters.chars().map(|c| (c.to_string(), -8.0)));
    let words = ["▁the", "▁sea", "▁is", "▁blue", "▁a", "an", "en", "ing", "▁το", "春", "天", "来了", "นี้", "บ้าน"];
    pieces.extend(words.iter().map(|word| ((*word).to_owned(), -4.0)));
    tokenizer_of(pieces)
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

#[test]
fn a_short_text_is_one_passage_without_surrounding_white_space() {
    check_passages("the sea is blue", 8, &["the sea is blue"]);
    check_passages("  the sea\n", 8, &["the sea"]);
    check_passages("", 8, &[""]);
    check_passages(" \n ", 8, &[" \n "]);
}

#[test]
fn passages_are_filled_with_whole_sentences() {
    let text = "The sea is blue. The sea is a sea. Is the sea blue?";
    check_passages(text, 16, &["The sea is blue. The sea is a sea.", "Is the sea blue?"]);
    check_passages(text, 8, &["The sea is blue.", "The sea is a sea.", "Is the sea blue?"]);
}

#[test]
fn a_long_sentence_is_split_between_words() {
    check_passages("the sea is the sea is the sea", 4, &["the sea is the", "sea is the sea"]);
}

#[test]
fn a_text_without_spaces_is_split_between_characters() {
    check_passages("春天春天春天", 3, &["春天", "春天", "春天"]);
    check_passages("zzzzzz", 3, &["zz", "zz", "zz"]);
}

#[test]
fn a_character_exceeding_the_token_limit_gets_its_own_passage() {
    check_passages("㍿a", 1, &["㍿", "a"]);
}

#[test]
fn overlap_repeats_the_last_sentences_of_the_previous_passage() {
    let text = "The sea is blue. Is it? The sea is a sea. Is the sea blue?";
    let check = |overlap, expect: &[&str]| assert_eq!(overlapping_parts(text, 16, overlap), expect, "{overlap}");
    check(0, &["The sea is blue. Is it?", "The sea is a sea. Is the sea blue?"]);
    check(8, &["The sea is blue. Is it?", "Is it? The sea is a sea.", "The sea is a sea. Is the sea blue?"]);
}

#[test]
fn overlap_repeats_words_when_no_sentence_is_short_enough() {
    let text = "the sea is the sea is the sea";
    assert_eq!(overlapping_parts(text, 4, 2), ["the sea is the", "is the sea is", "sea is the sea"]);
    assert_eq!(overlapping_parts("春天春天春天", 3, 1), ["春天", "天春", "春天", "天春", "春天"]);
}

/// Returns `count` words of one token each. The first has a capital letter, so that it can begin a sentence.
fn words(count: usize) -> String {
    let words = ["The", "sea", "is", "a", "blue", "sea", "the", "sea", "is", "blue"];
    words.iter().cycle().take(count).copied().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_passage_stays_within_its_section() {
    let text = "# One\n\nThe sea is blue. It is the sea.\n\n## Two\n\nA sea is a sea. Is it the sea?";
    let cuts = split_passages(&tokenizer(), text, PassageBounds::adjacent(120)).expect("the text is split");
    let found: Vec<_> = cuts.iter().map(|cut| (&text[cut.range.clone()], cut.context.headings.as_deref())).collect();
    let [one, two] = ["# One\n\nThe sea is blue. It is the sea.", "## Two\n\nA sea is a sea. Is it the sea?"];
    assert_eq!(found, [(one, None), (two, Some("One"))]);
}

#[test]
fn a_short_text_with_at_most_one_heading_is_one_passage() {
    check_passages("# The sea\n\nThe sea is blue.", 60, &["# The sea\n\nThe sea is blue."]);
    check_passages("The sea\n\nThe sea is blue.", 60, &["The sea\n\nThe sea is blue."]);
    check_passages("The sea is blue.\n\nIs it?", 60, &["The sea is blue.\n\nIs it?"]);
}

#[test]
fn splitting_prefers_paragraphs_to_items_and_items_to_sentences() {
    let (short, long) = (words(6), words(14));
    let text = format!("{short}.\n\n{long}.\n\n{short}. {short}.");
    check_passages(&text, 24, &[&format!("{short}.\n\n{long}."), &format!("{short}. {short}.")]);
    // The second block fits into a separate passage, so it does not begin in the first one.
    let text = format!("{long}.\n\n{long}. {short}.");
    check_passages(&text, 24, &[&format!("{long}."), &format!("{long}. {short}.")]);
    let text = format!("{long}:\n- {short}\n- {short}. {short}\n- {short}");
    check_passages(&text, 24, &[&format!("{long}:\n- {short}"), &format!("- {short}. {short}\n- {short}")]);
}

#[test]
fn a_piece_that_is_too_short_joins_its_neighbor() {
    let long = words(20);
    check_passages(&format!("👍\n\n{long}."), 32, &[&format!("👍\n\n{long}.")]);
    // A remainder that is too short also gets the previous sentence, or otherwise the previous words.
    let (one, two) = (format!("{}.", words(18)), format!("{}.", words(8)));
    check_passages(&format!("{one} {two} 👍"), 28, &[&one, &format!("{two} 👍")]);
    check_passages(&words(18), 16, &[&words(14), "blue sea the sea"]);
}

#[test]
fn splitting_a_long_sentence_leaves_no_short_remainder() {
    let (long, next) = (format!("{}.", words(33)), format!("{}.", words(12)));
    let (head, tail) = (words(27), "sea is blue The sea is.");
    check_passages(&format!("{long} {next}"), 32, &[&head, &format!("{tail} {next}")]);
}

#[test]
fn title_and_headings_count_against_the_passage_token_limit() {
    let (tokenizer, sentence) = (tokenizer(), format!("{}.", words(9)));
    let text = format!("# the sea\n\n{sentence} {sentence} {sentence} {sentence}");
    let limits = PassageLimits { bounds: PassageBounds::adjacent(32), tokens_max: 32 };
    let cuts = split_text(&tokenizer, Some("a blue sea"), &text, limits).expect("the text is split");
    let parts: Vec<&str> = cuts.iter().map(|cut| &text[cut.range.clone()]).collect();
    let two = format!("{sentence} {sentence}");
    assert_eq!(parts, [format!("# the sea\n\n{two}"), two.clone()]);
    let above = |cut: &TextPassage| (cut.context.title.clone(), cut.context.headings.clone());
    let title = Some("a blue sea".to_owned());
    assert_eq!(cuts.iter().map(above).collect::<Vec<_>>(), [(title.clone(), None), (title, Some("the sea".to_owned()))]);
    for cut in &cuts {
        let embedded = cut.context.prepend_to(&text[cut.range.clone()]);
        assert_eq!(cut.tokens, tokenizer.encode(&embedded, 32).expect("tokens"), "{embedded:?}");
    }
}

#[test]
fn a_heading_that_repeats_the_title_is_left_out() {
    let text = "# The Sea\n\nThe sea is blue. It is the sea.\n\n## The blue\n\nA sea is a sea. Is it the sea?";
    let limits = PassageLimits { bounds: PassageBounds::adjacent(120), tokens_max: 120 };
    let cuts = split_text(&tokenizer(), Some("the sea"), text, limits).expect("the text is split");
    assert!(cuts.len() == 2 && cuts.iter().all(|cut| cut.context.headings.is_none()), "{cuts:?}");
}

/// Checks the passages of a text with the headings above each, in any script.
#[track_caller]
fn check_above(text: &str, tokens_max: usize, expect: &[(&str, Option<&str>)]) {
    let cuts = split_passages(&Words, text, PassageBounds::adjacent(tokens_max)).expect("the text is split");
    let found: Vec<_> = cuts.iter().map(|cut| (&text[cut.range.clone()], cut.context.headings.as_deref())).collect();
    assert_eq!(found, expect);
}

#[test]
fn sections_are_found_in_chinese_arabic_and_thai() {
    check_above(
        "# 博物馆\n\n博物馆在河边的老磨坊里。\n\n## 门票\n\n成人票十元，儿童免费。",
        40,
        &[("# 博物馆\n\n博物馆在河边的老磨坊里。", None), ("## 门票\n\n成人票十元，儿童免费。", Some("博物馆"))],
    );
    check_above(
        "المتحف\n=====\n\nيقع المتحف قرب النهر.\n\nالتذاكر\n-----\n\nالدخول مجاني للأطفال.",
        60,
        &[("المتحف\n=====\n\nيقع المتحف قرب النهر.", None), ("التذاكر\n-----\n\nالدخول مجاني للأطفال.", Some("المتحف"))],
    );
    check_above(
        "เวลาทำการ\n\nพิพิธภัณฑ์เปิดทุกวัน ยกเว้นวันจันทร์ ตั้งแต่เก้าโมงเช้าถึงห้าโมงเย็น\n\nค่าเข้าชม\n\nผู้ใหญ่สิบบาท เด็กเข้าชมฟรีทุกวันอาทิตย์ตลอดทั้งปีไม่มีวันหยุด",
        100,
        &[
            ("เวลาทำการ\n\nพิพิธภัณฑ์เปิดทุกวัน ยกเว้นวันจันทร์ ตั้งแต่เก้าโมงเช้าถึงห้าโมงเย็น", None),
            ("ค่าเข้าชม\n\nผู้ใหญ่สิบบาท เด็กเข้าชมฟรีทุกวันอาทิตย์ตลอดทั้งปีไม่มีวันหยุด", None),
        ],
    );
}

#[test]
fn later_passages_of_a_section_carry_its_own_heading_as_context() {
    let line = "The museum stands near the river in an old mill.";
    let text = format!("# Museum\n\n{line}\n\n## Tickets\n\n{line} {line}\n\n{line}");
    let two = format!("## Tickets\n\n{line} {line}");
    check_above(&text, 24, &[(&format!("# Museum\n\n{line}"), None), (&two, Some("Museum")), (line, Some("Museum\nTickets"))]);
}

#[test]
fn lists_code_and_emoji_stay_with_their_text() {
    let buy = "Before the long way over the mountains you should buy this:\n\n- bread from the old bakery\n- water for two days\n* Railway";
    check_above(buy, 26, &[(buy, None)]);
    let code = "Start the server with this command and wait for it:\n\n```sh\nmake run\n# not a heading\n```\n\nIt listens on the port that the log names first.";
    check_above(
        code,
        24,
        &[(&code[..code.find("\n\nIt").expect("a text")], None), (&code[code.find("It").expect("a text")..], None)],
    );
    check_above(
        "👍\n\nThe museum stands near the river in an old mill.\n\n🎉🎉",
        24,
        &[("👍\n\nThe museum stands near the river in an old mill.\n\n🎉🎉", None)],
    );
}

#[test]
fn splitting_takes_linear_time() {
    let tokenizer = tokenizer();
    for sentence in [
        "The sea is blue. ",
        "the sea ",
        "春天来了。",
        "春天",
        "นี้บ้าน ",
        "z",
        "\u{1}",
        "e\u{301}",
        "# sea\nThe sea.\n",
        "- sea\n",
        "Sea\n\nThe sea is blue.\n\n",
        "```\n",
        "👍 ",
    ] {
        let timed = |bytes: usize, overlap_tokens: usize| {
            let text = sentence.repeat(bytes / sentence.len());
            let clock = std::time::Instant::now();
            let passages =
                split_passages(&tokenizer, &text, PassageBounds { tokens_max: 120, overlap_tokens }).expect("the text is split");
            assert!(passages.windows(2).all(|pair| pair[0].range.end < pair[1].range.end));
            clock.elapsed().as_secs_f64()
        };
        for overlap in [0, 40] {
            let (small, large) = (timed(1 << 14, overlap), timed(1 << 17, overlap));
            // Eight times the text takes 8 times as long if splitting is linear, and 64 times if it is quadratic. The constant
            // allows for noise in short runs.
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
        "\n\n#{1,3} [a-z]{1,9}\n",
        "\n(- |1\\. |> |\\| |```)",
        "\n\n[A-Z][a-z]{1,9}\n\n",
        "\n(===|---)\n",
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn passages_are_in_order_within_bounds_and_lose_only_white_space(
        text in any_text(), title in "(|[a-z]{1,8}( [a-z]{1,8}){0,6})", tokens_max in 2usize..40, overlap in 0usize..20,
        further in 0usize..20,
    ) {
        let tokenizer = tokenizer();
        let bounds = PassageBounds { tokens_max, overlap_tokens: overlap.min(tokens_max / 2) };
        let limits = PassageLimits { bounds, tokens_max: tokens_max + further };
        let title = Some(title.as_str()).filter(|title| !title.is_empty());
        let passages = split_text(&tokenizer, title, &text, limits).expect("the text is split");
        prop_assert!(!passages.is_empty());
        let (mut start, mut covered) = (0, 0);
        for TextPassage { range: passage, context, tokens } in &passages {
            let part = &text[passage.clone()];
            let embedded = embedded_text(&tokenizer, context, part, limits.tokens_max).expect("tokens");
            prop_assert_eq!(tokens, &tokenizer.encode(&embedded, usize::MAX).expect("tokens"));
            let is_after = passage.start > start && passage.end > covered;
            prop_assert!(covered == 0 || is_after, "each passage must start and end after the previous one");
            prop_assert!(bounds.overlap_tokens > 0 || passage.start >= covered);
            prop_assert!(passage.start <= covered || text[covered..passage.start].chars().all(char::is_whitespace));
            let fits = tokens.ids.len() <= limits.tokens_max && !tokenizer.encode(part, tokens_max).expect("tokens").truncated;
            prop_assert!(fits || part.chars().count() == 1, "{part:?} does not fit");
            (start, covered) = (passage.start, passage.end);
        }
        prop_assert!(text[covered..].chars().all(char::is_whitespace));
    }
}

/// Work in proportion to the square of the length would take minutes.
#[test]
fn long_white_space_and_many_headings_do_not_slow_splitting() {
    let started = std::time::Instant::now();
    let texts = [
        format!("# A\n{}{}", "\n".repeat(200_000), "x! ".repeat(70_000)),
        "# 1\n2\n".repeat(60_000),
        format!("the sea.{}is blue", "\t".repeat(400_000)),
    ];
    for text in texts {
        assert!(!parts(&text, 100).is_empty());
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(100));
}
