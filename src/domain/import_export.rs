//! Imported and exported files: their formats and compressions.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::names::names;
use super::timestamps;

/// Prefix that marks a column of a table as metadata. A metadata field named like a member of the document needs it, as in
/// `metadata.id`.
pub(crate) const METADATA_PREFIX: &str = "metadata.";

/// The format of a file of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// One JSON object per line.
    Ndjson,
    /// Comma-separated values with a header row.
    // As in RFC 4180.
    Csv,
    /// Tab-separated values with a header row.
    // Without quoting.
    Tsv,
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
pub enum FileEncoding {
    /// No compression.
    #[cfg_attr(feature = "server", value(name = "none"))]
    Identity,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

names!(FileEncoding { Identity = "identity", Gzip = "gzip", Zstd = "zstd" });

impl FileEncoding {
    /// The value of the header `content-encoding`, if a file is compressed.
    pub fn content_encoding(self) -> Option<&'static str> {
        (self != Self::Identity).then(|| self.name())
    }
}

/// The type of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellType {
    /// Text.
    String,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// `true`, `false`, `1` or `0`.
    Bool,
    /// A date, or a time with a UTC offset, which is stored in UTC. Both can be compared as strings.
    Date,
}

names!(CellType { String = "string", Int = "int", Float = "float", Bool = "bool", Date = "date" });

/// The types of columns, by name; columns without a type are text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnTypes(pub Vec<(String, CellType)>);

impl ColumnTypes {
    /// All columns are text.
    pub const NONE: Self = Self(Vec::new());

    /// Reads `year:int,published:date`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parse_column = |part: &str| {
            let (name, kind) = part.rsplit_once(':').unwrap_or((part, ""));
            let known = || CellType::ALL.map(CellType::name).join(", ");
            match CellType::parse(kind.trim()) {
                Some(kind) if !name.trim().is_empty() => Ok((name.trim().to_owned(), kind)),
                _ => Err(format!("must be columns with types ({}), such as year:int,published:date, got {part:?}", known())),
            }
        };
        let types: Vec<(String, CellType)> = text.split(',').map(parse_column).collect::<Result<_, _>>()?;
        let mut names = HashSet::new();
        match types.iter().map(|(name, _)| name.strip_prefix(METADATA_PREFIX).unwrap_or(name)).find(|name| !names.insert(*name)) {
            None => Ok(Self(types)),
            Some(name) => Err(format!("must name each column once, got {name:?} twice")),
        }
    }
}

impl CellType {
    /// Converts a cell; the error says what is wrong with it.
    pub fn value(self, cell: String) -> Result<serde_json::Value, String> {
        let text = cell.trim();
        let read = match self {
            Self::String => return Ok(cell.into()),
            Self::Int => text.parse::<i64>().map(Into::into).map_err(|_| "an integer of 64 bits"),
            Self::Float => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(number.into()),
                _ => Err("a finite number"),
            },
            Self::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "1" => Ok(true.into()),
                "false" | "0" => Ok(false.into()),
                _ => Err("true, false, 1 or 0"),
            },
            Self::Date => {
                let form = "a date (2026-11-23), or a time with its offset (2026-11-23T09:30:00+01:00)";
                date(text).map(Into::into).ok_or(form)
            }
        };
        read.map_err(|must| format!("must be {must}, got {cell:?}"))
    }
}

fn date(text: &str) -> Option<String> {
    if text.len() == "2026-11-23".len() {
        return text.parse::<jiff::civil::Date>().ok().map(|date| date.to_string());
    }
    timestamps::timestamp(text).map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn column_types_are_parsed() {
        let types = ColumnTypes::parse("year:int, a:b:date").unwrap();
        assert_eq!(types.0, [("year".to_owned(), CellType::Int), ("a:b".to_owned(), CellType::Date)]);
        for wrong in ["", "year", "year:integer", ":int", "year:int,"] {
            assert!(ColumnTypes::parse(wrong).unwrap_err().contains("string, int, float, bool, date"), "{wrong}");
        }
        for twice in ["year:int,year:date", "year:int,metadata.year:int"] {
            assert!(ColumnTypes::parse(twice).unwrap_err().contains("got \"year\" twice"), "{twice}");
        }
    }

    #[test]
    fn cells_become_values_of_their_type() {
        for (kind, cell, expect) in [
            (CellType::String, " 7 ", Some(json!(" 7 "))),
            (CellType::Int, " -7", Some(json!(-7))),
            (CellType::Int, "7.0", None),
            (CellType::Int, "9223372036854775808", None),
            (CellType::Float, "7", Some(json!(7.0))),
            (CellType::Float, "1e400", None),
            (CellType::Bool, "TRUE", Some(json!(true))),
            (CellType::Bool, "0", Some(json!(false))),
            (CellType::Bool, "yes", None),
            (CellType::Date, "2026-11-23", Some(json!("2026-11-23"))),
            (CellType::Date, "2026-02-30", None),
            (CellType::Date, "23.11.2026", None),
            (CellType::Date, "2026-11-23T00:30:00+01:00", Some(json!("2026-11-22T23:30:00Z"))),
            (CellType::Date, "2026-11-23T00:30:00", None),
            (CellType::Date, "9999-12-31", Some(json!("9999-12-31"))),
            (CellType::Date, "9999-12-31T23:59:59Z", Some(json!("9999-12-30T22:00:00.999999999Z"))),
            (CellType::Date, "0000-01-01T00:00:00+05:00", Some(json!("0000-01-01T00:00:00Z"))),
        ] {
            let got: Option<Value> = kind.value(cell.to_owned()).ok();
            assert_eq!(got, expect, "{kind:?} {cell:?}");
        }
    }
}
