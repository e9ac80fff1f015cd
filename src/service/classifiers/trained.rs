//! A trained classifier. Predicts the labels of an embedding, with probabilities. `neighbor_source` finds the labeled passages
//! near the embedding.

use std::sync::Arc;

use parking_lot::Mutex;

use super::embedded_text::{EmbeddedText, PredictionInput, embedded_texts};
use super::error::ClassifierError;
use super::neighbor_source::{LabelSource, LabeledNeighbor, NeighborSource, in_parallel};
use super::persisted::{damaged_row, read_definition, read_report};
use crate::classify::{LabelNames, Mlp, Prototypes, vote};
use crate::domain::{
    ClassifierDefinition, ClassifierKind, ClassifierName, Embedding, KnnSettings, LabelProbability, LabeledNeighborText,
    PredictOptions, Prediction, TrainingReport,
};
use crate::service::error::Error;
use crate::service::limits::budget::AnswerBudget;
use crate::store::ClassifierContents;

/// Minimum probability at which a multi-label classifier predicts a label, unless the classifier or the request sets a
/// threshold.
const SET_THRESHOLD: f32 = 0.5;

/// Classifiers in memory, the most recently used last.
#[derive(Default)]
pub(crate) struct ClassifierCache(pub(super) Mutex<Vec<Arc<TrainedClassifier>>>);

/// A classifier in memory.
pub(super) struct TrainedClassifier {
    pub(super) id: String,
    /// How many times it was trained.
    pub(super) version: u64,
    pub(super) name: ClassifierName,
    pub(super) definition: ClassifierDefinition,
    pub(super) report: TrainingReport,
    /// The labels known at training time. Neighbors of a live collection may have others.
    pub(super) labels: LabelNames,
    pub(super) model: Model,
    /// The texts that came with the request, with their embeddings.
    pub(super) texts: Vec<EmbeddedText>,
}

pub(super) enum Model {
    /// Counts the votes of labeled neighbors.
    Knn(KnnSettings),
    Mlp(Mlp),
    /// One direction per label.
    Prototype(Prototypes),
}

/// Probabilities of labels, the most likely first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LabelScores {
    pub(super) ranked: Vec<(String, f32)>,
    /// Whether no neighbor has a vote, so that nothing can be predicted.
    pub(super) abstains: bool,
}

impl TrainedClassifier {
    pub(super) fn assemble(contents: ClassifierContents) -> Result<Self, Error> {
        let ClassifierContents { row, weights, texts } = contents;
        let definition = read_definition(&row.definition)?;
        let report = row.report.as_ref().map(read_report).transpose()?.unwrap_or_default();
        let texts = embedded_texts(texts)?;
        let labels = LabelNames::of(report.labels.iter().map(|label| label.label.clone()));
        let model = match definition.kind {
            ClassifierKind::Knn => Model::Knn(with_fitted(&definition.knn, report.temperature)),
            ClassifierKind::Mlp => {
                let weights = weights.ok_or_else(|| damaged_row("it has no weights"))?;
                let mlp = Mlp::from_bytes(&weights)?;
                if mlp.labels() != labels.len() {
                    return Err(damaged_row("its weights are for a different number of labels").into());
                }
                Model::Mlp(mlp)
            }
            ClassifierKind::Prototype => {
                let temperature = report.temperature.unwrap_or(Prototypes::TEMPERATURE);
                let prototypes = prototypes(&labels, &texts)?.with_temperature(temperature)?;
                Model::Prototype(prototypes)
            }
        };
        let (version, name) = (row.record.version, row.record.name);
        Ok(Self { id: row.id, version, name, definition, report, labels, model, texts })
    }

    /// Whether each prediction reads the labels of the classifier's collection.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.model, Model::Knn(_)) && self.definition.source.is_some()
    }

    /// Opens the neighbor source of a `knn`. Returns `None` for other kinds. Blocks.
    pub(super) fn neighbor_source(&self, label_source: &LabelSource, texts: usize) -> Result<Option<NeighborSource<'_>>, Error> {
        match &self.model {
            Model::Knn(_) => label_source.neighbor_source(&self.texts, texts).map(Some),
            Model::Mlp(_) | Model::Prototype(_) => Ok(None),
        }
    }

    /// Returns the label probabilities of each text. Blocks.
    pub(super) fn score(
        &self,
        neighbor_source: &mut Option<NeighborSource<'_>>,
        inputs: &[&PredictionInput],
    ) -> Result<Vec<LabelScores>, Error> {
        let near = neighbor_source.as_mut().map(|source| source.neighbors(inputs, self.definition.knn.neighbors)).transpose()?;
        self.score_near(inputs, &near.unwrap_or_default())
    }

    /// Like `score`, with the neighbors that vote in a `knn`.
    fn score_near(&self, inputs: &[&PredictionInput], near: &[Vec<LabeledNeighbor>]) -> Result<Vec<LabelScores>, Error> {
        Ok(match &self.model {
            Model::Knn(settings) => in_parallel(near, |neighbors| count_votes(neighbors, settings))?,
            Model::Mlp(mlp) => {
                in_parallel(inputs, |input| mlp.probabilities(input.embedding.as_slice()).map(|found| self.ranked(found)))?
            }
            Model::Prototype(prototypes) => {
                in_parallel(inputs, |input| prototypes.probabilities(&input.embedding).map(|found| self.ranked(found)))?
            }
        })
    }

    fn ranked(&self, probabilities: Vec<f32>) -> LabelScores {
        let mut ranked: Vec<(String, f32)> = self.labels.iter().map(str::to_owned).zip(probabilities).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        LabelScores { ranked, abstains: false }
    }

    /// Returns the labels that the scores predict, or `None` if the classifier abstains.
    pub(super) fn decide(&self, scored: &LabelScores, threshold: Option<f32>) -> Option<Vec<String>> {
        let threshold = threshold.or(self.definition.threshold);
        if scored.abstains {
            return None;
        }
        if self.definition.multi_label {
            let threshold = threshold.unwrap_or(SET_THRESHOLD);
            let chosen = scored.ranked.iter().filter(|(_, share)| *share >= threshold && *share > 0.0);
            let mut labels: Vec<String> = chosen.map(|(label, _)| label.clone()).collect();
            labels.sort_unstable();
            return Some(labels);
        }
        let (label, share) = scored.ranked.first()?;
        (*share > 0.0 && *share >= threshold.unwrap_or(0.0)).then(|| vec![label.clone()])
    }

    /// Predicts the labels of texts. The neighbors that explain the labels are those of a `knn` that voted; of other kinds,
    /// the nearest ones. Fails if the neighbors and labels in the response take more bytes than the budget allows. Blocks.
    pub(super) fn predict(
        &self,
        label_source: &LabelSource,
        inputs: &[PredictionInput],
        options: &PredictOptions,
        budget: &AnswerBudget,
    ) -> Result<Vec<Prediction>, Error> {
        let all: Vec<&PredictionInput> = inputs.iter().collect();
        let mut neighbor_source = match self.neighbor_source(label_source, inputs.len())? {
            None if options.explain > 0 => Some(label_source.neighbor_source(&self.texts, inputs.len())?),
            opened => opened,
        };
        let near = match (&self.model, &mut neighbor_source) {
            (Model::Knn(_), Some(neighbor_source)) => neighbor_source.neighbors(&all, self.definition.knn.neighbors)?,
            (_, Some(neighbor_source)) => neighbor_source.neighbors(&all, options.explain)?,
            (_, None) => vec![Vec::new(); inputs.len()],
        };
        let scored = self.score_near(&all, &near)?;
        let prediction = |((input, scored), near): ((&PredictionInput, LabelScores), &Vec<LabeledNeighbor>)| {
            let voting = match &self.model {
                Model::Knn(settings) => near.partition_point(|neighbor| neighbor.score >= settings.score_min),
                Model::Mlp(_) | Model::Prototype(_) => near.len(),
            };
            let shown = Some(&near[..voting.min(options.explain)]).filter(|shown| !shown.is_empty());
            let with_texts = neighbor_source.as_ref().zip(shown).map(|(source, shown)| source.with_texts(shown));
            let neighbors = with_texts.transpose()?.unwrap_or_default();
            let labels = self.decide(&scored, options.threshold);
            let probable = |(label, share): (String, f32)| LabelProbability { label, probability: share.clamp(0.0, 1.0) };
            let scores: Vec<_> = scored.ranked.into_iter().take(options.scores).map(probable).collect();
            let shown = scores.iter().map(|score| &score.label).chain(labels.iter().flatten()).map(String::len);
            let bytes = neighbors.iter().map(size).chain(shown).sum::<usize>();
            if !budget.charge(bytes as u64) {
                return Err(budget.too_large("ask for fewer texts or documents, or lower explain and scores"));
            }
            let id = input.document.as_ref().map(|(_, id)| id.clone());
            let (language, abstained) = (input.language, labels.is_none());
            Ok(Prediction { id, language, labels: labels.unwrap_or_default(), abstained, scores, neighbors })
        };
        inputs.iter().zip(scored).zip(&near).map(prediction).collect()
    }
}

/// Size of a neighbor in the response, in bytes.
fn size(neighbor: &LabeledNeighborText) -> usize {
    neighbor.text.len() + neighbor.labels.iter().map(String::len).sum::<usize>()
}

/// Adds the fitted temperature to settings that have none.
pub(super) fn with_fitted(settings: &KnnSettings, fitted: Option<f32>) -> KnnSettings {
    KnnSettings { temperature: settings.temperature.or(fitted), ..settings.clone() }
}

pub(super) fn count_votes(neighbors: &[LabeledNeighbor], settings: &KnnSettings) -> Result<LabelScores, ClassifierError> {
    let votes = vote(neighbors.iter().map(|neighbor| (neighbor.score, &*neighbor.labels)), settings)?;
    let ranked = votes.ranked.into_iter().map(|(label, share)| (label.clone(), share)).collect();
    Ok(LabelScores { ranked, abstains: votes.neighbors == 0 })
}

/// Computes one direction per label from its descriptions.
pub(super) fn prototypes(labels: &LabelNames, texts: &[EmbeddedText]) -> Result<Prototypes, ClassifierError> {
    let of_label = |label: &str| {
        let said = texts.iter().filter(|text| text.description && text.labels.iter().any(|name| name == label));
        said.map(|text| text.embedding.clone()).collect::<Vec<_>>()
    };
    let classes: Vec<Vec<Embedding>> = labels.iter().map(of_label).collect();
    Ok(Prototypes::of(&classes)?)
}
