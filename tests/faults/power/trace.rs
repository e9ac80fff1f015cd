//! Reads what `strace` has recorded of a server: the calls that change files, and its responses, in order.

use std::collections::HashMap;

/// The calls to record.
pub const CALLS: &str = "open,openat,creat,close,dup,dup2,dup3,fcntl,write,pwrite64,writev,pwritev,pwritev2,lseek,ftruncate,\
    truncate,fallocate,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir,fsync,\
    fdatasync,sync_file_range,copy_file_range,sendfile,sendto,sendmsg";
/// Begins the header that has the id of an answered request.
const ANSWERED: &[u8] = b"x-request-id: ";
/// How a response begins.
const HTTP: &str = r#""\x48\x54\x54\x50\x2f"#;

/// A path, and the open folder that it starts from if it is relative.
pub type At = (i32, String);

#[derive(Debug)]
pub enum Event {
    Open {
        fd: i32,
        at: At,
        flags: String,
    },
    Close(i32),
    Duplicate {
        fd: i32,
        from: i32,
    },
    /// Writes at an offset, or at the file's own position.
    Write {
        fd: i32,
        offset: Option<usize>,
        bytes: Vec<u8>,
    },
    Seek {
        fd: i32,
        to: usize,
    },
    Resize {
        fd: i32,
        bytes: usize,
    },
    Rename {
        from: At,
        to: At,
    },
    Link {
        from: At,
        to: At,
    },
    Remove(At),
    CreateFolder(At),
    /// A sync includes what was written before it began, and is complete when it has ended.
    SyncBegan {
        thread: u32,
        fd: i32,
    },
    SyncEnded {
        thread: u32,
    },
    /// The server begins to send the response to this request.
    Answered(String),
    /// A call that a simulated disk does not know.
    Unknown(String),
}

/// Reads a trace. The strings in it are in hexadecimal.
pub fn read(trace: &str) -> Vec<Event> {
    let mut started: HashMap<u32, String> = HashMap::new();
    let mut events = Vec::new();
    for line in trace.lines() {
        let Some((thread, text)) = line.split_once(' ') else { continue };
        let (thread, text) = (thread.parse().unwrap(), text.trim_start());
        if text.starts_with("+++") || text.starts_with("---") {
            continue;
        }
        if let Some(head) = text.strip_suffix("<unfinished ...>") {
            events.extend(begin(thread, head));
            started.insert(thread, head.to_owned());
        } else if let Some((_, rest)) = text.strip_prefix("<... ").and_then(|text| text.split_once(" resumed>")) {
            let head = started.remove(&thread).unwrap_or_default();
            events.extend(end(thread, &format!("{head}{rest}")));
        } else {
            events.extend(begin(thread, text));
            events.extend(end(thread, text));
        }
    }
    events
}

/// What counts from the beginning of a call.
fn begin(thread: u32, text: &str) -> Option<Event> {
    let (name, rest) = text.split_once('(')?;
    let fd = || rest.split([',', ')', ' ']).next()?.parse().ok();
    match name {
        "close" => Some(Event::Close(fd()?)),
        "fsync" | "fdatasync" => Some(Event::SyncBegan { thread, fd: fd()? }),
        "write" | "writev" | "sendto" | "sendmsg" if rest.contains(HTTP) => {
            let sent = strings(rest).concat();
            let at = sent.windows(ANSWERED.len()).position(|part| part == ANSWERED)?;
            let id = sent[at + ANSWERED.len()..].split(|byte| *byte == b'\r').next()?;
            Some(Event::Answered(String::from_utf8(id.to_vec()).ok()?))
        }
        _ => None,
    }
}

/// What counts from the end of a call that succeeded.
fn end(thread: u32, text: &str) -> Option<Event> {
    let (call, result) = text.rsplit_once(" = ")?;
    let result: i64 = result.split(' ').next()?.parse().ok().filter(|result| *result >= 0)?;
    let (name, rest) = call.split_once('(')?;
    let arguments: Vec<&str> = rest.trim_end().strip_suffix(')')?.split(", ").collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.trim().parse::<i64>().ok());
    let fd = |at: usize| number(at).map_or(-1, |fd| fd as i32);
    let path = |at: usize| String::from_utf8(strings(arguments[at]).concat()).unwrap();
    let (first_fd, result_fd) = (fd(0), result as i32);
    let written = || {
        let mut bytes = strings(rest).concat();
        bytes.truncate(result as usize);
        bytes
    };
    Some(match name {
        "open" => Event::Open { fd: result_fd, at: (-1, path(0)), flags: arguments[1].to_owned() },
        "openat" => Event::Open { fd: result_fd, at: (first_fd, path(1)), flags: arguments[2].to_owned() },
        "dup" | "dup2" | "dup3" => Event::Duplicate { fd: result_fd, from: first_fd },
        "fcntl" if arguments[1].starts_with("F_DUPFD") => Event::Duplicate { fd: result_fd, from: first_fd },
        "fcntl" | "close" | "sendto" | "sendmsg" => return None,
        "write" | "writev" => Event::Write { fd: first_fd, offset: None, bytes: written() },
        "pwrite64" => Event::Write { fd: first_fd, offset: Some(number(3)? as usize), bytes: written() },
        "lseek" => Event::Seek { fd: first_fd, to: result as usize },
        "ftruncate" => Event::Resize { fd: first_fd, bytes: number(1)? as usize },
        "rename" => Event::Rename { from: (-1, path(0)), to: (-1, path(1)) },
        "renameat" | "renameat2" => Event::Rename { from: (first_fd, path(1)), to: (fd(2), path(3)) },
        "link" => Event::Link { from: (-1, path(0)), to: (-1, path(1)) },
        "linkat" => Event::Link { from: (first_fd, path(1)), to: (fd(2), path(3)) },
        "unlink" | "rmdir" => Event::Remove((-1, path(0))),
        "unlinkat" => Event::Remove((first_fd, path(1))),
        "mkdir" => Event::CreateFolder((-1, path(0))),
        "mkdirat" => Event::CreateFolder((first_fd, path(1))),
        "fsync" | "fdatasync" => Event::SyncEnded { thread },
        _ => Event::Unknown(call.chars().take(200).collect()),
    })
}

/// The quoted strings of a call.
fn strings(text: &str) -> Vec<Vec<u8>> {
    text.split('"').skip(1).step_by(2).map(bytes).collect()
}

fn bytes(escaped: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    escaped.as_bytes().chunks_exact(r"\x00".len()).map(|byte| digit(byte[2]) << 4 | digit(byte[3])).collect()
}
