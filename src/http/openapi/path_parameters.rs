//! The parameters of paths, each of which means the same in all paths.

use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, RefOr, Type};

use super::patterns::{self, CURSOR, DOCUMENT_ID, KEY_ID, NAME, UUID};

/// The id of jobs, snapshots and requests in examples.
pub const EXAMPLE_ID: &str = "0198c0de-7a11-7000-8000-2f1de5c0ffee";

/// Each parameter with its pattern, its description and an example.
const PATH_PARAMETERS: [(&str, &str, &str, &str); 9] = [
    ("collection", NAME, "Name of the collection.", "news"),
    ("alias", NAME, "The alias.", "current"),
    ("id", DOCUMENT_ID, "Id of the document, percent-encoded: a slash within it is `%2F`.", "fr-1"),
    ("center", "^(none|language)$", "What was subtracted: `none` or `language`.", "language"),
    ("job", UUID, "Id of the job.", EXAMPLE_ID),
    ("snapshot", UUID, "Id of the snapshot.", EXAMPLE_ID),
    ("classifier", NAME, "Name of the classifier.", "topics"),
    // Bundles can have any name.
    ("model", "^.+$", "Name of the model.", "ems-small"),
    ("key", KEY_ID, "Id of the key.", "0198c0de7a117000800000000000000a"),
];

/// Describes the parameters of an operation's path before its others, except those that it describes itself.
pub fn describe(path: &str, operation: &mut Operation) {
    let declared = operation.parameters.take().unwrap_or_default();
    let is_declared =
        |name: &str| declared.iter().any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.name == name));
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let rows = names.filter_map(|name| PATH_PARAMETERS.into_iter().find(|(known, ..)| *known == name));
    let mut all = Vec::new();
    for (name, _, description, example) in rows.filter(|(name, ..)| !is_declared(name)) {
        let parameter = ParameterBuilder::from(Parameter::new(name)).parameter_in(ParameterIn::Path);
        let parameter = parameter.description(Some(description)).example(Some(json!(example)));
        let schema = ObjectBuilder::new().schema_type(Type::String);
        all.push(RefOr::T(parameter.schema(Some(schema)).build()));
    }
    all.extend(declared);
    operation.parameters = Some(all).filter(|all| !all.is_empty());
}

/// Adds the pattern of a parameter. Parameters of the query mean the same as those of a path with their name.
pub fn add_pattern(parameter: &mut Value) {
    let mut known = PATH_PARAMETERS.iter().map(|(name, pattern, ..)| (*name, *pattern)).chain([("cursor", CURSOR)]);
    // A header may have such a name, too.
    let pattern = known.find(|(name, _)| parameter["name"] == *name && parameter["in"] != "header");
    if let Some((_, pattern)) = pattern {
        patterns::add(&mut parameter["schema"], pattern);
    }
}

/// The path with an example in the place of each parameter.
pub fn example(path: &str) -> String {
    let path = path.replace("{center}", "none");
    PATH_PARAMETERS.iter().fold(path, |path, (name, .., example)| path.replace(&format!("{{{name}}}"), example))
}
