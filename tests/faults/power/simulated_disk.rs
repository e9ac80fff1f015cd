//! A disk that loses power. It keeps what was synced; of everything else it may keep any part, as the weakest file system that
//! POSIX allows would: pages of a file in any order, its length without its data, the names in a folder independently of what
//! they name.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::trace::{At, Event};

/// The unit that a disk writes as a whole.
const PAGE: usize = 4_096;
/// The server's reserved space, which holds no data.
const LEFT_OUT: &str = "emergency-space";

type Number = usize;
type Serial = u64;

pub struct Disk {
    /// The path of the root, which counts as durable.
    path: PathBuf,
    nodes: Vec<Node>,
    open: HashMap<i32, OpenFile>,
    /// By thread: what is being synced, and the last change before that.
    syncing: HashMap<u32, (Number, Serial)>,
    changes: Serial,
}

enum Node {
    File { durable: Vec<u8>, pending: Vec<(Serial, Change)> },
    Folder { durable: Names, pending: Vec<Entries> },
}

type Names = BTreeMap<String, Number>;

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// Names that are added to a folder or removed from it, all or none of them.
struct Entries {
    serial: Serial,
    names: Vec<(String, Option<Number>)>,
    /// The change of another folder without which this one is never kept: nothing that is moved can be lost.
    after: Option<(Number, Serial)>,
}

#[derive(Clone)]
struct OpenFile {
    node: Number,
    position: usize,
    appends: bool,
}

/// What a loss of power leaves of changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Nothing,
    Everything,
    /// Of a file, only the length; of names, those that were added.
    Shape,
    Parts,
}

/// A sequence of random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

impl Disk {
    /// An empty disk at an existing folder.
    pub fn new(path: &Path) -> Self {
        let root = Node::Folder { durable: Names::new(), pending: Vec::new() };
        Self { path: path.to_owned(), nodes: vec![root], open: HashMap::new(), syncing: HashMap::new(), changes: 0 }
    }

    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Open { fd, at, flags } => self.open_file(*fd, at, flags),
            Event::Close(fd) => drop(self.open.remove(fd)),
            Event::Duplicate { fd, from } => match self.open.get(from).cloned() {
                Some(open) => drop(self.open.insert(*fd, open)),
                None => drop(self.open.remove(fd)),
            },
            Event::Write { fd, offset, bytes } => self.write(*fd, *offset, bytes),
            Event::Seek { fd, to } => {
                if let Some(open) = self.open.get_mut(fd) {
                    open.position = *to;
                }
            }
            Event::Resize { fd, bytes } => {
                if let Some(node) = self.open.get(fd).map(|open| open.node) {
                    self.change(node, Change::Resize(*bytes));
                }
            }
            Event::Rename { from, to } => self.rename(from, to),
            Event::Link { from, to } => {
                if let (Some((_, _, Some(node))), Some((folder, name, _))) = (self.find(from), self.find(to)) {
                    self.rename_entries(folder, vec![(name, Some(node))], None);
                }
            }
            Event::Remove(at) => {
                if let Some((folder, name, Some(_))) = self.find(at) {
                    self.rename_entries(folder, vec![(name, None)], None);
                }
            }
            Event::CreateFolder(at) => {
                if let Some((folder, name, _)) = self.find(at) {
                    let node = self.add(Node::Folder { durable: Names::new(), pending: Vec::new() });
                    self.rename_entries(folder, vec![(name, Some(node))], None);
                }
            }
            Event::SyncBegan { thread, fd } => {
                if let Some(open) = self.open.get(fd) {
                    self.syncing.insert(*thread, (open.node, self.changes));
                }
            }
            Event::SyncEnded { thread } => {
                if let Some((node, last)) = self.syncing.remove(thread) {
                    self.sync(node, last);
                }
            }
            Event::Answered(_) => (),
            Event::Unknown(call) => panic!("a simulated disk does not know {call}"),
        }
    }

    fn add(&mut self, node: Node) -> Number {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn serial(&mut self) -> Serial {
        self.changes += 1;
        self.changes
    }

    /// The folder and the name of a path, and what is there. `None` outside of this disk.
    fn find(&self, (start, path): &At) -> Option<(Number, String, Option<Number>)> {
        let (mut folder, path) = match path.strip_prefix('/') {
            Some(_) => (0, Path::new(path).strip_prefix(&self.path).ok()?),
            None => (self.open.get(start)?.node, Path::new(path)),
        };
        let mut names: Vec<&str> = path.iter().map(|name| name.to_str().unwrap()).collect();
        let Some(last) = names.pop() else { return Some((folder, String::new(), Some(folder))) };
        for name in names {
            folder = *self.names(folder).get(name)?;
        }
        let found = self.names(folder).get(last).copied();
        Some((folder, last.to_owned(), found))
    }

    /// What a program sees in a folder.
    fn names(&self, folder: Number) -> Names {
        let Node::Folder { durable, pending } = &self.nodes[folder] else { return Names::new() };
        let mut names = durable.clone();
        pending.iter().for_each(|entries| entries.apply(&mut names));
        names
    }

    /// What a program reads from a file.
    fn content(&self, file: Number) -> Vec<u8> {
        let Node::File { durable, pending } = &self.nodes[file] else { return Vec::new() };
        let mut content = durable.clone();
        pending.iter().for_each(|(_, change)| change.apply(&mut content));
        content
    }

    fn open_file(&mut self, fd: i32, at: &At, flags: &str) {
        self.open.remove(&fd);
        let Some((folder, name, found)) = self.find(at) else { return };
        let node = match found {
            Some(node) => node,
            None if flags.contains("O_CREAT") => {
                let node = self.add(Node::File { durable: Vec::new(), pending: Vec::new() });
                self.rename_entries(folder, vec![(name, Some(node))], None);
                node
            }
            None => return,
        };
        if flags.contains("O_TRUNC") {
            self.change(node, Change::Resize(0));
        }
        self.open.insert(fd, OpenFile { node, position: 0, appends: flags.contains("O_APPEND") });
    }

    fn write(&mut self, fd: i32, offset: Option<usize>, bytes: &[u8]) {
        let Some(OpenFile { node, position, appends }) = self.open.get(&fd).cloned() else { return };
        let own = if appends { self.content(node).len() } else { position };
        let at = offset.unwrap_or(own);
        self.change(node, Change::Write { offset: at, bytes: bytes.to_vec() });
        if let Some(open) = self.open.get_mut(&fd).filter(|_| offset.is_none()) {
            open.position = at + bytes.len();
        }
    }

    fn change(&mut self, node: Number, change: Change) {
        let serial = self.serial();
        if let Node::File { pending, .. } = &mut self.nodes[node] {
            pending.push((serial, change));
        }
    }

    fn rename(&mut self, from: &At, to: &At) {
        let (Some((old, from, Some(node))), Some((new, to, _))) = (self.find(from), self.find(to)) else { return };
        if old == new {
            self.rename_entries(old, vec![(to, Some(node)), (from, None)], None);
        } else {
            let added = self.rename_entries(new, vec![(to, Some(node))], None);
            self.rename_entries(old, vec![(from, None)], Some((new, added)));
        }
    }

    fn rename_entries(
        &mut self,
        folder: Number,
        names: Vec<(String, Option<Number>)>,
        after: Option<(Number, Serial)>,
    ) -> Serial {
        let serial = self.serial();
        if let Node::Folder { pending, .. } = &mut self.nodes[folder] {
            pending.push(Entries { serial, names, after });
        }
        serial
    }

    /// Makes the changes of a file or folder up to `last` durable.
    fn sync(&mut self, node: Number, last: Serial) {
        let mut also = Vec::new();
        match &mut self.nodes[node] {
            Node::File { durable, pending } => {
                let synced = pending.partition_point(|(serial, _)| *serial <= last);
                pending.drain(..synced).for_each(|(_, change)| change.apply(durable));
            }
            Node::Folder { durable, pending } => {
                let synced = pending.partition_point(|entries| entries.serial <= last);
                for entries in pending.drain(..synced) {
                    entries.apply(durable);
                    also.extend(entries.after);
                }
            }
        }
        also.into_iter().for_each(|(folder, serial)| self.sync(folder, serial));
    }

    /// Writes what is left after a loss of power to a new folder.
    pub fn write_remains(&self, to: &Path, (data, names): (Kept, Kept), random: &mut Random) {
        let mut kept = BTreeSet::new();
        for node in &self.nodes {
            let Node::Folder { pending, .. } = node else { continue };
            let chosen = pending.iter().filter(|entries| match names {
                Kept::Nothing => false,
                Kept::Everything => true,
                Kept::Shape => entries.names.iter().any(|(_, node)| node.is_some()),
                Kept::Parts => random.below(2) == 0,
            });
            kept.extend(chosen.map(|entries| entries.serial));
        }
        self.write_folder(0, to, &kept, data, random);
    }

    fn write_folder(&self, folder: Number, to: &Path, kept: &BTreeSet<Serial>, data: Kept, random: &mut Random) {
        std::fs::create_dir(to).unwrap();
        let Node::Folder { durable, pending } = &self.nodes[folder] else { return };
        let mut names = durable.clone();
        pending.iter().filter(|entries| self.is_kept(entries, kept)).for_each(|entries| entries.apply(&mut names));
        for (name, node) in names.iter().filter(|(name, _)| *name != LEFT_OUT) {
            match &self.nodes[*node] {
                Node::Folder { .. } => self.write_folder(*node, &to.join(name), kept, data, random),
                Node::File { durable, pending } => {
                    std::fs::write(to.join(name), remains(durable, pending, data, random)).unwrap();
                }
            }
        }
    }

    fn is_kept(&self, entries: &Entries, kept: &BTreeSet<Serial>) -> bool {
        kept.contains(&entries.serial)
            && entries.after.is_none_or(|(folder, serial)| match &self.nodes[folder] {
                Node::Folder { pending, .. } => {
                    pending.iter().find(|entries| entries.serial == serial).is_none_or(|entries| self.is_kept(entries, kept))
                }
                Node::File { .. } => true,
            })
    }
}

impl Entries {
    fn apply(&self, to: &mut Names) {
        for (name, node) in &self.names {
            match node {
                Some(node) => to.insert(name.clone(), *node),
                None => to.remove(name),
            };
        }
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Resize(bytes) => to.resize(*bytes, 0),
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                to.resize(to.len().max(end), 0);
                to[*offset..end].copy_from_slice(bytes);
            }
        }
    }
}

/// What is left of a file.
fn remains(durable: &[u8], pending: &[(Serial, Change)], kept: Kept, random: &mut Random) -> Vec<u8> {
    let mut versions = vec![durable.to_vec()];
    for (_, change) in pending {
        let mut next = versions[versions.len() - 1].clone();
        change.apply(&mut next);
        versions.push(next);
    }
    let last = versions.len() - 1;
    if pending.is_empty() || kept == Kept::Nothing {
        return versions.swap_remove(0);
    }
    if kept == Kept::Everything {
        return versions.swap_remove(last);
    }
    // A file is shortened only after everything before that.
    let end = if kept == Kept::Shape { last } else { random.below(versions.len()) };
    let shortened = (1..=end).rev().find(|version| versions[*version].len() < versions[version - 1].len());
    let begin = shortened.unwrap_or(0);
    let mut content = vec![0; versions[end].len()];
    for (number, page) in content.chunks_mut(PAGE).enumerate() {
        let version = &versions[if kept == Kept::Shape { begin } else { begin + random.below(end + 1 - begin) }];
        let begin = version.len().min(number * PAGE);
        let end = version.len().min(begin + page.len());
        page[..end - begin].copy_from_slice(&version[begin..end]);
    }
    content
}
