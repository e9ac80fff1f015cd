//! Converts Burmese text from the Zawgyi font's encoding to Unicode. Much of the web used Zawgyi before 2019: it assigns other
//! signs to Unicode's code points, puts the vowel ေ and the medial ြ before their consonant, and has separate code points for
//! stacked consonants. Text in Zawgyi shares almost no pieces with text in Unicode.
//!
//! A text is Zawgyi if it has sequences that Unicode's order of signs rules out. The meaning of each Zawgyi code point and the
//! order of the signs in a syllable follow Unicode Technical Note 11.

use std::borrow::Cow;

/// Minimum number of sequences invalid in Unicode, in longer texts; a single one is a typing error.
const EVIDENCE_MIN: usize = 2;
/// Minimum characters of a longer text.
const LONG: usize = 40;

const E: char = '\u{1031}';
const VIRAMA: char = '\u{1039}';
const ASAT: char = '\u{103a}';
const NGA: char = '\u{1004}';

/// Converts `text` to Unicode if it is Zawgyi; returns it unchanged otherwise.
pub fn to_unicode(text: &str) -> Cow<'_, str> {
    if is_zawgyi(text) { Cow::Owned(convert(text)) } else { Cow::Borrowed(text) }
}

/// Whether a text is written in Zawgyi.
pub fn is_zawgyi(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let follows = |index: usize, fits: &dyn Fn(char) -> bool| index.checked_sub(1).is_some_and(|before| fits(chars[before]));
    let impossible = |(index, &char): (usize, &char)| match char {
        E => !follows(index, &|before| is_consonant(before) || ('\u{103b}'..='\u{103e}').contains(&before)),
        VIRAMA => !chars.get(index + 1).is_some_and(|&next| is_consonant(next)),
        '\u{1060}'..='\u{1064}' | '\u{1066}'..='\u{107c}' | '\u{1085}'..='\u{108f}' | '\u{1091}'..='\u{1097}' => true,
        _ => false,
    };
    let evidence = chars.iter().enumerate().filter(|&letter| impossible(letter)).count();
    evidence >= if chars.len() < LONG { 1 } else { EVIDENCE_MIN }
}

/// One consonant or independent vowel with its signs.
#[derive(Debug, Default)]
struct Syllable {
    kinzi: bool,
    base: Option<char>,
    stacked: String,
    /// Asat before a medial, as in contractions.
    asat_first: bool,
    asat: bool,
    /// ya, ra, wa, ha
    medials: [bool; 4],
    e: bool,
    /// i, ii, ai
    upper: Option<char>,
    /// u, uu
    lower: Option<char>,
    aa: Option<char>,
    /// Anusvara, dot below, visarga.
    ends: [bool; 3],
}

fn convert(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut syllable = Syllable::default();
    for (index, &char) in chars.iter().enumerate() {
        let next = chars.get(index + 1).copied();
        let before = index.checked_sub(1).map(|before| chars[before]);
        match char {
            // A sign that is written before its consonant begins a new syllable.
            E | '\u{103b}' | '\u{107e}'..='\u{1084}' => {
                if syllable.base.is_some() || (char == E && syllable.e) {
                    std::mem::take(&mut syllable).write(&mut out);
                }
                if char == E { syllable.e = true } else { syllable.medials[1] = true }
            }
            _ => match base(char, before, next) {
                Some(base) => {
                    if syllable.base.is_some() {
                        std::mem::take(&mut syllable).write(&mut out);
                    }
                    syllable.base = Some(base);
                }
                None if !syllable.sign(char) => {
                    std::mem::take(&mut syllable).write(&mut out);
                    match char {
                        // Two ligatures of a consonant with another one stacked below it.
                        '\u{1091}' => out.push_str("\u{100f}\u{1039}\u{100d}"),
                        '\u{1092}' => out.push_str("\u{100b}\u{1039}\u{100c}"),
                        '\u{1097}' => out.push_str("\u{100b}\u{1039}\u{100b}"),
                        '\u{106e}' => out.push_str("\u{100d}\u{1039}\u{100d}"),
                        '\u{106f}' => out.push_str("\u{100d}\u{1039}\u{100e}"),
                        '\u{1086}' => out.push('\u{103f}'),
                        other => out.push(other),
                    }
                }
                None => {}
            },
        }
    }
    syllable.write(&mut out);
    out
}

/// The consonant or independent vowel of a Zawgyi code point, if it is one. Digits are accepted for the letters that they
/// resemble.
fn base(char: char, before: Option<char>, next: Option<char>) -> Option<char> {
    let digit = |char: Option<char>| char.is_some_and(|char| ('\u{1040}'..='\u{1049}').contains(&char) || char.is_ascii_digit());
    let burmese = |char: Option<char>| char.is_some_and(|char| ('\u{1000}'..='\u{109f}').contains(&char));
    match char {
        '\u{1025}' if next == Some(VIRAMA) => Some('\u{1009}'),
        '\u{1000}'..='\u{102a}' => Some(char),
        '\u{1040}' if before == Some(E) || (burmese(next) && !digit(before) && !digit(next)) => Some('\u{101d}'),
        '\u{1044}' if next == Some(NGA) => Some('\u{104e}'),
        '\u{106a}' => Some('\u{1009}'),
        '\u{106b}' => Some('\u{100a}'),
        '\u{108f}' => Some('\u{1014}'),
        '\u{1090}' => Some('\u{101b}'),
        _ => None,
    }
}

/// The consonant that a Zawgyi code point stacks below another one, if it does.
fn stacked(char: char) -> Option<char> {
    Some(match char {
        '\u{1060}' => '\u{1000}',
        '\u{1061}' => '\u{1001}',
        '\u{1062}' => '\u{1002}',
        '\u{1063}' => '\u{1003}',
        '\u{1065}' => '\u{1005}',
        '\u{1066}' | '\u{1067}' => '\u{1006}',
        '\u{1068}' => '\u{1007}',
        '\u{1069}' => '\u{1008}',
        '\u{106c}' => '\u{100b}',
        '\u{106d}' => '\u{100c}',
        '\u{1070}' => '\u{100f}',
        '\u{1071}' | '\u{1072}' => '\u{1010}',
        '\u{1073}' | '\u{1074}' => '\u{1011}',
        '\u{1075}' => '\u{1012}',
        '\u{1076}' => '\u{1013}',
        '\u{1077}' => '\u{1014}',
        '\u{1078}' => '\u{1015}',
        '\u{1079}' => '\u{1016}',
        '\u{107a}' => '\u{1017}',
        '\u{107b}' | '\u{1093}' => '\u{1018}',
        '\u{107c}' => '\u{1019}',
        '\u{1085}' => '\u{101c}',
        '\u{1096}' => '\u{1010}',
        _ => return None,
    })
}

impl Syllable {
    /// Adds a sign; returns whether the code point is a sign that follows a consonant.
    fn sign(&mut self, char: char) -> bool {
        if self.base.is_none() {
            return false;
        }
        if let Some(consonant) = stacked(char) {
            self.stacked.extend([VIRAMA, consonant]);
            // The ligature of a stacked ta with the medial wa.
            self.medials[2] |= char == '\u{1096}';
            return true;
        }
        let medial = |syllable: &mut Self, indexes: &[usize]| {
            (syllable.asat_first, syllable.asat) = (syllable.asat_first | syllable.asat, false);
            indexes.iter().for_each(|&index| syllable.medials[index] = true);
        };
        match char {
            VIRAMA => self.asat = true,
            ASAT | '\u{107d}' => medial(self, &[0]),
            '\u{103c}' => medial(self, &[2]),
            '\u{103d}' | '\u{1087}' => medial(self, &[3]),
            '\u{108a}' => medial(self, &[2, 3]),
            '\u{1088}' => (self.medials[3], self.lower) = (true, Some('\u{102f}')),
            '\u{1089}' => (self.medials[3], self.lower) = (true, Some('\u{1030}')),
            '\u{102b}' | '\u{102c}' => self.aa = Some(char),
            '\u{105a}' => (self.aa, self.asat) = (Some('\u{102b}'), true),
            '\u{102d}' | '\u{102e}' | '\u{1032}' => self.upper = Some(char),
            '\u{102f}' | '\u{1033}' => self.lower = Some('\u{102f}'),
            '\u{1030}' | '\u{1034}' => self.lower = Some('\u{1030}'),
            '\u{1064}' => self.kinzi = true,
            '\u{108b}' => (self.kinzi, self.upper) = (true, Some('\u{102d}')),
            '\u{108c}' => (self.kinzi, self.upper) = (true, Some('\u{102e}')),
            '\u{108d}' => (self.kinzi, self.ends[0]) = (true, true),
            '\u{108e}' => (self.upper, self.ends[0]) = (Some('\u{102d}'), true),
            '\u{1036}' => self.ends[0] = true,
            '\u{1037}' | '\u{1094}' | '\u{1095}' => self.ends[1] = true,
            '\u{1038}' => self.ends[2] = true,
            _ => return false,
        }
        true
    }

    /// Writes the signs in Unicode's order.
    fn write(self, out: &mut String) {
        if self.kinzi {
            out.extend([NGA, ASAT, VIRAMA]);
        }
        out.extend(self.base);
        if self.asat_first {
            out.push(ASAT);
        }
        out.push_str(&self.stacked);
        out.extend(('\u{103b}'..='\u{103e}').zip(self.medials).filter_map(|(medial, there)| there.then_some(medial)));
        if self.e {
            out.push(E);
        }
        out.extend([self.upper, self.lower, self.aa].into_iter().flatten());
        // Dot below comes before asat in the canonical order.
        let signs = [('\u{1036}', self.ends[0]), ('\u{1037}', self.ends[1]), (ASAT, self.asat), ('\u{1038}', self.ends[2])];
        out.extend(signs.into_iter().filter_map(|(sign, there)| there.then_some(sign)));
    }
}

fn is_consonant(char: char) -> bool {
    ('\u{1000}'..='\u{102a}').contains(&char) || char == '\u{103f}'
}

#[cfg(test)]
mod tests {
    use dragoman::text::normalize::normalize;

    use super::*;

    fn check(zawgyi: &str, unicode: &str) {
        assert_eq!(normalize(&convert(zawgyi)), normalize(unicode), "{zawgyi}");
        assert!(!is_zawgyi(unicode), "{unicode}");
    }

    #[test]
    fn signs_written_before_their_consonant_move_after_it() {
        check("ျမန္မာစာ", "မြန်မာစာ");
        check("ေက်ာင္း", "ကျောင်း");
        check("ေျပာၾကသည္", "ပြောကြသည်");
        check("ေရြးသည္", "ရွေးသည်");
    }

    #[test]
    fn stacked_consonants_and_kinzi_become_unicode_sequences() {
        check("အဂၤလိပ္", "အင်္ဂလိပ်");
        check("သတၱဳ", "သတ္တု");
        check("ဥကၠ႒", "ဥက္ကဋ္ဌ");
        check("ကမၻာ", "ကမ္ဘာ");
    }

    #[test]
    fn zawgyi_code_points_are_mapped_to_unicode() {
        check("ႏိုင္ငံ", "နိုင်ငံ");
        check("လႊတ္ေတာ္", "လွှတ်တော်");
        check("ၾကည့္ပါ", "ကြည့်ပါ");
        check("ညႊန္းသည္", "ညွှန်းသည်");
    }

    #[test]
    fn digits_used_as_letters_become_letters_and_numbers_stay() {
        check("ေ၀လ", "ဝေလ");
        check("၄င္းတို႔", "၎င်းတို့");
        assert_eq!(convert("၂၀၁၉"), "၂၀၁၉");
    }

    #[test]
    fn unicode_burmese_and_other_scripts_are_unchanged() {
        for text in ["မနက်ဖြန် ရထားက ဘယ်အချိန် ထွက်မလဲ။", "တက္ကသိုလ် ကျောင်းသားများ ပန်းခြံထဲမှာ ထိုင်နေကြတယ်။", "the 7 o'clock train"]
        {
            assert!(matches!(to_unicode(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
