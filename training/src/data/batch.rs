//! A step's sentences as tensors: token rows are gathered once, and sentences of similar length are padded together.

use rustc_hash::FxHashMap;
use tch::{Device, Kind, Tensor};

use super::sampler::Sentence;
use crate::objective::late_interaction::Interaction;

/// Lengths are padded to a multiple of this.
const LENGTH_STEP: usize = 8;

/// The sentences of one step, left sides first, then right sides in the same order.
pub struct Batch {
    /// Number of pairs.
    pub pairs: usize,
    /// The distinct token ids of the batch. [distinct]
    pub distinct: Tensor,
    /// Sentences grouped by similar length.
    pub groups: Vec<Group>,
    /// For each sentence, its row in the concatenated groups. [2 x pairs]
    pub order: Tensor,
    /// `Language::index` of each sentence. [2 x pairs]
    pub languages: Tensor,
    /// Token ids of each sentence as in the corpus, padded with -1: the targets of XTR. They include tokens that were hidden,
    /// dropped or cropped from the encoder's input. [2 x pairs, len]
    pub targets: Option<Tensor>,
    /// The input of late interaction.
    pub interaction: Option<Interaction>,
    /// The pairs that are translations, if the teacher teaches only these.
    pub translations: Option<Translations>,
    /// The right sides, if their encoder is frozen; the rest of the batch then has only the left sides, with [pairs] in place
    /// of [2 x pairs].
    pub passages: Option<Box<Batch>>,
    /// For each sentence the id of the token that is hidden from the encoder, or -1. [2 x pairs]
    pub masked: Option<Tensor>,
    /// Positions in `distinct` of all tokens, sentence after sentence. [tokens]
    pub flat: Tensor,
    /// Where each sentence begins in `flat`. [2 x pairs]
    pub offsets: Tensor,
}

/// The translation pairs of a batch.
pub struct Translations {
    /// A separate batch of them, for a frozen encoder; `None` without translation pairs.
    pub batch: Option<Box<Batch>>,
    /// Their rows among the whole batch's sentences, left sides first. [2 x translations]
    pub rows: Tensor,
}

/// Sentences padded to the longest of them.
pub struct Group {
    /// Positions in `distinct`; 0 for padding. [batch, len]
    pub ids: Tensor,
    /// 1 for tokens, 0 for padding. [batch, len]
    pub mask: Tensor,
    /// Whether the question encoder reads them.
    pub questions: bool,
}

impl Batch {
    /// Makes a batch with only the encoder's input, in groups of `group_rows` sentences (the last may have fewer).
    pub fn new(pairs: &[(Sentence, Sentence)], group_rows: usize) -> Self {
        let sentences = sides(pairs);
        let (distinct, positions) = token_positions(&sentences);
        Self::assemble(&sentences, &distinct, &positions, group_rows)
    }

    /// Makes a batch of the left sides for an encoder that learns, with a separate batch of the right sides for a frozen one.
    pub fn with_frozen_right(pairs: &[(Sentence, Sentence)], group_rows: usize) -> Self {
        let batch_of = |sentences: Vec<&Sentence>| {
            let (distinct, positions) = token_positions(&sentences);
            Self { pairs: pairs.len(), ..Self::assemble(&sentences, &distinct, &positions, group_rows) }
        };
        let passages = batch_of(pairs.iter().map(|pair| &pair.1).collect());
        Self { passages: Some(Box::new(passages)), ..batch_of(pairs.iter().map(|pair| &pair.0).collect()) }
    }

    /// Like `new`, with one token of some sentences hidden: `hidden` [2 x pairs] is its position. In its place, the encoder
    /// sees the mask's row, which comes after the last distinct token.
    pub fn masked(pairs: &[(Sentence, Sentence)], group_rows: usize, hidden: &[Option<usize>]) -> Self {
        let sentences = sides(pairs);
        let (distinct, mut positions) = token_positions(&sentences);
        let mut ids = vec![-1i64; sentences.len()];
        for (number, &position) in hidden.iter().enumerate() {
            if let Some(position) = position {
                ids[number] = i64::from(sentences[number].ids[position]);
                positions[number][position] = distinct.len() as i64;
            }
        }
        Self { masked: Some(Tensor::from_slice(&ids)), ..Self::assemble(&sentences, &distinct, &positions, group_rows) }
    }

    /// Adds the targets of XTR and similar objectives.
    pub fn with_targets(mut self, pairs: &[(Sentence, Sentence)]) -> Self {
        self.targets = Some(targets(&sides(pairs)));
        self
    }

    /// Adds the input of late interaction, for the first `pairs_max` pairs.
    pub fn with_interaction(mut self, pairs: &[(Sentence, Sentence)], pairs_max: usize) -> Self {
        let distinct: Vec<i64> = Vec::try_from(&self.distinct).unwrap_or_default();
        self.interaction = Some(interaction(&pairs[..pairs.len().min(pairs_max)], &distinct));
        self
    }

    /// Adds the subset of pairs that are translations.
    pub fn with_translations(mut self, pairs: &[(Sentence, Sentence)], group_rows: usize) -> Self {
        let indexes: Vec<usize> = (0..pairs.len()).filter(|&index| pairs[index].0.translated).collect();
        let chosen: Vec<(Sentence, Sentence)> = indexes.iter().map(|&index| pairs[index].clone()).collect();
        let indexes_of_both =
            [0, pairs.len()].into_iter().flat_map(|offset| indexes.iter().map(move |index| (offset + index) as i64));
        self.translations = Some(Translations {
            rows: Tensor::from_slice(&indexes_of_both.collect::<Vec<_>>()),
            batch: (!chosen.is_empty()).then(|| Box::new(Self::new(&chosen, group_rows))),
        });
        self
    }

    fn assemble(sentences: &[&Sentence], distinct: &[i64], positions: &[Vec<i64>], group_rows: usize) -> Self {
        let mut by_length: Vec<usize> = (0..sentences.len()).collect();
        by_length.sort_by_key(|&index| (sentences[index].question, positions[index].len()));
        let mut order = vec![0i64; sentences.len()];
        for (row, &index) in by_length.iter().enumerate() {
            order[index] = row as i64;
        }
        let mut offset = 0;
        let offsets: Vec<i64> = positions
            .iter()
            .map(|ids| {
                let start = offset;
                offset += ids.len() as i64;
                start
            })
            .collect();
        Self {
            pairs: sentences.len() / 2,
            groups: by_length
                .chunk_by(|&a, &b| sentences[a].question == sentences[b].question)
                .flat_map(|rows| rows.chunks(group_rows))
                .map(|rows| Group {
                    questions: sentences[rows[0]].question,
                    ..pad(&rows.iter().map(|&row| positions[row].as_slice()).collect::<Vec<_>>())
                })
                .collect(),
            order: Tensor::from_slice(&order),
            languages: Tensor::from_slice(&sentences.iter().map(|sentence| sentence.language).collect::<Vec<_>>()),
            targets: None,
            interaction: None,
            translations: None,
            passages: None,
            masked: None,
            flat: Tensor::from_slice(&positions.concat()),
            offsets: Tensor::from_slice(&offsets),
            distinct: Tensor::from_slice(distinct),
        }
    }

    /// Moves the batch to another device.
    pub fn to_device(self, device: Device) -> Self {
        let move_group = |group: Group| Group { ids: group.ids.to_device(device), mask: group.mask.to_device(device), ..group };
        Self {
            pairs: self.pairs,
            distinct: self.distinct.to_device(device),
            groups: self.groups.into_iter().map(move_group).collect(),
            order: self.order.to_device(device),
            languages: self.languages.to_device(device),
            targets: self.targets.map(|targets| targets.to_device(device)),
            interaction: self.interaction.map(|interaction| interaction.to_device(device)),
            translations: self.translations.map(|translations| Translations {
                batch: translations.batch.map(|batch| Box::new(batch.to_device(device))),
                rows: translations.rows.to_device(device),
            }),
            passages: self.passages.map(|passages| Box::new(passages.to_device(device))),
            masked: self.masked.map(|masked| masked.to_device(device)),
            flat: self.flat.to_device(device),
            offsets: self.offsets.to_device(device),
        }
    }
}

/// The left sentences, then the right ones.
fn sides(pairs: &[(Sentence, Sentence)]) -> Vec<&Sentence> {
    pairs.iter().map(|pair| &pair.0).chain(pairs.iter().map(|pair| &pair.1)).collect()
}

/// The distinct token ids, and for each token its position among them.
fn token_positions(sentences: &[&Sentence]) -> (Vec<i64>, Vec<Vec<i64>>) {
    let mut known: FxHashMap<u16, i64> = FxHashMap::default();
    let mut distinct = Vec::new();
    let positions = sentences
        .iter()
        .map(|sentence| {
            let position = |&id: &u16| {
                *known.entry(id).or_insert_with(|| {
                    distinct.push(i64::from(id));
                    distinct.len() as i64 - 1
                })
            };
            sentence.ids.iter().map(position).collect()
        })
        .collect();
    (distinct, positions)
}

/// Pads rows of ids to the longest, rounded up: on the CPU, every new shape has its kernels compiled, which costs more than the
/// padding.
pub fn pad(rows: &[&[i64]]) -> Group {
    let length = rows.iter().map(|row| row.len()).max().unwrap_or(0).next_multiple_of(LENGTH_STEP);
    let mut ids = vec![0i64; rows.len() * length];
    let mut mask = vec![0f32; rows.len() * length];
    for (number, row) in rows.iter().enumerate() {
        ids[number * length..number * length + row.len()].copy_from_slice(row);
        mask[number * length..number * length + row.len()].fill(1.0);
    }
    let shape = [rows.len() as i64, length as i64];
    let mask = Tensor::from_slice(&mask).view(shape).to_kind(Kind::Float);
    Group { ids: Tensor::from_slice(&ids).view(shape), mask, questions: false }
}

fn targets(sentences: &[&Sentence]) -> Tensor {
    let length = sentences.iter().map(|sentence| sentence.whole().len()).max().unwrap_or(0);
    let mut padded = vec![-1i64; sentences.len() * length];
    for (number, sentence) in sentences.iter().enumerate() {
        for (column, &id) in sentence.whole().iter().enumerate() {
            padded[number * length + column] = i64::from(id);
        }
    }
    Tensor::from_slice(&padded).view([sentences.len() as i64, length as i64])
}

/// `distinct` has the token ids of the batch; the tensors hold positions in it.
fn interaction(pairs: &[(Sentence, Sentence)], distinct: &[i64]) -> Interaction {
    let positions: FxHashMap<i64, i64> = distinct.iter().zip(0..).map(|(&id, position)| (id, position)).collect();
    let (left, lefts) = token_positions(&pairs.iter().map(|pair| &pair.0).collect::<Vec<_>>());
    let (right, rights) = token_positions(&pairs.iter().map(|pair| &pair.1).collect::<Vec<_>>());
    let mut counts = vec![0f32; pairs.len() * left.len()];
    for (row, tokens) in lefts.iter().enumerate() {
        tokens.iter().for_each(|&token| counts[row * left.len() + token as usize] += 1.0);
    }
    let length = rights.iter().map(Vec::len).max().unwrap_or(0).next_multiple_of(LENGTH_STEP);
    let mut tokens = Vec::with_capacity(pairs.len() * length);
    for text in &rights {
        tokens.extend_from_slice(text);
        tokens.extend(std::iter::repeat_n(text[0], length - text.len()));
    }
    let of_batch = |ids: &[i64]| Tensor::from_slice(&ids.iter().map(|id| positions[id]).collect::<Vec<i64>>());
    let pairs = pairs.len() as i64;
    Interaction {
        counts: Tensor::from_slice(&counts).view([pairs, left.len() as i64]),
        tokens: Tensor::from_slice(&tokens).view([pairs, length as i64]),
        left: of_batch(&left),
        right: of_batch(&right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(ids: &[u16]) -> Sentence {
        Sentence::new(ids.to_vec(), 3)
    }

    #[test]
    fn concatenated_and_reordered_groups_restore_the_sentences() {
        let pairs = [(sentence(&[5, 6, 7, 8]), sentence(&[9])), (sentence(&[5, 5]), sentence(&[7, 6, 5]))];
        let batch = Batch::new(&pairs, 3);
        let distinct: Vec<i64> = Vec::try_from(&batch.distinct).unwrap();
        let mut rows = Vec::new();
        for group in &batch.groups {
            let (count, length) = group.ids.size2().unwrap();
            assert!(count <= 3 && length == 8);
            for row in 0..count {
                let real = group.mask.get(row).sum(Kind::Int64).int64_value(&[]);
                rows.push((0..real).map(|column| distinct[group.ids.int64_value(&[row, column]) as usize]).collect::<Vec<_>>());
            }
        }
        let order: Vec<i64> = Vec::try_from(&batch.order).unwrap();
        let restored: Vec<_> = order.iter().map(|&row| rows[row as usize].clone()).collect();
        assert_eq!(restored, [vec![5, 6, 7, 8], vec![5, 5], vec![9], vec![7, 6, 5]]);
    }

    #[test]
    fn questions_have_groups_of_their_own() {
        let question = |ids: &[u16]| Sentence { question: true, ..sentence(ids) };
        let pairs =
            [(question(&[5, 6, 7]), sentence(&[9])), (sentence(&[5]), sentence(&[7, 6])), (question(&[8]), sentence(&[4]))];
        let batch = Batch::new(&pairs, 3);
        let sizes: Vec<(bool, i64)> = batch.groups.iter().map(|group| (group.questions, group.ids.size()[0])).collect();
        assert_eq!(sizes, [(false, 3), (false, 1), (true, 2)]);
        // By length: 9, 5 and 4 have one token, 7 6 two; then the questions 8 and 5 6 7.
        assert_eq!(Vec::<i64>::try_from(&batch.order).unwrap(), [5, 0, 4, 1, 3, 2]);
    }

    #[test]
    fn a_frozen_right_side_gets_a_separate_batch_in_the_same_order() {
        let pairs = [(sentence(&[5, 6, 7]), sentence(&[9])), (sentence(&[5]), sentence(&[7, 6]))];
        let batch = Batch::with_frozen_right(&pairs, 4);
        let passages = batch.passages.unwrap();
        let numbers = |tensor: &Tensor| Vec::<i64>::try_from(tensor).unwrap();
        assert_eq!((numbers(&batch.distinct), numbers(&batch.offsets)), (vec![5, 6, 7], vec![0, 3]));
        assert_eq!((numbers(&passages.distinct), numbers(&passages.flat)), (vec![9, 7, 6], vec![0, 1, 2]));
        assert_eq!((batch.pairs, passages.pairs), (2, 2));
    }

    #[test]
    fn a_masked_token_is_hidden_from_the_encoder_but_kept_as_a_target() {
        let pairs = [(sentence(&[5, 6]), sentence(&[9])), (sentence(&[7]), sentence(&[6, 8]))];
        let batch = Batch::masked(&pairs, 4, &[Some(1), None, None, Some(0)]).with_targets(&pairs);
        let numbers = |tensor: &Tensor| Vec::<i64>::try_from(tensor.flatten(0, -1)).unwrap();
        assert_eq!(numbers(&batch.distinct), [5, 6, 7, 9, 8]);
        // In the order 5 6 | 7 | 9 | 6 8, the two tokens 6 are the mask, row 5.
        assert_eq!(numbers(&batch.flat), [0, 5, 2, 3, 5, 4]);
        assert_eq!(numbers(batch.masked.as_ref().unwrap()), [6, -1, -1, 6]);
        assert_eq!(numbers(batch.targets.as_ref().unwrap()), [5, 6, 7, -1, 9, -1, 6, 8]);
    }

    #[test]
    fn targets_are_the_uncropped_texts() {
        let cropped = Sentence { whole: Some(vec![5, 6, 7]), ..sentence(&[6]) };
        let pairs = [(sentence(&[9]), cropped)];
        let batch = Batch::new(&pairs, 4).with_targets(&pairs);
        assert_eq!(Vec::<i64>::try_from(batch.targets.unwrap().flatten(0, -1)).unwrap(), [9, -1, -1, 5, 6, 7]);
        assert_eq!(Vec::<i64>::try_from(&batch.distinct).unwrap(), [9, 6]);
    }

    #[test]
    fn late_interaction_counts_left_and_pads_right_with_the_first_token() {
        let pairs =
            [(sentence(&[5, 6, 5]), sentence(&[9, 6])), (sentence(&[7]), sentence(&[8])), (sentence(&[4]), sentence(&[3]))];
        let batch = Batch::new(&pairs, 4).with_interaction(&pairs, 2);
        let distinct = Vec::<i64>::try_from(&batch.distinct).unwrap();
        let texts = batch.interaction.unwrap();
        let ids = |positions: &Tensor| {
            Vec::<i64>::try_from(positions).unwrap().iter().map(|&position| distinct[position as usize]).collect::<Vec<_>>()
        };
        assert_eq!(ids(&texts.left), [5, 6, 7]);
        assert_eq!(Vec::<f32>::try_from(texts.counts.flatten(0, -1)).unwrap(), [2.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        assert_eq!(ids(&texts.right), [9, 6, 8]);
        let tokens = Vec::<i64>::try_from(texts.tokens.flatten(0, -1)).unwrap();
        assert_eq!(tokens, [0, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2]);
    }
}
