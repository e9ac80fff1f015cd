//! The request to mine, and what its job needs to run. Filters are evaluated when the job is accepted. The job gets the keys of
//! the matching passages, so it works on what existed at that time.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::texts::Texts;
use crate::domain::{CollectionId, CollectionName, KeyId, MiningUnit, SearchFilter};
use crate::mining::{Margin, Strategy};
use crate::service::error::Error;
use crate::service::folders::{AtPath, read_file, read_json, sync_dir, write_durably};

#[derive(Debug, Clone, PartialEq)]
pub struct MineRequest {
    pub first: Sentences,
    pub second: Sentences,
    pub settings: MiningSettings,
    /// Minimum score of a pair.
    pub threshold: Option<f64>,
    /// Known translations by their ids, from which the job chooses a threshold.
    pub known_pairs: Option<Vec<(String, String)>>,
    /// Whether these are all translations between the two sides, rather than a sample.
    pub known_complete: bool,
    pub key: Option<KeyId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MiningSettings {
    /// Number of neighbors per sentence and direction, 1 to 255.
    pub neighbors: usize,
    pub margin: Margin,
    pub strategy: Strategy,
    /// Whether each sentence may be in at most one pair.
    pub one_to_one: bool,
    /// Whether to compare all with all. `None` chooses the faster way.
    pub exact: Option<bool>,
    /// Whether equal texts count as one sentence.
    pub deduplicate: bool,
    /// Whether a sentence is never paired with an identical one: the same text but for case and the white space around it.
    // False in jobs of earlier versions.
    #[serde(default)]
    pub skip_identical: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Sentences {
    Collection { name: CollectionName, only: SearchFilter, unit: MiningUnit },
    List(Vec<String>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MinePlan {
    pub(crate) first: PlannedCorpus,
    pub(crate) second: PlannedCorpus,
    #[serde(flatten)]
    pub(crate) settings: MiningSettings,
    pub(crate) threshold: Option<f64>,
    /// The known pairs: keys of passages, or positions in the list.
    pub(crate) known: Option<Vec<(u64, u64)>>,
    /// Whether these are all translations.
    // False in jobs of earlier versions.
    #[serde(default)]
    pub(crate) known_complete: bool,
    /// The collections whose texts the job shows. A key may see the job only if it may access them.
    pub(crate) collections: Vec<CollectionName>,
    /// The key of the caller that sent a list.
    pub(crate) key: Option<KeyId>,
}

/// The source of a corpus. The files in the job's folder have the rest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlannedCorpus {
    /// `None` for a list.
    pub(crate) collection: Option<PlannedCollection>,
}

/// A collection, and which of its sentences to use.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlannedCollection {
    pub(crate) name: CollectionName,
    pub(crate) id: CollectionId,
    pub(crate) whole: bool,
    /// Whether each document is a sentence, rather than each passage.
    #[serde(default)]
    pub(crate) documents: bool,
    /// Whether the sentences are split from documents.
    #[serde(default)]
    pub(crate) sentences: bool,
}

impl MinePlan {
    /// Whether sentences came with the request.
    pub(crate) fn has_lists(&self) -> bool {
        self.first.collection.is_none() || self.second.collection.is_none()
    }
}

impl PlannedCorpus {
    pub(crate) fn unit(&self) -> MiningUnit {
        match &self.collection {
            Some(planned) if planned.sentences => MiningUnit::Sentence,
            Some(planned) if planned.documents => MiningUnit::Document,
            _ => MiningUnit::Passage,
        }
    }
}

/// Writes the sentences of a corpus durably into the job's folder: its texts, or the keys of its passages.
pub(crate) fn write_files(folder: &Path, corpus: &str, ids: &[u64], texts: Option<&Texts>) -> Result<(), Error> {
    // Serializing text to JSON cannot fail.
    let (name, content): (_, Vec<u8>) = match texts {
        None => ("ids", ids.iter().flat_map(|id| id.to_le_bytes()).collect()),
        Some(Texts::List(texts)) => ("texts", serde_json::to_vec(texts).unwrap_or_default()),
        Some(Texts::Cut { sentences, .. }) => ("sentences", serde_json::to_vec(sentences).unwrap_or_default()),
    };
    let path = folder.join(format!("{corpus}.{name}"));
    write_durably(&path, &content).and_then(|()| sync_dir(folder)).at(&path)
}

pub(crate) fn read_ids(folder: &Path, corpus: &str) -> Result<Vec<u64>, Error> {
    let path = folder.join(format!("{corpus}.ids"));
    let bytes = read_file(&path).at(&path)?;
    Ok(bytes.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect())
}

/// Reads the texts of a corpus: sentences split from the documents of `collection`, or a list.
pub(crate) fn read_texts(folder: &Path, corpus: &str, collection: Option<CollectionId>) -> Result<Texts, Error> {
    match collection {
        Some(collection) => Ok(Texts::Cut { collection, sentences: read_json(&folder.join(format!("{corpus}.sentences")))? }),
        None => Ok(Texts::List(read_json(&folder.join(format!("{corpus}.texts")))?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = concat!(
        r#"{"first":{"collection":null},"second":{"collection":null},"neighbors":4,"margin":"ratio","strategy":"max_score","#,
        r#""one_to_one":false,"exact":null,"deduplicate":true,"skip_identical":true,"threshold":1.5,"known":[[1,2]],"#,
        r#""known_complete":true,"collections":[],"key":null}"#
    );

    #[test]
    fn a_stored_plan_has_its_settings_beside_the_rest() {
        let plan: MinePlan = serde_json::from_str(PLAN).unwrap();
        assert_eq!(serde_json::to_string(&plan).unwrap(), PLAN);
    }

    #[test]
    fn a_plan_of_an_earlier_version_is_read_and_one_of_a_later_version_is_refused() {
        let earlier = PLAN.replace(r#""skip_identical":true,"#, "").replace(r#""known_complete":true,"#, "");
        let earlier: MinePlan = serde_json::from_str(&earlier).unwrap();
        assert!(!earlier.settings.skip_identical && !earlier.known_complete && earlier.settings.deduplicate);
        let later = PLAN.replace(r#""key":null"#, r#""key":null,"new":1"#);
        assert!(serde_json::from_str::<MinePlan>(&later).unwrap_err().to_string().contains("unknown field `new`"));
    }
}
