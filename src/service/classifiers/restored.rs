//! Checks the classifiers of a snapshot before they are restored.

use super::ClassifierError;
use super::persisted::damaged_row;
use super::trained::{Model, TrainedClassifier};
use crate::domain::{ClassifierName, ModelInfo};
use crate::service::error::Error;
use crate::service::snapshots::archive::invalid;
use crate::service::state::State;
use crate::store::{Catalog, TrainingProgress};

/// Maximum number of classifiers in one data directory.
const CLASSIFIERS_MAX: usize = 1_000;

/// Checks that the catalog of an archive has a trained classifier of this name, and that its parts fit together. A classifier
/// of another model than `loaded` must be complete, too, although it cannot be used now.
pub(crate) fn check_restored(catalog: &Catalog, name: &ClassifierName, loaded: &ModelInfo) -> Result<(), Error> {
    let row = catalog.classifier(name)?.filter(|row| row.progress == TrainingProgress::Ready);
    let row = row.ok_or_else(|| invalid(format!("does not contain the trained classifier {name}, which its manifest names")))?;
    let dimension = row.dimension;
    let of_model = row.record.model_fingerprint != loaded.fingerprint || dimension == loaded.dimension;
    let check = || {
        if row.report.is_none() {
            return Err(damaged_row("it has no report").into());
        }
        let contents = catalog.classifier_contents(&row.id)?.ok_or_else(|| damaged_row("it has no trained state"))?;
        let trained = TrainedClassifier::assemble(contents)?;
        let of_texts = trained.texts.iter().all(|text| text.embedding.as_slice().len() == dimension);
        let of_weights = match &trained.model {
            Model::Mlp(mlp) => mlp.dimension() == dimension,
            Model::Knn(_) | Model::Prototype(_) => true,
        };
        match of_model && of_texts && of_weights {
            true => Ok(()),
            false => Err(Error::from(damaged_row("its parts have different dimensions"))),
        }
    };
    check().map_err(|error| match error {
        Error::Classifier(error) => invalid(format!("contains a classifier {name} that cannot be used: {error}")),
        other => other,
    })
}

impl State {
    /// Refuses `new` more classifiers if that exceeds the maximum. Blocks.
    pub(crate) fn check_classifier_room(&self, new: usize) -> Result<(), Error> {
        if self.catalog.classifier_count()?.saturating_add(new) > CLASSIFIERS_MAX {
            return Err(ClassifierError::TooMany { limit: CLASSIFIERS_MAX }.into());
        }
        Ok(())
    }
}
