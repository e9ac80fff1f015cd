//! Verifies that an exported graph gives the same embeddings as the trained encoder.

use std::path::Path;

use dragoman::domain::Language;
use dragoman::text::Tokenizer;
use serde::{Deserialize, Serialize};

use super::golden;
use crate::error::Error;
use crate::eval::encoder::tokenize;
use crate::eval::flores::{self, ENGLISH};
use crate::eval::retrieval::{mean, precision_at_1};
use crate::eval::{Embeddings, TokenEncoder};

/// Maximum difference of P@1 from the reference, in percentage points.
pub const P_AT_1_POINTS_MAX: f64 = 0.5;
/// Number of sentences per language to compare.
const SENTENCES: usize = 100;

/// An exported graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// float32.
    Fp32,
    /// float16, for GPUs.
    Fp16,
    /// int8, for CPUs.
    Int8,
}

impl Variant {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Int8 => "int8",
        }
    }

    /// The minimum cosine with the reference for every sentence.
    pub fn cosine_min(self) -> f64 {
        match self {
            Self::Fp32 => 0.9999,
            Self::Fp16 => 0.999,
            Self::Int8 => 0.99,
        }
    }
}

/// Sentences that are translations of each other, as token ids.
pub struct Sample {
    /// The languages, in the order of `texts`.
    pub languages: Vec<Language>,
    /// Number of sentences per language.
    pub sentences: usize,
    /// All sentences of the first language, then those of the second, and so on.
    pub texts: Vec<Vec<u32>>,
}

/// The parity of a graph with the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parity {
    /// The graph.
    pub variant: Variant,
    /// Number of sentences compared.
    pub sentences: usize,
    /// Number of languages.
    pub languages: usize,
    /// Minimum cosine between a sentence's two embeddings.
    pub cosine_min: f64,
    /// Mean of these cosines.
    pub cosine_mean: f64,
    /// P@1 with English of the reference on the sample, in percent; 0 if the sample has no English.
    pub p_at_1_reference: f64,
    /// P@1 with English of the graph, in percent.
    pub p_at_1: f64,
}

impl Sample {
    /// Takes FLORES sentences from `folder`, or the golden texts without a folder or without such files.
    pub fn read(folder: Option<&Path>, tokenizer: &Tokenizer, tokens_max: usize) -> Result<Self, Error> {
        let aligned = match folder {
            Some(folder) => flores::read(folder)?.map(|aligned| aligned.languages),
            None => None,
        };
        let by_language = aligned.unwrap_or_else(golden::by_language);
        let sentences = by_language.values().map(Vec::len).min().unwrap_or(0).min(SENTENCES);
        let languages = by_language.keys().copied().collect();
        let texts: Vec<String> = by_language.into_values().flat_map(|texts| texts.into_iter().take(sentences)).collect();
        Ok(Self { languages, sentences, texts: tokenize(tokenizer, &texts, tokens_max)? })
    }
}

/// Compares the output of `encoder` for `sample` with the `reference` embeddings of the same texts, and rejects large
/// differences.
pub fn check_parity(
    variant: Variant,
    sample: &Sample,
    reference: &Embeddings,
    encoder: &mut dyn TokenEncoder,
) -> Result<Parity, Error> {
    let parity = compare(variant, sample, reference, &encoder.embed(&sample.texts)?)?;
    check(&parity)?;
    Ok(parity)
}

fn compare(variant: Variant, sample: &Sample, reference: &Embeddings, got: &Embeddings) -> Result<Parity, Error> {
    let cosine = |(a, b): (&[f32], &[f32])| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let cosines: Vec<f64> = reference.rows().zip(got.rows()).map(cosine).collect();
    if cosines.is_empty() || reference.len() != got.len() {
        let problem = format!("expected {} embeddings, at least one, got {}", reference.len(), got.len());
        return Err(Error::Parity { variant: variant.name(), problem });
    }
    Ok(Parity {
        variant,
        sentences: cosines.len(),
        languages: sample.languages.len(),
        cosine_min: cosines.iter().copied().fold(f64::INFINITY, f64::min),
        cosine_mean: mean(cosines),
        p_at_1_reference: p_at_1(sample, reference)?,
        p_at_1: p_at_1(sample, got)?,
    })
}

/// Mean P@1 between English and every other language of the sample, in both directions.
fn p_at_1(sample: &Sample, embeddings: &Embeddings) -> Result<f64, Error> {
    let part = |index: usize| embeddings.part(index * sample.sentences, sample.sentences);
    let Some(english) = sample.languages.iter().position(|language| language.code() == ENGLISH) else {
        return Ok(0.0);
    };
    let mut scores = Vec::new();
    for other in (0..sample.languages.len()).filter(|&other| other != english) {
        let precision = precision_at_1(&part(english), &part(other))?;
        scores.extend([precision.forward, precision.backward]);
    }
    Ok(mean(scores))
}

fn check(parity: &Parity) -> Result<(), Error> {
    let refuse = |problem| Err(Error::Parity { variant: parity.variant.name(), problem });
    let cosine_min = parity.variant.cosine_min();
    if parity.cosine_min < cosine_min {
        return refuse(format!(
            "the least cosine with the reference is {:.6}, expected at least {cosine_min}",
            parity.cosine_min
        ));
    }
    let points = (parity.p_at_1 - parity.p_at_1_reference).abs();
    if points > P_AT_1_POINTS_MAX {
        let (got, reference) = (parity.p_at_1, parity.p_at_1_reference);
        return refuse(format!("P@1 is {got:.2}, the reference has {reference:.2}, expected within {P_AT_1_POINTS_MAX} points"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        let languages = ["de", "en"].map(|code| Language::parse(code).unwrap()).into();
        Sample { languages, sentences: 2, texts: vec![vec![1]; 4] }
    }

    fn embeddings(rows: [[f32; 2]; 4]) -> Embeddings {
        Embeddings::normalized(rows.concat(), 2).unwrap()
    }

    #[test]
    fn cosines_and_p_at_1_are_compared_sentence_by_sentence() {
        let reference = embeddings([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]);
        // The second German sentence gets the direction of the first, so it finds the wrong English sentence; the second
        // English sentence, orthogonal to both, finds the first German one.
        let got = embeddings([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]);
        let parity = compare(Variant::Fp16, &sample(), &reference, &got).unwrap();
        assert_eq!((parity.cosine_min, parity.cosine_mean), (0.0, 0.75));
        assert_eq!((parity.p_at_1_reference, parity.p_at_1), (100.0, 50.0));
        assert_eq!((parity.sentences, parity.languages), (4, 2));
    }

    #[test]
    fn a_graph_too_far_from_the_reference_is_refused() {
        let parity = |variant, cosine_min, p_at_1| Parity {
            variant,
            sentences: 4,
            languages: 2,
            cosine_min,
            cosine_mean: 1.0,
            p_at_1_reference: 80.0,
            p_at_1,
        };
        for (variant, cosine) in [(Variant::Fp32, 0.9999), (Variant::Fp16, 0.999), (Variant::Int8, 0.99)] {
            assert!(check(&parity(variant, cosine, 80.5)).is_ok());
            let error = check(&parity(variant, cosine - 1e-5, 80.0)).unwrap_err().to_string();
            assert!(error.contains(&format!("{}: the least cosine", variant.name())), "{error}");
        }
        let error = check(&parity(Variant::Int8, 1.0, 79.4)).unwrap_err().to_string();
        assert!(error.contains("P@1 is 79.40, the reference has 80.00"), "{error}");
    }
}
