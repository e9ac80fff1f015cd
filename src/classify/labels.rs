//! Labels by name and by number, and the targets for training.

use super::ClassifyError;

/// Whether an example has exactly one label or any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// Exactly one: scores are a distribution (softmax).
    Class,
    /// Any number, including none: each label has an independent probability (sigmoid).
    LabelSet,
}

/// The true labels of examples, by number.
#[derive(Debug, Clone, Copy)]
pub enum Targets<'a> {
    /// One class per example.
    Classes(&'a [u32]),
    /// Any number of labels per example, without repetitions.
    LabelSets(&'a [Vec<u32>]),
}

impl Targets<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::Classes(classes) => classes.len(),
            Self::LabelSets(sets) => sets.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether examples have one class or any number of labels.
    pub fn target_kind(&self) -> TargetKind {
        match self {
            Self::Classes(_) => TargetKind::Class,
            Self::LabelSets(_) => TargetKind::LabelSet,
        }
    }

    pub fn of(&self, example: usize) -> &[u32] {
        match self {
            Self::Classes(classes) => std::slice::from_ref(&classes[example]),
            Self::LabelSets(sets) => &sets[example],
        }
    }

    /// Refuses labels that are not below `labels`, and repeated labels of an example.
    pub fn check(&self, labels: usize) -> Result<(), ClassifyError> {
        for example in 0..self.len() {
            let of_example = self.of(example);
            if let Some(&got) = of_example.iter().find(|label| **label as usize >= labels) {
                return Err(ClassifyError::Label { example, got, labels });
            }
            let mut sorted = of_example.to_vec();
            sorted.sort_unstable();
            if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(ClassifyError::Repeated { example, label: twice[0] });
            }
        }
        Ok(())
    }
}

/// The labels of a classifier, numbered in the order of their names, as in the evaluation in `training`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelNames(Vec<String>);

impl LabelNames {
    /// Collects the distinct labels in `names`.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn number(&self, name: &str) -> Option<u32> {
        self.0.binary_search_by(|known| known.as_str().cmp(name)).ok().map(|number| number as u32)
    }

    pub fn name(&self, number: u32) -> Option<&str> {
        self.0.get(number as usize).map(String::as_str)
    }

    /// All names, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_numbered_in_name_order_and_looked_up_both_ways() {
        let names = LabelNames::of(["ville", "книга", "animal", "ville"].map(str::to_owned));
        assert_eq!(names.iter().collect::<Vec<_>>(), ["animal", "ville", "книга"]);
        assert_eq!((names.number("ville"), names.number("Ville")), (Some(1), None));
        assert_eq!((names.name(2), names.name(3)), (Some("книга"), None));
    }

    #[test]
    fn out_of_range_and_repeated_labels_are_refused() {
        let sets = [vec![0, 1], vec![], vec![1, 2]];
        assert_eq!(Targets::LabelSets(&sets).check(3), Ok(()));
        let refused = ClassifyError::Label { example: 2, got: 2, labels: 2 };
        assert_eq!(Targets::LabelSets(&sets).check(2), Err(refused.clone()));
        assert_eq!(Targets::Classes(&[0, 1, 2]).check(2), Err(refused));
        let twice = ClassifyError::Repeated { example: 0, label: 1 };
        assert_eq!(Targets::LabelSets(&[vec![1, 0, 1]]).check(2), Err(twice));
    }
}
