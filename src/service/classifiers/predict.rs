//! Predicts the labels of texts and of stored documents.

use std::sync::Arc;

use super::embedded_text::PredictionInput;
use super::texts::{embed_texts, inputs_from_documents};
use crate::domain::{ClassifierName, DocumentId, PredictItems, PredictOptions, Prediction};
use crate::embed::EmbedText;
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::limits::budget::AnswerBudget;
use crate::service::open_collection::OpenCollection;
use crate::service::state::Service;

/// How many documents are in memory at once, with their texts.
const DOCUMENTS_PER_READ: usize = 50;

impl Service {
    /// Predicts the labels of texts or documents, in the order of the request.
    pub async fn predict(
        &self,
        name: &ClassifierName,
        items: PredictItems,
        options: PredictOptions,
    ) -> Result<Vec<Prediction>, Error> {
        let trained = self.trained(name).await?;
        let label_source = self.state.label_source(&trained, options.explain > 0)?;
        let inputs = self.resolve_inputs(items).await?;
        let source = label_source.source.as_ref().map(|(collection, _)| Arc::clone(collection));
        let budget = AnswerBudget::new(self.limits().answer_bytes_max);
        let answered = blocking(move || trained.predict(&label_source, &inputs, &options, &budget)).await;
        match (source, &answered) {
            (Some(collection), Err(error)) if collection.failed_by_deletion(error) => Err(collection.not_found()),
            _ => answered,
        }
    }

    async fn resolve_inputs(&self, items: PredictItems) -> Result<Vec<PredictionInput>, Error> {
        match items {
            PredictItems::Texts(texts) => {
                let embedded = embed_texts(&self.state, texts.into_iter().map(EmbedText::from).collect()).await?;
                Ok(embedded.into_iter().map(|(language, embedding)| PredictionInput::of_text(language, embedding)).collect())
            }
            PredictItems::Documents { collection: name, ids } => {
                let collection = self.state.collection(&name)?;
                self.state.check_embedded(&collection)?;
                let mut inputs = Vec::with_capacity(ids.len());
                for some in ids.chunks(DOCUMENTS_PER_READ) {
                    let wanted = some.to_vec();
                    let read = move |collection: &Arc<OpenCollection>| Ok(collection.store.embedded_by_id(&wanted)?);
                    let found = collection.run(read).await?;
                    let missing = |id: &DocumentId| Error::DocumentNotFound { collection: name.clone(), id: id.clone() };
                    let documents = some.iter().zip(found).map(|(id, found)| found.ok_or_else(|| missing(id)));
                    let documents = documents.collect::<Result<Vec<_>, _>>()?;
                    let embed = |texts| embed_texts(&self.state, texts);
                    inputs.extend(inputs_from_documents(&collection.row.name, documents, embed).await?);
                }
                Ok(inputs)
            }
        }
    }
}
