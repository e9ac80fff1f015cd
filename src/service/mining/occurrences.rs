//! Chooses which occurrences of equal and near texts to pair, in the search for duplicates.

use std::collections::HashMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::Language;
use crate::mining::NeighborLists;

/// Score of equal texts. It is above every cosine, so that equal texts are joined before near ones take their place.
const EQUAL: f32 = 1.0 + f32::EPSILON;

/// `any`: any languages. `same`: the same language. `different`: two languages, so that clusters contain translations.
/// Documents without a recognized language count only with `any`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DuplicateLanguages)]
pub enum LanguageRule {
    /// Any languages.
    #[default]
    Any,
    /// The same language: near-duplicates.
    Same,
    /// Two different languages: translations.
    Different,
}

/// Chooses which passages to pair. Two passages may not be paired if they are of the same kind: of the same document, or of
/// languages that the rule does not allow together. If the occurrences of a text are of several kinds, one pair per passage
/// connects them, and one pair per neighbor connects them with other texts. If all are of one kind, they cannot be paired with
/// each other: the first one represents them in pairs with neighbors, and each further one is paired with the nearest of these
/// neighbors.
///
/// More occurrences than a cluster holds are divided into several groups of nearly equal size, which make a cluster each.
pub(super) struct Occurrences<'a> {
    rule: LanguageRule,
    size_max: usize,
    /// [positions] The number of the text at each position.
    numbers: &'a [u32],
    /// [positions]
    documents: &'a [i64],
    /// [positions]
    languages: &'a [Option<Language>],
    /// Sorted by number and language. Groups with the same number and language are parts of the occurrences of one text.
    groups: Vec<Group>,
    /// [positions] All positions, in the order of their groups.
    sorted: Vec<u32>,
}

/// The occurrences of one text; under `LanguageRule::Same`, those in one language. So if two of them may not be paired, they
/// are of the same document or, under `LanguageRule::Different`, of the same language.
struct Group {
    number: u32,
    /// Only set under `LanguageRule::Same`.
    language: Option<Language>,
    /// The first of its occurrences.
    first: u32,
    /// The first occurrence that may be paired with `first`.
    second: Option<u32>,
    /// The range of its occurrences in `Occurrences::sorted`.
    positions: Range<usize>,
}

impl LanguageRule {
    fn allows(self, one: Option<Language>, other: Option<Language>) -> bool {
        match self {
            Self::Any => true,
            // Two texts without a recognized language do not have the same language.
            Self::Same => one.is_some() && one == other,
            Self::Different => one.is_some() && other.is_some() && one != other,
        }
    }
}

impl<'a> Occurrences<'a> {
    pub(super) fn new(
        rule: LanguageRule,
        size_max: u32,
        numbers: &'a [u32],
        documents: &'a [i64],
        languages: &'a [Option<Language>],
    ) -> Self {
        let size_max = size_max as usize;
        let mut all = Self { rule, size_max, numbers, documents, languages, groups: Vec::new(), sorted: Vec::new() };
        let keyed = (0..numbers.len() as u32).filter_map(|position| Some((all.key(position)?, position)));
        let mut keyed: Vec<((u32, Option<Language>), u32)> = keyed.collect();
        keyed.sort_unstable();
        all.sorted.reserve_exact(keyed.len());
        for same in keyed.chunk_by(|one, other| one.0 == other.0) {
            let (key, positions) = (same[0].0, same.iter().map(|(_, position)| *position));
            if same.len() <= size_max {
                all.add(key, positions);
                continue;
            }
            let (interleaved, parts) = all.interleaved(positions.collect());
            for part in 0..parts {
                all.add(key, interleaved.iter().skip(part).step_by(parts).copied());
            }
        }
        all
    }

    /// Adds a group of at least one occurrence.
    fn add(&mut self, (number, language): (u32, Option<Language>), positions: impl Iterator<Item = u32>) {
        let begin = self.sorted.len();
        self.sorted.extend(positions);
        let rest = &self.sorted[begin..];
        let first = rest[0];
        let second = rest.iter().copied().find(|position| self.may_pair(first, *position));
        self.groups.push(Group { number, language, first, second, positions: begin..self.sorted.len() });
    }

    /// Orders the occurrences of a text so that they can be dealt out in turn, and returns the number of parts. Each part
    /// gets occurrences of two kinds, which may be paired, unless all are of one kind.
    fn interleaved(&self, mut positions: Vec<u32>) -> (Vec<u32>, usize) {
        positions.sort_by_key(|position| self.kind(*position));
        let mut end = 0;
        let kinds = positions.chunk_by(|one, other| self.kind(*one) == self.kind(*other)).map(|kind| {
            end += kind.len();
            (kind.len(), end)
        });
        let (largest, end_of_largest) = kinds.max().unwrap_or_default();
        // The most frequent kind comes last, so the others are dealt out without a gap. As there are at least as many of them as
        // parts, each part gets one.
        positions.rotate_left(end_of_largest);
        let parts = positions.len().div_ceil(self.size_max).min(positions.len() - largest).max(1);
        (positions, parts)
    }

    /// Returns the pairs of neighbors, as positions.
    pub(super) fn neighbor_pairs(&self, lists: &NeighborLists) -> impl Iterator<Item = (u32, u32, f32)> {
        self.groups.iter().flat_map(move |group| {
            lists.of(group.number as usize).filter_map(move |(other, cosine)| {
                let (one, other) = self.pair(group, self.group((other, group.language))?)?;
                Some((one, other, cosine.min(1.0)))
            })
        })
    }

    /// For texts whose occurrences are all of one kind, pairs each occurrence but the first with the nearest neighbor of the
    /// text. If a cluster does not hold the occurrences of both, they are paired with as many occurrences of the neighbor as
    /// there are clusters to make. Returns positions.
    pub(super) fn copies(&self, lists: &NeighborLists) -> impl Iterator<Item = (u32, u32, f32)> {
        let mut nearest: HashMap<u32, (u32, f32)> = HashMap::new();
        for (one, other, cosine) in self.neighbor_pairs(lists) {
            for (first, neighbor) in [(one, other), (other, one)] {
                let nearest_so_far = nearest.entry(first).or_insert((neighbor, cosine));
                if cosine > nearest_so_far.1 {
                    *nearest_so_far = (neighbor, cosine);
                }
            }
        }
        let alike = self.groups.iter().filter(|group| group.second.is_none() && group.positions.len() > 1);
        let found = alike.filter_map(move |group| {
            let (neighbor, cosine) = nearest.get(&group.first).copied()?;
            Some((group, neighbor, cosine, self.group(self.key(neighbor)?)?))
        });
        found.flat_map(move |(group, neighbor, cosine, beside)| {
            let (positions, beside) = (self.positions(group), self.positions(beside));
            let clusters = (positions.len() + beside.len()).div_ceil(self.size_max).min(positions.len()).min(beside.len());
            positions.iter().zip(beside[..clusters].iter().cycle()).skip(1).map(move |(&position, &other)| {
                let other = if self.may_pair(other, position) { other } else { neighbor };
                (other, position, cosine)
            })
        })
    }

    /// Pairs each occurrence in a group with the first one of another kind. Returns positions.
    pub(super) fn equal(&self) -> impl Iterator<Item = (u32, u32, f32)> {
        self.groups.iter().flat_map(move |group| {
            self.positions(group).iter().skip(1).filter_map(move |&position| {
                let mut firsts = [Some(group.first), group.second].into_iter().flatten();
                let other = firsts.find(|first| self.may_pair(*first, position))?;
                Some((other, position, EQUAL))
            })
        })
    }

    /// Finds an occurrence of one text and an occurrence of the other that may be paired.
    fn pair(&self, one: &Group, other: &Group) -> Option<(u32, u32)> {
        let firsts = Some((one.first, other.first));
        let pairs = [firsts, other.second.map(|second| (one.first, second)), one.second.map(|second| (second, other.first))];
        pairs.into_iter().flatten().find(|(one, other)| self.may_pair(*one, *other))
    }

    /// Returns the group of a passage, or `None` if it may not be paired with any other.
    fn key(&self, position: u32) -> Option<(u32, Option<Language>)> {
        let (number, language) = (self.numbers[position as usize], self.languages[position as usize]);
        match self.rule {
            LanguageRule::Any => Some((number, None)),
            LanguageRule::Same => Some((number, Some(language?))),
            LanguageRule::Different => language.map(|_| (number, None)),
        }
    }

    /// Returns the first group of a text.
    fn group(&self, key: (u32, Option<Language>)) -> Option<&Group> {
        let index = self.groups.partition_point(|group| (group.number, group.language) < key);
        self.groups.get(index).filter(|group| (group.number, group.language) == key)
    }

    fn positions(&self, group: &Group) -> &[u32] {
        &self.sorted[group.positions.clone()]
    }

    /// Returns the kind of a passage among the occurrences of its text: two of the same kind may not be paired.
    fn kind(&self, position: u32) -> (Option<i64>, Option<Language>) {
        match self.rule {
            LanguageRule::Any | LanguageRule::Same => (Some(self.documents[position as usize]), None),
            LanguageRule::Different => (None, self.languages[position as usize]),
        }
    }

    pub(super) fn may_pair(&self, one: u32, other: u32) -> bool {
        let (one, other) = (one as usize, other as usize);
        self.documents[one] != self.documents[other] && self.rule.allows(self.languages[one], self.languages[other])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mining::{DuplicateRule, cluster};

    #[test]
    fn language_rules_decide_which_passages_may_be_clustered() {
        let [de, fr] = ["de", "fr"].map(Language::parse);
        let check = |rule: LanguageRule, expect: [bool; 3]| {
            assert_eq!([rule.allows(de, de), rule.allows(de, fr), rule.allows(de, None)], expect, "{rule:?}");
        };
        check(LanguageRule::Any, [true, true, true]);
        check(LanguageRule::Same, [true, false, false]);
        check(LanguageRule::Different, [false, true, false]);
        assert!(!LanguageRule::Same.allows(None, None));
    }

    /// Checks the clusters of `passages`, each given as the number of its text, its document and its language, if the two texts
    /// in `neighbors` are neighbors with a cosine of 1.
    #[track_caller]
    fn check(rule: LanguageRule, passages: &[(u32, i64, &str)], neighbors: Option<(u32, u32)>, expect: &[&[u32]]) {
        assert_eq!(clusters(rule, 100, passages, neighbors).0, expect, "{rule:?} {passages:?}");
    }

    /// Returns the clusters, and the number of refused pairs.
    fn clusters(
        rule: LanguageRule,
        size_max: u32,
        passages: &[(u32, i64, &str)],
        neighbors: Option<(u32, u32)>,
    ) -> (Vec<Vec<u32>>, usize) {
        let numbers: Vec<u32> = passages.iter().map(|passage| passage.0).collect();
        let documents: Vec<i64> = passages.iter().map(|passage| passage.1).collect();
        let languages: Vec<Option<Language>> = passages.iter().map(|passage| Language::parse(passage.2)).collect();
        let mut lists = NeighborLists::new(2, 2, 1).unwrap();
        if let Some((one, other)) = neighbors {
            lists.put(one, &[(other, 1.0)]).unwrap();
        }
        let occurrences = Occurrences::new(rule, size_max, &numbers, &documents, &languages);
        let limits = DuplicateRule { score_min: 0.8, size_max };
        let pairs = occurrences.neighbor_pairs(&lists).chain(occurrences.copies(&lists)).chain(occurrences.equal());
        let found = cluster(passages.len(), pairs, &limits).unwrap();
        (found.iter().map(|group| group.members.to_vec()).collect(), found.refused)
    }

    /// Returns `count` passages with this text and language, each from a different document.
    fn copies(number: u32, count: i64, language: &str) -> impl Iterator<Item = (u32, i64, &str)> {
        (0..count).map(move |copy| (number, i64::from(number) * 1_000 + copy, language))
    }

    /// Checks that all passages are in clusters of these sizes.
    #[track_caller]
    fn check_sizes(rule: LanguageRule, passages: &[(u32, i64, &str)], neighbors: Option<(u32, u32)>, expect: &[usize]) {
        let mut sizes: Vec<usize> = clusters(rule, 10, passages, neighbors).0.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, expect);
        assert_eq!(sizes.iter().sum::<usize>(), passages.len());
    }

    #[test]
    fn equal_texts_are_clustered_whichever_language_comes_first() {
        let two_languages = [(0, 0, "de"), (0, 1, "en"), (0, 2, "en"), (0, 3, "")];
        check(LanguageRule::Same, &two_languages, None, &[&[1, 2]]);
        check(LanguageRule::Different, &two_languages, None, &[&[0, 1, 2]]);
        check(LanguageRule::Any, &two_languages, None, &[&[0, 1, 2, 3]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "de"), (0, 2, "en")], None, &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "de")], None, &[]);
    }

    #[test]
    fn equal_texts_of_one_document_connect_only_through_another_document() {
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de")], None, &[]);
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de"), (0, 1, "de")], None, &[&[0, 1, 2]]);
    }

    #[test]
    fn near_texts_are_paired_through_occurrences_with_allowed_languages() {
        check(LanguageRule::Same, &[(0, 0, "de"), (0, 1, "en"), (1, 2, "en")], Some((0, 1)), &[&[1, 2]]);
        check(LanguageRule::Same, &[(0, 0, "de"), (1, 1, "en"), (1, 2, "de")], Some((1, 0)), &[&[0, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "en"), (1, 2, "de")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (1, 1, "de"), (1, 2, "en")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (1, 1, "de"), (1, 2, "")], Some((0, 1)), &[]);
        check(LanguageRule::Any, &[(0, 0, "de"), (1, 0, "de"), (1, 1, "")], Some((0, 1)), &[&[0, 1, 2]]);
    }

    #[test]
    fn all_copies_of_a_text_are_clustered_with_its_neighbors() {
        check(LanguageRule::Different, &[(0, 0, "de"), (0, 1, "de"), (1, 2, "en")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Different, &[(0, 0, "de"), (1, 1, "en"), (1, 2, "en")], Some((0, 1)), &[&[0, 1, 2]]);
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de"), (1, 1, "de")], Some((1, 0)), &[&[0, 1, 2]]);
        check(LanguageRule::Any, &[(0, 0, "de"), (0, 0, "de"), (1, 0, "de")], Some((1, 0)), &[]);
    }

    #[test]
    fn copies_beyond_the_cluster_size_are_split_evenly() {
        check_sizes(LanguageRule::Any, &copies(0, 10, "").collect::<Vec<_>>(), None, &[10]);
        check_sizes(LanguageRule::Any, &copies(0, 11, "").collect::<Vec<_>>(), None, &[5, 6]);
        check_sizes(LanguageRule::Same, &copies(0, 31, "de").collect::<Vec<_>>(), None, &[7, 8, 8, 8]);
    }

    #[test]
    fn split_copies_are_still_paired_across_languages() {
        let mut passages: Vec<_> = copies(0, 20, "de").collect();
        passages.extend(copies(0, 30, "en").skip(20));
        check_sizes(LanguageRule::Different, &passages, None, &[10, 10, 10]);
        let (found, _) = clusters(LanguageRule::Different, 10, &passages, None);
        let of_both = |members: &Vec<u32>| members.first() < Some(&20) && members.last() >= Some(&20);
        assert!(found.iter().all(of_both), "{found:?}");
    }

    #[test]
    fn copies_and_their_translations_are_split_together() {
        let mut passages: Vec<_> = copies(0, 30, "de").collect();
        passages.extend(copies(1, 7, "en"));
        check_sizes(LanguageRule::Different, &passages, Some((0, 1)), &[8, 9, 10, 10]);
    }

    #[test]
    fn equal_texts_are_clustered_before_near_ones() {
        let mut passages: Vec<_> = copies(1, 10, "de").collect();
        passages.insert(0, (0, 0, "de"));
        let (found, refused) = clusters(LanguageRule::Any, 10, &passages, Some((0, 1)));
        assert_eq!((found, refused), (vec![(1..11).collect::<Vec<u32>>()], 1));
    }
}
