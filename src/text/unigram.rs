//! A fast implementation of the tokenizers trained here. It is several times as fast as the general one and returns the same
//! tokens.
//!
//! These are Unigram models (Kudo, "Subword regularization", 2018) over words in lower case and in Unicode's form NFKC. For
//! most words, a quick check shows that this form is just their lower case. Only the other words are left to the general
//! implementation, one by one, because no token crosses white space.

use std::ops::Range;
use std::sync::Arc;

use daachorse::DoubleArrayAhoCorasick;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde::Deserialize;
use serde_json::{Value, json};
use unicode_categories::UnicodeCategories as _;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfkc_quick};

use super::runs::is_common_letter;

/// The mark before each word.
const WORD_MARK: char = '▁';
/// How much less likely an unknown character is than the least likely piece, as a logarithm.
const UNKNOWN_PENALTY: f64 = 10.0;
/// Distance between a full-width character and its ASCII equivalent.
const FULL_WIDTH: u32 = 0xff01 - 0x21;

/// Maximum bytes of a word whose tokens are cached. Longer words hardly ever repeat.
const CACHED_WORD_BYTES_MAX: usize = 32;
/// Maximum bytes of the cache, about. That is enough for some thirty thousand words.
const CACHE_BYTES_MAX: u64 = 4 << 20;
/// About how many bytes the cache takes for a word, in addition to the word and its tokens.
const CACHE_ENTRY_OVERHEAD: u64 = 64;

/// A Unigram model with the pieces of its vocabulary.
pub(super) struct Unigram {
    /// Finds all pieces in a text. The values are token ids.
    pieces: DoubleArrayAhoCorasick<u32>,
    /// The logarithm of each piece's probability.
    scores: Vec<f64>,
    unknown: u32,
    unknown_score: f64,
    /// Texts that are tokens wherever they occur.
    added: Vec<String>,
    /// The tokens of words, because most words of a text have occurred before.
    known: Cache<Box<str>, Arc<[Piece]>, BySize>,
}

/// A token of a word, with its bytes in the word with the word mark.
type Piece = (u32, Range<u32>);

/// Weighs a cached word by its bytes.
#[derive(Debug, Clone)]
struct BySize;

impl Weighter<Box<str>, Arc<[Piece]>> for BySize {
    fn weight(&self, word: &Box<str>, pieces: &Arc<[Piece]>) -> u64 {
        (word.len() + size_of_val(&**pieces)) as u64 + CACHE_ENTRY_OVERHEAD
    }
}

/// The parts of a `tokenizer.json` that this reads.
#[derive(Deserialize)]
struct Settings {
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    added_tokens: Vec<AddedToken>,
    model: Model,
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
    normalized: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    r#type: String,
    unk_id: u32,
    byte_fallback: bool,
    vocab: Vec<(String, f64)>,
}

/// The best segmentation of the text before a position: where its last piece begins, the id of that piece, and the score.
#[derive(Clone, Copy)]
struct Best {
    start: usize,
    id: u32,
    score: f64,
}

/// Buffers that are reused for each word.
#[derive(Default)]
struct Buffers {
    /// The text between white space, in lower case. Each byte has the same position as in the source.
    lower: String,
    /// A word of it with the word mark.
    word: String,
    best: Vec<Best>,
    pieces: Vec<Piece>,
    tokens: Vec<(u32, Range<usize>)>,
}

impl Unigram {
    /// Reads the content of a `tokenizer.json`. Returns `None` if it is not of the kind that is trained here.
    pub(super) fn new(json: &[u8]) -> Option<Self> {
        let Settings { normalizer, pre_tokenizer, post_processor, added_tokens, model } = serde_json::from_slice(json).ok()?;
        let kind = |kinds: &[&str]| kinds.iter().map(|kind| json!({ "type": kind })).collect::<Vec<_>>();
        let expected = json!({"type": "Sequence", "normalizers": kind(&["Nmt", "NFKC", "Lowercase", "NFKC"])});
        let splits = json!({"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Punctuation", "behavior": "Isolated"},
            {"type": "Digits", "individual_digits": false},
            {"type": "Metaspace", "replacement": WORD_MARK, "prepend_scheme": "always", "split": true},
        ]});
        let is_ours = normalizer == expected && pre_tokenizer == splits && post_processor.is_null();
        let Model { r#type, unk_id, byte_fallback, vocab } = model;
        if !is_ours || r#type != "Unigram" || byte_fallback || added_tokens.iter().any(|token| token.normalized) {
            return None;
        }
        let score_min = vocab.iter().map(|(_, score)| *score).fold(f64::INFINITY, f64::min);
        Some(Self {
            scores: vocab.iter().map(|(_, score)| *score).collect(),
            pieces: DoubleArrayAhoCorasick::with_values((0_u32..).zip(vocab).map(|(id, (piece, _))| (piece, id))).ok()?,
            unknown: unk_id,
            unknown_score: score_min - UNKNOWN_PENALTY,
            added: added_tokens.into_iter().map(|token| token.content).collect(),
            known: Cache::with_weighter((CACHE_BYTES_MAX / (2 * CACHE_ENTRY_OVERHEAD)) as usize, CACHE_BYTES_MAX, BySize),
        })
    }

    /// Returns the first `tokens_max` tokens of a text with their byte ranges in it. `general` tokenizes any text.
    pub(super) fn tokens<E>(
        &self,
        text: &str,
        tokens_max: usize,
        general: impl Fn(&str) -> Result<Vec<(u32, Range<usize>)>, E>,
    ) -> Result<Vec<(u32, Range<usize>)>, E> {
        if self.added.iter().any(|added| text.contains(added.as_str())) {
            let mut tokens = general(text)?;
            tokens.truncate(tokens_max);
            return Ok(tokens);
        }
        let mut buffers = Buffers::default();
        let mut rest = text;
        while let Some(start) = rest.find(|c| !is_white_space(c)) {
            let end = rest[start..].find(is_white_space).map_or(rest.len(), |length| start + length);
            let offset = text.len() - rest.len() + start;
            self.add(&rest[start..end], offset, &mut buffers, &general)?;
            rest = &rest[end..];
            if buffers.tokens.len() >= tokens_max {
                break;
            }
        }
        buffers.tokens.truncate(tokens_max);
        Ok(buffers.tokens)
    }

    /// Adds the tokens of a part of a text without white space that begins at `offset`.
    fn add<E>(
        &self,
        part: &str,
        offset: usize,
        buffers: &mut Buffers,
        general: impl Fn(&str) -> Result<Vec<(u32, Range<usize>)>, E>,
    ) -> Result<(), E> {
        let mut lower = std::mem::take(&mut buffers.lower);
        if lower_case(part, &mut lower) {
            let mut rest = lower.as_str();
            while let Some(first) = rest.chars().next() {
                let start = lower.len() - rest.len();
                let length = word_length(rest, first);
                match in_ascii(first) {
                    Some(c) => self.add_word(c.encode_utf8(&mut [0; 4]), offset + start..offset + start + length, buffers),
                    None => self.add_word(&rest[..length], offset + start..offset + start + length, buffers),
                }
                rest = &rest[length..];
            }
        } else {
            let tokens = general(part)?;
            buffers.tokens.extend(tokens.into_iter().map(|(id, range)| (id, offset + range.start..offset + range.end)));
        }
        buffers.lower = lower;
        Ok(())
    }

    /// Adds the tokens of a word. `source` is its position in the text. If its length differs from that of `source`, the word is
    /// a single character.
    fn add_word(&self, word: &str, source: Range<usize>, buffers: &mut Buffers) {
        // The word mark counts as part of the first character.
        let (shift, first) = (WORD_MARK.len_utf8(), word.chars().next().map_or(0, char::len_utf8));
        let to_source = |start: usize, end: usize| match word.len() == source.len() {
            true => source.start + start.saturating_sub(shift)..source.start + end.saturating_sub(shift).max(first),
            false => source.clone(),
        };
        let token = |(id, bytes): &Piece| (*id, to_source(bytes.start as usize, bytes.end as usize));
        let is_remembered = word.len() <= CACHED_WORD_BYTES_MAX;
        if let Some(known) = is_remembered.then(|| self.known.get(word)).flatten() {
            buffers.tokens.extend(known.iter().map(token));
            return;
        }
        self.segment(word, buffers);
        buffers.tokens.extend(buffers.pieces.iter().map(token));
        if is_remembered {
            self.known.insert(word.into(), buffers.pieces.as_slice().into());
        }
    }

    /// Sets `buffers.pieces` to the most likely tokens of a word (Viterbi).
    fn segment(&self, word: &str, buffers: &mut Buffers) {
        let Buffers { word: text, best, pieces, .. } = buffers;
        text.clear();
        text.push(WORD_MARK);
        text.push_str(word);
        best.clear();
        best.resize(text.len() + 1, Best { start: usize::MAX, id: self.unknown, score: 0.0 });
        let mut found = self.pieces.find_overlapping_iter(text.as_bytes()).peekable();
        for (start, c) in text.char_indices() {
            let end = start + c.len_utf8();
            let mut is_piece = false;
            // Among pieces with the same end, those that begin first come first.
            while let Some(piece) = found.next_if(|piece| piece.end() == end) {
                is_piece |= piece.start() == start;
                improve(best, piece.start(), end, (piece.value(), self.scores[piece.value() as usize]));
            }
            if !is_piece {
                improve(best, start, end, (self.unknown, self.unknown_score));
            }
        }
        pieces.clear();
        let mut end = text.len();
        while end > 0 {
            let Best { start, id, .. } = best[end];
            match pieces.last_mut() {
                // Neighboring unknown characters are one token.
                Some((after, bytes)) if id == self.unknown && *after == id => bytes.start = start as u32,
                _ => pieces.push((id, start as u32..end as u32)),
            }
            end = start;
        }
        pieces.reverse();
    }
}

/// Takes a piece from `start` to `end` with its score, if that is better than the best so far.
fn improve(best: &mut [Best], start: usize, end: usize, (id, score): (u32, f64)) {
    let score = score + best[start].score;
    if best[end].start == usize::MAX || score > best[end].score {
        best[end] = Best { start, id, score };
    }
}

/// Whether a character separates words, before or after normalization.
fn is_white_space(c: char) -> bool {
    match c {
        '\u{b}' => false,
        '\u{200b}'..='\u{200f}' | WORD_MARK | '\u{feff}' | '\u{fffd}' => true,
        _ => c.is_whitespace(),
    }
}

/// Writes the normal form of a text to `lower`, except for full-width characters. Returns false if that takes more than
/// lower-casing to the same length.
fn lower_case(text: &str, lower: &mut String) -> bool {
    lower.clear();
    if text.is_ascii() {
        lower.push_str(text);
        lower.make_ascii_lowercase();
        return !text.bytes().any(|byte| byte.is_ascii_control());
    }
    for c in text.chars() {
        let mut lowered = c.to_lowercase();
        match (lowered.next(), lowered.next()) {
            (Some(lower_cased), None) if lower_cased.len_utf8() == c.len_utf8() && !c.is_control() => lower.push(lower_cased),
            _ => return false,
        }
    }
    is_normal(text) && (text == lower || is_normal(lower))
}

/// Whether a text is in the form NFKC, except for full-width characters.
fn is_normal(text: &str) -> bool {
    let chars = || text.chars().map(|c| in_ascii(c).unwrap_or(c));
    match is_nfkc_quick(chars()) {
        IsNormalized::Yes => true,
        IsNormalized::Maybe => chars().nfkc().eq(chars()),
        IsNormalized::No => false,
    }
}

/// Returns the ASCII equivalent of full-width punctuation.
fn in_ascii(c: char) -> Option<char> {
    let narrow = u32::from(c).checked_sub(FULL_WIDTH).and_then(char::from_u32)?;
    narrow.is_ascii_punctuation().then_some(narrow)
}

/// Returns the number of bytes of the first word of a text: a punctuation mark, digits, or everything up to one of those.
fn word_length(text: &str, first: char) -> usize {
    if is_punctuation(first) {
        return first.len_utf8();
    }
    let is_numeric = first.is_numeric();
    text.find(|c: char| c.is_numeric() != is_numeric || is_punctuation(c)).unwrap_or(text.len())
}

fn is_punctuation(c: char) -> bool {
    match c {
        '\0'..='\u{7f}' => c.is_ascii_punctuation(),
        _ if is_common_letter(c) => false,
        _ => in_ascii(c).is_some() || c.is_punctuation(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    /// Letters of many scripts, marks that join them, digits and punctuation.
    const WORDS: &str =
        "[a-zA-Zàéüßøłžėñçâîșőıİ0-9 ,.…'’а-яёА-ЯЁα-ωΆ-ώあ-んア-ン一-龥，。！ก-๛אבגדअ-ह\u{93c}\u{94d}\u{bbe}\u{301}\u{308}]{0,40}";

    static JSON: LazyLock<Vec<u8>> =
        LazyLock::new(|| std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("models/ems-small/tokenizer.json")).unwrap());
    static OWN: LazyLock<Unigram> = LazyLock::new(|| Unigram::new(&JSON).unwrap());
    static GENERAL: LazyLock<tokenizers::Tokenizer> = LazyLock::new(|| tokenizers::Tokenizer::from_bytes(&*JSON).unwrap());

    fn general(text: &str) -> Result<Vec<(u32, Range<usize>)>, tokenizers::Error> {
        let encoding = GENERAL.encode(text, false)?;
        let ranges = encoding.get_offsets().iter().map(|&(start, end)| start..end);
        Ok(encoding.get_ids().iter().copied().zip(ranges).collect())
    }

    fn refuse(text: &str) -> Result<Vec<(u32, Range<usize>)>, String> {
        Err(text.to_owned())
    }

    fn fast(text: &str) -> Vec<(u32, Range<usize>)> {
        OWN.tokens(text, usize::MAX, general).unwrap()
    }

    #[test]
    fn punctuation_is_what_unicode_says() {
        for c in ('\u{80}'..=char::MAX).filter(|c| in_ascii(*c).is_none()) {
            assert_eq!(is_punctuation(c), c.is_punctuation(), "{c:?}");
        }
    }

    #[test]
    fn tokens_and_positions_match_the_general_implementation() {
        let texts = [
            "",
            " \t ",
            "The trains, of 12:30, are late…",
            "«Été» e\u{301}te\u{301} 3½ m² ﬁn",
            "雙方昨天簽訂了合約，價格是１００元。",
            "東京\u{3000}ﾀﾜｰ！？",
            "हिन्दी में ज़मीन, தமிழ் மொழி",
            "ที่นี่ 도서관에서 책을",
            "می\u{200c}خواهم مَدْرَسَه؟",
            "İstanbul ẞ ǅ K",
            "a\u{a0}b\u{b}c\u{85}d\u{0}e\u{7f}f\u{ad}g\u{feff}h▁i",
            "＜\u{338} <\u{338}",
            "\u{10fffd}\u{10fffd}x\u{10fffd} 👩\u{200d}👧",
            "before <unk> and <pad>after",
        ];
        for text in texts {
            assert_eq!(fast(text), general(text).unwrap(), "{text:?}");
        }
    }

    #[test]
    fn ordinary_texts_do_not_need_the_general_implementation() {
        let texts = [
            "Der Zug, 12:30 Uhr, hat Verspätung!",
            "Он сказал: «Привет».",
            "Ο Λόγος του",
            "雙方昨天簽訂了合約，價格是100元。",
            "東京タワーは、高い！",
            "हिन्दी में, தமிழ் மொழி",
            "ที่นี่ 도서관에서 책을",
            "مدرسة كبيرة؟",
        ];
        for text in texts {
            assert_eq!(OWN.tokens(text, usize::MAX, refuse), Ok(general(text).unwrap()), "{text}");
        }
        assert_eq!(
            OWN.tokens("so ﬁne", usize::MAX, refuse),
            Err("ﬁne".to_owned()),
            "only the word with the ligature needs the general tokenizer"
        );
    }

    #[test]
    fn repeated_words_get_the_same_tokens() {
        for text in ["Der Zug, der Zugführer, DER ZUG", "京都 京都 １２：１２ １２：１２", "\u{10fffd}x \u{10fffd}x"]
        {
            assert_eq!((fast(text), fast(text)), (general(text).unwrap(), general(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn a_token_limit_returns_only_the_first_tokens() {
        for text in ["one two three four", "<unk> two three four"] {
            assert_eq!(OWN.tokens(text, 2, general).unwrap(), general(text).unwrap()[..2]);
        }
    }

    #[test]
    fn an_unsupported_tokenizer_is_refused() {
        assert!(Unigram::new(b"{}").is_none());
        let other = |change: &dyn Fn(&mut Value)| {
            let mut json: Value = serde_json::from_slice(&JSON).unwrap();
            json["model"]["vocab"] = json!([["<unk>", 0.0], ["a", -1.0]]);
            change(&mut json);
            Unigram::new(&serde_json::to_vec(&json).unwrap()).is_some()
        };
        assert!(other(&|_| {}));
        assert!(!other(&|json| json["normalizer"] = Value::Null));
        assert!(!other(&|json| json["pre_tokenizer"]["pretokenizers"][2]["individual_digits"] = true.into()));
        assert!(!other(&|json| json["model"]["byte_fallback"] = true.into()));
        assert!(!other(&|json| json["added_tokens"][0]["normalized"] = true.into()));
    }

    proptest! {
        #[test]
        fn any_text_tokenizes_like_the_general_implementation(text in any::<String>()) {
            prop_assert_eq!(fast(&text), general(&text).unwrap());
        }

        #[test]
        fn multilingual_words_tokenize_like_the_general_implementation(text in WORDS) {
            prop_assert_eq!(fast(&text), general(&text).unwrap());
        }
    }
}
