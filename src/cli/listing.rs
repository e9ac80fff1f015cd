//! Prints a paginated list of the server as a table, or as one line of JSON per row.

use serde_json::Value;

use super::client::{Call, Client};
use super::error::CliError;
use super::output::{Column, Output};

/// A column of a list, the JSON pointer of its value in a row, and the format of that value.
pub type ListColumn = (Column, &'static str, fn(&Value) -> String);

/// Prints all rows of the list that starts with `call`, which should not set a page size: the server may refuse a larger one
/// than its default. `member` is the response's member with the rows, and their name in the message for an empty list.
pub fn list(client: &Client, call: &Call, member: &str, columns: &[ListColumn]) -> Result<(), CliError> {
    print(&client.output, member, columns, |each| client.for_each_row(call, member, each))
}

/// Prints the rows that `for_each_row` passes on. `what` names them in the message for an empty list.
pub fn print(
    output: &Output,
    what: &str,
    columns: &[ListColumn],
    for_each_row: impl FnOnce(&mut dyn FnMut(Value) -> Result<(), CliError>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for_each_row(&mut |row| {
        if output.json {
            return output.object(&row);
        }
        let cell = |(_, pointer, format): &ListColumn| format(row.pointer(pointer).unwrap_or(&Value::Null));
        rows.push(columns.iter().map(cell).collect());
        Ok(())
    })?;
    if output.json {
        return Ok(());
    }
    if rows.is_empty() {
        output.note(&format!("there are no {what}"));
        return Ok(());
    }
    output.table(&columns.iter().map(|(column, ..)| *column).collect::<Vec<_>>(), rows)
}
