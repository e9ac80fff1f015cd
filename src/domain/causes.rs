//! Formats an error with all its causes, and a panic, as text.

use std::any::Any;
use std::error::Error;

/// An error and its causes on one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text.replace('\n', " ")
}

/// The error and its causes as a field of a log event. A JSON log would drop the causes of an error that is the field itself.
pub fn with_causes(error: &(impl Error + 'static)) -> String {
    chain(error)
}

/// The message of a panic, if it has one.
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}
