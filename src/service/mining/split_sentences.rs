//! Splits a collection's documents into sentences when a job is accepted. The job itself embeds them.

use serde::{Deserialize, Serialize};

use crate::domain::{Limits, MinedSentence, PassageId};
use crate::embed::sentence_spans;
use crate::service::error::Error;
use crate::service::mining::memory;
use crate::service::open_collection::OpenCollection;
use crate::store::PassageParts;

const DOCUMENTS_PER_READ: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SplitSentence {
    /// Key of its document's first passage. It identifies the document.
    pub(crate) document: i64,
    #[serde(flatten)]
    pub(crate) sentence: MinedSentence,
}

impl SplitSentence {
    pub(crate) fn bytes(&self) -> u64 {
        (size_of::<Self>() + self.sentence.id.len() + self.sentence.text.len()) as u64
    }
}

/// Splits the documents with these first passages into sentences. Fails if the sentences do not fit into memory. Blocks.
pub(crate) fn split_documents(
    collection: &OpenCollection,
    firsts: &[PassageId],
    limits: &Limits,
) -> Result<Vec<SplitSentence>, Error> {
    let (mut sentences, mut bytes) = (Vec::new(), 0);
    for some in firsts.chunks(DOCUMENTS_PER_READ) {
        for row in collection.with_store(|store| store.passages(some, PassageParts::TEXT))? {
            let text = row.text.unwrap_or_default();
            let (mut end_of_last, mut characters) = (0, 0);
            for span in sentence_spans(&text) {
                let start = characters + text[end_of_last..span.start].chars().count();
                let end = start + text[span.clone()].chars().count();
                (end_of_last, characters) = (span.end, end);
                let (id, language) = (row.document.id.as_str().to_owned(), row.document.language);
                let sentence = MinedSentence { id, language, text: text[span].to_owned(), start: Some(start), end: Some(end) };
                let sentence = SplitSentence { document: row.passage.id.0.cast_signed(), sentence };
                bytes += sentence.bytes();
                sentences.push(sentence);
            }
        }
        memory::check(bytes, limits)?;
    }
    Ok(sentences)
}
