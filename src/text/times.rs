//! Finds the times of day in a query, and the ways to write them: "6 pm", "18:00", "18h", "18 Uhr", "下午6点".

use std::ops::Range;

use unicode_normalization::char::is_combining_mark;

use super::asian_times::{asian_notations, asian_times};
use super::number_groups::written;
use super::runs::{Run, runs};
use crate::domain::terms::TermPhrase;

/// Maximum number of times of a query: the first ones.
const TIMES_MAX: usize = 4;
/// Number of hours of half a day.
const HALF: u8 = 12;

/// A time in the words of a query.
pub(super) struct TimeInWords {
    /// Position of its first word, and number of its words.
    pub(super) position: usize,
    pub(super) length: usize,
    /// The ways to write it, and those of some languages of Asia.
    pub(super) phrases: Vec<TermPhrase>,
    pub(super) asian: Vec<TermPhrase>,
}

/// What follows a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Nothing,
    Morning,
    Afternoon,
    /// A word that tells a time from other numbers.
    Clock,
    /// It may also be a number of hours.
    Hours,
}

/// Finds the times in a normalized query.
pub(super) fn times(normal: &str) -> Vec<TimeInWords> {
    let in_words =
        |time, position, length| TimeInWords { position, length, phrases: notations(time), asian: asian_notations(time) };
    let mut found: Vec<TimeInWords> = Vec::new();
    for (time, range) in asian_times(normal).into_iter().take(TIMES_MAX) {
        let (position, length) = runs_within(normal, &range);
        found.push(in_words(time, position, length));
    }
    let texts: Vec<&str> = normal.split_whitespace().collect();
    let count = |texts: &[&str]| texts.iter().map(|text| runs(text).count()).sum::<usize>();
    for (index, (time, length_in_texts)) in (0..texts.len()).filter_map(|index| Some((index, time(&texts[index..])?))) {
        if found.len() == TIMES_MAX {
            break;
        }
        let (position, length) = (count(&texts[..index]), count(&texts[index..index + length_in_texts]));
        if !found.iter().any(|other| other.position < position + length && position < other.position + other.length) {
            found.push(in_words(time, position, length));
        }
    }
    found
}

/// Returns the position of the first run within a range of bytes, and the number of them.
fn runs_within(normal: &str, range: &Range<usize>) -> (usize, usize) {
    let start = |text: &str| text.as_ptr() as usize - normal.as_ptr() as usize;
    let is_within = |run: &Run<'_>| range.start <= start(run.text) && start(run.text) + run.text.len() <= range.end;
    let position = runs(normal).take_while(|run| !is_within(run)).count();
    (position, runs(normal).skip(position).take_while(is_within).count())
}

/// Returns the hour and minute with which some texts begin, and the number of texts that it takes.
fn time(texts: &[&str]) -> Option<([u8; 2], usize)> {
    let text = texts.first()?.trim_matches(|c: char| !c.is_alphanumeric());
    let (hour, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let hour: u8 = hour.parse().ok().filter(|_| hour.len() <= 2)?;
    let sign = rest.chars().next().filter(|sign| matches!(sign, ':' | '.' | 'h'));
    let digits = sign.and_then(|_| rest.get(1..3)).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let minute: Option<u8> = digits.and_then(|digits| digits.parse().ok());
    let rest = if minute.is_some() { &rest[3..] } else { rest };
    let (mark, length_in_texts) = match rest {
        "" => (1..=2).find_map(|count| Some((mark(&texts.get(1..=count)?.concat())?, count + 1))).unwrap_or((Mark::Nothing, 1)),
        _ => (mark(rest)?, 1),
    };
    let is_time = match mark {
        Mark::Morning | Mark::Afternoon => (1..=HALF).contains(&hour),
        Mark::Clock => true,
        Mark::Hours => hour > HALF,
        Mark::Nothing => minute.is_some() && sign != Some('.'),
    };
    let hour = match mark {
        Mark::Morning => hour % HALF,
        Mark::Afternoon => hour % HALF + HALF,
        _ => hour,
    };
    let minute = minute.unwrap_or_default();
    (is_time && hour < 2 * HALF && minute < 60).then_some(([hour, minute], length_in_texts))
}

fn mark(text: &str) -> Option<Mark> {
    let letters: String = text.chars().filter(|c| c.is_alphanumeric() && !is_combining_mark(*c)).collect();
    match letters.as_str() {
        "am" => Some(Mark::Morning),
        "pm" => Some(Mark::Afternoon),
        "مساء" | "مساءا" => Some(Mark::Afternoon),
        "صباح" | "صباحا" => Some(Mark::Morning),
        "uhr" | "hrs" | "น" => Some(Mark::Clock),
        "h" => Some(Mark::Hours),
        _ => None,
    }
}

/// Returns the ways to write a time.
fn notations([hour, minute]: [u8; 2]) -> Vec<TermPhrase> {
    let (half, letters) = if hour < HALF { ("am", "a m") } else { ("pm", "p m") };
    let short = (hour + HALF - 1) % HALF + 1;
    let mut notations = Vec::new();
    if minute == 0 {
        notations.extend([format!("{short} {half}"), format!("{short}{half}"), format!("{short} {letters}")]);
        notations.extend([format!("{hour} uhr"), format!("{hour}h"), format!("{hour} h")]);
    }
    for notation in [format!("{hour} {minute:02}"), format!("{hour:02} {minute:02}"), format!("{hour}h{minute:02}")] {
        if !notations.contains(&notation) {
            notations.push(notation);
        }
    }
    notations.extend([half, letters].map(|half| format!("{short} {minute:02} {half}")));
    notations.push(format!("{short} {minute:02}{half}"));
    notations.iter().map(|notation| written(notation.split(' ').map(str::to_owned).collect())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways to write the only time of a query.
    fn notations_of(query: &str) -> Vec<String> {
        let found: Vec<TimeInWords> = times(query);
        assert!(found.len() <= 1, "{query}");
        found.iter().flat_map(|time| &time.phrases).map(|phrase| phrase.terms.join(" ")).collect()
    }

    #[test]
    fn a_time_is_written_in_24_hours_and_in_two_halves() {
        let evening = notations_of("6 pm");
        for notation in ["6 pm", "6pm", "6 p m", "18 00", "18h", "18h00", "18 uhr", "6 00 pm", "6 00pm"] {
            assert!(evening.contains(&notation.to_owned()), "{notation}: {evening:?}");
        }
        for query in ["6pm", "18:00", "18h", "18h00", "18 uhr", "18.00 uhr?", "6:00 p.m.", "6 p. m.", "(18:00)", "6.00pm"] {
            assert_eq!(notations_of(query), evening, "{query}");
        }
        let morning = notations_of("9:05");
        assert!(
            ["9 05", "09 05", "9h05", "9 05 am"].iter().all(|notation| morning.contains(&(*notation).to_owned())),
            "{morning:?}"
        );
        assert!(!morning.iter().any(|notation| notation.contains("uhr")), "{morning:?}");
    }

    #[test]
    fn noon_and_midnight_belong_to_the_half_that_they_begin() {
        let has = |query: &str, notation: &str| notations_of(query).contains(&notation.to_owned());
        assert!(has("12 pm", "12 00") && has("12 am", "0 00") && has("00:30", "12 30 am") && has("12:15", "12 15 pm"));
    }

    #[test]
    fn other_numbers_are_not_times() {
        for query in
            ["18", "18.00", "6", "25:00", "13 pm", "12:60", "6 h", "16:9", "1:00:00", "10:30x", "6 ml", "118:00", "pm", ""]
        {
            assert_eq!(notations_of(query), [""; 0], "{query}");
        }
    }

    #[test]
    fn a_query_has_at_most_the_maximum_of_times() {
        assert_eq!(times(&"6pm ".repeat(2 * TIMES_MAX)).len(), TIMES_MAX);
    }

    #[test]
    fn times_of_other_scripts_have_the_same_notations() {
        let evening = notations_of("6 pm");
        for query in ["下午6点", "午後 6 時", "오후 6시에", "6 مساءً", "18.00 น.", "6โมงเย็น"] {
            assert_eq!(notations_of(query), evening, "{query}");
        }
        let in_words = |query: &str| times(query).iter().map(|time| (time.position, time.length)).collect::<Vec<_>>();
        assert_eq!(in_words("train 下午6点"), [(1, 3)]);
        assert_eq!(in_words("明天下午6点开会"), [(1, 1)], "the other words are not only of the time");
    }

    #[test]
    fn a_time_says_which_words_of_the_query_it_is() {
        let found = times("the train at 6:30 p.m. please");
        assert_eq!(found.iter().map(|time| (time.position, time.length)).collect::<Vec<_>>(), [(3, 4)]);
    }
}
