//! Reads and writes the idempotency record of an upsert: its outcomes as JSON, in the order of the request.

use serde_json::{Value, json};

use super::input::{DocumentProblem, InvalidDocument, UpsertOutcome};
use crate::domain::{Code, DocumentId, Sequence, UpsertedDocument};
use crate::service::error::Error;

pub(crate) fn write(outcomes: &[UpsertOutcome]) -> String {
    let outcome_json = |outcome: &UpsertOutcome| match outcome {
        Ok(UpsertedDocument { id, version, created }) => {
            json!({"id": id, "status": if *created { "created" } else { "updated" }, "version": version})
        }
        Err(InvalidDocument { id, code, problems }) => json!({"id": id, "code": code, "problems": problems}),
    };
    Value::Array(outcomes.iter().map(outcome_json).collect()).to_string()
}

/// Reads what `write` wrote for a request with `documents` documents. Records of earlier versions leave out some refused
/// documents, so nothing says which outcome belongs to which document.
pub(crate) fn read(text: &str, documents: usize) -> Result<Vec<UpsertOutcome>, Error> {
    let recorded: Vec<Value> = serde_json::from_str(text).map_err(|_| Error::CorruptIdempotencyRecord)?;
    let outcomes: Option<Vec<UpsertOutcome>> = recorded.iter().map(outcome).collect();
    match outcomes {
        Some(outcomes) if outcomes.len() == documents => Ok(outcomes),
        Some(outcomes) if outcomes.len() < documents => {
            Err(Error::IncompleteIdempotencyRecord { recorded: outcomes.len(), documents })
        }
        _ => Err(Error::CorruptIdempotencyRecord),
    }
}

fn outcome(recorded: &Value) -> Option<UpsertOutcome> {
    let id = || DocumentId::parse(recorded["id"].as_str()?).ok();
    let created = match recorded["status"].as_str() {
        Some("created") => true,
        Some("updated") => false,
        Some(_) => return None,
        None => {
            let name = recorded["code"].as_str()?;
            let code = *Code::ALL.iter().find(|code| code.name() == name)?;
            let problems = match recorded["detail"].as_str() {
                // In records of earlier versions.
                Some(detail) => vec![DocumentProblem::at("", detail)],
                None => serde_json::from_value(recorded["problems"].clone()).ok()?,
            };
            return Some(Err(InvalidDocument { id: id(), code, problems }));
        }
    };
    Some(Ok(UpsertedDocument { id: id()?, version: Sequence(recorded["version"].as_u64()?), created }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_round_trip() {
        let id = DocumentId::parse("été").unwrap();
        let problems = vec![DocumentProblem::at("/text", "is \"blank\""), DocumentProblem::at("", "is bad")];
        let outcomes = vec![
            Ok(UpsertedDocument { id: id.clone(), version: Sequence(7), created: true }),
            Ok(UpsertedDocument { id: id.clone(), version: Sequence(8), created: false }),
            Err(InvalidDocument { id: Some(id), code: Code::InvalidRequest, problems: problems.clone() }),
            Err(InvalidDocument { id: None, code: Code::InvalidRequest, problems }),
        ];
        assert_eq!(read(&write(&outcomes), 4).unwrap(), outcomes);
        assert!(read("{}", 0).is_err() && read(r#"[{"id": "a"}]"#, 1).is_err());
        assert!(read(&write(&outcomes), 3).is_err(), "one outcome has no document");
    }

    #[test]
    fn a_record_of_an_earlier_version_without_some_refused_documents_is_a_conflict() {
        let record = r#"[{"id": "a", "status": "created", "version": 7}]"#;
        let error = read(record, 2).unwrap_err();
        assert_eq!(error.code(), Code::IdempotencyConflict);
        assert!(error.to_string().contains("only 1 of its 2 documents"), "{error}");
    }

    #[test]
    fn records_of_earlier_versions_have_one_problem() {
        let record = r#"[{"id": "a", "code": "invalid_request", "detail": "is blank"}]"#;
        let refusal = InvalidDocument::whole(DocumentId::parse("a").ok(), Code::InvalidRequest, "is blank".to_owned());
        assert_eq!(read(record, 1).unwrap(), [Err(refusal)]);
    }
}
