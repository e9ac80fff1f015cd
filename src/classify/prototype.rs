//! Zero-shot classification: a class is the mean of the embeddings of its name and descriptions, and a text gets the nearest
//! class.

use super::ClassifyError;
use super::calibrate::softmax;
use super::error::check_temperature;
use crate::domain::Embedding;

/// One direction per class.
#[derive(Debug, Clone, PartialEq)]
pub struct Prototypes {
    classes: Vec<Embedding>,
    /// The divisor of cosines before the softmax.
    temperature: f32,
}

impl Prototypes {
    /// The temperature before calibration: a cosine that is 0.07 higher makes a class e times as likely.
    pub const TEMPERATURE: f32 = 0.07;

    /// Creates prototypes from the embeddings of each class's name and descriptions, in any languages: at least one per class,
    /// all of one dimension. A prototype is the mean of the unit-length embeddings, scaled to unit length.
    pub fn of(classes: &[Vec<Embedding>]) -> Result<Self, ClassifyError> {
        let Some(first) = classes.iter().flatten().next() else {
            let expected = "at least one with a description".to_owned();
            return Err(ClassifyError::Parameter { name: "classes", expected, got: format!("{} without any", classes.len()) });
        };
        let mut means = Vec::with_capacity(classes.len());
        for (class, embeddings) in classes.iter().enumerate() {
            embeddings.iter().try_for_each(|embedding| check_dimension(first.dimension(), embedding))?;
            let no_direction = ClassifyError::NoDirection { class, count: embeddings.len() };
            means.push(Embedding::mean(embeddings).ok_or(no_direction)?);
        }
        Ok(Self { classes: means, temperature: Self::TEMPERATURE })
    }

    /// Returns the classes with another temperature, above 0, from `calibrate::fit_temperature` on the `cosines` of labeled
    /// texts.
    pub fn with_temperature(self, temperature: f32) -> Result<Self, ClassifyError> {
        check_temperature(temperature)?;
        Ok(Self { temperature, ..self })
    }

    /// The cosine with each class.
    pub fn cosines(&self, text: &Embedding) -> Result<Vec<f32>, ClassifyError> {
        check_dimension(self.classes[0].dimension(), text)?;
        Ok(self.classes.iter().map(|class| class.cosine(text).clamp(-1.0, 1.0)).collect())
    }

    /// The probability of each class: the softmax of the cosines over the temperature.
    pub fn probabilities(&self, text: &Embedding) -> Result<Vec<f32>, ClassifyError> {
        let mut scores = self.cosines(text)?;
        scores.iter_mut().for_each(|score| *score /= self.temperature);
        softmax(&mut scores);
        Ok(scores)
    }
}

fn check_dimension(expected: usize, embedding: &Embedding) -> Result<(), ClassifyError> {
    match embedding.dimension() {
        got if got == expected => Ok(()),
        got => Err(ClassifyError::Length { what: "embedding", expected, got }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embed<const N: usize>(values: [f32; N]) -> Embedding {
        Embedding::normalized(values.to_vec()).unwrap()
    }

    #[test]
    fn a_class_is_the_mean_of_its_descriptions() {
        // The mean of (1, 0) and (0, 1) is halfway between them; the lengths of the inputs do not matter.
        let classes = [vec![embed([5.0, 0.0]), embed([0.0, 1.0])], vec![embed([0.0, -1.0])]];
        let prototypes = Prototypes::of(&classes).unwrap();
        let cosines = prototypes.cosines(&embed([1.0, 0.0])).unwrap();
        assert!((cosines[0] - 0.5_f32.sqrt()).abs() < 1e-6 && cosines[1] == 0.0, "{cosines:?}");
        let again = prototypes.classes.iter().map(|class| vec![class.clone()]).collect::<Vec<_>>();
        let cosines_again = Prototypes::of(&again).unwrap().cosines(&embed([1.0, 0.0])).unwrap();
        assert!(cosines.iter().zip(&cosines_again).all(|(a, b)| (a - b).abs() < 1e-6));
    }

    #[test]
    fn probabilities_are_a_softmax_over_the_temperature() {
        // Cosines 1 and 0.6 at a temperature of 0.4: the odds are e to 1.
        let prototypes =
            Prototypes::of(&[vec![embed([1.0, 0.0])], vec![embed([0.6, 0.8])]]).unwrap().with_temperature(0.4).unwrap();
        let probabilities = prototypes.probabilities(&embed([1.0, 0.0])).unwrap();
        let e = std::f32::consts::E;
        assert!((probabilities[0] - e / (e + 1.0)).abs() < 1e-5 && (probabilities[1] - 1.0 / (e + 1.0)).abs() < 1e-5);
    }

    #[test]
    fn classes_without_a_usable_direction_are_refused() {
        let check = |classes: &[Vec<Embedding>], expect: &str| {
            assert_eq!(Prototypes::of(classes).unwrap_err().to_string(), expect);
        };
        let right = || embed([1.0, 0.0]);
        let expect = "class 1: its 2 embeddings have no common direction";
        check(&[vec![right()], vec![right(), embed([-1.0, 0.0])]], expect);
        check(&[vec![right()], vec![]], "class 1: its 0 embeddings have no common direction");
        check(&[vec![right()], vec![embed([1.0, 0.0, 0.0])]], "embedding: expected 2 values, got 3");
        check(&[vec![], vec![]], "classes: expected at least one with a description, got 2 without any");
        assert!(Prototypes::of(&[vec![right()]]).unwrap().cosines(&embed([1.0])).is_err());
        assert!(Prototypes::of(&[vec![right()]]).unwrap().with_temperature(f32::NAN).is_err());
    }
}
