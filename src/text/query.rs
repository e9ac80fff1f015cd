//! Parses the operators of a query: quotes around words that must occur in this order, and a minus before excluded words.
//!
//! A mark is only an operator where people would not type it otherwise. An apostrophe, an inch sign, the quote within a Hebrew
//! abbreviation, a hyphen, a dash and a negative number are plain text, and so is a quote that is never closed. The rules are
//! in `docs/search.md`.

use std::ops::Range;

use crate::domain::{Language, QueryTerms, TermPhrase};

use super::plain_words::has_words;
use super::runs::{is_pictograph, is_spaced_letter};
use super::terms::{self, QUERY_TERMS_MAX};

/// A minus before at most as many ASCII letters is rather a flag of a command ("-r", "-rf") than an excluded word.
const FLAG_LETTERS_MAX: usize = 2;

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryText {
    /// The query without its operators: without quote marks and excluded words.
    pub text: String,
    /// The quoted parts, which are also part of the text.
    pub phrases: Vec<String>,
    /// The excluded parts.
    pub excluded: Vec<String>,
    /// The part of the text that is searched for, if it is not all of it.
    topic: Option<Range<usize>>,
}

/// The reason why a query is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum QueryError {
    #[error(
        "must contain something to search for besides excluded words; \
         set operators to false to search for the text as it is"
    )]
    OnlyExcluded,
    /// The query has more required or excluded words than the limit. Cutting it off would change what it requires.
    #[error(
        "must require or exclude at most {limit} words (in quotes, after a minus, or with words \"all\"), got {got}; \
         set operators to false to search for the text as it is"
    )]
    TooManyDemands { limit: usize, got: usize },
}

impl QueryText {
    /// Parses the operators of a query. Some words may be options of commands, which are plain text with their minus.
    /// `is_option` receives the letters and digits after a minus, and whether a value follows them, as in "-dump:live".
    pub fn parse(query: &str, mut is_option: impl FnMut(&str, bool) -> bool) -> Self {
        let mut read = Self::default();
        let mut marks = Marks::default();
        let (mut rest, mut before) = (query, None);
        while let Some(c) = rest.chars().next() {
            let negated = is_minus(c) && before.is_none_or(char::is_whitespace);
            let (behind, left) = if negated { (&rest[c.len_utf8()..], None) } else { (rest, before) };
            let (what, end) = match marks.find_quote(behind, left) {
                Some(quoted) => (Some(quoted.inside).filter(|inside| has_words(inside)), quoted.bytes),
                None if negated && behind.starts_with(|c: char| c.is_alphabetic() || is_pictograph(c)) => {
                    let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
                    let word = behind[..end].trim_end_matches(|c: char| !c.is_alphanumeric() && !is_pictograph(c));
                    let is_flag = word.len() <= FLAG_LETTERS_MAX && word.bytes().all(|byte| byte.is_ascii_alphabetic());
                    let name = word.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                    let has_value = word[name.len()..].starts_with([':', '=']);
                    if is_flag || (!name.is_empty() && is_option(name, has_value)) {
                        (None, 0)
                    } else {
                        (Some(&behind[..end]), end)
                    }
                }
                None => (None, 0),
            };
            // Anything that is not an operator is text, and so are marks around nothing.
            let length = (rest.len() - behind.len() + end).max(c.len_utf8());
            match what {
                Some(what) => read.add(what, negated),
                None => {
                    for c in rest[..length].chars() {
                        read.push(c, before);
                        before = Some(c);
                    }
                }
            }
            before = rest[..length].chars().next_back();
            rest = &rest[length..];
        }
        read
    }

    /// Treats the whole query as text, without operators.
    pub fn literal(query: &str) -> Self {
        Self { text: query.to_owned(), ..Self::default() }
    }

    /// Searches for a part of the text only, which must be a range of it.
    pub fn limit_to(&mut self, topic: Option<Range<usize>>) {
        self.topic = topic;
    }

    /// Returns the part of the text that is searched for.
    pub fn topic(&self) -> &str {
        self.topic.as_ref().and_then(|topic| self.text.get(topic.clone())).unwrap_or(&self.text)
    }

    /// Checks that there is something to search for. Takes as little time as parsing the query.
    pub fn check(&self) -> Result<(), QueryError> {
        let says_something = self.excluded.is_empty() || has_words(&self.text);
        if says_something { Ok(()) } else { Err(QueryError::OnlyExcluded) }
    }

    /// Returns the terms of the query, with stems if its language is known, and its requirements. With `all_words`, every word
    /// is required.
    pub fn terms(&self, all_words: bool, language: Option<Language>) -> Result<QueryTerms, QueryError> {
        // Quoted words come first, so that they are not the ones that are cut off.
        let text = self.phrases.iter().map(String::as_str).chain([self.topic()]).collect::<Vec<_>>().join("\n");
        let mut found = terms::query_terms(&text, language);
        found.required = self.phrases.iter().filter_map(|phrase| Some(vec![terms::phrase(phrase)?])).collect();
        if all_words {
            found.required.extend(terms::words(&text, language));
        }
        found.excluded = self.excluded.iter().filter_map(|excluded| terms::phrase(excluded)).collect();
        let first = found.required.iter().filter_map(|forms| forms.first());
        let got: usize = first.chain(&found.excluded).map(|TermPhrase { terms, .. }| terms.len()).sum();
        if got > QUERY_TERMS_MAX {
            return Err(QueryError::TooManyDemands { limit: QUERY_TERMS_MAX, got });
        }
        Ok(found)
    }

    /// Adds the part that an operator applies to.
    fn add(&mut self, what: &str, negated: bool) {
        if negated {
            return self.excluded.push(what.to_owned());
        }
        // The mark before it was removed, so it has no character before it.
        let mut before = None;
        for c in what.chars() {
            self.push(c, before);
            before = Some(c);
        }
        self.phrases.push(what.to_owned());
    }

    /// Adds a character to the text. If a mark between two words was removed, adds a space to keep them apart.
    fn push(&mut self, c: char, before: Option<char>) {
        let last = self.text.chars().next_back();
        if last != before && last.is_some_and(is_spaced_letter) && is_spaced_letter(c) {
            self.text.push(' ');
        }
        self.text.push(c);
    }
}

/// Words between quote marks.
struct Quote<'q> {
    inside: &'q str,
    /// Number of bytes, including both marks.
    bytes: usize,
}

/// Finds quotes. Remembers which marks are never closed, so that a query full of them takes linear time.
#[derive(Default)]
struct Marks {
    unclosed: Vec<char>,
}

impl Marks {
    /// Returns the quote that a text begins with, even if it is empty.
    fn find_quote<'q>(&mut self, text: &'q str, before: Option<char>) -> Option<Quote<'q>> {
        let open = text.chars().next()?;
        let closing = closing_marks(open)?;
        if (is_upright(open) && before.is_some_and(is_spaced_letter)) || self.unclosed.contains(&open) {
            return None;
        }
        let from = open.len_utf8();
        let mut characters = text[from..].char_indices().peekable();
        while let Some((offset, c)) = characters.next() {
            let mut within_word = || characters.peek().is_some_and(|(_, next)| is_spaced_letter(*next));
            if closing.contains(&c) && !(is_upright(c) && within_word()) {
                return Some(Quote { inside: &text[from..from + offset], bytes: from + offset + c.len_utf8() });
            }
            if c == open && !is_upright(open) {
                // If two marks open, the inner one is the one that is closed.
                return None;
            }
        }
        self.unclosed.push(open);
        None
    }
}

/// Returns the marks that close a quote mark, or `None` if it is not a quote mark.
fn closing_marks(open: char) -> Option<&'static [char]> {
    Some(match open {
        '"' => &['"'],
        '＂' => &['＂'],
        '“' => &['”'],
        '”' => &['”'],
        '„' => &['“', '”', '"'],
        '«' => &['»'],
        '»' => &['«', '»'],
        '「' => &['」'],
        '『' => &['』'],
        '｢' => &['｣'],
        _ => return None,
    })
}

/// Whether a mark looks the same at both ends, or opens in one language and closes in another. In that case its neighbors
/// decide.
fn is_upright(mark: char) -> bool {
    matches!(mark, '"' | '＂' | '”' | '»')
}

/// Whether a character is the hyphen of keyboards, the full-width one, or the mathematical minus sign that some programs
/// replace it with.
pub fn is_minus(c: char) -> bool {
    matches!(c, '-' | '－' | '\u{2212}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses a query in which no word is an option.
    fn parse(query: &str) -> QueryText {
        QueryText::parse(query, |_, _| false)
    }

    /// Checks the text, phrases and exclusions of a query.
    #[track_caller]
    fn check(query: &str, text: &str, phrases: &[&str], excluded: &[&str]) {
        let read = parse(query);
        let [got_phrases, got_excluded] =
            [&read.phrases, &read.excluded].map(|of| of.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((read.text.as_str(), &got_phrases[..], &got_excluded[..]), (text, phrases, excluded), "{query:?}");
    }

    /// Checks that a query has no operators.
    #[track_caller]
    fn plain(query: &str) {
        check(query, query, &[], &[]);
    }

    #[test]
    fn quotes_of_every_kind_enclose_a_phrase() {
        check("\"heavy rain\" today", "heavy rain today", &["heavy rain"], &[]);
        check("„starker Regen“ heute", "starker Regen heute", &["starker Regen"], &[]);
        check("„starker Regen\" heute", "starker Regen heute", &["starker Regen"], &[]);
        check("“heavy rain”, “old wall”", "heavy rain, old wall", &["heavy rain", "old wall"], &[]);
        check("«forte pluie» »starker Regen«", "forte pluie starker Regen", &["forte pluie", "starker Regen"], &[]);
        check("”kraftigt regn” »kova sade»", "kraftigt regn kova sade", &["kraftigt regn", "kova sade"], &[]);
        check("明日の「大雨」と『強風』", "明日の大雨と強風", &["大雨", "強風"], &[]);
        check("我找\"北京大学\"的信息", "我找北京大学的信息", &["北京大学"], &[]);
        check("\"도서관\"에서 빌린 책", "도서관에서 빌린 책", &["도서관"], &[]);
    }

    #[test]
    fn flags_of_commands_are_plain_text() {
        for command in ["pip install -r requirements.txt", "rm -rf build", "curl -X POST"] {
            check(command, command, &[], &[]);
        }
        check("tar -x, then", "tar -x, then", &[], &[]);
        check("rain -wi2", "rain ", &[], &["wi2"]);
        check("vitamin -\"c\"", "vitamin ", &[], &["c"]);
        check("自行车 -车", "自行车 ", &[], &["车"]);
    }

    #[test]
    fn options_of_commands_are_plain_text() {
        let query = "java -Xmx4g -jar app.jar -Dport=80 -well-known";
        let mut checked = Vec::new();
        let read = QueryText::parse(query, |word, has_value| {
            checked.push((word.to_owned(), has_value));
            word != "jar" && word != "well"
        });
        assert_eq!(
            (read.text.as_str(), read.excluded),
            ("java -Xmx4g  app.jar -Dport=80 ", vec!["jar".into(), "well-known".into()])
        );
        let expect = [("Xmx4g", false), ("jar", false), ("Dport", true), ("well", false)];
        assert_eq!(checked, expect.map(|(word, has_value)| (word.to_owned(), has_value)));
    }

    #[test]
    fn a_minus_excludes_a_word_or_a_phrase() {
        check("rain -wind", "rain ", &[], &["wind"]);
        check("-wind rain", " rain", &[], &["wind"]);
        check("rain -well-known -l'été", "rain  ", &[], &["well-known", "l'été"]);
        check("rain -\"old wall\" -«vieux mur» sea", "rain   sea", &[], &["old wall", "vieux mur"]);
        check("天気\u{3000}－東京", "天気\u{3000}", &[], &["東京"]);
        check("rain -\"2024\"", "rain ", &[], &["2024"]);
        check("дождь −ветер", "дождь ", &[], &["ветер"]);
    }

    #[test]
    fn emoji_are_quoted_and_excluded_like_words() {
        check("party \"🎂\"", "party 🎂", &["🎂"], &[]);
        check("party -🎂", "party ", &[], &["🎂"]);
        check("party -❤\u{fe0f}", "party ", &[], &["❤\u{fe0f}"]);
        plain("\"→\" and -→");
        check_required_terms("\"I ♥ NY\" -👍🏽", false, &["i ♥ ny"], &["👍"]);
        assert_eq!(parse("-🎂 🎉").check(), Ok(()));
    }

    #[test]
    fn quotes_and_hyphens_that_are_not_operators_are_plain_text() {
        plain("well-known, e-mail and 1990-1995");
        plain("from -5 to +5 degrees");
        plain("rain - wind – sea -- land");
        plain("cargo build --release");
        plain("a 19\" monitor and a 24\" one");
        plain("it's o'clock 'quoted'");
        plain("דובר צה\"ל מסר");
        plain("\"דובר צה\"ל מסר");
        plain("an \"open quote");
        plain("„unten offen");
        plain("\"\" and \" \" and \"?!\"");
        plain("a-\"b");
        check("\"דובר צה\"ל מסר\" היום", "דובר צה\"ל מסר היום", &["דובר צה\"ל מסר"], &[]);
        check("he said \"no\" and \"never", "he said no and \"never", &["no"], &[]);
    }

    #[test]
    fn removing_quotes_keeps_adjacent_words_apart() {
        check("the„old“wall", "the old wall", &["old"], &[]);
        check("«vieux»mur", "«vieux»mur", &[], &[]);
    }

    #[test]
    fn the_inner_of_two_opening_quotes_starts_the_phrase() {
        check("„aussen „innen“ draussen", "„aussen innen draussen", &["innen"], &[]);
    }

    #[test]
    fn long_runs_of_operator_marks_are_parsed_quickly() {
        let clock = std::time::Instant::now();
        for marks in ["„", "\"", " \"", "« ", "-\"", " -„", "\" ", "\"a", " \"a", "“”", "「"] {
            parse(&marks.repeat(20_000));
            parse(&(marks.repeat(20_000) + "“ ”»」\""));
        }
        assert!(clock.elapsed().as_secs_f64() < 5.0, "{:?}", clock.elapsed());
    }

    /// Checks what a query requires. Forms are separated by |, and a star marks one that may continue.
    #[track_caller]
    fn check_required_terms(query: &str, all_words: bool, required: &[&str], excluded: &[&str]) {
        let terms = parse(query).terms(all_words, None).expect("the query is fine");
        let shown = |phrase: &TermPhrase| phrase.terms.join(" ") + if phrase.prefix { "*" } else { "" };
        let forms: Vec<String> =
            terms.required.iter().map(|forms| forms.iter().map(shown).collect::<Vec<_>>().join("|")).collect();
        let without: Vec<String> = terms.excluded.iter().map(shown).collect();
        assert_eq!(
            (forms, without),
            (required.iter().map(|term| (*term).to_owned()).collect(), excluded.iter().map(|term| (*term).to_owned()).collect()),
            "{query:?}"
        );
    }

    #[test]
    fn quoted_and_excluded_phrases_become_term_sequences() {
        check_required_terms("\"Schöne Straße\"", false, &["schöne strasse"], &[]);
        check_required_terms("rain -l'Été", false, &[], &["l été"]);
        check_required_terms("\"北京大学\" \"京\"", false, &["北京 京大 大学", "京*"], &[]);
        check_required_terms("\"東京 大阪\"", false, &["東京 京 大阪"], &[]);
        check_required_terms("\"iPhoneを買う\"", false, &["iphone を買 買う"], &[]);
        check_required_terms(
            "\"도서관\" \"도서관에서 책\" \"그 도서관\"",
            false,
            &["도서 서관", "도서 서관 관에 에서 서 책*", "그 도서관*"],
            &[],
        );
    }

    #[test]
    fn all_words_mode_requires_each_word_with_or_without_accents() {
        check_required_terms("Verspätung Zug zug", true, &["verspätung|verspatung", "zug"], &[]);
        check_required_terms("北京 天气", true, &["北京", "天气"], &[]);
        check_required_terms("rain \"old wall\" -sea", true, &["old wall", "old", "wall", "rain"], &["sea"]);
        check_required_terms("?!", true, &[], &[]);
    }

    #[test]
    fn queries_of_only_exclusions_or_too_many_terms_are_refused() {
        for (query, expect) in
            [("-wind", false), ("-wind -\"old wall\" ?!", false), ("-wind sea", true), ("-\"old\" \"sea\"", true), ("?!", true)]
        {
            assert_eq!(parse(query).check(), if expect { Ok(()) } else { Err(QueryError::OnlyExcluded) }, "{query}");
        }
        let refused = |query: &str, all: bool| parse(query).terms(all, None).expect_err(query);
        let many: String = (0..201).map(|n| format!("w{n} ")).collect();
        let too_many = QueryError::TooManyDemands { limit: 200, got: 201 };
        assert_eq!(refused(&many, true), too_many);
        assert_eq!(refused(&format!("\"{many}\""), false), too_many);
        assert_eq!(refused(&format!("a -\"{many}\""), false), too_many);
        assert!(parse(&many).terms(false, None).is_ok_and(|terms| terms.truncated));
    }

    #[test]
    fn truncating_a_long_query_keeps_its_quoted_words() {
        let many: String = (0..300).map(|n| format!("w{n} ")).collect();
        let terms = parse(&format!("{many}\"old wall\"")).terms(false, None).expect("the query is fine");
        assert!(["old", "wall"].iter().all(|word| terms.terms.iter().any(|term| term.text == *word)) && terms.truncated);
    }

    proptest! {
        /// Only marks, minus signs and excluded parts are lost, and only spaces are added.
        #[test]
        fn parsing_keeps_all_letters_in_the_text_or_the_exclusions(query in "[ab5 \"„“”«»「」\\-]{0,24}") {
            let read = parse(&query);
            let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            let excluded: usize = read.excluded.iter().map(|term| letters(term).len()).sum();
            prop_assert_eq!(letters(&query).len(), letters(&read.text).len() + excluded);
            for phrase in &read.phrases {
                prop_assert!(letters(&read.text).contains(&letters(phrase)));
            }
        }

        #[test]
        fn any_string_parses_as_a_query(query in any::<String>()) {
            let read = parse(&query);
            prop_assert!(read.phrases.iter().chain(&read.excluded).all(|term| has_words(term)));
        }
    }
}
