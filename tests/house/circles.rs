//! Import cycles: which file of a room uses something from which other file, by `super::`, `self::`, `crate::` or a child's
//! name, and which files reach each other that way.
//!
//! A name belongs to the file that defines it: re-exports by `pub use` are followed to their end. The declaration `mod child;`
//! is no import, and neither is a `pub use` of a name that the file does not use itself. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token, is_word};

/// The tokens before test-only code.
const TEST_ONLY: &[&str] = &["#", "[", "cfg", "(", "test", ")", "]"];

type Module = Vec<String>;

/// A path in a file.
struct Named {
    /// The module that contains it: the file's, or one inside it.
    here: Module,
    /// Its segments.
    path: Vec<String>,
    /// The name under which the file re-exports it.
    passed_on: Option<String>,
}

struct Files<'a> {
    paths: BTreeMap<Module, &'a str>,
    /// Re-exports: the path from the root, by module and name.
    passed_on: BTreeMap<(Module, String), Module>,
}

/// The rooms with import cycles, and the files in these cycles.
pub fn circles(sources: &[&Source]) -> Vec<String> {
    let mut rooms: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let imports = imports(sources);
    for file in imports.keys() {
        if reached(&imports, file).contains(file) {
            rooms.entry(room_of(file)).or_default().insert(file);
        }
    }
    let reports = rooms.into_iter().map(|(room, files)| {
        let names: Vec<&str> = files.into_iter().collect();
        format!("{room}: {} files in circles: {}", names.len(), names.join(" "))
    });
    reports.collect()
}

/// The other files of its room that each file imports.
fn imports<'a>(sources: &[&'a Source]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let sources = sources.iter().filter(|source| !source.path.ends_with("tests.rs"));
    let of_modules: Vec<(Module, &'a str, Vec<Token>)> =
        sources.filter_map(|source| Some((module_of(&source.path)?, source.path.as_str(), without_tests(source)))).collect();
    let paths = of_modules.iter().map(|(module, path, _)| (module.clone(), *path)).collect();
    let mut files = Files { paths, passed_on: BTreeMap::new() };
    let named: Vec<Vec<Named>> = of_modules.iter().map(|(module, _, code)| files.named(module, code)).collect();
    for ((module, ..), named) in of_modules.iter().zip(&named) {
        for one in named {
            if let (Some(name), Some(target)) = (&one.passed_on, files.absolute(one)) {
                files.passed_on.insert((module.clone(), name.clone()), target);
            }
        }
    }
    let mut imports = BTreeMap::new();
    for ((_, path, code), named) in of_modules.iter().zip(&named) {
        let uses_itself = |name: &String| code.iter().filter(|token| token.text == *name).count() > 1;
        let used = named.iter().filter(|one| one.passed_on.as_ref().is_none_or(uses_itself));
        let targets = used.filter_map(|one| files.definition(&files.absolute(one)?, 9));
        let of_room = targets.filter(|target| target != path && room_of(target) == room_of(path));
        imports.insert(*path, of_room.collect());
    }
    imports
}

/// The files that can be reached from a file; the file itself only through a cycle.
fn reached<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(file) = waiting.pop() {
        waiting.extend(imports[file].iter().copied().filter(|target| found.insert(*target)));
    }
    found
}

impl<'a> Files<'a> {
    /// Every path in a file that may lead to another file of this package.
    fn named(&self, module: &[String], code: &[Token]) -> Vec<Named> {
        let mut found = Vec::new();
        let (mut at, mut braces) = (0, 0);
        let mut inside: Vec<(String, usize)> = Vec::new();
        while at < code.len() {
            let text = code[at].text.as_str();
            let before = if at > 0 { code[at - 1].text.as_str() } else { "" };
            let here = || module.iter().cloned().chain(inside.iter().map(|(name, _)| name.clone())).collect::<Module>();
            match text {
                "{" => {
                    braces += 1;
                    if at > 1 && code[at - 2].text == "mod" {
                        inside.push((before.to_owned(), braces));
                    }
                }
                "}" => {
                    inside.pop_if(|(_, opened)| *opened == braces);
                    braces -= 1;
                }
                "use" if !is_at(code, at + 1, "<") => {
                    let public = before == "pub" || before == ")" && at > 3 && code[at - 4].text == "pub";
                    let mut tree = Vec::new();
                    at = use_tree(code, at + 1, Vec::new(), &mut tree);
                    let here = here();
                    found.extend(tree.into_iter().map(|(path, name)| Named {
                        here: here.clone(),
                        path,
                        passed_on: public.then_some(name),
                    }));
                }
                _ if is_at(code, at + 1, ":") && is_at(code, at + 2, ":") && !["in", "mod"].contains(&before) => {
                    let follows = before == ":" && at > 1 && code[at - 2].text == ":";
                    let begins = ["crate", "super", "self"].contains(&text) || inside.is_empty() && self.has_child(module, text);
                    if begins && !follows {
                        let mut path = vec![text.to_owned()];
                        while is_at(code, at + 1, ":") && is_at(code, at + 2, ":") && code.get(at + 3).is_some_and(is_name) {
                            path.push(code[at + 3].text.clone());
                            at += 3;
                        }
                        found.push(Named { here: here(), path, passed_on: None });
                    }
                }
                _ => {}
            }
            at += 1;
        }
        found
    }

    fn has_child(&self, module: &[String], name: &str) -> bool {
        self.paths.contains_key([module, &[name.to_owned()]].concat().as_slice())
    }

    /// The path from the root; `None` if it leads out of the package.
    fn absolute(&self, named: &Named) -> Option<Module> {
        let Named { here, path, .. } = named;
        let first = path.first()?.as_str();
        if first == "crate" {
            return Some(path[1..].to_vec());
        }
        if ["super", "self"].contains(&first) {
            let ups = path.iter().filter(|segment| *segment == "super").count();
            let rest = path.iter().filter(|segment| !["super", "self"].contains(&segment.as_str()));
            return Some(here[..here.len().checked_sub(ups)?].iter().chain(rest).cloned().collect());
        }
        self.has_child(here, first).then(|| [here.as_slice(), path.as_slice()].concat())
    }

    /// The file that defines the item at a path from the root.
    fn definition(&self, path: &[String], steps: usize) -> Option<&'a str> {
        let known = (0..=path.len()).rev().find(|&length| self.paths.contains_key(&path[..length]))?;
        let name = path.get(known).filter(|_| steps > 0);
        let passed_on = name.and_then(|name| self.passed_on.get(&(path[..known].to_vec(), name.clone())));
        match passed_on {
            Some(target) => self.definition(&[target.as_slice(), &path[known + 1..]].concat(), steps - 1),
            None => self.paths.get(&path[..known]).copied().filter(|_| !path.is_empty()),
        }
    }
}

/// Reads the tree of a `use` at `at`: each path with the name that it binds. Returns the position after the tree.
fn use_tree(code: &[Token], mut at: usize, mut path: Vec<String>, found: &mut Vec<(Vec<String>, String)>) -> usize {
    while let Some(token) = code.get(at) {
        match token.text.as_str() {
            ":" => {}
            "{" => {
                at += 1;
                while code.get(at).is_some_and(|token| token.text != "}") {
                    at = use_tree(code, at, path.clone(), found);
                    at += usize::from(is_at(code, at, ","));
                }
                return at + 1;
            }
            "as" => {
                found.push((path, code.get(at + 1).map_or_else(String::new, |name| name.text.clone())));
                return at + 2;
            }
            // `{self}` is the module in front of the braces.
            "self" if !path.is_empty() => {}
            word if is_word(word) || word == "*" => path.push(word.to_owned()),
            _ => break,
        }
        at += 1;
    }
    let name = path.last().cloned().unwrap_or_default();
    found.push((path, name));
    at
}

fn without_tests(source: &Source) -> Vec<Token> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < source.tokens.len() {
        if source.starts_with(at, TEST_ONLY) {
            at = item_end(&source.tokens, at + TEST_ONLY.len());
        } else {
            kept.push(source.tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The position after the item, field or statement at `at`.
fn item_end(code: &[Token], mut at: usize) -> usize {
    const TO_THE_SEMICOLON: [&str; 4] = ["use", "const", "static", "type"];
    const TO_THE_BRACE: [&str; 6] = ["fn", "mod", "struct", "enum", "trait", "impl"];
    while is_at(code, at, "#") {
        at = closing(code, at + 1) + 1;
    }
    let says = |token: &&Token| {
        let text = token.text.as_str();
        text == ":" || TO_THE_SEMICOLON.contains(&text) || TO_THE_BRACE.contains(&text)
    };
    let kind = code[at..].iter().find(says).map_or("", |token| token.text.as_str());
    while let Some(token) = code.get(at) {
        match token.text.as_str() {
            ";" => return at + 1,
            "," if kind == ":" => return at + 1,
            ")" | "]" | "}" => return at,
            opening @ ("(" | "[" | "{") => {
                at = closing(code, at);
                if opening == "{" && TO_THE_BRACE.contains(&kind) {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    at
}

/// The position of the bracket that closes the one at `at`.
fn closing(code: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (place, token) in code.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 1 => return place,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// The module of a file below `src`; `None` for the program, which is a separate crate.
fn module_of(path: &str) -> Option<Module> {
    let path = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    match path {
        "main" => None,
        "lib" => Some(Vec::new()),
        _ => Some(path.strip_suffix("/mod").unwrap_or(path).split('/').map(str::to_owned).collect()),
    }
}

fn room_of(path: &str) -> &str {
    let path = path.strip_prefix("src/").unwrap_or(path);
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
}

fn is_at(code: &[Token], at: usize, text: &str) -> bool {
    code.get(at).is_some_and(|token| token.text == text)
}

fn is_name(token: &Token) -> bool {
    is_word(&token.text)
}
