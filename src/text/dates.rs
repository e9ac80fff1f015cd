//! Finds the dates of a query, and the other ways to write them: "3 March 2024" for 2024-03-03 or "3. März 2024", and the other
//! way round.

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::months::{Between, months};
use super::plain_words::plain_key;
use super::runs::{Class, Run, normalized};
use super::terms::phrase;
use crate::domain::terms::{CalendarDate, TermPhrase};

/// Number of digits of a date without separators.
const COMPACT_DATE: usize = 8;
/// Maximum number of characters of a date in numbers.
const DATE_MAX: usize = 10;
/// Number of digits of a year.
const YEAR_DIGITS: usize = 4;
/// The first year that counts as one. Earlier numbers of four digits are parts of codes.
const YEAR_MIN: u16 = 1_000;
/// The century of a year of two digits.
const CENTURY: u16 = 2_000;
/// Maximum number of ways to write a date in words that are searched.
const VARIANTS_MAX: usize = 128;
/// Words between the day, the month and the year, and around the numbers of a Vietnamese date.
const BETWEEN: [&str; 6] = ["de", "del", "d", "of", "năm", "m"];
/// What may follow the number of a day: "3rd", "1er", "1º" (normalized to "1o").
const ORDINALS: [&str; 7] = ["st", "nd", "rd", "th", "er", "o", "a"];
/// The words for year, month and day after their numbers.
const AFTER_YEAR: [&str; 2] = ["年", "년"];
const AFTER_MONTH: [&str; 2] = ["月", "월"];
const AFTER_DAY: [&str; 4] = ["日", "号", "號", "일"];
/// The word before the number of a month.
const BEFORE_MONTH: &str = "tháng";

/// The months that a word names, by its number. Some languages use the same name for different months.
static MONTH_OF: LazyLock<FxHashMap<u32, Vec<u8>>> = LazyLock::new(|| {
    let mut found: FxHashMap<u32, Vec<u8>> = FxHashMap::default();
    for (_, names) in months() {
        for (month, name) in (1..).zip(names) {
            let of_name = found.entry(key_of(name)).or_default();
            if !of_name.contains(&month) {
                of_name.push(month);
            }
        }
    }
    found
});

/// The distinct names of each month.
static NAMES_OF: LazyLock<[Vec<MonthName>; 12]> = LazyLock::new(|| {
    let mut found: [Vec<MonthName>; 12] = std::array::from_fn(|_| Vec::new());
    for (between, names) in months() {
        for (found, name) in found.iter_mut().zip(names) {
            if found.iter().all(|other| other.name.word != name) {
                found.push(MonthName { name: Numbered::new(name), between });
            }
        }
    }
    found
});

/// The name of a month.
struct MonthName {
    name: Numbered<&'static str>,
    between: Between,
}

/// A word with its number. Computing the number takes longer than looking it up.
struct Numbered<W> {
    word: W,
    key: u32,
}

impl<W: AsRef<str>> Numbered<W> {
    fn new(word: W) -> Self {
        Self { key: key_of(word.as_ref()), word }
    }
}

fn key_of(name: &str) -> u32 {
    plain_key(&normalized(name))
}

/// A date in the words of a query.
pub(super) struct DateInWords {
    /// Position of its first word, and number of its words.
    pub(super) position: usize,
    pub(super) length: usize,
    /// What it may mean.
    pub(super) dates: Vec<CalendarDate>,
}

/// Finds the dates that these words of a query name with a month in words.
pub(super) fn dates_in_words(words: &[Run<'_>]) -> Vec<DateInWords> {
    let mut found = Vec::new();
    let mut from = 0;
    for position in 0..words.len() {
        let Some(date) = (position >= from).then(|| date_at(words, from, position)).flatten() else { continue };
        from = date.position + date.length;
        found.push(date);
    }
    found
}

/// Returns the date whose month is the word at `position`. Its words begin at `from` or later.
fn date_at(words: &[Run<'_>], from: usize, position: usize) -> Option<DateInWords> {
    let word = &words[position];
    if let Some(months) = months_of(word) {
        let (before, after) = (skip_back(words, from, position), skip(words, position + 1));
        let day_before = before.and_then(|before| Some((before, day(&words[before])?)));
        let year_before = before.and_then(|before| Some((before, year(&words[before])?)));
        let day_after = after.and_then(|after| Some((after, day(&words[after])?)));
        let day = day_before.or(day_after);
        let behind = day_after.filter(|_| day_before.is_none()).map_or(after, |(after, _)| skip(words, after + 1));
        let year = behind.and_then(|behind| Some((behind, year(&words[behind])?))).or(year_before);
        return date(position, months, day, year);
    }
    let number = |position: usize| words.get(position).filter(|_| position >= from);
    if AFTER_MONTH.iter().any(|mark| word.text.starts_with(mark)) {
        let month = position.checked_sub(1).and_then(|before| Some((before, month(number(before)?)?)))?;
        let follows = |position: usize, marks: &[&str]| {
            words.get(position).is_some_and(|word| marks.iter().any(|mark| word.text.starts_with(mark)))
        };
        let day = number(position + 1).and_then(day).filter(|_| follows(position + 2, &AFTER_DAY)).map(|day| (position + 2, day));
        let year = position
            .checked_sub(3)
            .filter(|_| follows(position - 2, &AFTER_YEAR))
            .and_then(|position| Some((position, year(number(position)?)?)));
        return date(month.0, &[month.1], day, year);
    }
    if word.text == BEFORE_MONTH {
        let month = month(words.get(position + 1)?)?;
        let day = position.checked_sub(1).and_then(|before| Some((before, day(number(before)?)?)));
        let year = skip(words, position + 2).and_then(|after| Some((after, year(&words[after])?)));
        return date(position + 1, &[month], day, year);
    }
    None
}

/// Makes a date of the positions and numbers of its words. A month alone is none.
fn date(position: usize, months: &[u8], day: Option<(usize, u8)>, year: Option<(usize, u16)>) -> Option<DateInWords> {
    let positions = [Some(position), day.map(|(position, _)| position), year.map(|(position, _)| position)];
    let (first, last) = (positions.iter().flatten().min()?, positions.iter().flatten().max()?);
    let dates =
        months.iter().map(|month| CalendarDate { day: day.map(|(_, day)| day), month: *month, year: year.map(|(_, year)| year) });
    (first < last).then(|| DateInWords { position: *first, length: last - first + 1, dates: dates.collect() })
}

/// Returns the position of the first word from `position` that is not one between the parts of a date.
fn skip(words: &[Run<'_>], position: usize) -> Option<usize> {
    (position..words.len()).find(|position| !BETWEEN.contains(&words[*position].text))
}

/// Returns the position of the last word before `position`, but not before `from`, that is not one between the parts of a date.
fn skip_back(words: &[Run<'_>], from: usize, position: usize) -> Option<usize> {
    (from..position).rev().find(|position| !BETWEEN.contains(&words[*position].text))
}

fn months_of(word: &Run<'_>) -> Option<&'static [u8]> {
    let is_name = matches!(word.class, Class::Word | Class::Unspaced) && !word.text.contains(char::is_numeric);
    MONTH_OF.get(&plain_key(word.text)).filter(|_| is_name).map(Vec::as_slice)
}

fn day(word: &Run<'_>) -> Option<u8> {
    let number = word.text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let ending = &word.text[number.len()..];
    let day: u8 = number.parse().ok()?;
    ((1..=31).contains(&day) && (ending.is_empty() || ORDINALS.contains(&ending))).then_some(day)
}

fn month(word: &Run<'_>) -> Option<u8> {
    word.text.parse().ok().filter(|month| (1..=12).contains(month))
}

fn year(word: &Run<'_>) -> Option<u16> {
    let is_year = word.text.len() == YEAR_DIGITS && word.text.bytes().all(|byte| byte.is_ascii_digit());
    word.text.parse().ok().filter(|year| is_year && *year >= YEAR_MIN)
}

/// Returns what a date in numbers may mean: with the year first or last. After slashes, either number may be the month. Eight
/// digits may be a date with the year first. A year of two digits is of this century; with dots, day and month must have two,
/// too, or the day must be beyond 12, because "3.5.24" may be a version.
pub(super) fn dates_in_numbers(text: &str) -> Vec<CalendarDate> {
    let is_compact = text.len() == COMPACT_DATE && text.bytes().all(|byte| byte.is_ascii_digit());
    let groups: Vec<&str> = match is_compact {
        true => vec![&text[..4], &text[4..6], &text[6..]],
        false => text.split(['.', '-', '/']).collect(),
    };
    let [first, second, third] = groups[..] else { return Vec::new() };
    if text.len() > DATE_MAX || !groups.iter().all(|group| group.parse::<u16>().is_ok()) {
        return Vec::new();
    }
    let may_be_version = text.len() < "dd.mm.yy".len() && first.parse().is_ok_and(|first: u8| first <= 12);
    let (year, day, month) = match (first.len(), third.len()) {
        (YEAR_DIGITS, 1..=2) => (first, third, second),
        (1..=2, YEAR_DIGITS) => (third, first, second),
        (1..=2, 2) if text.contains('/') || text.contains('.') && !may_be_version => (third, first, second),
        _ => return Vec::new(),
    };
    let century = if year.len() == 2 { CENTURY } else { 0 };
    let Some(year) = year.parse().ok().map(|year: u16| century + year).filter(|year| *year >= YEAR_MIN) else {
        return Vec::new();
    };
    let mut orders = vec![(day, month)];
    orders.extend((text.contains('/') && day != month).then_some((month, day)));
    let number = |text: &str, max: u8| text.parse::<u8>().ok().filter(|number| (1..=max).contains(number));
    let date = |(day, month)| Some(CalendarDate { day: Some(number(day, 31)?), month: number(month, 12)?, year: Some(year) });
    orders.into_iter().filter_map(date).collect()
}

/// Returns the ways to write a date in numbers: with the year first or last, with and without zeros. Without a year there are
/// none, because the numbers would be found in times and other numbers.
pub(super) fn in_numbers(date: &CalendarDate, month_first: bool) -> Vec<Vec<String>> {
    let CalendarDate { day, month, year: Some(year) } = *date else { return Vec::new() };
    let mut variants = Vec::new();
    for width in [1, 2] {
        let [year, month] = [year.to_string(), format!("{month:0>width$}")];
        let Some(day) = day.map(|day| format!("{day:0>width$}")) else {
            variants.extend([vec![year.clone(), month.clone()], vec![month, year]]);
            continue;
        };
        variants.extend([vec![day.clone(), month.clone(), year.clone()], vec![year.clone(), month.clone(), day.clone()]]);
        variants.extend(month_first.then(|| vec![month, day, year]));
    }
    variants
}

/// Returns the ways to write a date with the month in words, in any language. `has` says whether a passage may have all of some
/// words, by their numbers (`plain_words::word_key`).
pub fn in_words(date: &CalendarDate, has: impl Fn(&[u32]) -> bool) -> Vec<TermPhrase> {
    let CalendarDate { day, month, year } = *date;
    let year = year.map(|year| Numbered::new(year.to_string())).filter(|year| has(&[year.key]));
    let days: Vec<Day> = day.map(|day| days(day).filter(|day| has(&[day.word.key])).collect()).unwrap_or_default();
    if date.year.is_some() != year.is_some() || day.is_some() == days.is_empty() {
        return Vec::new();
    }
    let (year, year_key) = year.map(|year| (year.word, year.key)).unzip();
    let year = year.as_deref().unwrap_or_default();
    let names = NAMES_OF.get(usize::from(month) - 1).map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&MonthName> = names.iter().filter(|name| has(&[name.name.key])).collect();
    let missing: Vec<&str> = BETWEEN.into_iter().filter(|word| !has(&[key_of(word)])).collect();
    let are_together =
        |name: &MonthName, day: Option<u32>| has(&[Some(name.name.key), day, year_key].into_iter().flatten().collect::<Vec<_>>());
    let mut variants = with_marks(day, month, year, |word| has(&[key_of(word)]));
    if days.is_empty() {
        let names = names.iter().filter(|name| are_together(name, None));
        variants.extend(in_turn(names.map(|name| without_day(name, year)).collect()));
    }
    for day in &days {
        let names = names.iter().filter(|name| day.precedes(name.between) && are_together(name, Some(day.word.key)));
        variants.extend(in_turn(names.map(|name| with_name(&day.word.word, name, year)).collect()));
    }
    let mut seen = FxHashSet::default();
    // A way with a word that no passage has is never found.
    variants.retain(|variant| variant.split(' ').all(|word| !missing.contains(&word)) && seen.insert(variant.clone()));
    variants.truncate(VARIANTS_MAX);
    variants.iter().filter_map(|variant| Some(TermPhrase { prefix: false, ..phrase(variant)? })).collect()
}

/// Returns the first way of each name, then the second of each, because the first are the most frequent ones.
fn in_turn(by_name: Vec<Vec<String>>) -> Vec<String> {
    let variants_max = by_name.iter().map(Vec::len).max().unwrap_or_default();
    (0..variants_max).flat_map(|index| by_name.iter().filter_map(move |variants| variants.get(index).cloned())).collect()
}

fn without_day(MonthName { name, between }: &MonthName, year: &str) -> Vec<String> {
    let name = name.word;
    let mut variants = vec![format!("{name} {year}"), format!("{year} {name}")];
    variants.extend((*between == Between::De).then(|| format!("{name} de {year}")));
    variants
}

/// A way to write the number of a day.
struct Day {
    word: Numbered<String>,
    /// Whether only English writes it in this way, or only other languages; `None` if all do.
    is_english: Option<bool>,
}

impl Day {
    /// Whether it is written before the names of months of a language.
    fn precedes(&self, between: Between) -> bool {
        self.is_english.is_none_or(|is_english| is_english == (between == Between::Of))
    }
}

/// Returns the ways to write the number of a day.
fn days(day: u8) -> impl Iterator<Item = Day> {
    let padded = (day < 10).then(|| format!("0{day}"));
    let english = match day {
        1 | 21 | 31 => "st",
        2 | 22 => "nd",
        3 | 23 => "rd",
        _ => "th",
    };
    let others: &[&str] = if day == 1 { &["er", "o", "a"] } else { &[] };
    let others = others.iter().map(move |ordinal| (format!("{day}{ordinal}"), Some(false)));
    let in_all = std::iter::once(day.to_string()).chain(padded).map(|day| (day, None));
    let all = in_all.chain([(format!("{day}{english}"), Some(true))]).chain(others);
    all.map(|(word, is_english)| Day { word: Numbered::new(word), is_english })
}

fn with_name(day: &str, MonthName { name, between }: &MonthName, year: &str) -> Vec<String> {
    let name = name.word;
    let mut variants = vec![format!("{day} {name} {year}"), format!("{name} {day} {year}")];
    match (between, year.is_empty()) {
        (Between::Of, _) => variants.push(format!("{day} of {name} {year}")),
        (Between::De, true) => variants.push(format!("{day} de {name}")),
        (Between::De, false) => variants.extend([format!("{day} de {name} de {year}"), format!("{day} de {name} del {year}")]),
        (Between::Nothing, _) => {}
    }
    if *between == Between::De && name.starts_with(['a', 'o']) {
        variants.push(if year.is_empty() { format!("{day} d {name}") } else { format!("{day} d {name} de {year}") });
    }
    if !year.is_empty() {
        variants.extend([format!("{year} {name} {day}"), format!("{year} m {name} {day}")]);
    }
    variants
}

/// Returns the ways to write a date in the languages that mark the numbers of a date, up to the number of the day.
fn with_marks(day: Option<u8>, month: u8, year: &str, has: impl Fn(&str) -> bool) -> Vec<String> {
    let day = day.map(|day| day.to_string()).unwrap_or_default();
    let marked = |(after_year, after_month): (&str, &str)| match year {
        "" => format!("{month}{after_month} {day}"),
        _ => format!("{year}{after_year} {month}{after_month} {day}"),
    };
    let marks = AFTER_YEAR.into_iter().zip(AFTER_MONTH).filter(|(_, mark)| has(mark));
    let after_year = if year.is_empty() { String::new() } else { format!("năm {year}") };
    let before = has(BEFORE_MONTH).then(|| format!("{day} {BEFORE_MONTH} {month} {after_year}"));
    marks.map(marked).chain(before).collect()
}

#[cfg(test)]
mod tests {
    use super::super::runs::runs;
    use super::*;

    /// The dates of a query, each with its first word and the number of its words.
    fn dates(query: &str) -> Vec<(usize, usize, String)> {
        let normal = normalized(query);
        let words: Vec<Run<'_>> = runs(&normal).collect();
        dates_in_words(&words)
            .iter()
            .map(|date| (date.position, date.length, date.dates.iter().map(shown).collect::<Vec<_>>().join(" ")))
            .collect()
    }

    fn shown(date: &CalendarDate) -> String {
        let CalendarDate { day, month, year } = date;
        format!("{}-{month}-{}", year.unwrap_or_default(), day.unwrap_or_default())
    }

    #[track_caller]
    fn check(query: &str, position: usize, length: usize, expect: &str) {
        assert_eq!(dates(query), [(position, length, expect.to_owned())], "{query}");
    }

    #[test]
    fn a_date_has_a_month_in_words_and_a_day_or_a_year() {
        check("3 March 2024", 0, 3, "2024-3-3");
        check("minutes of March 3rd, 2024", 2, 3, "2024-3-3");
        check("Protokoll vom 3. März", 2, 2, "0-3-3");
        check("report oct 2023", 1, 2, "2023-10-0");
        check("el 23 de junio de 2024", 1, 5, "2024-6-23");
        check("5 d’abril de 2024", 0, 5, "2024-4-5");
        check("1er septembre 2024", 0, 3, "2024-9-1");
        check("2024. szeptember 19.", 0, 3, "2024-9-19");
        check("2 ИЮНЯ 2024 года", 0, 3, "2024-6-2");
        check("30 Νοεμβρίου 2024", 0, 3, "2024-11-30");
        check("१४ जनवरी २०२४", 0, 3, "2024-1-14");
        check("18 באוגוסט 2023", 0, 3, "2023-8-18");
        check("新闻 2024年6月15日", 1, 6, "2024-6-15");
        check("6월 15일", 0, 4, "0-6-15");
        check("2024年6月", 0, 3, "2024-6-0");
        check("2024年6月发票", 0, 3, "2024-6-0");
        check("1º de maio de 2024", 0, 5, "2024-5-1");
        check("7 tháng 9 năm 2024", 0, 5, "2024-9-7");
    }

    #[test]
    fn a_name_may_stand_for_different_months() {
        check("11 listopada 2023", 0, 3, "2023-11-11 2023-10-11");
    }

    #[test]
    fn a_month_alone_is_no_date() {
        for query in ["march", "march on 40", "may I", "5 marching bands", "40 march", "12月"] {
            assert_eq!(dates(query), [], "{query}");
        }
    }

    #[test]
    fn numbers_are_dates_if_one_is_a_year() {
        let found = |text: &str| dates_in_numbers(text).iter().map(shown).collect::<Vec<_>>();
        assert_eq!(found("2024-05-03"), ["2024-5-3"]);
        assert_eq!(found("3.5.2024"), ["2024-5-3"]);
        assert_eq!(found("05/13/2024"), ["2024-5-13"], "only one of the numbers can be the month");
        assert_eq!(found("5/3/2024"), ["2024-3-5", "2024-5-3"]);
        assert_eq!(found("20240513"), ["2024-5-13"]);
        for text in ["13.05.24", "13/5/24", "13.5.24"] {
            assert_eq!(found(text), ["2024-5-13"], "{text}");
        }
        for text in ["14.13.2024", "3.5", "3.5.24", "0012-05-03", "1.2.3.2024", "10.0.0.2024"] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
    }

    fn written(day: Option<u8>, year: Option<u16>, words: &[&str]) -> Vec<String> {
        let known: Vec<u32> = words.iter().map(|word| key_of(word)).collect();
        let variants = in_words(&CalendarDate { day, month: 3, year }, |words| words.iter().all(|word| known.contains(word)));
        variants.into_iter().map(|variant| variant.terms.join(" ")).collect()
    }

    #[test]
    fn a_date_is_written_with_the_names_that_a_collection_has() {
        let variants = written(Some(3), Some(2024), &["3", "2024", "März"]);
        assert!(
            ["3 märz 2024", "märz 3 2024", "2024 märz 3"].iter().all(|variant| variants.contains(&(*variant).to_owned())),
            "{variants:?}"
        );
        assert!(variants.iter().all(|variant| variant.contains("märz")), "{variants:?}");
        assert_eq!(written(Some(3), Some(2024), &["3", "März"]), [""; 0], "no passage has the year");
        assert!(written(Some(3), Some(2024), &["3rd", "2024", "march"]).contains(&"march 3rd 2024".to_owned()));
        assert!(written(Some(3), None, &["3", "marzo", "de"]).contains(&"3 de marzo".to_owned()));
        assert_eq!(written(None, Some(2024), &["2024", "март", "de"]), ["март 2024", "2024 март"]);
        assert_eq!(written(None, Some(2024), &["2024", "marzo", "de"]), ["marzo 2024", "2024 marzo", "marzo de 2024"]);
    }

    #[test]
    fn each_name_has_only_the_words_of_its_language_beside_it() {
        let words = ["3", "3rd", "march", "marzo", "март", "of", "de"];
        let english = ["3 march", "march 3", "3 of march", "3rd march", "march 3rd", "3rd of march"];
        let others = ["3 marzo", "marzo 3", "3 de marzo", "3 март", "март 3"];
        let mut variants = written(Some(3), None, &words);
        let mut expect = [&english[..], &others].concat();
        variants.sort_unstable();
        expect.sort_unstable();
        assert_eq!(variants, expect);
    }

    #[test]
    fn the_number_of_ways_is_limited() {
        let names: Vec<&str> = months().filter_map(|(_, mut names)| names.nth(2)).collect();
        let variants = written(Some(3), Some(2024), &[names, vec!["3", "03", "3rd", "2024", "de", "of"]].concat());
        assert_eq!(variants.len(), VARIANTS_MAX);
        assert!(variants.contains(&"3 март 2024".to_owned()) && variants.contains(&"3 mars 2024".to_owned()), "{variants:?}");
    }

    #[test]
    fn a_date_is_written_with_marks_after_its_numbers() {
        assert!(written(Some(3), Some(2024), &["3", "2024", "月"]).contains(&"2024 年 3 月 3".to_owned()));
        assert!(written(Some(3), Some(2024), &["3", "2024", "월"]).contains(&"2024 년 3 월 3".to_owned()));
        assert_eq!(written(Some(3), Some(2024), &["3", "2024", "tháng", "năm"]), ["3 tháng 3 năm 2024"]);
    }

    #[test]
    fn each_language_names_twelve_months() {
        for (_, names) in months() {
            let names: Vec<&str> = names.collect();
            assert_eq!(names.len(), 12, "{names:?}");
        }
    }
}
