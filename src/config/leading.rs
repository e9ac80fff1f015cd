//! The options of the commands for a running server may also stand before the command: `dragoman --server URL search …`. clap
//! would accept options there only if every command had them.

use std::ffi::OsString;

use clap::{Arg, Args as _, Command as Clap};

use crate::cli::server::ServerArgs;

/// The same arguments, with those options behind the command. The first argument is the program.
pub fn move_behind_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let known = ServerArgs::augment_args(Clap::new("dragoman"));
    let mut command = 1;
    while let Some(text) = arguments.get(command).and_then(|argument| argument.to_str()) {
        let Some(option) = known.get_arguments().find(|option| is_named(option, text)) else { break };
        let value_follows = option.get_action().takes_values() && !text.contains('=');
        command += if value_follows { 2 } else { 1 };
    }
    if command < arguments.len() {
        arguments[1..=command].rotate_right(1);
    }
    arguments
}

fn is_named(option: &Arg, text: &str) -> bool {
    let name = text.split('=').next();
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    long.as_deref() == name || short.as_deref() == Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_before_the_command_are_moved_behind_it() {
        for (given, expect) in [
            ("dragoman --server http://a:1 search news x", "dragoman search --server http://a:1 news x"),
            ("dragoman --json --key=k -q collections list", "dragoman collections --json --key=k -q list"),
            ("dragoman --timeout-s 5 --json jobs list", "dragoman jobs --timeout-s 5 --json list"),
            ("dragoman search --json news x", "dragoman search --json news x"),
            ("dragoman --data d serve", "dragoman --data d serve"),
            ("dragoman --server", "dragoman --server"),
            ("dragoman --json", "dragoman --json"),
            ("dragoman", "dragoman"),
        ] {
            let moved = move_behind_command(given.split(' ').map(OsString::from).collect());
            assert_eq!(moved, expect.split(' ').map(OsString::from).collect::<Vec<_>>(), "{given}");
        }
    }
}
