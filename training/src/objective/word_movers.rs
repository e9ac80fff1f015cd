//! Word Mover's Distance (Kusner et al., 2015): the minimum cost of moving the words of one sentence to those of another.
//!
//! DuEAM (2021), sections 3.1 and 4, measures it between contextual token embeddings without removing stop words, and mentions
//! no relaxation. So the transport problem is solved exactly here: the tokens of a sentence have equal mass, and the cost is
//! mass times Euclidean distance. The solver uses successive shortest augmenting paths with potentials; it has no gradient and
//! needs none.

use rayon::prelude::*;
use tch::{Device, Kind, Tensor};

/// The distance of each pair. [batch], float32, on the device of `left`
///
/// `left` [batch, len_l, d] and `right` [batch, len_r, d] are token embeddings; their masks [batch, len] are 1 for tokens and 0
/// for padding, which must come last. Each sentence has at least one token.
pub fn word_movers_distances(left: (&Tensor, &Tensor), right: (&Tensor, &Tensor)) -> Tensor {
    let costs = euclidean(left.0, right.0).to_device(Device::Cpu).to_kind(Kind::Double).contiguous(); // [batch, len_l, len_r]
    let (batch, rows_max, columns_max) = costs.size3().unwrap_or((0, 0, 0));
    let mut values = vec![0.0; costs.numel()];
    costs.copy_data(&mut values, costs.numel());
    let lengths = |mask: &Tensor| -> Vec<usize> {
        (0..batch).map(|row| mask.get(row).sum(Kind::Int64).int64_value(&[]) as usize).collect()
    };
    let (rows, columns) = (lengths(left.1), lengths(right.1));
    let stride = (rows_max * columns_max) as usize;
    let distances: Vec<f32> = (0..batch as usize)
        .into_par_iter()
        .map(|pair| {
            let padded = &values[pair * stride..(pair + 1) * stride];
            let costs: Vec<f64> = padded
                .chunks(columns_max as usize)
                .take(rows[pair])
                .flat_map(|row| row[..columns[pair]].iter().copied())
                .collect();
            transport(&costs, rows[pair], columns[pair]) as f32
        })
        .collect();
    Tensor::from_slice(&distances).to_device(left.0.device())
}

/// The distances between all tokens of one sentence and all of the other, computed from differences: the faster computation
/// with inner products loses small distances to rounding. [batch, len_l, len_r]
fn euclidean(left: &Tensor, right: &Tensor) -> Tensor {
    tch::no_grad(|| Tensor::cdist(left, right, 2.0, 2))
}

/// The minimum cost of moving mass 1 from the rows to the columns, uniformly distributed over both. `costs` is in row-major
/// order.
pub fn transport(costs: &[f64], rows: usize, columns: usize) -> f64 {
    // In units of 1 / (rows x columns), every mass is an integer.
    let mut plan = Plan {
        costs,
        columns,
        flow: vec![0; rows * columns],
        demand: vec![rows; columns],
        row_potential: vec![0.0; rows],
        column_potential: vec![0.0; columns],
    };
    for row in 0..rows {
        let mut supply = columns;
        while supply > 0 {
            supply -= plan.augment(row, supply);
        }
    }
    let work: f64 = plan.flow.iter().zip(costs).map(|(&mass, cost)| mass as f64 * cost).sum();
    work / (rows * columns) as f64
}

/// A transport plan that is optimal for the mass moved so far: every cost minus its row's and column's potential is at least 0,
/// and exactly 0 where mass is moved.
struct Plan<'a> {
    costs: &'a [f64],
    columns: usize,
    /// Mass moved from row to column.
    flow: Vec<usize>,
    /// Mass that each column still needs.
    demand: Vec<usize>,
    row_potential: Vec<f64>,
    column_potential: Vec<f64>,
}

/// Shortest paths from one row (Dijkstra).
struct ShortestPaths {
    /// Length of the path to each column.
    length: Vec<f64>,
    /// The row before each column on its path.
    before: Vec<usize>,
    /// The columns with a final path, by ascending length.
    settled: Vec<usize>,
    /// For each row on a path, its distance and the column before it.
    rows: Vec<Option<(f64, usize)>>,
}

impl Plan<'_> {
    /// Moves mass from `row`, at most `supply`, along the shortest path to a column that needs some. Returns the mass moved.
    fn augment(&mut self, row: usize, supply: usize) -> usize {
        let Some((paths, end)) = self.shortest(row) else { return supply };
        let total = paths.length[end];
        self.row_potential[row] += total;
        for (other, passed) in paths.rows.iter().enumerate() {
            if let Some((length, _)) = passed.filter(|_| other != row) {
                self.row_potential[other] += (total - length).max(0.0);
            }
        }
        for &column in &paths.settled {
            self.column_potential[column] -= (total - paths.length[column]).max(0.0);
        }
        let mut mass = supply.min(self.demand[end]);
        self.walk(&paths, row, end, |plan, _, backward| {
            if let Some(edge) = backward {
                mass = mass.min(plan.flow[edge]);
            }
        });
        self.walk(&paths, row, end, |plan, forward, backward| {
            plan.flow[forward] += mass;
            if let Some(edge) = backward {
                plan.flow[edge] -= mass;
            }
        });
        self.demand[end] -= mass;
        mass
    }

    /// Walks back from the column `end` to the row `start`. Visits each edge: the index in `flow` of its forward move, and that
    /// of the move which it cancels.
    fn walk(&mut self, paths: &ShortestPaths, start: usize, end: usize, mut visit: impl FnMut(&mut Self, usize, Option<usize>)) {
        let mut column = end;
        loop {
            let row = paths.before[column];
            let previous = if row == start { None } else { paths.rows[row].map(|(_, column)| column) };
            visit(self, row * self.columns + column, previous.map(|previous| row * self.columns + previous));
            match previous {
                Some(previous) => column = previous,
                None => return,
            }
        }
    }

    /// The shortest paths from `start`, computed until a column that needs mass is reached: the paths and that column.
    fn shortest(&self, start: usize) -> Option<(ShortestPaths, usize)> {
        let rows = self.row_potential.len();
        let mut paths = ShortestPaths {
            length: vec![f64::INFINITY; self.columns],
            before: vec![start; self.columns],
            settled: Vec::new(),
            rows: vec![None; rows],
        };
        let mut open = vec![true; self.columns];
        let mut entered = vec![(start, 0.0)];
        loop {
            for (row, length) in entered.drain(..) {
                for column in (0..self.columns).filter(|&column| open[column]) {
                    let cost = self.costs[row * self.columns + column] - self.row_potential[row] - self.column_potential[column];
                    let new_length = length + cost.max(0.0);
                    if new_length < paths.length[column] {
                        (paths.length[column], paths.before[column]) = (new_length, row);
                    }
                }
            }
            let nearest = |&a: &usize, &b: &usize| paths.length[a].total_cmp(&paths.length[b]);
            let column = (0..self.columns).filter(|&column| open[column]).min_by(nearest)?;
            open[column] = false;
            paths.settled.push(column);
            if self.demand[column] > 0 {
                return Some((paths, column));
            }
            // Mass that came from another row can be moved back there, at a reduced cost of 0.
            let length = paths.length[column];
            for row in (0..rows).filter(|&row| row != start && self.flow[row * self.columns + column] > 0) {
                if paths.rows[row].is_none() {
                    paths.rows[row] = Some((length, column));
                    entered.push((row, length));
                }
            }
        }
    }
}
