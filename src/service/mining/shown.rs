//! A sentence as results show it.

use serde::Serialize;

use crate::domain::Document;
use crate::service::error::Error;
use crate::store::PassageRow;

/// A sentence in the results.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Shown {
    /// The document's id, or the text's place in the list.
    pub(crate) id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) language: Option<&'static str>,
    pub(crate) text: String,
    /// In characters; left out for a document that is one passage, and for lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<usize>,
}

impl Shown {
    /// The document's id, or the text's place in the list.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// A document.
    pub(crate) fn document(document: Document) -> Self {
        Self {
            id: document.id.as_str().to_owned(),
            language: document.language.map(|language| language.code()),
            text: document.text,
            start: None,
            end: None,
        }
    }

    /// A passage.
    pub(crate) fn of(row: PassageRow) -> Result<Self, Error> {
        let PassageRow { passage, document } = row;
        let (before, text) = match (document.text.get(..passage.start), document.text.get(passage.start..passage.end)) {
            (Some(before), Some(text)) => (before, text.to_owned()),
            _ => return Err(Error::PassageRange { id: document.id }),
        };
        let range = (document.passages > 1).then(|| {
            let start = before.chars().count();
            (start, start + text.chars().count())
        });
        Ok(Self {
            id: document.id.as_str().to_owned(),
            language: document.language.map(|language| language.code()),
            text,
            start: range.map(|(start, _)| start),
            end: range.map(|(_, end)| end),
        })
    }
}
