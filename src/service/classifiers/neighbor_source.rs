//! Finds the labeled neighbors of texts. A `knn` classifier counts their votes, and predictions show them as explanations.
//!
//! For many texts at once, everything is read only once: the set of labeled passages, their embeddings if there are few, and
//! the document and labels of each passage. The comparison runs on several threads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::embedded_text::{EmbeddedText, PredictionInput};
use crate::domain::{DocumentId, Field, Filter, LabeledDocuments, LabeledNeighborText, Metric, PassageId, Test, labels_at};
use crate::parallel;
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::service::search::LabeledPassages;
use crate::storage::{Neighbor, search_exact};
use crate::store::{PassageParts, SearchFilter};

/// Number of texts whose neighbors are searched together. Bounds the memory they take.
const TEXTS_PER_PART: usize = 256;
const TEXTS_PER_THREAD: usize = 16;
/// Maximum number of passages whose document and labels are cached.
const OWNERS_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LabeledNeighbor {
    /// The passage or, of a text that came with the classifier, its position.
    pub(super) location: PassageId,
    pub(super) labels: Arc<[String]>,
    /// Its cosine with the text.
    pub(super) score: f32,
}

/// Where the labels of neighbors come from.
#[derive(Clone)]
pub(super) struct LabelSource {
    pub(super) multi_label: bool,
    /// The collection with the labeled documents, if the labels come from one.
    pub(super) source: Option<(Arc<OpenCollection>, LabeledDocuments)>,
}

#[derive(Debug, Clone)]
pub(super) struct Owner {
    document: DocumentId,
    /// `None` if the value at the label's path is no longer a label.
    labels: Option<Arc<[String]>>,
}

/// The labeled passages as of one moment, with a cache of what was read about them.
pub(super) enum NeighborSource<'t> {
    /// Passages of a collection.
    Passages { passages: LabeledPassages, source: LabeledDocuments, multi_label: bool, owners: HashMap<PassageId, Option<Owner>> },
    /// Texts that came with the classifier, with their labels.
    Texts { texts: &'t [EmbeddedText], labels: Vec<Arc<[String]>> },
}

impl LabelSource {
    /// Opens the neighbor source for a request with this many texts. Blocks.
    pub(super) fn neighbor_source<'t>(&self, embedded: &'t [EmbeddedText], texts: usize) -> Result<NeighborSource<'t>, Error> {
        Ok(match &self.source {
            Some((collection, source)) => NeighborSource::Passages {
                passages: LabeledPassages::find(collection, &labeled_filter(source), texts)?,
                source: source.clone(),
                multi_label: self.multi_label,
                owners: HashMap::new(),
            },
            None => NeighborSource::Texts {
                texts: embedded,
                labels: embedded.iter().map(|text| Arc::from(text.labels.as_slice())).collect(),
            },
        })
    }
}

impl NeighborSource<'_> {
    /// Finds up to `limit` neighbors of each text, nearest first. Leaves out passages of the text's own document, because a
    /// document is not evidence for itself. Blocks.
    pub(super) fn neighbors(&mut self, inputs: &[&PredictionInput], limit: usize) -> Result<Vec<Vec<LabeledNeighbor>>, Error> {
        let mut found = Vec::with_capacity(inputs.len());
        for part in inputs.chunks(TEXTS_PER_PART) {
            found.extend(match self {
                Self::Texts { texts, labels } => {
                    let labeled = |Neighbor { passage: location, score }| LabeledNeighbor {
                        location,
                        labels: Arc::clone(&labels[location.0 as usize]),
                        score,
                    };
                    in_parallel(part, |input| {
                        Ok::<_, Error>(nearest_texts(texts, input, limit).into_iter().map(labeled).collect::<Vec<_>>())
                    })?
                }
                Self::Passages { passages, source, multi_label, owners } => {
                    find_labeled_neighbors(passages, (source, *multi_label), owners, (part, limit))?
                }
            });
        }
        Ok(found)
    }

    /// Returns neighbors with their texts, in the same order. Leaves out passages that were deleted in the meantime. Blocks.
    pub(super) fn with_texts(&self, neighbors: &[LabeledNeighbor]) -> Result<Vec<LabeledNeighborText>, Error> {
        let mut rows = match self {
            Self::Texts { .. } => Vec::new(),
            Self::Passages { passages, .. } => {
                let keys: Vec<PassageId> = neighbors.iter().map(|neighbor| neighbor.location).collect();
                passages.collection().with_store(|store| store.passages(&keys, PassageParts::EXCERPT))?
            }
        }
        .into_iter()
        .peekable();
        let shown = |neighbor: &LabeledNeighbor| {
            let (id, text, language) = match self {
                Self::Texts { texts, .. } => {
                    let text = texts.get(neighbor.location.0 as usize)?;
                    (None, text.text.clone(), text.language)
                }
                Self::Passages { .. } => {
                    let row = rows.next_if(|row| row.passage.id == neighbor.location)?;
                    (Some(row.document.id), row.excerpt?.text, row.document.language)
                }
            };
            let (labels, score) = (neighbor.labels.to_vec(), neighbor.score.clamp(-1.0, 1.0));
            Some(LabeledNeighborText { id, text, labels, language, score })
        };
        Ok(neighbors.iter().filter_map(shown).collect())
    }
}

fn find_labeled_neighbors(
    passages: &LabeledPassages,
    (source, multi_label): (&LabeledDocuments, bool),
    owners: &mut HashMap<PassageId, Option<Owner>>,
    (inputs, limit): (&[&PredictionInput], usize),
) -> Result<Vec<Vec<LabeledNeighbor>>, Error> {
    let mut neighbors: Vec<Vec<LabeledNeighbor>> = vec![Vec::new(); inputs.len()];
    let mut waiting: Vec<usize> = (0..inputs.len()).collect();
    let mut wanted = Some(LabeledPassages::initial_limit(limit));
    while let Some(now) = wanted.filter(|_| !waiting.is_empty()) {
        let near = in_parallel(&waiting, |index| passages.nearest(&inputs[*index].embedding, now))?;
        load_owners(passages, (source, multi_label), owners, &near)?;
        let mut short = Vec::new();
        for (index, near) in waiting.into_iter().zip(near) {
            let input_document = inputs[index].document_in(&passages.collection().row.name);
            let neighbor = |neighbor: Neighbor| {
                let owner = owners.get(&neighbor.passage)?.as_ref().filter(|owner| Some(&owner.document) != input_document)?;
                let labels = Arc::clone(owner.labels.as_ref()?);
                Some(LabeledNeighbor { location: neighbor.passage, labels, score: neighbor.score })
            };
            neighbors[index] = near.into_iter().filter_map(neighbor).take(limit).collect();
            if neighbors[index].len() < limit {
                short.push(index);
            }
        }
        waiting = short;
        wanted = passages.next_limit(now);
    }
    Ok(neighbors)
}

/// Reads the owners of those passages that are not in `owners` yet.
fn load_owners(
    passages: &LabeledPassages,
    (source, multi_label): (&LabeledDocuments, bool),
    owners: &mut HashMap<PassageId, Option<Owner>>,
    near: &[Vec<Neighbor>],
) -> Result<(), Error> {
    if owners.len() > OWNERS_MAX {
        owners.clear();
    }
    let mut unknown: Vec<PassageId> =
        near.iter().flatten().map(|neighbor| neighbor.passage).filter(|passage| !owners.contains_key(passage)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    let read = passages.collection().with_store(|store| store.heads_of(&unknown))?;
    // Passages that were deleted in the meantime have no vote.
    owners.extend(unknown.into_iter().map(|passage| (passage, None)));
    for (passage, head) in read {
        let labels = labels_at(&source.field, source.field.find(&head.metadata), multi_label).ok().flatten().map(Arc::from);
        owners.insert(passage, Some(Owner { document: head.id, labels }));
    }
    Ok(())
}

/// Returns up to `limit` other texts near a text by their positions, nearest first.
fn nearest_texts(texts: &[EmbeddedText], input: &PredictionInput, limit: usize) -> Vec<Neighbor> {
    let others = texts.iter().enumerate().filter(|(position, _)| Some(*position) != input.position);
    let others = others.map(|(position, text)| (PassageId(position as u64), &text.embedding));
    search_exact(Metric::Cosine, others, &input.embedding, limit)
}

/// Builds the filter that matches documents with labels.
pub(super) fn labeled_filter(source: &LabeledDocuments) -> SearchFilter {
    let exists = Filter::Field(Field::Metadata(source.field.clone()), Test::Exists(true));
    let is_all = source.filter == Filter::default();
    if is_all { exists.into() } else { Filter::And(vec![source.filter.clone(), exists]).into() }
}

/// Number of compute threads: half of the processor's cores. The other half is left to searches.
pub(super) fn threads() -> usize {
    (parallel::parallelism() / 2).max(1)
}

/// Applies `work` to each item and returns the results in order. Uses several threads if there are many items.
pub(super) fn in_parallel<T: Sync, R: Send, E: Send>(items: &[T], work: impl Fn(&T) -> Result<R, E> + Sync) -> Result<Vec<R>, E> {
    let do_part = |part: Range<usize>| items[part].iter().map(&work).collect::<Result<Vec<R>, E>>();
    let parts = parallel::in_parallel(0..items.len(), TEXTS_PER_THREAD, threads(), do_part)?;
    Ok(parts.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Embedding;

    #[test]
    fn parallel_work_keeps_the_order_and_returns_an_error() {
        for count in [0, 1, 31, 100, 1_001] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(
                in_parallel(&items, |item| Ok::<_, ()>(item * 2)).unwrap(),
                items.iter().map(|item| item * 2).collect::<Vec<_>>()
            );
            assert_eq!(in_parallel(&items, |item| if *item == 77 { Err(*item) } else { Ok(()) }).is_err(), count > 77);
        }
    }

    #[test]
    fn nearest_texts_are_sorted_and_exclude_the_text_itself() {
        let text = |x: f32, y: f32| EmbeddedText {
            description: false,
            text: String::new(),
            labels: Vec::new(),
            language: None,
            embedding: Embedding::normalized(vec![x, y]).unwrap(),
        };
        let texts = [text(0.0, 1.0), text(1.0, 0.1), text(1.0, 0.0), text(-1.0, 0.0), text(1.0, 0.1)];
        let input =
            |position| PredictionInput { document: None, position, language: None, embedding: texts[2].embedding.clone() };
        let positions = |position, limit| {
            nearest_texts(&texts, &input(position), limit).into_iter().map(|neighbor| neighbor.passage.0).collect::<Vec<_>>()
        };
        assert_eq!(positions(None, 3), [2, 1, 4]);
        assert_eq!(positions(Some(2), 3), [1, 4, 0]);
        assert_eq!((positions(None, 9), positions(None, 0)), (vec![2, 1, 4, 0, 3], vec![]));
    }
}
