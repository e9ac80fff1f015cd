//! The module layers of the server and of the trainer: which module may import which, and the violations.

use super::source::{Source, is_word};

/// A top-level module of a package, and the modules that it may import besides itself. A row only imports rows above it.
pub type Layers = &'static [(&'static str, &'static [&'static str])];

/// The server. Everything about text belongs to `embed`, including language detection. `cli` only calls a server over HTTP, so
/// that everything that it needs is in the API, and it reads `targets`. `config` has its arguments on the one command line.
/// `app` uses the output of `cli` for the one command that runs without a server.
pub const SERVER: Layers = &[
    ("lib", &[]),
    ("domain", &[]),
    ("disk", &[]),
    ("bundle", &["domain"]),
    ("text", &["bundle", "domain"]),
    ("store", &["disk", "domain"]),
    ("vectors", &[]),
    ("parallel", &[]),
    ("compression", &["domain"]),
    ("new_id", &[]),
    ("table", &["domain"]),
    ("threads", &[]),
    ("index", &["vectors", "parallel", "disk", "domain"]),
    ("storage", &["store", "index", "domain"]),
    ("classify", &["parallel", "domain"]),
    ("mining", &["domain"]),
    ("ranking", &["vectors", "domain"]),
    ("evaluation", &["parallel", "classify", "mining", "domain"]),
    ("projection", &["classify", "mining", "domain"]),
    ("embed", &["text", "bundle", "ranking", "domain"]),
    ("targets", &["disk", "domain"]),
    (
        "service",
        &[
            "store",
            "index",
            "storage",
            "classify",
            "mining",
            "ranking",
            "projection",
            "embed",
            "targets",
            "parallel",
            "compression",
            "disk",
            "new_id",
            "table",
            "domain",
        ],
    ),
    ("http", &["service", "compression", "new_id", "domain"]),
    ("server", &["http", "disk", "domain"]),
    ("cli", &["embed", "evaluation", "text", "bundle", "targets", "compression", "disk", "new_id", "table", "domain"]),
    ("config", &["cli", "domain"]),
    ("telemetry", &["config", "threads"]),
    (
        "app",
        &[
            "cli",
            "domain",
            "bundle",
            "text",
            "store",
            "index",
            "embed",
            "targets",
            "service",
            "http",
            "server",
            "config",
            "telemetry",
            "threads",
        ],
    ),
    ("main", &["app", "cli", "config", "telemetry"]),
];

/// The trainer. `model` imports `data` for the shape of a batch, and `data` imports `objective` for what a loss compares.
pub const TRAINER: Layers = &[
    ("lib", &[]),
    ("error", &[]),
    ("config", &["error"]),
    ("objective", &[]),
    ("data", &["config", "objective", "error"]),
    ("model", &["config", "data"]),
    ("optim", &["config", "model"]),
    ("checkpoint", &["error", "model", "optim"]),
    ("progress", &["config", "error", "objective"]),
    ("pack", &["checkpoint", "error"]),
    ("train", &["checkpoint", "config", "data", "error", "model", "objective", "optim", "progress"]),
    ("eval", &["config", "data", "error", "model"]),
    ("export", &["config", "error", "eval", "model"]),
    ("import", &["config", "data", "error", "eval", "export", "model"]),
    ("language", &["config", "data", "error", "eval", "export"]),
    ("relevance", &["error", "eval"]),
    ("translations", &["data", "error"]),
    (
        "commands",
        &[
            "checkpoint",
            "config",
            "data",
            "error",
            "eval",
            "export",
            "import",
            "language",
            "model",
            "relevance",
            "train",
            "translations",
        ],
    ),
    ("main", &["commands", "config", "data", "error", "export", "import", "pack", "progress", "train"]),
];

/// What the trainer may import from the server's library, where it only sees the shared modules.
pub const SHARED: Layers = &[
    ("translations", &["domain", "ranking", "text"]),
    ("data", &["text", "domain"]),
    ("model", &["bundle", "domain"]),
    ("objective", &[]),
    ("eval", &["evaluation", "ranking", "text", "bundle", "domain"]),
    ("export", &["ranking", "text", "bundle", "domain"]),
    ("import", &["ranking", "text", "bundle"]),
    ("language", &["text", "bundle", "domain"]),
    ("error", &["evaluation", "ranking", "text", "bundle"]),
    ("relevance", &["evaluation", "ranking", "text", "bundle", "domain"]),
    ("commands", &["text", "bundle", "domain"]),
    ("main", &["text", "bundle", "domain"]),
];

/// What only the server has in the modules that the trainer uses: a file, and a word of the declaration. The limits are settings
/// of the server, and their type is its command-line arguments.
const SERVER_ONLY: &[(&str, &str)] = &[("src/domain/mod.rs", "limits")];

/// Finds imports of `package` (or `crate`) that its table does not allow. `folder` contains its sources.
pub fn forbidden_imports(source: &Source, folder: &str, package: &str, layers: Layers) -> Vec<String> {
    let layer = layer_of(source, folder);
    let Some((_, allowed)) = layers.iter().find(|(name, _)| *name == layer) else {
        return vec![format!("{}: the layer {layer} has no row in tests/house/layers.rs", source.path)];
    };
    let mut imports = imported(source, "crate", module_depth(source, folder));
    imports.extend(imported(source, package, 0));
    imports
        .into_iter()
        .filter(|(module, _)| *module != layer && !allowed.contains(&module.as_str()))
        .map(|(module, line)| format!("{}:{line}: {layer} imports {module}", source.path))
        .collect()
}

/// Finds imports of the shared library by the trainer that `SHARED` does not allow.
pub fn forbidden_shared_imports(source: &Source) -> Vec<String> {
    let layer = layer_of(source, "training/src");
    let allowed = SHARED.iter().find(|(name, _)| *name == layer).map_or(&[][..], |(_, allowed)| *allowed);
    imported(source, "dragoman", 0)
        .into_iter()
        .filter(|(module, _)| !allowed.contains(&module.as_str()))
        .map(|(module, line)| format!("{}:{line}: {layer} imports dragoman::{module}", source.path))
        .collect()
}

/// Finds items that a module that the trainer uses has only with a feature. Both packages are tested in one build, which turns
/// on the server's feature for the trainer, too. So it would not show that the trainer uses such an item.
pub fn items_behind_features(source: &Source) -> Vec<String> {
    if !modules_of_the_trainer().contains(&layer_of(source, "src")) {
        return Vec::new();
    }
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|&at| source.starts_with(at, &["[", "cfg", "("])) {
        let depends_on_feature = tokens[at..].iter().take_while(|token| token.text != "]").any(|token| token.text == "feature");
        let is_allowed = |file: &str, word: &str| {
            let mut declaration = tokens[at..].iter().take_while(|token| ![";", "{"].contains(&token.text.as_str()));
            source.path == file && declaration.any(|token| token.text == word)
        };
        if depends_on_feature && !SERVER_ONLY.iter().any(|(file, word)| is_allowed(file, word)) {
            found.push(format!("{}:{}: an item behind a feature", source.path, tokens[at].line));
        }
    }
    found
}

/// The modules of the server's library that the trainer uses: those that `SHARED` names, and those that they import.
fn modules_of_the_trainer() -> Vec<&'static str> {
    let mut used: Vec<&str> = SHARED.iter().flat_map(|(_, modules)| modules.iter().copied()).collect();
    for (module, imports) in SERVER.iter().rev() {
        if used.contains(module) {
            used.extend(*imports);
        }
    }
    used
}

/// Finds what an objective must not use: files, the network, processes.
pub fn input_and_output(source: &Source) -> Vec<String> {
    let outside = ["fs", "io", "net", "path", "process", "env"];
    imported(source, "std", 0)
        .into_iter()
        .filter(|(module, _)| outside.contains(&module.as_str()))
        .map(|(module, line)| format!("{}:{line}: an objective uses std::{module}", source.path))
        .collect()
}

/// The modules that a row of `layers` may import although they are below it or do not exist.
pub fn upward_rows(layers: Layers) -> Vec<String> {
    let position = |name: &str| layers.iter().position(|(row, _)| *row == name);
    let mut upward = Vec::new();
    for (at, (row, allowed)) in layers.iter().enumerate() {
        for name in allowed.iter().filter(|name| position(name).is_none_or(|other| other >= at)) {
            upward.push(format!("{row} may import {name}, which does not stand above it"));
        }
    }
    upward
}

fn relative<'a>(source: &'a Source, folder: &str) -> &'a str {
    source.path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')).unwrap_or(&source.path)
}

fn layer_of<'a>(source: &'a Source, folder: &str) -> &'a str {
    let path = relative(source, folder);
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
}

/// How many `super` lead from the file's module to the package root.
fn module_depth(source: &Source, folder: &str) -> usize {
    let path = relative(source, folder);
    let is_folder_root = path.ends_with("/mod.rs") || ["lib.rs", "main.rs"].contains(&path);
    path.split('/').count() - usize::from(is_folder_root)
}

/// The modules directly below `root` that paths name, with their lines. For `crate`, paths that reach the root by `super` count
/// too: `depth` is the file's own depth, and modules inside the file add to it.
fn imported(source: &Source, root: &str, depth: usize) -> Vec<(String, usize)> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    let mut braces = 0;
    let mut modules = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "{" => {
                braces += 1;
                if at >= 2 && tokens[at - 2].text == "mod" {
                    modules.push(braces);
                }
            }
            "}" => {
                modules.pop_if(|opened| *opened == braces);
                braces -= 1;
            }
            word if word == root && source.starts_with(at + 1, &[":", ":"]) && !follows_path(source, at) => {
                found.extend(first_segments(source, at + 3));
            }
            "super" if root == "crate" && !follows_path(source, at) => {
                let supers = (0..).take_while(|step| source.starts_with(at + 3 * step, &["super", ":", ":"])).count();
                if supers > 0 && supers == depth + modules.len() {
                    found.extend(first_segments(source, at + 3 * supers));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn follows_path(source: &Source, at: usize) -> bool {
    at > 0 && source.tokens[at - 1].text == ":" && at > 1 && source.tokens[at - 2].text == ":"
}

/// The first segment of the path at `at`, or of each path in the braces there.
fn first_segments(source: &Source, at: usize) -> Vec<(String, usize)> {
    let tokens = &source.tokens[at.min(source.tokens.len())..];
    let mut segments = Vec::new();
    let mut depth = 0;
    let mut begins = true;
    for token in tokens {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => begins = true,
            text if begins => {
                if is_word(text) || text == "*" {
                    segments.push((text.to_owned(), token.line));
                }
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    segments
}
