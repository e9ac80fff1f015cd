//! What an export is expected to have: the member that every document needs, and the fields that options name. If no record
//! has them, an option is probably wrong, rather than every record.

use std::fmt;

use serde_json::{Map, Value};

use super::record::find_field;

/// Documents to convert before the import ends, if none of them has what it needs.
const DOCUMENTS_MAX: u64 = 100;
const NAMES_MAX: usize = 20;

/// The member that every document needs: `text`, or `vector` in a collection that takes vectors.
#[derive(Debug)]
pub struct Needed {
    member: &'static str,
    found: bool,
    /// Documents before the first one that has it.
    without: u64,
}

/// Distinct names in the order in which they were seen, up to the number that a message lists.
#[derive(Debug, Default)]
pub struct Names {
    names: Vec<String>,
    more: bool,
}

/// The fields that options name, with those options.
#[derive(Debug)]
pub struct NamedFields {
    unseen: Vec<(&'static str, String)>,
    any_record: bool,
}

impl Needed {
    pub fn new(member: &'static str) -> Self {
        Self { member, found: false, without: 0 }
    }

    pub fn observe(&mut self, document: &Value) {
        self.found |= document.get(self.member).is_some();
        self.without += u64::from(!self.found);
    }

    pub fn is_found(&self) -> bool {
        self.found
    }

    /// Whether there are documents, and none has the member.
    pub fn is_missing(&self) -> bool {
        !self.found && self.without > 0
    }

    /// Whether enough documents came first that do not have the member.
    pub fn is_hopeless(&self) -> bool {
        self.without >= DOCUMENTS_MAX
    }
}

impl Names {
    pub fn add(&mut self, name: &str) {
        if self.names.iter().any(|known| known == name) {
            return;
        }
        if self.names.len() == NAMES_MAX {
            self.more = true;
        } else {
            self.names.push(name.to_owned());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn has_several(&self) -> bool {
        self.names.len() > 1
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names.iter().map(|name| format!("{name:?}")).collect();
        write!(f, "{}{}", names.join(", "), if self.more { " and more" } else { "" })
    }
}

impl NamedFields {
    /// Starts with options and the fields that they name, if they are given.
    pub fn new<const N: usize>(options: [(&'static str, &Option<String>); N]) -> Self {
        let unseen = options.into_iter().filter_map(|(option, name)| Some((option, name.clone()?))).collect();
        Self { unseen, any_record: false }
    }

    pub fn observe(&mut self, fields: &Map<String, Value>) {
        self.any_record = true;
        self.unseen.retain(|(_, name)| find_field(fields, name).is_none());
    }

    /// Returns a warning for each field that no record has.
    pub fn warnings(&self) -> Vec<String> {
        let unseen = self.unseen.iter().filter(|_| self.any_record);
        unseen.map(|(option, name)| format!("no record has the field {name:?} that {option} names")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_needed_member_is_missing_until_a_document_has_it() {
        let (with, without) = (json!({"id": "a", "text": "x"}), json!({"id": "a"}));
        let mut needed = Needed::new("text");
        assert!(!needed.is_missing(), "nothing is missing before the first document");
        (1..DOCUMENTS_MAX).for_each(|_| needed.observe(&without));
        assert!(needed.is_missing() && !needed.is_hopeless());
        needed.observe(&without);
        assert!(needed.is_missing() && needed.is_hopeless());
        let mut needed = Needed::new("text");
        needed.observe(&without);
        needed.observe(&with);
        (0..2 * DOCUMENTS_MAX).for_each(|_| needed.observe(&without));
        assert!(needed.is_found() && !needed.is_missing() && !needed.is_hopeless());
    }

    #[test]
    fn a_message_lists_a_bounded_number_of_names() {
        let mut names = Names::default();
        ["b", "a", "b", ""].iter().for_each(|name| names.add(name));
        assert_eq!((names.to_string().as_str(), names.has_several()), (r#""b", "a", """#, true));
        (0..NAMES_MAX).for_each(|number| names.add(&number.to_string()));
        assert!(names.to_string().ends_with(r#""16" and more"#), "{names}");
    }

    #[test]
    fn a_named_field_that_no_record_has_is_reported() {
        let named = |name: &str| Some(name.to_owned());
        let (body, meta) = (named("page.body"), named("meta"));
        let mut fields = NamedFields::new([("--text-field", &body), ("--title-field", &None), ("--metadata-field", &meta)]);
        assert_eq!(fields.warnings(), [""; 0], "there are no warnings before the first record");
        fields.observe(&object(json!({"page": {"body": null}, "meta": null})));
        assert_eq!(fields.warnings().len(), 2, "null counts as missing");
        fields.observe(&object(json!({"page": {"body": "x"}})));
        assert_eq!(fields.warnings(), [r#"no record has the field "meta" that --metadata-field names"#]);
        fields.observe(&object(json!({"meta": {}})));
        assert_eq!(fields.warnings(), [""; 0]);
    }
}
