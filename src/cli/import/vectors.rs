//! Chooses the vector of a record. Qdrant, Weaviate and Meilisearch can store several named vectors per record. Vectors with
//! different names cannot be compared, so all documents get the vector with the same name.

use serde_json::Value;

use super::expected::Names;

/// Which of a record's vectors to import.
#[derive(Debug, Default)]
pub struct Vectors {
    /// The name; if missing, there may be only one.
    pub name: Option<String>,
    /// The names in the records so far.
    pub seen: Names,
}

impl Vectors {
    /// Returns the vector of a record, or null if it has none. Fails if there is no name to choose by and the records so far have
    /// vectors under several names.
    pub fn choose(&mut self, vector: &Value) -> Result<Value, String> {
        let mut chosen = Value::Null;
        for (name, vector) in dense(vector) {
            self.seen.add(name);
            if self.name.as_deref().is_none_or(|wanted| wanted == name) {
                chosen = vector.clone();
            }
        }
        if self.name.is_none() && self.seen.has_several() {
            return Err(format!("the vectors {}; name the one to import with --vector-name", self.seen));
        }
        Ok(chosen)
    }
}

pub fn has_any(vector: &Value) -> bool {
    dense(vector).next().is_some()
}

/// Returns the dense vectors with their names, without empty ones. A vector without a name gets an empty one, as in Qdrant.
fn dense(vector: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let named = vector.as_object();
    let unnamed = named.is_none().then_some(("", vector));
    let named = named.into_iter().flatten().map(|(name, vector)| (name.as_str(), vector));
    let unwrapped = named.chain(unnamed).map(|(name, vector)| (name, unwrapped(vector)));
    unwrapped.filter(|(_, vector)| vector.as_array().is_some_and(|values| !values.is_empty()))
}

/// Unwraps a vector that is the only one of its name: Meilisearch has an object with a list of vectors.
fn unwrapped(vector: &Value) -> &Value {
    let vector = vector.get("embeddings").unwrap_or(vector);
    match vector.as_array().map(Vec::as_slice) {
        Some([only]) if only.is_array() => only,
        _ => vector,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(name: Option<&str>, given: Value, expect: Value) {
        let mut vectors = Vectors { name: name.map(str::to_owned), ..Vectors::default() };
        assert_eq!(vectors.choose(&given), Ok(expect), "{given}");
    }

    #[test]
    fn the_only_dense_vector_is_taken() {
        check(None, json!([1.0, 2.0]), json!([1.0, 2.0]));
        check(None, json!({"dense": [1.0]}), json!([1.0]));
        check(None, json!({"": [1.0], "words": {"indices": [7], "values": [0.5]}, "none": []}), json!([1.0]));
        check(None, json!({"default": {"embeddings": [[1.0, 2.0]], "regenerate": false}}), json!([1.0, 2.0]));
        check(None, json!({"default": {"embeddings": [1.0, 2.0], "regenerate": false}}), json!([1.0, 2.0]));
        for nothing in [json!(null), json!([]), json!({}), json!({"default": {"embeddings": [], "regenerate": true}})] {
            check(None, nothing, Value::Null);
        }
    }

    #[test]
    fn the_named_vector_is_taken() {
        let two = json!({"text": [1.0], "image": [2.0]});
        check(Some("image"), two.clone(), json!([2.0]));
        check(Some("audio"), two, Value::Null);
        check(Some("image"), json!([1.0]), Value::Null);
        check(Some(""), json!([1.0]), json!([1.0]));
    }

    #[test]
    fn several_vector_names_require_a_choice_even_across_records() {
        let expect = r#"the vectors "text", "image"; name the one to import with --vector-name"#;
        let mut vectors = Vectors::default();
        assert_eq!(vectors.choose(&json!({"text": [1.0], "image": [2.0]})), Err(expect.to_owned()));
        let mut vectors = Vectors::default();
        assert_eq!(vectors.choose(&json!({"text": [1.0]})), Ok(json!([1.0])));
        assert_eq!(vectors.choose(&json!({"image": [2.0]})), Err(expect.to_owned()));
    }
}
