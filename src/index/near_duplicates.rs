//! Near-duplicates: passages so similar that one node of the graph represents all of them.
//!
//! HNSW gives a node a bounded list of neighbors and drops a far one if a nearer one is available (usearch: `refine_`, called
//! by `form_links_to_closest_` for a new node and by `form_reverse_links_` for those that it links to). If thousands of vectors
//! are equal or nearly equal, they fill each other's lists: at a distance of zero no candidate is nearer to another one than to
//! the node, so all pass the heuristic. Then no list has a link that leads away, and a search that enters there, or whose
//! candidates are all from there, never leaves. It cannot find any other vector, whatever links that vector has. So a vector
//! within `GAP` of a node does not become a node. Its values are stored here, grouped with other near-duplicates of the node.
//! Whenever a search meets the node, it compares the near-duplicates themselves, so their scores are their own and not that of
//! the node.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};

use super::engine::Scored;
use crate::domain::{Embedding, Metric};

/// Maximum distance of a near-duplicate to its node, relative to the length of the vector: the root of twice 0.01, which is a
/// cosine of 0.99. Measured with 4,000 passages around two centers and 1,000 others, in several orders: up to this spread some
/// of the others were lost without near-duplicates, but none with them. The rule does not help in wider clusters: at a spread
/// of 0.3, up to 13 of the 1,000 were lost with and without near-duplicates.
pub(super) const GAP: f32 = 0.141_421_36;

/// Maximum number of different near-duplicates of one node. Bounds the comparisons of a search that meets it. Equal ones count
/// once.
const MEMBERS_MAX: usize = 4_096;

#[derive(Debug)]
pub(super) struct NearDuplicates {
    dimension: usize,
    groups: HashMap<u32, Group>,
    /// The group of a node, if it has one.
    nodes: HashMap<u64, u32>,
    /// The group of a near-duplicate.
    homes: HashMap<u64, u32>,
    next_group: u32,
    /// Number of groups whose node no longer represents the passage that it was created for.
    orphaned: usize,
}

/// A node's near-duplicates.
#[derive(Debug)]
struct Group {
    /// The node's key, which always belongs to an existing passage.
    node: u64,
    /// Whether the passage that the node was created for is gone. Then the node has the key of one of the members.
    orphaned: bool,
    /// Maximum distance of a member from the node.
    radius: f32,
    /// `dimension` values for each member.
    values: Vec<f32>,
    /// The passages of each member, in ascending order. Never empty.
    passages: Vec<Vec<u64>>,
}

/// The passages of a removed group.
#[derive(Debug)]
pub(super) struct Dissolved {
    /// Whether the passage that the node was created for was gone.
    pub(super) orphaned: bool,
    /// Its near-duplicates, with their values.
    pub(super) members: Vec<(Embedding, Vec<u64>)>,
}

/// What the graph must do to remove a passage.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// Nothing: it was a near-duplicate whose key no node has.
    Done,
    /// Give a node another key.
    Rename {
        from: u64,
        /// The key of a near-duplicate.
        to: u64,
    },
    /// Remove the node with its key, if there is one.
    Node,
}

impl NearDuplicates {
    pub(super) fn new(dimension: usize) -> Self {
        let (groups, nodes, homes) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { dimension, groups, nodes, homes, next_group: 0, orphaned: 0 }
    }

    /// Returns the number of passages here that are not counted as nodes of the graph.
    pub(super) fn beyond_nodes(&self) -> usize {
        self.homes.len() - self.orphaned
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn contains(&self, passage: u64) -> bool {
        self.homes.contains_key(&passage)
    }

    /// Adds a passage next to `node`, at the distance `gap`. Returns whether there was room.
    pub(super) fn attach(&mut self, passage: u64, embedding: &Embedding, node: u64, gap: f32) -> bool {
        let id = *self.nodes.entry(node).or_insert(self.next_group);
        if id == self.next_group {
            self.next_group += 1;
        }
        let new = || Group { node, orphaned: false, radius: 0.0, values: Vec::new(), passages: Vec::new() };
        let group = self.groups.entry(id).or_insert_with(new);
        let values = embedding.as_slice();
        match group.values.chunks_exact(self.dimension).position(|member| member == values) {
            Some(index) => {
                let passages = &mut group.passages[index];
                if let Err(position) = passages.binary_search(&passage) {
                    passages.insert(position, passage);
                }
            }
            None if group.passages.len() >= MEMBERS_MAX => return false,
            None => {
                group.values.extend_from_slice(values);
                group.passages.push(vec![passage]);
            }
        }
        group.radius = group.radius.max(gap);
        self.homes.insert(passage, id);
        true
    }

    /// Removes a passage, and returns what the graph must do. A node that loses its passage but has near-duplicates stays and
    /// represents those.
    pub(super) fn detach(&mut self, passage: u64) -> Removal {
        if let Some(id) = self.homes.remove(&passage) {
            return self.detach_member(passage, id);
        }
        let Some(id) = self.nodes.get(&passage).copied() else { return Removal::Node };
        let Some(group) = self.groups.get_mut(&id) else { return Removal::Node };
        group.orphaned = true;
        self.orphaned += 1;
        self.rename(id)
    }

    /// Removes and returns a node's near-duplicates.
    pub(super) fn dissolve(&mut self, node: u64) -> Dissolved {
        let group = self.nodes.remove(&node).and_then(|id| self.groups.remove(&id));
        let Some(group) = group else { return Dissolved { orphaned: false, members: Vec::new() } };
        self.orphaned -= usize::from(group.orphaned);
        let members = group.members(self.dimension).map(|(values, passages)| (values, passages.to_vec())).collect::<Vec<_>>();
        for passage in members.iter().flat_map(|(_, passages)| passages) {
            self.homes.remove(passage);
        }
        Dissolved { orphaned: group.orphaned, members }
    }

    /// Returns the node of a near-duplicate.
    pub(super) fn host(&self, passage: u64) -> Option<u64> {
        self.homes.get(&passage).and_then(|id| self.groups.get(id)).map(|group| group.node)
    }

    /// Returns the values of a near-duplicate, and the passages that share them.
    pub(super) fn member(&self, passage: u64) -> Option<(Embedding, Vec<u64>)> {
        let group = self.groups.get(self.homes.get(&passage)?)?;
        let mut members = group.members(self.dimension);
        let (values, passages) = members.find(|(_, passages)| passages.binary_search(&passage).is_ok())?;
        Some((values, passages.to_vec()))
    }

    /// Returns one passage of each member of groups that reach farther than `GAP`. Such groups have members that were placed
    /// there because no search reached them.
    pub(super) fn distant_members(&self) -> Vec<(u64, Embedding)> {
        let wide = |group: &&Group| {
            let norm = group.members(self.dimension).map(|(values, _)| values.norm()).fold(f32::INFINITY, f32::min);
            // Because of rounding, values may seem a little farther away than they are.
            group.radius > 1.01 * GAP * norm
        };
        let members = self.groups.values().filter(wide).flat_map(|group| group.members(self.dimension));
        members.filter_map(|(values, passages)| Some((*passages.first()?, values))).collect()
    }

    fn detach_member(&mut self, passage: u64, id: u32) -> Removal {
        let Some(group) = self.groups.get_mut(&id) else { return Removal::Node };
        group.remove(passage, self.dimension);
        let has_its_key = group.orphaned && group.node == passage;
        if group.passages.is_empty() {
            self.orphaned -= usize::from(group.orphaned);
            self.nodes.remove(&group.node);
            self.groups.remove(&id);
            return if has_its_key { Removal::Node } else { Removal::Done };
        }
        if has_its_key { self.rename(id) } else { Removal::Done }
    }

    /// Gives a group's node the key of its last near-duplicate, because removals usually come in the order of keys.
    fn rename(&mut self, id: u32) -> Removal {
        let Some(group) = self.groups.get_mut(&id) else { return Removal::Done };
        let Some(to) = group.passages.last().and_then(|passages| passages.last()).copied() else { return Removal::Done };
        let from = std::mem::replace(&mut group.node, to);
        self.nodes.remove(&from);
        self.nodes.insert(to, id);
        Removal::Rename { from, to }
    }

    /// Whether `accept` accepts any passage that a node represents.
    pub(super) fn any_accepted(&self, node: u64, accept: impl Fn(u64) -> bool) -> bool {
        match self.nodes.get(&node).and_then(|id| self.groups.get(id)) {
            None => accept(node),
            Some(group) => (!group.orphaned && accept(node)) || group.passages.iter().flatten().any(|passage| accept(*passage)),
        }
    }

    /// Adds the accepted passages of a node to the nearest. Near-duplicates that cannot be among the nearest are not compared.
    /// `slack` is the possible error of the graph's scores.
    pub(super) fn offer(
        &self,
        (node, score): Scored,
        (metric, query): (Metric, &Embedding),
        slack: f32,
        accept: impl Fn(u64) -> bool,
        nearest: &mut super::nearest::Nearest,
    ) {
        let group = self.nodes.get(&node).and_then(|id| self.groups.get(id));
        if group.is_none_or(|group| !group.orphaned) && accept(node) {
            nearest.offer(node, score);
        }
        let Some(group) = group else { return };
        // The bound follows from the triangle inequality for distances, and from the Cauchy-Schwarz inequality for dot
        // products.
        let reach = match metric {
            Metric::Cosine | Metric::L2 => group.radius,
            Metric::Dot => group.radius * query.norm(),
        };
        if !nearest.wants(score + reach + slack) {
            return;
        }
        for (values, passages) in group.values.chunks_exact(self.dimension).zip(&group.passages) {
            let score = metric.score_values(query.as_slice(), values);
            if nearest.wants(score) {
                let accepted = passages.iter().filter(|passage| accept(**passage)).take(nearest.limit);
                accepted.for_each(|passage| nearest.offer(*passage, score));
            }
        }
    }

    /// Offers those of `keys` that are near-duplicates, each with its own score, and removes them from the list.
    pub(super) fn take_scored(
        &self,
        keys: &mut Vec<u64>,
        (metric, query): (Metric, &Embedding),
        nearest: &mut super::nearest::Nearest,
    ) {
        if self.homes.is_empty() {
            return;
        }
        let mut wanted: HashMap<u32, HashSet<u64>> = HashMap::new();
        keys.retain(|key| match self.homes.get(key) {
            Some(id) => {
                wanted.entry(*id).or_default().insert(*key);
                false
            }
            None => true,
        });
        for (id, wanted) in wanted {
            let Some(group) = self.groups.get(&id) else { continue };
            for (values, passages) in group.values.chunks_exact(self.dimension).zip(&group.passages) {
                let mut some = passages.iter().filter(|passage| wanted.contains(passage)).peekable();
                if some.peek().is_some() {
                    let score = metric.score_values(query.as_slice(), values);
                    some.for_each(|passage| nearest.offer(*passage, score));
                }
            }
        }
    }

    pub(super) fn for_each(&self, mut take: impl FnMut(u64, &[f32])) {
        for group in self.groups.values() {
            for (values, passages) in group.values.chunks_exact(self.dimension).zip(&group.passages) {
                passages.iter().for_each(|passage| take(*passage, values));
            }
        }
    }

    /// Writes all near-duplicates, with numbers in little-endian order.
    pub(super) fn write_to(&self, file: &mut impl Write) -> std::io::Result<()> {
        write_number(file, self.groups.len())?;
        for group in self.groups.values() {
            file.write_all(&group.node.to_le_bytes())?;
            file.write_all(&[u8::from(group.orphaned)])?;
            file.write_all(&group.radius.to_le_bytes())?;
            write_number(file, group.passages.len())?;
            for (values, passages) in group.values.chunks_exact(self.dimension).zip(&group.passages) {
                values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))?;
                write_number(file, passages.len())?;
                passages.iter().try_for_each(|passage| file.write_all(&passage.to_le_bytes()))?;
            }
        }
        Ok(())
    }

    /// Reads the output of `write_to`. The bytes must have been verified.
    pub(super) fn read_from(file: &mut impl Read, dimension: usize) -> std::io::Result<Self> {
        let mut near_duplicates = Self::new(dimension);
        for _ in 0..read_number(file)? {
            let id = near_duplicates.next_group;
            near_duplicates.next_group += 1;
            let node = u64::from_le_bytes(read_bytes(file)?);
            let orphaned = read_bytes::<1>(file)? != [0];
            let radius = f32::from_le_bytes(read_bytes(file)?);
            let mut group = Group { node, orphaned, radius, values: Vec::new(), passages: Vec::new() };
            for _ in 0..read_number(file)? {
                for _ in 0..dimension {
                    group.values.push(f32::from_le_bytes(read_bytes(file)?));
                }
                let mut passages = Vec::new();
                for _ in 0..read_number(file)? {
                    let passage = u64::from_le_bytes(read_bytes(file)?);
                    near_duplicates.homes.insert(passage, id);
                    passages.push(passage);
                }
                group.passages.push(passages);
            }
            near_duplicates.orphaned += usize::from(orphaned);
            near_duplicates.nodes.insert(node, id);
            near_duplicates.groups.insert(id, group);
        }
        Ok(near_duplicates)
    }
}

impl Group {
    fn members(&self, dimension: usize) -> impl Iterator<Item = (Embedding, &[u64])> {
        let values = self.values.chunks_exact(dimension).map(|values| Embedding::unscaled(values.to_vec()));
        values.zip(&self.passages).filter_map(|(values, passages)| Some((values?, passages.as_slice())))
    }

    fn remove(&mut self, passage: u64, dimension: usize) {
        for index in 0..self.passages.len() {
            let Ok(position) = self.passages[index].binary_search(&passage) else { continue };
            self.passages[index].remove(position);
            if self.passages[index].is_empty() {
                self.passages.swap_remove(index);
                let last = self.passages.len() * dimension;
                self.values.copy_within(last..last + dimension, index * dimension);
                self.values.truncate(last);
            }
            return;
        }
    }
}

fn write_number(file: &mut impl Write, number: usize) -> std::io::Result<()> {
    file.write_all(&(number as u64).to_le_bytes())
}

fn read_number(file: &mut impl Read) -> std::io::Result<u64> {
    Ok(u64::from_le_bytes(read_bytes(file)?))
}

fn read_bytes<const N: usize>(file: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}
