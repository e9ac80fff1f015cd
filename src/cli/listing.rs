//! A list of the server, page by page, as a table or as a line of JSON per row.

use serde_json::Value;

use super::client::{Call, Client};
use super::error::CliError;
use super::output::{Column, Output};

/// A call for the first page of a list, with the server's default number of rows: it may refuse to return more.
pub fn first_page(parts: &[&str]) -> Call {
    Call::get(parts)
}

/// Shows every row of the list whose first page `call` requests. `member` names the rows in the answer, and to people if there
/// are none; `cells` makes a row of the table.
pub fn list(
    client: &Client,
    output: &Output,
    call: &Call,
    (member, columns): (&str, &[Column]),
    cells: impl Fn(&Value) -> Vec<String>,
) -> Result<(), CliError> {
    let mut rows = Vec::new();
    client.each_row(call, member, |row| {
        if output.json {
            return output.object(&row);
        }
        rows.push(cells(&row));
        Ok(())
    })?;
    if output.json {
        return Ok(());
    }
    if rows.is_empty() {
        output.note(&format!("there are no {member}"));
        return Ok(());
    }
    output.table(columns, rows)
}
