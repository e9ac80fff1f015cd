//! Forward and backward pass of the network. Loops run over contiguous slices, so that the compiler can vectorize them.

use crate::classify::calibrate::{loss, softmax};
use crate::classify::{TargetKind, Targets};
use crate::domain::Activation;
use crate::domain::embedding::dot;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub dimension: usize,
    pub hidden: usize,
    pub labels: usize,
}

/// The parameters of a network, or their gradient, in memory order.
pub(super) struct Parts<T> {
    /// [hidden, dimension]
    pub hidden_weights: T,
    /// [hidden]
    pub hidden_biases: T,
    /// [labels, hidden]
    pub label_weights: T,
    /// [labels]
    pub label_biases: T,
}

impl Shape {
    pub(super) fn parameters(self) -> usize {
        self.hidden * (self.dimension + 1) + self.labels * (self.hidden + 1)
    }

    pub(super) fn parts(self, parameters: &[f32]) -> Parts<&[f32]> {
        let (hidden_weights, rest) = parameters.split_at(self.hidden * self.dimension);
        let (hidden_biases, rest) = rest.split_at(self.hidden);
        let (label_weights, label_biases) = rest.split_at(self.labels * self.hidden);
        Parts { hidden_weights, hidden_biases, label_weights, label_biases }
    }

    pub(super) fn parts_mut(self, parameters: &mut [f32]) -> Parts<&mut [f32]> {
        let (hidden_weights, rest) = parameters.split_at_mut(self.hidden * self.dimension);
        let (hidden_biases, rest) = rest.split_at_mut(self.hidden);
        let (label_weights, label_biases) = rest.split_at_mut(self.labels * self.hidden);
        Parts { hidden_weights, hidden_biases, label_weights, label_biases }
    }
}

pub(super) struct Activations {
    shape: Shape,
    rows: usize,
    /// [rows, dimension] Embeddings times the square root of the dimension, after dropout.
    pub inputs: Vec<f32>,
    /// [rows, hidden] The factors of dropout; all 1 for predictions.
    pub hidden_mask: Vec<f32>,
    /// [rows, hidden] Before dropout; after the backward pass, the gradient before the activation.
    hidden: Vec<f32>,
    /// [rows, hidden] After dropout.
    after_dropout: Vec<f32>,
    /// [rows, labels] After the backward pass, their gradient.
    logits: Vec<f32>,
}

impl Activations {
    pub(super) fn new(shape: Shape, rows_max: usize) -> Self {
        Self {
            shape,
            rows: 0,
            inputs: vec![0.0; rows_max * shape.dimension],
            hidden_mask: vec![1.0; rows_max * shape.hidden],
            hidden: vec![0.0; rows_max * shape.hidden],
            after_dropout: vec![0.0; rows_max * shape.hidden],
            logits: vec![0.0; rows_max * shape.labels],
        }
    }

    /// Fills in a batch of embeddings, at most `rows_max`.
    pub(super) fn fill<'a>(&mut self, embeddings: impl Iterator<Item = &'a [f32]>) {
        let scale = (self.shape.dimension as f32).sqrt();
        self.rows = 0;
        for (row, embedding) in self.inputs.chunks_exact_mut(self.shape.dimension).zip(embeddings) {
            row.iter_mut().zip(embedding).for_each(|(input, value)| *input = value * scale);
            self.rows += 1;
        }
    }

    pub(super) fn logits(&self) -> &[f32] {
        &self.logits[..self.rows * self.shape.labels]
    }
}

/// Computes the logits of the batch.
pub(super) fn forward(shape: Shape, activation: Activation, parameters: &[f32], activations: &mut Activations) {
    let Parts { hidden_weights, hidden_biases, label_weights, label_biases } = shape.parts(parameters);
    for row in 0..activations.rows {
        let range = row * shape.hidden..(row + 1) * shape.hidden;
        let (hidden, after_dropout) = (&mut activations.hidden[range.clone()], &mut activations.after_dropout[range.clone()]);
        let input = &activations.inputs[row * shape.dimension..][..shape.dimension];
        multiply(hidden_weights, hidden_biases, input, hidden);
        match activation {
            Activation::Tanh => hidden.iter_mut().for_each(|value| *value = value.tanh()),
            Activation::Relu => hidden.iter_mut().for_each(|value| *value = value.max(0.0)),
        }
        let masked = hidden.iter().zip(&activations.hidden_mask[range]).map(|(value, mask)| value * mask);
        after_dropout.iter_mut().zip(masked).for_each(|(after_dropout, value)| *after_dropout = value);
        multiply(label_weights, label_biases, after_dropout, &mut activations.logits[row * shape.labels..][..shape.labels]);
    }
}

/// Computes the mean gradient of the loss over `examples`, whose logits `forward` has just computed, and writes it to
/// `gradient`. Returns the sum of the losses.
pub(super) fn backward(
    network: (Shape, Activation, &[f32]),
    activations: &mut Activations,
    targets: Targets<'_>,
    examples: &[u32],
    gradient: &mut [f32],
) -> f64 {
    let (shape, activation, parameters) = network;
    let rows = activations.rows;
    let mut loss = 0.0;
    for (logits, example) in activations.logits.chunks_exact_mut(shape.labels).zip(examples) {
        loss += loss_and_gradient(targets.target_kind(), logits, targets.of(*example as usize));
        logits.iter_mut().for_each(|slope| *slope /= rows as f32);
    }
    let label_weights = shape.parts(parameters).label_weights;
    gradient.fill(0.0);
    let sums = shape.parts_mut(gradient);
    let label_slopes = &activations.logits[..rows * shape.labels];
    add_outer(label_slopes, &activations.after_dropout[..rows * shape.hidden], (shape.labels, shape.hidden), sums.label_weights);
    add_rows(label_slopes, sums.label_biases);
    for row in 0..rows {
        let range = row * shape.hidden..(row + 1) * shape.hidden;
        let (hidden, after_dropout) = (&mut activations.hidden[range.clone()], &mut activations.after_dropout[range.clone()]);
        after_dropout.fill(0.0);
        let slopes = &activations.logits[row * shape.labels..][..shape.labels];
        for (slope, weights) in slopes.iter().zip(label_weights.chunks_exact(shape.hidden)) {
            after_dropout.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += slope * weight);
        }
        for ((value, sum), mask) in hidden.iter_mut().zip(after_dropout.iter()).zip(&activations.hidden_mask[range]) {
            let steepness = match activation {
                Activation::Tanh => 1.0 - *value * *value,
                Activation::Relu => f32::from(*value > 0.0),
            };
            *value = sum * mask * steepness;
        }
    }
    let hidden_slopes = &activations.hidden[..rows * shape.hidden];
    let inputs = &activations.inputs[..rows * shape.dimension];
    add_outer(hidden_slopes, inputs, (shape.hidden, shape.dimension), sums.hidden_weights);
    add_rows(hidden_slopes, sums.hidden_biases);
    loss
}

/// Computes the loss of one example and replaces its logits with their gradient.
pub(super) fn loss_and_gradient(target_kind: TargetKind, logits: &mut [f32], labels: &[u32]) -> f64 {
    let target = labels.iter().map(|label| f64::from(logits[*label as usize])).sum();
    let loss = loss(target_kind, logits.iter().copied().map(f64::from), target);
    normalize_scores(target_kind, logits);
    labels.iter().for_each(|label| logits[*label as usize] -= 1.0);
    loss
}

/// Turns logits into probabilities.
pub(super) fn normalize_scores(target_kind: TargetKind, logits: &mut [f32]) {
    match target_kind {
        TargetKind::Class => softmax(logits),
        TargetKind::LabelSet => logits.iter_mut().for_each(|logit| *logit = 1.0 / (1.0 + (-*logit).exp())),
    }
}

/// outputs = weights · input + biases
fn multiply(weights: &[f32], biases: &[f32], input: &[f32], outputs: &mut [f32]) {
    for ((output, weights), bias) in outputs.iter_mut().zip(weights.chunks_exact(input.len())).zip(biases) {
        *output = bias + dot(weights, input);
    }
}

/// sums += slopesᵀ · values, with `slopes` [rows, outputs], `values` [rows, inputs] and `sums` [outputs, inputs]. Four rows at
/// once, so that a sum is read and written once for four products.
fn add_outer(slopes: &[f32], values: &[f32], (outputs, inputs): (usize, usize), sums: &mut [f32]) {
    for (slopes, values) in slopes.chunks(4 * outputs).zip(values.chunks(4 * inputs)) {
        for (output, sums) in sums.chunks_exact_mut(inputs).enumerate() {
            if values.len() == 4 * inputs {
                let [a, b, c, d] = [0, 1, 2, 3].map(|row| &values[row * inputs..][..inputs]);
                let [at_a, at_b, at_c, at_d] = [0, 1, 2, 3].map(|row| slopes[row * outputs + output]);
                for ((sum, (a, b)), (c, d)) in sums.iter_mut().zip(a.iter().zip(b)).zip(c.iter().zip(d)) {
                    *sum += (at_a * a + at_b * b) + (at_c * c + at_d * d);
                }
            } else {
                for (slopes, values) in slopes.chunks_exact(outputs).zip(values.chunks_exact(inputs)) {
                    let slope = slopes[output];
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += slope * value);
                }
            }
        }
    }
}

/// sums += the rows of `slopes`.
fn add_rows(slopes: &[f32], sums: &mut [f32]) {
    for row in slopes.chunks_exact(sums.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, slope)| *sum += slope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::random::Random;

    #[test]
    fn logits_match_a_hand_calculation() {
        // Inputs (0.6, 0.8) · √2; hidden: tanh(0.5 · 0.848528 + 0.25 · 1.131371 + 0.1) = tanh(0.807107) = 0.667991
        // logits: 2 · 0.667991 - 1 = 0.335982 and -0.667991.
        let shape = Shape { dimension: 2, hidden: 1, labels: 2 };
        let parameters = [0.5, 0.25, 0.1, 2.0, -1.0, -1.0, 0.0];
        let mut activations = Activations::new(shape, 3);
        activations.fill([&[0.6_f32, 0.8][..]].into_iter());
        forward(shape, Activation::Tanh, &parameters, &mut activations);
        let [first, second] = *activations.logits() else { panic!("{:?}", activations.logits()) };
        assert!((first - 0.335_982).abs() < 1e-5 && (second + 0.667_991).abs() < 1e-5, "{first} {second}");
    }

    #[test]
    fn losses_and_gradients_match_a_hand_calculation() {
        // ln(e⁰ + e^ln 3) - ln 3 = ln(4 / 3); probabilities 1/4 and 3/4.
        let mut logits = [0.0, 3.0_f32.ln()];
        let loss = loss_and_gradient(TargetKind::Class, &mut logits, &[1]);
        assert!((loss - (4.0_f64 / 3.0).ln()).abs() < 1e-6);
        assert!((logits[0] - 0.25).abs() < 1e-6 && (logits[1] + 0.25).abs() < 1e-6, "{logits:?}");
        // -ln(1 - 1/2) - ln 3/4.
        let mut logits = [0.0, 3.0_f32.ln()];
        let loss = loss_and_gradient(TargetKind::LabelSet, &mut logits, &[1]);
        assert!((loss - (8.0_f64 / 3.0).ln()).abs() < 1e-6);
        assert!((logits[0] - 0.5).abs() < 1e-6 && (logits[1] + 0.25).abs() < 1e-6, "{logits:?}");
    }

    #[test]
    fn huge_logits_give_finite_losses_and_gradients() {
        for target_kind in [TargetKind::Class, TargetKind::LabelSet] {
            let mut logits = [1e4, -1e4];
            assert!((loss_and_gradient(target_kind, &mut logits, &[0])).abs() < 1e-6);
            let mut logits = [-1e4, -1e4 - 5.0];
            assert!(
                loss_and_gradient(target_kind, &mut logits, &[1]).is_finite() && logits.iter().all(|slope| slope.is_finite())
            );
        }
    }

    #[test]
    fn the_gradient_matches_finite_differences_of_the_loss() {
        let classes = [0, 2, 1, 1, 0, 2, 2];
        let sets = [vec![0, 2], vec![], vec![1], vec![0, 1, 2], vec![2], vec![0], vec![1, 2]];
        for activation in [Activation::Tanh, Activation::Relu] {
            check_gradient(activation, Targets::Classes(&classes));
            check_gradient(activation, Targets::LabelSets(&sets));
        }
    }

    /// Central differences, with the masks of dropout kept as they are.
    fn check_gradient(activation: Activation, targets: Targets<'_>) {
        const STEP: f32 = 4e-3;
        let (shape, mut random) = (Shape { dimension: 19, hidden: 6, labels: 3 }, Random::new(11));
        let mut values = |count: usize, bound: f32| (0..count).map(|_| random.within(bound)).collect::<Vec<f32>>();
        let (mut parameters, inputs) = (values(shape.parameters(), 0.5), values(7 * shape.dimension, 0.3));
        let mut activations = Activations::new(shape, 7);
        activations.fill(inputs.chunks_exact(shape.dimension));
        random.fill_mask(&mut activations.hidden_mask, 0.3);
        let examples: Vec<u32> = (0..7).collect();
        let (mut gradient, mut unused) = (vec![9.0; shape.parameters()], vec![0.0; shape.parameters()]);
        forward(shape, activation, &parameters, &mut activations);
        backward((shape, activation, &parameters), &mut activations, targets, &examples, &mut gradient);
        let mut loss_at = |parameters: &[f32]| {
            forward(shape, activation, parameters, &mut activations);
            backward((shape, activation, parameters), &mut activations, targets, &examples, &mut unused) / 7.0
        };
        for number in 0..shape.parameters() {
            let value = parameters[number];
            parameters[number] = value + STEP;
            let above = loss_at(&parameters);
            parameters[number] = value - STEP;
            let below = loss_at(&parameters);
            parameters[number] = value;
            let slope = (above - below) / f64::from(2.0 * STEP);
            let difference = (slope - f64::from(gradient[number])).abs();
            assert!(difference < 1e-3, "{activation:?} parameter {number}: {slope} is not {}", gradient[number]);
        }
        assert!(gradient.iter().any(|slope| slope.abs() > 0.05));
    }
}
