//! Finds the other forms of words in Chinese characters and kana: simplified, traditional and Japanese characters, hiragana and
//! katakana.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

/// The characters that have other forms, a line for each traditional one.
const TABLE: &str = include_str!("variants.txt");
/// Maximum number of characters of a word that has other forms.
const CHARS_MAX: usize = 8;
/// Maximum number of forms of a word in one writing. A simplified character may stand for several traditional ones.
const FORMS_MAX: usize = 8;
/// The characters of hiragana, and those of katakana in the same order.
const HIRAGANA: RangeInclusive<char> = '\u{3041}'..='\u{3096}';
const KATAKANA: RangeInclusive<char> = '\u{30a1}'..='\u{30f6}';

/// A character in traditional, simplified and Japanese writing.
type Forms = [char; 3];
const SIMPLIFIED: usize = 1;

/// The lines of the table that have a character.
static FORMS_OF: LazyLock<FxHashMap<char, Vec<Forms>>> = LazyLock::new(|| {
    let mut forms_of: FxHashMap<char, Vec<Forms>> = FxHashMap::default();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut characters = line.chars();
        let Some((traditional, simplified)) = characters.next().zip(characters.next()) else { continue };
        let forms = [traditional, simplified, characters.next().unwrap_or(traditional)];
        for (index, character) in forms.iter().enumerate() {
            if !forms[..index].contains(character) {
                forms_of.entry(*character).or_default().push(forms);
            }
        }
    }
    forms_of
});

/// Returns the other forms of a word in Chinese characters or in one kind of kana, the likeliest ones if there are many. Other
/// words have none.
pub(super) fn other_forms(word: &str) -> Vec<String> {
    if word.is_ascii() || word.chars().nth(CHARS_MAX).is_some() {
        return Vec::new();
    }
    if let Some(kana) = other_kana(word) {
        return vec![kana];
    }
    if !word.chars().any(|c| FORMS_OF.contains_key(&c)) {
        return Vec::new();
    }
    let mut forms: Vec<String> = Vec::new();
    for writing in 0..3 {
        let mut beginnings = vec![String::new()];
        for c in word.chars() {
            match written(c, writing)[..] {
                [only] => beginnings.iter_mut().for_each(|form| form.push(only)),
                ref several => beginnings = with_each(&beginnings, several),
            }
        }
        forms.extend(beginnings.into_iter().filter(|form| form != word));
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Returns these beginnings of forms with each of the characters after them, the first `FORMS_MAX`.
fn with_each(beginnings: &[String], characters: &[char]) -> Vec<String> {
    let continued = |form: &String| characters.iter().map(|c| format!("{form}{c}")).collect::<Vec<_>>();
    beginnings.iter().flat_map(continued).take(FORMS_MAX).collect()
}

/// Returns a text with simplified characters, in which two writings of a title are equal. `None` if it has no others.
pub(super) fn simplified(text: &str) -> Option<String> {
    let is_other = |c: char| !c.is_ascii() && written(c, SIMPLIFIED) != [c];
    text.contains(is_other).then(|| text.chars().filter_map(|c| written(c, SIMPLIFIED).first().copied()).collect())
}

/// Returns how a character is written in the writing at this position of `Forms`: itself, if it has no other form there.
fn written(c: char, writing: usize) -> Vec<char> {
    let forms = FORMS_OF.get(&c).map_or(&[][..], Vec::as_slice);
    let has_elsewhere = |forms: &&Forms| forms.iter().enumerate().any(|(index, form)| index != writing && *form == c);
    let mut written: Vec<char> = Vec::new();
    for forms in forms.iter().filter(has_elsewhere) {
        if !written.contains(&forms[writing]) {
            written.push(forms[writing]);
        }
    }
    if written.is_empty() { vec![c] } else { written }
}

/// Returns a word of hiragana in katakana, or the other way round. A single character is rather a particle.
fn other_kana(word: &str) -> Option<String> {
    let first = word.chars().next()?;
    let both = [(HIRAGANA, KATAKANA), (KATAKANA, HIRAGANA)];
    let (range, other) = both.into_iter().find(|(range, _)| range.contains(&first))?;
    let written = |c: char| match range.contains(&c) {
        true => char::from_u32(u32::from(c) - u32::from(*range.start()) + u32::from(*other.start())),
        false => (c == 'ー').then_some(c),
    };
    if word.chars().nth(1).is_some() { word.chars().map(written).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_written_in_simplified_traditional_and_japanese_characters() {
        let forms = ["図書館", "圖書館", "图书馆"];
        for word in forms {
            let others = other_forms(word);
            assert!(forms.into_iter().all(|form| others.contains(&form.to_owned()) == (form != word)), "{word}: {others:?}");
        }
        assert_eq!(other_forms("标签"), ["標簽", "標籤"]);
        assert_eq!(other_forms("貼"), ["贴"]);
    }

    #[test]
    fn a_simplified_character_stands_for_several_traditional_ones() {
        let has = |word: &str, form: &str| other_forms(word).contains(&form.to_owned());
        assert!(has("头发", "頭髮") && has("发现", "發現") && has("干部", "幹部") && has("干净", "乾淨"));
        assert!(!has("乾", "幹"), "these are different words");
        assert!(has("皇后", "皇後") && !has("皇後", "皇后后"));
    }

    #[test]
    fn hiragana_and_katakana_are_forms_of_each_other() {
        assert_eq!(other_forms("りんご"), ["リンゴ"]);
        assert_eq!(other_forms("ラーメン"), ["らーめん"]);
        assert_eq!(other_forms("ヴィラ"), ["ゔぃら"]);
        for word in ["の", "ー", "リンごー", "食べる", "りんご1"] {
            assert_eq!(other_forms(word), [""; 0], "{word}");
        }
    }

    #[test]
    fn other_words_have_no_other_forms() {
        for word in ["", "label", "山水", "ตลาด", "도서관", "étiquette", &"書".repeat(CHARS_MAX + 1)] {
            assert_eq!(other_forms(word), [""; 0], "{word}");
        }
    }

    #[test]
    fn a_word_of_many_ambiguous_characters_has_few_forms() {
        let count = other_forms(&"发".repeat(CHARS_MAX)).len();
        assert!((1..=3 * FORMS_MAX).contains(&count), "{count}");
    }

    #[test]
    fn writings_of_a_title_are_equal_in_simplified_characters() {
        let expect = Some("图书馆 abc".to_owned());
        assert_eq!(
            [simplified("圖書館 abc"), simplified("図書館 abc"), simplified("图书馆 abc")],
            [expect.clone(), expect, None]
        );
    }
}
