//! Texts as people type them without diacritics: "verspatung" for "verspätung", "nha may" for "nhà máy". Their pieces differ
//! from those of the full spelling, so an encoder that never saw such texts embeds them badly.

use dragoman::text::Tokenizer;
use dragoman::text::diacritics::without_diacritics;

/// A tokenizer and its pieces, for converting token ids to text and back.
pub struct DiacriticsRemover {
    tokenizer: Tokenizer,
    /// By id, with a space in place of the word mark; `None` for ids that are not text.
    pieces: Vec<Option<String>>,
}

impl DiacriticsRemover {
    /// Reads the pieces.
    pub fn new(tokenizer: Tokenizer) -> Self {
        let text = |id: u32| tokenizer.token(id).filter(|piece| !piece.starts_with('<')).map(|piece| piece.replace('▁', " "));
        let pieces = (0..tokenizer.vocabulary_size() as u32).map(text).collect();
        Self { tokenizer, pieces }
    }

    /// The token ids of a text without its diacritics; `None` if it has no diacritics, or has characters that the tokenizer
    /// does not know.
    pub fn strip(&self, ids: &[u16]) -> Option<Vec<u16>> {
        let pieces = ids.iter().map(|&id| self.pieces.get(usize::from(id))?.as_deref());
        let text: String = pieces.collect::<Option<_>>()?;
        let plain = without_diacritics(text.trim_start())?;
        let tokens = self.tokenizer.encode(&plain, usize::MAX).ok()?;
        tokens.ids.into_iter().map(|id| u16::try_from(id).ok()).collect()
    }
}

impl std::fmt::Debug for DiacriticsRemover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiacriticsRemover").field("pieces", &self.pieces.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::shipped_tokens::{ids, tokenizer};

    #[track_caller]
    fn check(text: &str, plain: Option<&str>) {
        assert_eq!(DiacriticsRemover::new(tokenizer()).strip(&ids(text)), plain.map(ids));
    }

    #[test]
    fn diacritics_are_stripped_from_latin_greek_and_cyrillic() {
        check("Nhà máy mới mở cửa lúc 8 giờ.", Some("nha may moi mo cua luc 8 gio."));
        check("Żółw śpi (wciąż)!", Some("zolw spi (wciaz)!"));
        check("Η βιβλιοθήκη είναι κλειστή", Some("η βιβλιοθηκη ειναι κλειστη"));
        check("Ёлка стоит у двери", Some("елка стоит у двери"));
    }

    #[test]
    fn texts_without_removable_diacritics_return_none() {
        check("The bridge is closed.", None);
        check("Мост закрыт, но чайник новый", None);
        check("இந்தப் பாலம் மூடப்பட்டுள்ளது", None);
        check("この橋は閉まっている", None);
        check("این کتاب ایرانی است", None);
        check("लड़का बड़ा है", None);
        check("בית־ספר", None);
    }

    #[test]
    fn token_ids_without_text_return_none() {
        assert_eq!(DiacriticsRemover::new(tokenizer()).strip(&[1, 1]), None);
    }
}
