//! Detects languages without a bundle's head: by scripts, letters, trigrams and frequent words.
//!
//! If possible, the script decides: eleven of the languages have one to themselves, and kana distinguish Japanese from Chinese.
//! Between languages with the same script, letters decide that only some of them have (Cyrillic, Arabic), and the trigrams of
//! `whatlang`. In Latin script, frequent words also count. They cover the languages that `whatlang` lacks (Albanian, Basque,
//! Galician, Kurdish, Malay, Swahili, Yoruba) and distinguish close relatives.
//!
//! Limits: Serbian in Latin letters is mistaken for Croatian, Japanese without kana for Chinese, Kurdish in Arabic letters for
//! Persian or Urdu, and Nynorsk for Bokmål. A short text without a distinctive word is mistaken for a relative: Malay for
//! Indonesian (in nearly half of all sentences), Galician for Portuguese or Spanish, Bokmål for Danish. A text in none of the
//! 62 languages is mistaken for one of them.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_segmentation::UnicodeSegmentation;
use whatlang::{Detector, Lang};

use super::script::{Script, is_foreign, is_kana, script_of};
use crate::domain::{DetectedLanguage, Language};
use crate::text::normalize::normalize;

/// Frequent words of the languages in Latin script. Each row begins with the code of its language. The words were counted in
/// mixed text and chosen by how much more frequent they are in one language than in the others. A word that a close relative
/// shares is in both rows, so it is not evidence for either.
static FREQUENT_WORDS: LazyLock<Vec<(&str, &str)>> =
    LazyLock::new(|| include_str!("frequent_words.txt").lines().filter_map(|row| row.split_once(' ')).collect());

/// Maximum number of letters of a text to read. Trigram counts are conclusive long before that, and a book takes no longer than
/// a page.
const LETTERS_MAX: usize = 1_000;

/// Detects the language for a bundle that has no head. Build it once; detection takes `&self`.
pub struct RuleDetector {
    by_trigrams: Detector,
    /// For each frequent word, the rows of `FREQUENT_WORDS` that have it.
    rows: HashMap<&'static str, Vec<usize>>,
}

impl RuleDetector {
    /// Builds the table of frequent words. The trigrams are part of the program.
    pub fn new() -> Self {
        let mut rows: HashMap<&'static str, Vec<usize>> = HashMap::new();
        for (row, (_, words)) in FREQUENT_WORDS.iter().enumerate() {
            for word in words.split(' ') {
                rows.entry(word).or_default().push(row);
            }
        }
        let known = BY_TRIGRAMS.iter().map(|(lang, _)| *lang).collect();
        Self { by_trigrams: Detector::with_allowlist(known), rows }
    }

    /// Returns the most likely language of `text`, or `None` if there is no evidence for any.
    pub fn detect(&self, text: &str) -> Option<DetectedLanguage> {
        if is_foreign(text) {
            return None;
        }
        let (script, share) = main_script(text)?;
        let (code, confidence) = match script {
            Script::Of(code) => (code, 1.0),
            Script::Han if main_script_is_japanese(text) => ("ja", 1.0),
            Script::Han => ("zh", 1.0),
            Script::Latin => self.latin(&letters_of(text, script))?,
            Script::Cyrillic => by_alphabet(&letters_of(text, script), CYRILLIC)?,
            Script::Arabic => by_alphabet(&letters_of(text, script), ARABIC)?,
            Script::Devanagari => self.trigrams(&letters_of(text, script))?,
        };
        Some(DetectedLanguage { language: Language::parse(code)?, confidence: (confidence * share).clamp(0.0, 1.0) })
    }

    fn trigrams(&self, letters: &str) -> Option<(&'static str, f32)> {
        let found = self.by_trigrams.detect(letters)?;
        Some((code_of(found.lang())?, found.confidence() as f32))
    }

    /// Adds up the evidence of the frequent words for each language, and of the trigrams for the language that they found. The
    /// trigrams count about as much as two words that no other language has.
    fn latin(&self, letters: &str) -> Option<(&'static str, f32)> {
        let mut scores = vec![0.0_f32; FREQUENT_WORDS.len()];
        for word in letters.unicode_words() {
            for &row in self.rows.get(word).map_or(&[][..], Vec::as_slice) {
                scores[row] += self.weight(word);
            }
        }
        if let Some((guess, confidence)) = self.trigrams(letters) {
            for (row, (code, _)) in FREQUENT_WORDS.iter().enumerate() {
                if *code == guess {
                    scores[row] += 2.01 + 4.0 * confidence;
                } else if UNKNOWN_RELATIVES.contains(&(guess, code)) {
                    scores[row] += 2.0 + 4.0 * confidence;
                }
            }
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let (best, second) = (*order.first()?, *order.get(1)?);
        if scores[best] == 0.0 {
            return None;
        }
        // The confidence is one half if the second language is as likely, and rises with the distance.
        let confidence = 1.0 - 0.5 * (-0.5 * (scores[best] - scores[second])).exp();
        Some((FREQUENT_WORDS[best].0, confidence))
    }

    /// Returns how much a word counts for the languages that have it. The fewer they are, the more it counts.
    fn weight(&self, word: &str) -> f32 {
        let having = self.rows.get(word).map_or(FREQUENT_WORDS.len(), Vec::len);
        (FREQUENT_WORDS.len() as f32 / having as f32).ln()
    }
}

impl Default for RuleDetector {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the script of most of the first letters, and their share of all letters. A Chinese character or a
/// Korean syllable counts as three letters, so that a foreign name does not outweigh the text around it.
pub(super) fn main_script(text: &str) -> Option<(Script, f32)> {
    let mut weights: Vec<(Script, u32)> = Vec::new();
    let mut total = 0;
    for script in text.chars().filter_map(script_of).take(LETTERS_MAX) {
        let weight = if matches!(script, Script::Han | Script::Of("ko")) { 3 } else { 1 };
        total += weight;
        match weights.iter_mut().find(|(of, _)| *of == script) {
            Some((_, sum)) => *sum += weight,
            None => weights.push((script, weight)),
        }
    }
    // Of two scripts with the same weight, takes the one that came first.
    let (script, weight) = weights.into_iter().rev().max_by_key(|(_, weight)| *weight)?;
    Some((script, weight as f32 / total as f32))
}

/// Whether one in ten Chinese characters and kana is kana. Japanese has more; a Chinese text may quote some.
fn main_script_is_japanese(text: &str) -> bool {
    let letters = || text.chars().filter(|&c| script_of(c) == Some(Script::Han)).take(LETTERS_MAX);
    letters().filter(|&c| is_kana(c)).count() * 10 >= letters().count()
}

/// Returns the first letters of `text` that are in `script` if it also has others.
pub(super) fn letters_in(text: &str, script: Script) -> Option<String> {
    text.chars().filter_map(script_of).any(|other| other != script).then(|| letters_of(text, script))
}

/// Returns the first letters of `text` that are in `script`, normalized, with their marks; everything else becomes white space.
fn letters_of(text: &str, script: Script) -> String {
    let mut left = LETTERS_MAX;
    let letters = text.chars().map_while(|c| match script_of(c) {
        Some(of) if of == script => {
            left = left.checked_sub(1)?;
            Some(c)
        }
        None if matches!(c, '\u{300}'..='\u{36f}' | '\'' | '’') => Some(c),
        _ => Some(' '),
    });
    let letters: String = letters.collect();
    // Most texts are already composed, and lower-casing alone is several times faster.
    if letters.contains(|c| matches!(c, '\u{300}'..='\u{36f}' | '\u{fb00}'..='\u{feff}' | '\u{ff00}'..='\u{ffef}')) {
        return normalize(&letters);
    }
    letters.to_lowercase()
}

/// Chooses a language by the letters that a language does not have, then by trigrams. `alphabets` lists, in the order of
/// preference, the letters of each language that not all of the others have.
fn by_alphabet(letters: &str, alphabets: &[(&'static str, &str)]) -> Option<(&'static str, f32)> {
    let special = |c: &char| alphabets.iter().any(|(_, has)| has.contains(*c));
    let (mut fewest, mut found) = (usize::MAX, Vec::new());
    for (code, has) in alphabets {
        let foreign = letters.chars().filter(special).filter(|c| !has.contains(*c)).count();
        if foreign < fewest {
            (fewest, found) = (foreign, Vec::new());
        }
        if foreign == fewest {
            found.push(*code);
        }
    }
    let known = BY_TRIGRAMS.iter().filter(|(_, code)| found.contains(code)).map(|(lang, _)| *lang);
    match found[..] {
        [only] => Some((only, 1.0)),
        _ => match Detector::with_allowlist(known.collect()).detect(letters) {
            Some(answer) => Some((code_of(answer.lang())?, answer.confidence() as f32)),
            None => Some((*found.first()?, 0.1)),
        },
    }
}

/// Letters of the Cyrillic alphabets that are not in all of them.
pub(super) const CYRILLIC: &[(&str, &str)] = &[
    ("ru", "ёйщъыьэюя"),
    ("uk", "йщьюяґєії"),
    ("bg", "йщъьюя"),
    ("sr", "ђјљњћџ"),
    ("mk", "ѓѕјљњќџѐѝ"),
    ("mn", "ёйщъыьэюяөү"),
    ("kk", "ёйщъыьэюяіғқңһұүәө"),
];

/// Letters of the Arabic alphabets that are not in all of them.
const ARABIC: &[(&str, &str)] = &[("ar", "أإؤئةىيك"), ("fa", "أؤئپچژگکی"), ("ur", "أؤئپچژگکیٹڈڑںھہۂۃےۓ")];

/// Relatives that the trigrams do not know: a text that they take for the first language is as likely to be in the second one.
const UNKNOWN_RELATIVES: [(&str, &str); 3] = [("id", "ms"), ("pt", "gl"), ("es", "gl")];

/// The languages of `whatlang` that are among the 62, with their codes. Those that have a script to themselves are left out.
static BY_TRIGRAMS: LazyLock<Vec<(Lang, &str)>> = LazyLock::new(|| {
    let shares_script = |language: &Language| matches!(language.script(), "Latn" | "Cyrl" | "Arab" | "Deva");
    let with_code = |lang: &Lang| Some((*lang, Language::from_tag(lang.code()).ok().filter(shares_script)?.code()));
    Lang::all().iter().filter_map(with_code).collect()
});

/// Returns the code of a language of `whatlang`, if it is one of these.
fn code_of(lang: Lang) -> Option<&'static str> {
    BY_TRIGRAMS.iter().find(|(known, _)| *known == lang).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(code: &str, text: &str) {
        let found = RuleDetector::new().detect(text).map(|found| found.language.code());
        assert_eq!(found, Some(code), "{text:?}");
    }

    #[test]
    fn the_codes_of_whatlang_belong_to_the_right_languages() {
        assert_eq!(BY_TRIGRAMS.len(), 39);
        for (lang, code) in [(Lang::Pes, "fa"), (Lang::Nob, "nb"), (Lang::Tgl, "tl"), (Lang::Srp, "sr"), (Lang::Mar, "mr")] {
            assert_eq!(code_of(lang), Some(code));
        }
        assert_eq!(code_of(Lang::Lat), None);
    }

    #[test]
    fn a_unique_script_identifies_its_language() {
        check("el", "Η γάτα κοιμάται πάνω στο τραπέζι.");
        check("he", "החתול ישן על השולחן.");
        check("hy", "Կատուն քնած է սեղանի վրա։");
        check("ka", "კატას მაგიდაზე სძინავს.");
        check("bn", "বিড়ালটি টেবিলের উপর ঘুমাচ্ছে।");
        check("gu", "બિલાડી ટેબલ પર સૂઈ રહી છે.");
        check("ta", "பூனை மேசை மீது தூங்குகிறது.");
        check("te", "పిల్లి బల్ల మీద నిద్రపోతోంది.");
        check("ml", "പൂച്ച മേശപ്പുറത്ത് ഉറങ്ങുന്നു.");
        check("th", "แมวนอนหลับอยู่บนโต๊ะ");
        check("my", "ကြောင်က စားပွဲပေါ်မှာ အိပ်နေတယ်။");
        check("ko", "고양이가 탁자 위에서 자고 있다.");
    }

    #[test]
    fn kana_distinguish_japanese_from_chinese() {
        check("ja", "猫が机の上で寝ている。");
        check("zh", "猫在桌子上睡觉。");
        check("zh", "貓在桌子上睡覺。");
    }

    #[test]
    fn letters_distinguish_cyrillic_and_arabic_alphabets() {
        check("ru", "Кошка спит на столе, а мы пьём чай и говорим о погоде.");
        check("uk", "Кішка спить на столі, а ми п'ємо чай і говоримо про погоду.");
        check("bg", "Котката спи на масата, а ние пием чай и говорим за времето навън.");
        check("sr", "Мачка спава на столу, а ми пијемо чај и причамо о времену, које ће бити лепо.");
        check("mk", "Мачката спие на масата, а ние пиеме чај и зборуваме за времето и за нашиот ѕид.");
        check("kk", "Мысық үстелде ұйықтап жатыр, ал біз шай ішіп отырмыз.");
        check("mn", "Муур ширээн дээр унтаж байна, бид цай ууж өдрийг өнгөрөөнө.");
        check("ar", "القطة نائمة على الطاولة ونحن نشرب الشاي.");
        check("fa", "گربه روی میز خوابیده است و ما چای می‌نوشیم.");
        check("ur", "بلی میز پر سو رہی ہے اور ہم چائے پی رہے ہیں۔");
    }

    #[test]
    fn trigrams_and_words_distinguish_latin_languages() {
        check("en", "The cat is sleeping on the table while we drink our tea.");
        check("de", "Die Katze schläft auf dem Tisch, während wir unseren Tee trinken.");
        check("fr", "Le chat dort sur la table pendant que nous buvons notre thé.");
        check("it", "Il gatto dorme sul tavolo mentre noi beviamo il nostro tè.");
        check("es", "El gato duerme sobre la mesa mientras tomamos el té en la cocina.");
        check("pt", "O gato dorme em cima da mesa enquanto nós tomamos o nosso chá.");
        check("ca", "El gat dorm damunt la taula mentre nosaltres prenem el te amb els veïns.");
        check("ro", "Pisica doarme pe masă în timp ce noi bem ceaiul nostru.");
        check("pl", "Kot śpi na stole, a my pijemy herbatę i rozmawiamy.");
        check("cs", "Kočka spí na stole, zatímco my pijeme čaj a povídáme si o tom, co bylo.");
        check("sk", "Mačka spí na stole, zatiaľ čo my pijeme čaj a rozprávame sa o tom, čo bolo.");
        check("hu", "A macska az asztalon alszik, mi pedig teát iszunk.");
        check("fi", "Kissa nukkuu pöydällä, ja me juomme teetä keittiössä.");
        check("et", "Kass magab laua peal ja meie joome köögis teed.");
        check("lv", "Kaķis guļ uz galda, bet mēs dzeram tēju virtuvē.");
        check("lt", "Katė miega ant stalo, o mes geriame arbatą virtuvėje.");
        check("tr", "Kedi masanın üzerinde uyuyor, biz de çayımızı içiyoruz.");
        check("vi", "Con mèo đang ngủ trên bàn trong khi chúng tôi uống trà.");
        check("tl", "Natutulog ang pusa sa ibabaw ng mesa habang umiinom kami ng tsaa.");
        check("eo", "La kato dormas sur la tablo, dum ni trinkas nian teon kaj parolas.");
        check("sv", "Katten sover på bordet, och vi dricker vårt te och talar om vad som ska hända.");
        check("jv", "Kucing iku turu ing ndhuwur meja nalika aku lan kanca-kanca ngombe teh.");
    }

    #[test]
    fn words_cover_languages_that_trigrams_do_not() {
        check("sq", "Macja po fle mbi tryezë, ndërsa ne pimë çajin tonë dhe flasim për motin.");
        check("eu", "Katua mahai gainean lo dago, eta gu tea edaten ari gara sukaldean.");
        check("gl", "O gato dorme enriba da mesa mentres nós tomamos o té coa nosa avoa e non hai présa.");
        check("ku", "Pisîk li ser maseyê radizê û em jî çayê vedixwin.");
        check("ms", "Kucing itu tidur di atas meja kerana hujan turun selepas tengah hari, dan kami boleh minum teh sahaja.");
        check("sw", "Paka analala juu ya meza wakati sisi tunakunywa chai katika nyumba yetu.");
        check("yo", "Ológbò náà ń sùn lórí tábìlì, àwọn ọmọ sì ń mu tíì nínú ilé.");
    }

    #[test]
    fn words_distinguish_closely_related_languages() {
        check("da", "Katten sover på bordet, og efter maden sagde hun noget om hvad der blev af os.");
        check("nb", "Katten sover på bordet, og etter maten sa hun noe om hva som ble av oss nå.");
        check("nl", "De kat slaapt op de tafel, terwijl wij onze thee drinken en over het weer praten.");
        check("af", "Die kat slaap op die tafel terwyl ons ons tee drink en oor die weer praat.");
        check("hr", "Mačka spava na stolu, a mi pijemo čaj i razgovaramo o tome što će biti sutra.");
        check("sl", "Mačka spi na mizi, mi pa pijemo čaj in se pogovarjamo o tem, kaj bo jutri.");
        check("id", "Kucing itu tidur di atas meja karena hujan turun setelah siang, dan kami bisa minum teh saja.");
    }

    #[test]
    fn a_foreign_name_does_not_change_the_language() {
        check("ru", "Мы читали о Microsoft и Google в сегодняшней газете.");
        check("zh", "我们用 Microsoft Windows 写了这封信。");
        check("ar", "كتبنا هذه الرسالة ببرنامج Word أمس.");
    }

    #[test]
    fn only_the_beginning_of_a_long_text_decides_its_language() {
        let text = format!("{}{}", "Le chat dort sur la table. ".repeat(80), "The cat sleeps on the table. ".repeat(40_000));
        check("fr", &text);
    }

    #[test]
    fn the_tables_cover_exactly_the_supported_languages() {
        let by_words = FREQUENT_WORDS.iter().map(|(code, _)| *code);
        let by_letters = CYRILLIC.iter().chain(ARABIC).map(|(code, _)| *code);
        let by_trigrams = Lang::all().iter().filter_map(|&lang| code_of(lang));
        let by_script = (0..=u32::from(char::MAX)).filter_map(char::from_u32).filter_map(script_of);
        let by_script = by_script.filter_map(|script| if let Script::Of(code) = script { Some(code) } else { None });
        let mut covered: Vec<&str> = by_words.chain(by_letters).chain(by_trigrams).chain(by_script).chain(["ja", "zh"]).collect();
        covered.sort_unstable();
        covered.dedup();
        let all: Vec<&str> = Language::all().map(Language::code).collect();
        assert_eq!(covered, all);
    }

    proptest! {
        #[test]
        fn confidence_is_between_zero_and_one_for_any_text(text in "\\PC{0,60}") {
            if let Some(found) = RuleDetector::new().detect(&text) {
                prop_assert!((0.0..=1.0).contains(&found.confidence), "{}", found.confidence);
            }
        }
    }
}
