//! All segmentations of a word into pieces: the best one, and the expected count of each piece.

use rustc_hash::FxHashMap;

/// Marks a node where no piece ends.
const NONE: u32 = u32::MAX;
/// How far the log probability of an unknown character is below that of the least probable piece.
const UNKNOWN_PENALTY: f64 = 10.0;

/// The pieces as a trie.
pub struct Lattice {
    /// (node << 32 | character) to node.
    edges: FxHashMap<u64, u32>,
    /// By node: the piece that ends there, or `NONE`.
    ends: Vec<u32>,
    /// By piece: the logarithm of its probability.
    scores: Vec<f64>,
    unknown: f64,
}

impl Lattice {
    /// Builds the trie of `pieces`.
    pub fn new(pieces: &[(Vec<char>, f64)]) -> Self {
        let mut lattice = Self {
            edges: FxHashMap::default(),
            ends: vec![NONE],
            scores: pieces.iter().map(|(_, score)| *score).collect(),
            unknown: 0.0,
        };
        for (number, (piece, _)) in pieces.iter().enumerate() {
            let mut node = 0u32;
            for &character in piece {
                let next = lattice.ends.len() as u32;
                node = *lattice.edges.entry(edge(node, character)).or_insert(next);
                if node == next {
                    lattice.ends.push(NONE);
                }
            }
            lattice.ends[node as usize] = number as u32;
        }
        lattice.unknown = lattice.scores.iter().copied().fold(0.0, f64::min) - UNKNOWN_PENALTY;
        lattice
    }

    /// The pieces of the most probable segmentation, not using the piece `without`; empty if there is none. Characters that are
    /// not pieces are skipped at a penalty.
    pub fn best(&self, word: &[char], without: Option<u32>) -> Vec<u32> {
        // By end position: the best score, where its last piece begins, and that piece.
        let mut best = vec![(f64::NEG_INFINITY, 0usize, NONE); word.len() + 1];
        best[0].0 = 0.0;
        for start in 0..word.len() {
            let score = best[start].0;
            let mut offer = |end: usize, piece: u32, piece_score: f64| {
                if score + piece_score > best[end].0 {
                    best[end] = (score + piece_score, start, piece);
                }
            };
            let mut single = false;
            self.pieces_from(word, start, |end, piece| {
                single |= end == start + 1;
                if Some(piece) != without {
                    offer(end, piece, self.scores[piece as usize]);
                }
            });
            if !single {
                offer(start + 1, NONE, self.unknown);
            }
        }
        let mut pieces = Vec::new();
        let mut end = word.len();
        while end > 0 {
            let (score, start, piece) = best[end];
            if score == f64::NEG_INFINITY {
                return Vec::new();
            }
            if piece != NONE {
                pieces.push(piece);
            }
            end = start;
        }
        pieces
    }

    /// Adds to `expected` the expected count of each piece over all segmentations of `word`, weighted by their probabilities
    /// and multiplied by `count`.
    pub fn expect(&self, word: &[char], count: f64, expected: &mut [f64]) {
        let mut edges: Vec<(usize, usize, u32)> = Vec::new();
        for start in 0..word.len() {
            let before = edges.len();
            self.pieces_from(word, start, |end, piece| edges.push((start, end, piece)));
            if !edges[before..].iter().any(|&(_, end, _)| end == start + 1) {
                edges.push((start, start + 1, NONE));
            }
        }
        let score = |piece: u32| if piece == NONE { self.unknown } else { self.scores[piece as usize] };
        // Forward and backward sums over segmentations, as logarithms.
        let mut forward = vec![f64::NEG_INFINITY; word.len() + 1];
        let mut backward = forward.clone();
        (forward[0], backward[word.len()]) = (0.0, 0.0);
        for &(start, end, piece) in &edges {
            forward[end] = log_add(forward[end], forward[start] + score(piece));
        }
        for &(start, end, piece) in edges.iter().rev() {
            backward[start] = log_add(backward[start], score(piece) + backward[end]);
        }
        let all = forward[word.len()];
        for (start, end, piece) in edges.into_iter().filter(|&(.., piece)| piece != NONE) {
            expected[piece as usize] += count * (forward[start] + score(piece) + backward[end] - all).exp();
        }
    }

    fn pieces_from(&self, word: &[char], start: usize, mut found: impl FnMut(usize, u32)) {
        let mut node = 0u32;
        for (offset, &character) in word[start..].iter().enumerate() {
            let Some(&next) = self.edges.get(&edge(node, character)) else { return };
            node = next;
            if self.ends[node as usize] != NONE {
                found(start + offset + 1, self.ends[node as usize]);
            }
        }
    }
}

fn edge(node: u32, character: char) -> u64 {
    u64::from(node) << 32 | u64::from(u32::from(character))
}

fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}
