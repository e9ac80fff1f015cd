//! A classifier that answers: from an embedding to labels with probabilities. `neighbor_source` finds the labeled passages near it.

use super::definition::damaged;
use super::embedded_text::{Asked, EmbeddedText};
use super::error::ClassifierError;
use super::neighbor_source::{NeighborSource, Surroundings, Voter, side_by_side};
use crate::classify::{LabelNames, LabeledNeighbor, Mlp, Prototypes, VoteRule, VoteWeight, vote};
use crate::domain::{
    ClassifierDefinition, ClassifierKind, ClassifierName, Embedding, KnnSettings, LabeledNeighborText, NeighborWeight,
    PredictOptions, Prediction, TrainingReport,
};
use crate::service::error::Error;
use crate::service::limits::budget::AnswerBudget;
use crate::store::ClassifierText;

/// From this probability on a label is in a set, unless the classifier or the request has another threshold.
const SET_THRESHOLD: f32 = 0.5;
/// Of the softmax of neighbors' scores before any calibration.
pub(super) const KNN_TEMPERATURE: f32 = 0.07;

/// A classifier in memory.
pub(super) struct Trained {
    pub(super) id: String,
    /// How often it was trained.
    pub(super) version: u64,
    pub(super) name: ClassifierName,
    pub(super) definition: ClassifierDefinition,
    pub(super) report: TrainingReport,
    /// What training knew; neighbors of a live collection may have more.
    pub(super) labels: LabelNames,
    pub(super) model: Model,
    /// The texts that came with the request, with their embeddings.
    pub(super) texts: Vec<EmbeddedText>,
}

/// What decides.
pub(super) enum Model {
    /// Neighbors.
    Knn(VoteRule),
    /// A network.
    Mlp(Mlp),
    /// One direction per label.
    Prototype(Prototypes),
}

/// Probabilities of labels, the most likely first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Scored {
    pub(super) ranked: Vec<(String, f32)>,
    /// Nothing speaks for any answer: no neighbor voted.
    pub(super) silent: bool,
}

impl Trained {
    /// Puts a classifier together from what training left.
    pub(super) fn assemble(
        (id, version, name): (String, u64, ClassifierName),
        definition: ClassifierDefinition,
        report: TrainingReport,
        weights: Option<Vec<u8>>,
        texts: Vec<ClassifierText>,
    ) -> Result<Self, Error> {
        let embedded = |text: ClassifierText| {
            let ClassifierText { description, text, labels, language, embedding } = text;
            let embedding = embedding.ok_or_else(|| damaged("a text has no embedding"))?;
            Ok::<_, ClassifierError>(EmbeddedText { description, text, labels, language, embedding })
        };
        let texts = texts.into_iter().map(embedded).collect::<Result<Vec<_>, _>>()?;
        let labels = LabelNames::of(report.labels.iter().map(|one| one.label.clone()));
        let model = match definition.kind {
            ClassifierKind::Knn => Model::Knn(vote_rule(&definition.knn, report.temperature)),
            ClassifierKind::Mlp => {
                let weights = weights.ok_or_else(|| damaged("it has no weights"))?;
                let mlp = Mlp::from_bytes(&weights).map_err(ClassifierError::from)?;
                if mlp.labels() != labels.len() {
                    return Err(damaged("its weights are for a different number of labels").into());
                }
                Model::Mlp(mlp)
            }
            ClassifierKind::Prototype => {
                let temperature = report.temperature.unwrap_or(Prototypes::TEMPERATURE);
                let prototypes = prototypes(&labels, &texts)?.calibrated(temperature).map_err(ClassifierError::from)?;
                Model::Prototype(prototypes)
            }
        };
        Ok(Self { id, version, name, definition, report, labels, model, texts })
    }

    /// Whether it looks into the collection of its labels at every answer.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.model, Model::Knn(_)) && self.definition.source.is_some()
    }

    /// What votes, for a classifier that lives off a vote. Blocks.
    pub(super) fn neighbor_source(&self, surroundings: &Surroundings, texts: usize) -> Result<Option<NeighborSource<'_>>, Error> {
        match &self.model {
            Model::Knn(_) => surroundings.neighbor_source(&self.texts, texts).map(Some),
            Model::Mlp(_) | Model::Prototype(_) => Ok(None),
        }
    }

    /// The probabilities of the labels of each text. Blocks.
    pub(super) fn score(&self, neighbor_source: &mut Option<NeighborSource<'_>>, asked: &[&Asked]) -> Result<Vec<Scored>, Error> {
        let probabilities = |asked: &&Asked| match &self.model {
            Model::Mlp(mlp) => mlp.probabilities(asked.embedding.as_slice()),
            Model::Prototype(prototypes) => prototypes.probabilities(&asked.embedding),
            Model::Knn(_) => Ok(Vec::new()),
        };
        match (&self.model, neighbor_source) {
            (Model::Knn(rule), Some(neighbor_source)) => {
                let voters = neighbor_source.voters(asked, self.definition.knn.neighbors)?;
                Ok(side_by_side(&voters, |voters| voted(voters, rule))?)
            }
            _ => {
                let scored = side_by_side(asked, |asked| probabilities(asked).map(|probabilities| self.ranked(probabilities)));
                Ok(scored.map_err(ClassifierError::from)?)
            }
        }
    }

    fn ranked(&self, probabilities: Vec<f32>) -> Scored {
        let mut ranked: Vec<(String, f32)> = self.labels.iter().map(str::to_owned).zip(probabilities).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Scored { ranked, silent: false }
    }

    /// The labels that scores tell; `None` abstains.
    pub(super) fn decide(&self, scored: &Scored, threshold: Option<f32>) -> Option<Vec<String>> {
        let threshold = threshold.or(self.definition.threshold);
        if scored.silent {
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

    /// All that is told of texts, of at most the budget's bytes of neighbors and labels. Blocks.
    pub(super) fn predict(
        &self,
        surroundings: &Surroundings,
        asked: &[Asked],
        options: &PredictOptions,
        budget: &AnswerBudget,
    ) -> Result<Vec<Prediction>, Error> {
        let all: Vec<&Asked> = asked.iter().collect();
        let mut neighbor_source = self.neighbor_source(surroundings, asked.len())?;
        let scored = self.score(&mut neighbor_source, &all)?;
        let near = match neighbor_source {
            Some(neighbor_source) => Some(neighbor_source),
            None if options.explain > 0 => Some(surroundings.neighbor_source(&self.texts, asked.len())?),
            None => None,
        };
        let answer = |(asked, scored): (&Asked, Scored)| {
            let near = near.as_ref().filter(|_| options.explain > 0);
            let neighbors = near.map(|near| near.explain(asked, options.explain)).transpose()?.unwrap_or_default();
            let labels = self.decide(&scored, options.threshold);
            let scores: Vec<(String, f32)> = scored.ranked.into_iter().take(options.scores).collect();
            let told = scores.iter().map(|(label, _)| label).chain(labels.iter().flatten()).map(String::len);
            let bytes = neighbors.iter().map(size).chain(told).sum::<usize>();
            if !budget.spend(bytes as u64) {
                let advice = "ask for fewer texts or documents, or lower explain and scores";
                let too_large = || Error::AnswerTooLarge { bytes: budget.spent(), limit: budget.limit(), advice };
                return Err(budget.refusal().unwrap_or_else(too_large));
            }
            Ok(Prediction { document: asked.document.clone(), language: asked.language, labels, scores, neighbors })
        };
        asked.iter().zip(scored).map(answer).collect()
    }
}

/// Bytes of what is told of a neighbor.
fn size(neighbor: &LabeledNeighborText) -> usize {
    neighbor.text.len() + neighbor.labels.iter().map(String::len).sum::<usize>()
}

/// How neighbors vote, with the temperature that was asked for or else the one that training found.
pub(super) fn vote_rule(settings: &KnnSettings, fitted: Option<f32>) -> VoteRule {
    let weight = match settings.weight {
        NeighborWeight::Equal => VoteWeight::Equal,
        NeighborWeight::Score => VoteWeight::Score,
        NeighborWeight::Softmax => {
            VoteWeight::Softmax { temperature: settings.temperature.or(fitted).unwrap_or(KNN_TEMPERATURE) }
        }
    };
    VoteRule { weight, score_min: settings.score_min }
}

/// Lets neighbors vote.
pub(super) fn voted(neighbors: &[Voter], rule: &VoteRule) -> Result<Scored, ClassifierError> {
    let names = LabelNames::of(neighbors.iter().flat_map(|voter| voter.labels.iter().cloned()));
    let numbers: Vec<Vec<u32>> =
        neighbors.iter().map(|voter| voter.labels.iter().filter_map(|label| names.number(label)).collect()).collect();
    let voters = neighbors.iter().zip(&numbers).map(|(voter, labels)| LabeledNeighbor { score: voter.score, labels });
    let votes = vote(voters, rule)?;
    let named = votes.ranked.iter().filter_map(|one| Some((names.name(one.label)?.to_owned(), one.share)));
    Ok(Scored { ranked: named.collect(), silent: votes.voters == 0 })
}

/// One direction per label, out of what is said of each.
pub(super) fn prototypes(labels: &LabelNames, texts: &[EmbeddedText]) -> Result<Prototypes, ClassifierError> {
    let of_label = |label: &str| {
        let said = texts.iter().filter(|text| text.description && text.labels.iter().any(|one| one == label));
        said.map(|text| text.embedding.clone()).collect::<Vec<_>>()
    };
    let classes: Vec<Vec<Embedding>> = labels.iter().map(of_label).collect();
    Ok(Prototypes::of(&classes)?)
}
