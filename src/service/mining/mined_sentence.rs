//! Converts documents and passages to the form that results show.

use crate::domain::{Document, MinedSentence};
use crate::service::error::Error;
use crate::store::PassageRow;

pub(crate) fn from_document(document: Document) -> MinedSentence {
    let (id, language) = (document.id.as_str().to_owned(), document.language);
    MinedSentence { id, language, text: document.text, start: None, end: None }
}

pub(crate) fn from_passage(row: PassageRow) -> Result<MinedSentence, Error> {
    let PassageRow { passage, document } = row;
    let (before, text) = match (document.text.get(..passage.start), document.text.get(passage.start..passage.end)) {
        (Some(before), Some(text)) => (before, text.to_owned()),
        _ => return Err(Error::PassageRange { id: document.id }),
    };
    let range = (document.passages > 1).then(|| {
        let start = before.chars().count();
        (start, start + text.chars().count())
    });
    let (id, language) = (document.id.as_str().to_owned(), document.language);
    Ok(MinedSentence { id, language, text, start: range.map(|(start, _)| start), end: range.map(|(_, end)| end) })
}
