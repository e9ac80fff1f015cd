//! Finds the times of day in Chinese, Japanese, Korean and Thai texts, where no space need separate them from other words
//! ("明天下午6点半", "18時に", "오후 6시", "บ่าย 3 โมง"), and the ways to write a time in these languages and in Arabic.

use std::ops::Range;

use super::terms::phrase;
use crate::domain::terms::TermPhrase;

/// Number of hours of half a day.
const HALF: u8 = 12;
/// In Thailand, hours of the evening count from this one.
const THAI_EVENING: u8 = 18;

/// Words before an hour, with what they add to it.
const BEFORE: [(&str, Half); 20] = [
    ("下午", Half::Afternoon),
    ("晚上", Half::Afternoon),
    ("傍晚", Half::Afternoon),
    ("午後", Half::Afternoon),
    ("夕方", Half::Afternoon),
    ("夜", Half::Afternoon),
    ("上午", Half::Morning),
    ("早上", Half::Morning),
    ("凌晨", Half::Morning),
    ("清晨", Half::Morning),
    ("午前", Half::Morning),
    ("朝", Half::Morning),
    ("오후", Half::Afternoon),
    ("저녁", Half::Afternoon),
    ("밤", Half::Afternoon),
    ("오전", Half::Morning),
    ("아침", Half::Morning),
    ("새벽", Half::Morning),
    ("บ่าย", Half::Afternoon),
    ("ตี", Half::Morning),
];
/// Words after an hour. The longer ones of those that begin alike come first.
const AFTER: [(&str, Half); 10] = [
    ("點", Half::Unknown),
    ("点", Half::Unknown),
    ("時", Half::Unknown),
    ("时", Half::Unknown),
    ("시", Half::Unknown),
    ("นาฬิกา", Half::Unknown),
    ("โมงเย็น", Half::Afternoon),
    ("โมงเช้า", Half::Morning),
    ("โมง", Half::Unknown),
    ("ทุ่ม", Half::ThaiEvening),
];
/// What makes these a number of hours.
const DURATIONS: [&str; 4] = ["間", "间", "간", "差"];
/// Words after minutes, and for half an hour.
const MINUTES: [&str; 3] = ["分", "분", "นาที"];
const HALF_HOUR: [&str; 3] = ["半", "반", "ครึ่ง"];

/// The half of the day that a word tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Unknown,
    Morning,
    Afternoon,
    ThaiEvening,
}

/// Returns the hours and minutes in a normalized text, each with its bytes.
pub(super) fn asian_times(normal: &str) -> Vec<([u8; 2], Range<usize>)> {
    if normal.is_ascii() {
        return Vec::new();
    }
    let is_digit = |position: usize| normal.as_bytes().get(position).is_some_and(u8::is_ascii_digit);
    let begins = |position: &usize| is_digit(*position) && !position.checked_sub(1).is_some_and(is_digit);
    (0..normal.len()).filter(begins).filter_map(|position| asian_time(&normal[..position], &normal[position..])).collect()
}

/// Returns the time with which a text begins, and its bytes in both texts together.
fn asian_time(before: &str, text: &str) -> Option<([u8; 2], Range<usize>)> {
    let (hour, rest) = number(text)?;
    let unit = rest.trim_start();
    let (after, of_unit) = AFTER.iter().find(|(after, _)| unit.starts_with(after))?;
    let rest = &unit[after.len()..];
    if DURATIONS.iter().any(|duration| rest.starts_with(duration)) {
        return None;
    }
    let written = before.trim_end();
    let (earlier, of_word) = BEFORE.iter().find(|(word, _)| written.ends_with(word)).copied().unwrap_or(("", Half::Unknown));
    let half = if *of_unit == Half::Unknown { of_word } else { *of_unit };
    // Without its half, "โมง" counts hours of the morning and of the afternoon.
    if half == Half::Unknown && *after == "โมง" {
        return None;
    }
    let hour = match half {
        Half::Unknown => hour,
        _ if hour > HALF && half != Half::ThaiEvening => hour,
        Half::Morning => hour % HALF,
        Half::Afternoon => hour % HALF + HALF,
        Half::ThaiEvening => hour + THAI_EVENING,
    };
    let (minute, rest) = minutes(rest).unwrap_or((0, rest));
    let start = if earlier.is_empty() { before.len() } else { written.len() - earlier.len() };
    let end = before.len() + text.len() - rest.len();
    (hour < 2 * HALF && minute < 60).then_some(([hour, minute], start..end))
}

/// Returns the number of one or two digits with which a text begins, and the rest.
fn number(text: &str) -> Option<(u8, &str)> {
    let (digits, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    Some((digits.parse().ok().filter(|_| digits.len() <= 2)?, rest))
}

/// Returns the minutes with which a text begins, and the rest.
fn minutes(text: &str) -> Option<(u8, &str)> {
    let text = text.trim_start();
    if let Some(rest) = HALF_HOUR.iter().find_map(|half| text.strip_prefix(half)) {
        return Some((30, rest));
    }
    let (minute, rest) = number(text)?;
    let rest = rest.trim_start();
    MINUTES.iter().find_map(|word| rest.strip_prefix(word)).map(|rest| (minute, rest))
}

/// Returns the ways to write a time in these languages.
pub(super) fn asian_notations([hour, minute]: [u8; 2]) -> Vec<TermPhrase> {
    let short = (hour + HALF - 1) % HALF + 1;
    let (chinese, japanese, korean, arabic) = match hour {
        0..HALF => (["上午", "早上", "凌晨"], "午前", "오전", "صباح"),
        _ => (["下午", "晚上", "傍晚"], "午後", "오후", "مساء"),
    };
    let mut of_hour: Vec<String> = ["点", "點", "時", "时", "시"].iter().map(|unit| format!("{hour}{unit}")).collect();
    of_hour.extend(chinese.iter().flat_map(|half| ["点", "點"].map(|unit| format!("{half}{short}{unit}"))));
    of_hour.extend([format!("{japanese}{short}時"), format!("{korean} {short}시")]);
    let half_hour = |text: &String| if text.ends_with('시') { format!("{text} 반") } else { format!("{text}半") };
    let mut texts: Vec<String> = match minute {
        0 => of_hour,
        30 => of_hour.iter().flat_map(|text| [format!("{text}30"), half_hour(text)]).collect(),
        _ => of_hour.iter().map(|text| format!("{text}{minute}")).collect(),
    };
    if minute == 0 {
        texts.extend(thai(hour, short));
        texts.extend([format!("{short} {arabic}"), format!("{short}:00 {arabic}")]);
    } else {
        texts.push(format!("{short}:{minute:02} {arabic}"));
    }
    let mut notations: Vec<TermPhrase> = texts.iter().filter_map(|text| phrase(text)).collect();
    // Arabic words have endings, with and without their signs.
    notations.iter_mut().for_each(|notation| notation.prefix |= notation.terms.last().is_some_and(|last| last == arabic));
    notations.dedup();
    notations
}

/// Returns the ways to write an hour in Thai.
fn thai(hour: u8, short: u8) -> Vec<String> {
    let spoken = match hour {
        1..=5 => Some(format!("ตี {hour}")),
        6..=11 => Some(format!("{hour} โมงเช้า")),
        13..=15 => Some(format!("บ่าย {short} โมง")),
        16..=18 => Some(format!("{short} โมงเย็น")),
        19..=23 => Some(format!("{} ทุ่ม", hour - THAI_EVENING)),
        _ => None,
    };
    let joined = spoken.iter().map(|spoken| spoken.replace(' ', ""));
    joined.chain(spoken.clone()).chain([format!("{hour} นาฬิกา")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of a text, with the words that say each.
    fn found(text: &str) -> Vec<(u8, u8, &str)> {
        asian_times(text).into_iter().map(|([hour, minute], range)| (hour, minute, &text[range])).collect()
    }

    #[test]
    fn a_time_may_stand_between_other_words() {
        assert_eq!(found("明天下午6点半开会"), [(18, 30, "下午6点半")]);
        assert_eq!(found("会議は午後6時15分から"), [(18, 15, "午後6時15分")]);
        assert_eq!(found("18時に集合"), [(18, 0, "18時")]);
        assert_eq!(found("오후 6시 30분에"), [(18, 30, "오후 6시 30분")]);
        assert_eq!(found("早上 9 點"), [(9, 0, "早上 9 點")]);
        assert_eq!(found("อังคาร 6 โมงเย็น บ่าย 3 โมง 2 ทุ่ม"), [(18, 0, "6 โมงเย็น"), (15, 0, "บ่าย 3 โมง"), (20, 0, "2 ทุ่ม")]);
        assert_eq!(found("下午18点 中午12点 上午12点"), [(18, 0, "下午18点"), (12, 0, "12点"), (0, 0, "上午12点")]);
    }

    #[test]
    fn other_numbers_are_not_times() {
        for text in ["6時間", "6 小时", "6시간", "25点", "118時", "3 โมง", "12月", "6 pm", "5時差", "下午", ""]
        {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn a_time_has_notations_in_each_language() {
        let has = |time, text: &str| asian_notations(time).contains(&phrase(text).unwrap());
        for text in ["18点", "18時", "18시", "下午6点", "晚上6點", "午後6時", "오후 6시", "6 โมงเย็น", "18 นาฬิกา"]
        {
            assert!(has([18, 0], text), "{text}");
        }
        assert!(has([9, 30], "上午9点半") && has([9, 30], "오전 9시 반") && has([9, 30], "午前9時30"));
        assert!(has([20, 0], "2 ทุ่ม") && has([3, 0], "ตี 3") && !has([20, 0], "20 โมงเย็น"));
        let arabic = asian_notations([18, 0]).into_iter().find(|notation| notation.terms == ["6", "مساء"]).unwrap();
        assert!(arabic.prefix);
    }
}
