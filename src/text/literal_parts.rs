//! Finds the parts of a query that people expect to be found exactly as written, even if the model does not know them:
//! numbers and codes of several groups ("2.1.10", "AB-1234"), with or without the "v" of versions ("v2.3"), dates, times, a few
//! characters of a script without spaces ("豆"), and the beginning of a word that is still being typed ("espr").

use unicode_normalization::char::is_combining_mark;

use super::amounts::{amounts, joined_amount, large_numbers, numbered};
use super::dates::{DateInWords, dates_in_numbers, dates_in_words, in_numbers};
use super::number_groups::{GROUPS_MAX, dimensions, grouped, other_version, ungrouped, with_thousands_joined, written};
use super::plain_words::{plain_key, word_keys};
use super::runs::{Class, Run, class, normalized, runs, truncate_term};
use super::spellings::beginnings;
use super::terms::phrase;
use super::times::{TimeInWords, times};
use crate::domain::terms::{CalendarDate, LiteralPart, SearchCondition, TermPhrase};

/// Maximum number of words of a query with literal parts. In a longer query, such as a log, a part would be too small a share.
const QUERY_WORDS_MAX: usize = 32;
/// Maximum number of parts, not counting the beginning of a word. Each takes a search by words.
const PARTS_MAX: usize = 4;
/// Maximum number of characters of a part in a script without spaces. In longer parts the model finds words.
const UNSPACED_MAX: usize = 4;
/// Minimum number of letters of the beginning of a word.
const BEGINNING_MIN: usize = 3;

/// Returns the literal parts of a query.
pub fn literal_parts(query: &str) -> Vec<LiteralPart> {
    let normal = normalized(query);
    let count = runs(&normal).take(QUERY_WORDS_MAX + 1).count();
    if count > QUERY_WORDS_MAX {
        return Vec::new();
    }
    let share = 1.0 / count.max(1) as f32;
    let mut from = 0;
    let texts = with_thousands_joined(&normal);
    let words = texts.iter().map(|(text, is_spaced)| {
        let mut words: Vec<Run<'_>> = runs(text).collect();
        let is_picture = |run: &Run<'_>| run.class == Class::Pictograph;
        let pictures = words.iter().take_while(|run| is_picture(run)).count();
        let position = from + pictures;
        from += words.len();
        // A number with an emoji next to it is still that number.
        words.drain(..pictures);
        while words.pop_if(|run| is_picture(run)).is_some() {}
        let is_beside = |c: char| !is_combining_mark(c) && class(c).is_none_or(|class| class == Class::Pictograph);
        let mut parts = parts_of_word(text.trim_matches(is_beside), &words, position, share);
        // These may also be two numbers.
        parts.iter_mut().filter(|_| *is_spaced).for_each(|part| part.condition = SearchCondition::Always);
        parts
    });
    let mut parts: Vec<LiteralPart> = words.flatten().take(PARTS_MAX).collect();
    parts.extend(amounts(&normal, share));
    let texts: Vec<&str> = texts.iter().map(|(text, _)| text.as_str()).collect();
    parts.extend(large_numbers(&texts, share));
    parts.extend(numbered(&normal, share));
    parts.extend(dates_with_names(&normal, share));
    let times = times(&normal);
    parts.retain(|part| !times.iter().any(|time| is_within_time(part, time)));
    parts.extend(times_of_day(&normal, times, share));
    parts.extend(beginning(&normal, count, share));
    parts
}

/// Returns the literal parts of the text between two spaces, which has these runs, the first of them at `position` in the
/// query. `share` is the share of one word.
fn parts_of_word(text: &str, runs: &[Run<'_>], position: usize, share: f32) -> Vec<LiteralPart> {
    let part = |mut phrases: Vec<TermPhrase>, dates, position: usize, runs: &[Run<'_>], condition| {
        phrases.retain(|phrase| phrase.terms.len() <= GROUPS_MAX);
        let (words, share) = (word_keys(runs), share * runs.len() as f32);
        (!phrases.is_empty()).then_some(LiteralPart { phrases, dates, position, words, share, condition })
    };
    let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    if has_digits && runs.iter().all(|run| run.class == Class::Word) {
        let as_written = (runs.len() > 1).then(|| phrase(text)).flatten();
        let text = text.trim_matches(|c| class(c).is_none());
        let other = as_written.as_ref().and_then(|as_written| other_version(text, as_written));
        let numbers = runs.iter().filter(|run| run.text.contains(char::is_numeric)).count();
        let condition = if numbers > 1 { SearchCondition::Number } else { SearchCondition::Always };
        let (dates, in_numbers) = dates(text);
        let variants = as_written.into_iter().chain(other).chain(grouped(text)).chain(ungrouped(text)).chain(in_numbers);
        let variants = variants.chain(dimensions(text)).chain(joined_amount(text));
        return part(variants.collect(), dates, position, runs, condition).into_iter().collect();
    }
    let is_short = |run: &Run<'_>| run.class == Class::Unspaced && run.characters().len() <= UNSPACED_MAX;
    let short = (position..).zip(runs).filter(|(_, run)| is_short(run));
    let short = short.filter_map(|(position, run)| {
        part(phrase(run.text).into_iter().collect(), Vec::new(), position, std::slice::from_ref(run), SearchCondition::Always)
    });
    short.collect()
}

/// Returns the last of the `count` words of a query as the beginning of a longer one, unless something follows it.
fn beginning(normal: &str, count: usize, share: f32) -> Option<LiteralPart> {
    let last = runs(normal).last().filter(|last| last.class == Class::Word && normal.ends_with(last.text))?;
    let is_long = last.characters().len() >= BEGINNING_MIN && last.text.contains(char::is_alphabetic);
    let phrases = beginnings(truncate_term(last.text)).collect();
    let word = plain_key(last.text);
    is_long.then_some(LiteralPart {
        phrases,
        dates: Vec::new(),
        position: count - 1,
        words: vec![word],
        share,
        condition: SearchCondition::Beginning(word),
    })
}

/// Returns the dates that a text in numbers may mean, and the other ways to write them in numbers.
fn dates(text: &str) -> (Vec<CalendarDate>, Vec<TermPhrase>) {
    let dates = dates_in_numbers(text);
    let given: Vec<&str> = text.split(['.', '-', '/']).collect();
    let mut variants: Vec<Vec<String>> = dates.iter().flat_map(|date| in_numbers(date, text.contains('/'))).collect();
    if let ([first, second, year], false) = (&given[..], dates.is_empty())
        && first.len() <= 2
        && year.len() == 2
    {
        let padded = |number: &str, width| format!("{:0>width$}", number.trim_start_matches('0'));
        variants.extend([1, 2].map(|width| vec![padded(first, width), padded(second, width), (*year).to_owned()]));
    }
    variants.sort_unstable();
    variants.dedup();
    variants.retain(|variant| *variant != given);
    (dates, variants.into_iter().map(written).collect())
}

/// Returns the parts that are dates with the month in words. `share` is the share of one word.
fn dates_with_names(normal: &str, share: f32) -> Vec<LiteralPart> {
    let words: Vec<Run<'_>> = runs(normal).collect();
    let found = dates_in_words(&words).into_iter().take(PARTS_MAX);
    let part = |DateInWords { position, length, dates }: DateInWords| LiteralPart {
        phrases: dates.iter().flat_map(|date| in_numbers(date, false)).map(written).collect(),
        dates,
        position,
        words: word_keys(&words[position..position + length]),
        share: share * length as f32,
        condition: SearchCondition::Always,
    };
    found.map(part).collect()
}

/// Whether a part says less than the time that contains it: "6:00 pm" is not the number 6:00, which "6:00 am" has too, and 午後 is
/// not only in 午後6時.
fn is_within_time(part: &LiteralPart, time: &TimeInWords) -> bool {
    let is_unspaced = |term: &String| term.starts_with(|c| class(c) == Some(Class::Unspaced));
    match part.condition {
        SearchCondition::Number => time.position == part.position && time.length > part.words.len(),
        SearchCondition::Always if part.phrases.iter().flat_map(|phrase| &phrase.terms).all(is_unspaced) => {
            (time.position..time.position + time.length).contains(&part.position)
        }
        _ => false,
    }
}

/// Returns the parts that are these times of day. `share` is the share of one word.
fn times_of_day(normal: &str, times: Vec<TimeInWords>, share: f32) -> Vec<LiteralPart> {
    let words: Vec<Run<'_>> = runs(normal).collect();
    let parts = |TimeInWords { position, length, phrases, asian }: TimeInWords| {
        let words = word_keys(words.get(position..position + length).unwrap_or_default());
        let part = move |phrases| LiteralPart {
            phrases,
            dates: Vec::new(),
            position,
            words: words.clone(),
            share: share * length as f32,
            condition: SearchCondition::Time,
        };
        // They are apart, because words by their beginning are not searched in large collections.
        [phrases, asian].map(part)
    };
    times.into_iter().flat_map(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::super::plain_words::word_key;
    use super::*;

    /// The ways to write each part, with its share in percent.
    fn parts(query: &str) -> Vec<(Vec<String>, u32)> {
        let variants = |part: &LiteralPart| {
            let variant = |phrase: &TermPhrase| format!("{}{}", phrase.terms.join(" "), if phrase.prefix { "*" } else { "" });
            part.phrases.iter().map(variant).collect()
        };
        literal_parts(query).iter().map(|part| (variants(part), (part.share * 100.0).round() as u32)).collect()
    }

    fn part(variants: &[&str], share: u32) -> (Vec<String>, u32) {
        (variants.iter().map(|variant| (*variant).to_owned()).collect(), share)
    }

    #[test]
    fn numbers_and_codes_of_several_groups_are_phrases() {
        assert_eq!(parts("release 2.1.10"), [part(&["2 1 10", "v2 1 10"], 75)]);
        assert_eq!(parts("(AB-1234)"), [part(&["ab 1234"], 100)]);
        assert_eq!(parts("٣-٤ ١٢"), [part(&["3 4"], 67)]);
        assert_eq!(parts("12: 7."), [], "a number alone is a word");
        assert_eq!(parts("12 apples 70."), [part(&["apples 70"], 67)]);
    }

    #[test]
    fn dates_are_searched_in_both_orders_with_and_without_zeros() {
        assert_eq!(parts("2024-05-03?"), [part(&["2024 05 03", "03 05 2024", "2024 5 3", "3 5 2024"], 100)]);
        assert_eq!(parts("3.5.2024"), [part(&["3 5 2024", "v3 5 2024", "03 05 2024", "2024 05 03", "2024 5 3"], 100)]);
        let both = ["05 13 2024", "13 05 2024", "13 5 2024", "2024 05 13", "2024 5 13", "5 13 2024"];
        assert_eq!(parts("05/13/2024"), [part(&both, 100)], "only one of the numbers can be the month");
        assert_eq!(parts("20240513")[0].0, ["20 240 513", "2 02 40 513", "13 05 2024", "13 5 2024", "2024 05 13", "2024 5 13"]);
        assert_eq!(parts("14.13.2024"), [part(&["14 13 2024", "v14 13 2024"], 100)]);
    }

    #[test]
    fn dates_with_a_year_of_two_digits_are_searched_with_and_without_zeros() {
        let has = |query: &str, variant: &str| parts(query)[0].0.contains(&variant.to_owned());
        assert!(has("15.5.24", "15 05 24") && has("15.05.24", "15 5 24") && has("5/15/24", "05 15 24"));
        assert!(has("15.5.24", "15 5 2024") && has("15.5.24", "2024 05 15"));
        assert!(!has("3.5.24", "03 05 24"), "this may be a version");
    }

    #[test]
    fn a_date_with_its_month_in_words_is_searched_in_numbers() {
        let date = |query: &str| literal_parts(query).into_iter().find(|part| !part.dates.is_empty()).unwrap();
        let found = date("minutes of 3 March 2024");
        assert_eq!((found.position, found.words.len(), (found.share * 5.0).round()), (2, 3, 3.0));
        assert_eq!(found.dates, [CalendarDate { day: Some(3), month: 3, year: Some(2024) }]);
        assert!(found.phrases.contains(&written(vec!["2024".to_owned(), "03".to_owned(), "03".to_owned()])));
        assert_eq!(date("2024-03-03").dates, found.dates);
    }

    #[test]
    fn a_time_with_its_half_of_the_day_is_not_a_number() {
        let numbers = |query: &str| literal_parts(query).iter().filter(|part| part.condition == SearchCondition::Number).count();
        let times = |query: &str| literal_parts(query).iter().filter(|part| part.condition == SearchCondition::Time).count();
        assert_eq!((numbers("train 6:00 pm"), times("train 6:00 pm")), (0, 2));
        assert_eq!((numbers("train 6:00"), times("train 6:00")), (1, 2), "in other scripts, too");
    }

    #[test]
    fn a_number_and_its_unit_are_searched_together_and_as_one_word() {
        let amount = part(&["500 pcs", "500pcs"], 50);
        assert_eq!(parts("juice 500 pcs cold"), [part(&["juice 500"], 50), amount, part(&["cold*"], 25)]);
        assert_eq!(parts("juice (500  pcs).")[0].0, ["500 pcs", "500pcs"], "signs beside it and a second space");
        for query in ["10 C++ now", "5 C# now", ".5 kg now"] {
            assert!(parts(query).iter().all(|(phrases, _)| !phrases[0].contains(' ')), "{query}");
        }
        assert_eq!(parts("500 firefighters now"), [part(&["now*"], 33)]);
    }

    #[test]
    fn an_amount_is_searched_with_other_names_of_its_unit() {
        for query in ["20 kilograms", "20 kg", "20kg", "20 Kilogramm"] {
            let found = &parts(query)[0].0;
            let has = |phrase: &str| found.contains(&phrase.to_owned());
            assert!(["20 kilograms", "20 kg", "20kg", "20 kilogramm"].iter().all(|phrase| has(phrase)), "{query}: {found:?}");
        }
        assert!(parts("rj45").iter().all(|(phrases, _)| phrases == &["rj45*"]));
    }

    #[test]
    fn a_number_after_a_word_may_be_a_roman_numeral() {
        assert_eq!(parts("Louis 14")[0], part(&["louis 14", "louis xiv"], 100));
        assert_eq!(parts("Louis XIV")[0], part(&["louis xiv", "louis 14"], 100));
        assert_eq!(parts("World War 1")[0].0, ["war 1", "war i"]);
        assert_eq!(parts("Chapter V")[0].0, ["chapter v", "chapter 5"]);
        for words in ["when can i", "hur kan vi", "grade v steel", "louis xl"] {
            assert!(parts(words).iter().all(|(phrases, _)| phrases.len() == 1), "{words}");
        }
    }

    #[test]
    fn numbers_are_also_searched_as_ordinals_and_with_powers_of_ten() {
        let variants = |query: &str| -> Vec<String> { parts(query).into_iter().flat_map(|(phrases, _)| phrases).collect() };
        let has = |query: &str, phrase: &str| variants(query).contains(&phrase.to_owned());
        assert!(has("World War 2", "second world war") && has("third floor", "floor 3") && has("3. Stock", "stock iii"));
        assert!(has("3 million people", "3000000") && has("3 000 000", "3 mio") && has("€3.000.000", "300 万*"));
        assert!(!has("3 000 001", "3 mio"));
    }

    #[test]
    fn a_number_is_searched_together_with_the_word_before_it() {
        assert_eq!(parts("Gleis 170"), [part(&["gleis 170"], 100)]);
        assert_eq!(parts("is room 12 available?")[0], part(&["room 12", "room xii"], 50));
        assert_eq!(parts("room 120 for me 2")[0], part(&["room 120"], 40));
        assert_eq!(
            ["Straße 17", "kapı 5", "प्लेटफॉर्म 17"].map(|query| parts(query)[0].0[0].clone()),
            ["strasse 17", "kapi 5", "प्लेटफॉर्म 17"]
        );
        for query in ["olympia 1936", "on 5", "c++ 17", "第 5"] {
            assert!(!parts(query).iter().any(|(phrases, _)| phrases[0] == query), "{query}");
        }
    }

    #[test]
    fn sizes_are_searched_with_a_letter_or_a_sign_between_them() {
        assert_eq!(parts("M8×40"), [part(&["m8 40", "m8x40", "m8 x 40"], 100)]);
        assert_eq!(parts("M8x40")[0].0, ["m8 40", "m8 x 40"]);
        assert_eq!(parts("2×3x4")[0].0[1..], ["2x3x4", "2 x 3 x 4"]);
        for query in ["x86", "0x1f", "box12", "4x", "3xy5"] {
            assert!(parts(query).iter().all(|(phrases, _)| !phrases.iter().any(|variant| variant.contains(" x "))), "{query}");
        }
    }

    #[test]
    fn thousands_are_also_searched_without_their_groups() {
        assert_eq!(parts("1.099,00"), [part(&["1 099 00", "v1 099 00", "1099 00", "1099"], 100)]);
        assert_eq!(parts("10,000")[0], part(&["10 000", "10000"], 100));
        assert_eq!(parts("١٬٠٩٩"), [part(&["1 099", "1099"], 100)]);
        assert_eq!(parts("1/250"), [part(&["1 250"], 100)], "a fraction");
        assert_eq!(parts("5-100"), [part(&["5 100"], 100)], "a range");
        assert_eq!(parts("1.10"), [part(&["1 10", "v1 10"], 100)]);
    }

    #[test]
    fn numbers_may_have_the_groups_of_india() {
        assert_eq!(parts("12,34,567"), [part(&["12 34 567", "1234567"], 100)]);
        assert_eq!(parts("१,००,०००")[0].0, ["1 00 000", "100000"]);
        assert_eq!(parts("1234567"), [part(&["1 234 567", "12 34 567"], 100)]);
        assert_eq!(parts("250000.50")[0].0, ["250000 50", "250 000 50", "2 50 000 50"]);
        assert_eq!(parts("12,34,56"), [part(&["12 34 56"], 100)]);
    }

    #[test]
    fn thousands_may_be_separated_by_spaces() {
        assert_eq!(parts("1 234"), [part(&["1 234", "1234"], 100)]);
        assert_eq!(parts("€10\u{202f}000 000,50")[0], part(&["10 000 000 50", "10000000 50"], 100));
        assert_eq!(parts("١٢ ٣٤٥")[0].0, ["12 345", "12345"]);
        assert_eq!(literal_parts("1 234")[0].condition, SearchCondition::Always, "it may be two numbers");
        for two in ["0 234", "1234 567", "12 34", "1 234b", "1.5 234"] {
            assert!(
                parts(two).iter().all(|(variants, _)| variants.iter().all(|variant| variant != "1234" && variant != "1234567")),
                "{two}"
            );
        }
    }

    #[test]
    fn versions_are_also_searched_without_their_letter() {
        assert_eq!(parts("v2.3?"), [part(&["v2 3", "2 3"], 100)]);
        assert_eq!(parts("release V3.2.1"), [part(&["v3 2 1", "3 2 1"], 75)]);
        assert_eq!(parts("v2.3-beta "), [part(&["v2 3 beta", "2 3 beta"], 100)]);
        assert_eq!(parts("version2.3"), [part(&["version2 3"], 100)]);
        assert_eq!(parts("e2-4"), [part(&["e2 4"], 100)], "a code without dots is no version");
    }

    #[test]
    fn numbers_with_dots_are_also_searched_as_versions() {
        assert_eq!(parts("2.3"), [part(&["2 3", "v2 3"], 100)]);
        assert_eq!(parts("2,3"), [part(&["2 3"], 100)]);
        assert_eq!(parts("2345.60"), [part(&["2345 60", "2 345 60"], 100)]);
    }

    #[test]
    fn an_emoji_beside_a_part_does_not_belong_to_it() {
        assert_eq!(parts("🎉2.3🎉 🎉"), [part(&["2 3", "v2 3"], 40)]);
        assert_eq!(parts("猫🐈"), [part(&["猫*"], 50)]);
        assert_eq!(literal_parts("🎉 🎉2.3")[0].position, 2);
        assert_eq!(parts("🎂"), [], "an emoji is a word");
    }

    #[test]
    fn long_numbers_and_codes_are_also_searched_in_groups() {
        assert_eq!(parts("1299"), [part(&["1 299"], 100)]);
        assert_eq!(parts("(1299)!"), [part(&["1 299"], 100)]);
        assert_eq!(parts("1299.00"), [part(&["1299 00", "1 299 00"], 100)]);
        assert_eq!(parts("1250000 €")[0], part(&["1 250 000", "12 50 000"], 100));
        assert_eq!(
            parts("DE89370400440532013000"),
            [part(&["de89 3704 0044 0532 0130 00"], 100), part(&["de89370400440532013000*"], 100)]
        );
        assert_eq!(parts("345"), []);
    }

    #[test]
    fn a_few_characters_without_spaces_are_phrases() {
        assert_eq!(parts("感冒"), [part(&["感冒"], 100)]);
        assert_eq!(parts("東京 2024年"), [part(&["東京"], 33), part(&["年*"], 33)]);
        assert_eq!(parts("自動車教習所"), [], "the model finds the words of a longer text");
    }

    #[test]
    fn the_last_word_may_be_the_beginning_of_a_longer_one() {
        assert_eq!(parts("espr"), [part(&["espr*"], 100)]);
        assert_eq!(parts("Coffee Espr"), [part(&["espr*"], 50)]);
        assert_eq!(parts("Fussgae"), [part(&["fussgae*", "fussgä*"], 100)], "German writes ä as ae, too");
        for complete in ["espr ", "espr?", "es", "12 34"] {
            assert_eq!(parts(complete), [], "{complete:?}");
        }
    }

    #[test]
    fn the_beginning_of_a_word_has_the_number_of_its_plain_form() {
        let condition = |query: &str| literal_parts(query)[0].condition.clone();
        assert_eq!(condition("Züge"), SearchCondition::Beginning(word_key("zuge")));
        assert_eq!(condition("cafe"), condition("café"));
    }

    #[test]
    fn parts_say_which_words_of_the_query_they_are() {
        let positions: Vec<usize> = literal_parts("release 2.1.10 感冒 of espr").iter().map(|part| part.position).collect();
        assert_eq!(positions, [1, 4, 6]);
    }

    #[test]
    fn long_queries_and_codes_have_no_parts() {
        assert_eq!(parts(&"1,".repeat(500_000)), []);
        assert_eq!(parts(&"7".repeat(500_000)), []);
        assert_eq!(parts(&"1.2 ".repeat(20)), [], "forty words");
        assert_eq!(parts(&"1.2 ".repeat(10)).len(), PARTS_MAX);
    }
}
