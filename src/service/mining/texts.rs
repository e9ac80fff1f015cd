//! Texts that a job embeds itself: those of a request, or sentences that are cut from a collection's documents.

use super::MineError;
use super::cut_sentences::CutSentence;
use super::shown::Shown;
use crate::domain::{CollectionId, Language};
use crate::mining::TextGroups;
use crate::service::error::Error;
use crate::service::jobs::JobError;

/// Texts between two looks at whether to stop.
const TEXTS_PER_CHECK: usize = 1_024;

/// Texts that the job embeds.
pub(crate) enum Texts {
    /// That came with the request.
    List(Vec<String>),
    /// Cut from a collection's documents.
    Cut {
        /// The collection.
        collection: CollectionId,
        /// The sentences.
        sentences: Vec<CutSentence>,
    },
}

impl Texts {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::List(texts) => texts.len(),
            Self::Cut { sentences, .. } => sentences.len(),
        }
    }

    /// The text at a place.
    pub(crate) fn text(&self, place: usize) -> &str {
        match self {
            Self::List(texts) => &texts[place],
            Self::Cut { sentences, .. } => &sentences[place].text,
        }
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::List(texts) => texts.iter().map(|text| (text.len() + size_of::<String>()) as u64).sum(),
            Self::Cut { sentences, .. } => sentences.iter().map(CutSentence::bytes).sum(),
        }
    }

    /// Groups equal texts. `look` says now and then whether to stop, `note` gets document and language of each sentence of a collection.
    pub(crate) fn groups(
        &self,
        equal: EqualTexts,
        look: impl Fn() -> Result<(), JobError>,
        mut note: impl FnMut(i64, Option<Language>),
    ) -> Result<Option<TextGroups>, JobError> {
        if let Self::Cut { sentences, .. } = self {
            for some in sentences.chunks(TEXTS_PER_CHECK) {
                look()?;
                some.iter().for_each(|sentence| note(sentence.document, sentence.language));
            }
        }
        Ok(groups(equal, (0..self.len()).map(|place| self.text(place)))?)
    }

    /// Whether both are of one collection.
    pub(crate) fn is_of_collection_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cut { collection: one, .. }, Self::Cut { collection: other, .. }) => one == other,
            _ => false,
        }
    }

    /// Whether a place of these and one of the others are the same sentence of one document.
    pub(crate) fn is_same(&self, place: usize, other: &Self, other_place: usize) -> bool {
        match (self, other) {
            (Self::Cut { sentences: ones, .. }, Self::Cut { sentences: others, .. }) if self.is_of_collection_of(other) => {
                let (one, other) = (&ones[place], &others[other_place]);
                (one.document, one.start) == (other.document, other.start)
            }
            _ => false,
        }
    }

    /// What the results say of a place.
    pub(crate) fn shown(&self, place: usize) -> Shown {
        match self {
            Self::List(texts) => {
                Shown { id: place.to_string(), language: None, text: texts[place].clone(), start: None, end: None }
            }
            Self::Cut { sentences, .. } => {
                let CutSentence { id, language, start, end, text, .. } = &sentences[place];
                Shown {
                    id: id.as_str().to_owned(),
                    language: language.map(|language| language.code()),
                    text: text.clone(),
                    start: Some(*start),
                    end: Some(*end),
                }
            }
        }
    }
}

/// What equal texts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EqualTexts {
    /// One sentence.
    One,
    /// A sentence each.
    Each,
}

/// Groups equal texts; `None` when each stands for itself, after reading all.
pub(crate) fn groups<T: AsRef<str>>(equal: EqualTexts, texts: impl Iterator<Item = T>) -> Result<Option<TextGroups>, Error> {
    match equal {
        EqualTexts::One => Ok(Some(TextGroups::of(texts).map_err(MineError::from)?)),
        EqualTexts::Each => {
            texts.for_each(drop);
            Ok(None)
        }
    }
}
