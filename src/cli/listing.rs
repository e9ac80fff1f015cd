//! Prints a paginated list of the server as a table, or as one line of JSON per row.

use serde_json::Value;

use super::client::{Call, Client};
use super::error::CliError;
use super::output::{Column, Output};

/// Creates a call for the first page of a list, with the server's default page size, because the server may refuse a larger
/// one.
pub fn first_page(parts: &[&str]) -> Call {
    Call::get(parts)
}

/// Prints all rows of the list that starts with `call`. `member` is the response's member with the rows, and their name in the
/// message for an empty list. `cells` formats a row of the table.
pub fn list(
    client: &Client,
    output: &Output,
    call: &Call,
    (member, columns): (&str, &[Column]),
    cells: impl Fn(&Value) -> Vec<String>,
) -> Result<(), CliError> {
    let mut rows = Vec::new();
    client.for_each_row(call, member, |row| {
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
