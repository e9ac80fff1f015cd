//! Reads and writes the idempotency record of an upsert: its outcomes as JSON, in the order of the request.

use serde_json::{Value, json};

use crate::domain::{Code, DocumentId, Sequence, UpsertOutcome, UpsertStatus};
use crate::service::error::Error;

pub(crate) fn write(outcomes: &[UpsertOutcome]) -> String {
    let one = |outcome: &UpsertOutcome| {
        let UpsertOutcome { id, status } = outcome;
        match status {
            UpsertStatus::Created(version) => json!({"id": id, "status": "created", "version": version}),
            UpsertStatus::Updated(version) => json!({"id": id, "status": "updated", "version": version}),
            UpsertStatus::Failed { code, detail } => json!({"id": id, "code": code, "detail": detail}),
        }
    };
    Value::Array(outcomes.iter().map(one).collect()).to_string()
}

/// Reads what `write` wrote.
pub(crate) fn read(text: &str) -> Result<Vec<UpsertOutcome>, Error> {
    let kept: Vec<Value> = serde_json::from_str(text).map_err(|_| Error::CorruptIdempotencyRecord)?;
    kept.iter().map(|one| outcome(one).ok_or(Error::CorruptIdempotencyRecord)).collect()
}

fn outcome(kept: &Value) -> Option<UpsertOutcome> {
    let id = DocumentId::parse(kept["id"].as_str()?).ok()?;
    let version = || kept["version"].as_u64().map(Sequence);
    let status = match kept["status"].as_str() {
        Some("created") => UpsertStatus::Created(version()?),
        Some("updated") => UpsertStatus::Updated(version()?),
        Some(_) => return None,
        None => {
            let name = kept["code"].as_str()?;
            let code = *Code::ALL.iter().find(|code| code.name() == name)?;
            UpsertStatus::Failed { code, detail: kept["detail"].as_str()?.to_owned() }
        }
    };
    Some(UpsertOutcome { id, status })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_round_trip() {
        let id = DocumentId::parse("été").unwrap();
        let failed = UpsertStatus::Failed { code: Code::InvalidRequest, detail: "is \"blank\"".to_owned() };
        let outcomes = vec![
            UpsertOutcome { id: id.clone(), status: UpsertStatus::Created(Sequence(7)) },
            UpsertOutcome { id: id.clone(), status: UpsertStatus::Updated(Sequence(8)) },
            UpsertOutcome { id, status: failed },
        ];
        assert_eq!(read(&write(&outcomes)).unwrap(), outcomes);
        assert!(read("{}").is_err() && read(r#"[{"id": "a"}]"#).is_err());
    }
}
