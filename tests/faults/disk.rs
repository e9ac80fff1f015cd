//! A private disk: a small file system in a mount namespace, which lives as long as the value. Needs no privileges beyond
//! creating namespaces. Where that is forbidden, the tests that need it print so and pass.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Files that fill a disk, and how many bytes are written to each at a time.
const BALLAST: [(&str, usize); 3] = [("ballast-0", 1 << 20), ("ballast-1", 4_096), ("ballast-2", 1)];

/// A mount namespace with something mounted on `folder`.
pub struct Disk {
    holder: Child,
    folder: PathBuf,
}

impl Disk {
    /// Mounts an empty disk of this size on `folder`. Prints why and returns `None` where that is impossible.
    pub fn small(folder: &Path, bytes: usize) -> Option<Self> {
        Self::mount(folder, &format!("mount -t tmpfs -o size={bytes} tmpfs \"$0\""))
    }

    /// Mounts an empty disk with room for this number of files on `folder`.
    pub fn of_files(folder: &Path, files: usize) -> Option<Self> {
        Self::mount(folder, &format!("mount -t tmpfs -o nr_inodes={files} tmpfs \"$0\""))
    }

    /// Mounts `folder` read-only, with its content.
    pub fn read_only(folder: &Path) -> Option<Self> {
        Self::mount(folder, "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"")
    }

    fn mount(folder: &Path, mount: &str) -> Option<Self> {
        let script = format!("{mount} && echo mounted && exec sleep 100000");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(folder);
        let mut holder = match command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(holder) => holder,
            Err(error) => return skip(&error.to_string()),
        };
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.trim() != "mounted" {
            let output = holder.wait_with_output().unwrap();
            return skip(String::from_utf8_lossy(&output.stderr).trim());
        }
        Some(Self { holder, folder: folder.to_owned() })
    }

    /// `command`, wrapped to run inside this mount namespace.
    pub fn command(&self, command: &Command) -> Command {
        let mut within = Command::new("nsenter");
        let target = self.holder.id().to_string();
        within.args(["--target", &target, "--user", "--mount", "--preserve-credentials"]);
        wrap_command(command, within)
    }

    /// The mounted folder as processes outside the namespace see it.
    pub fn path(&self) -> PathBuf {
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(self.folder.strip_prefix("/").unwrap())
    }

    /// The folder that the disk is mounted on.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes files until the disk is full.
    pub fn fill_up(&self) {
        for (name, bytes) in BALLAST {
            let mut file = std::fs::File::create(self.path().join(name)).unwrap();
            while std::io::Write::write_all(&mut file, &vec![1; bytes]).is_ok() {}
        }
    }

    /// Removes what `fill_up` wrote.
    pub fn free(&self) {
        for (name, _) in BALLAST {
            std::fs::remove_file(self.path().join(name)).unwrap();
        }
    }

    /// Frees at most a mebibyte, enough for small writes.
    pub fn give_some_back(&self) {
        self.give_back(BALLAST[0].1 as u64);
    }

    /// Frees at most this many bytes.
    pub fn give_back(&self, bytes: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(self.path().join(BALLAST[0].0)).unwrap();
        let before = file.metadata().unwrap().len();
        file.set_len(before.saturating_sub(bytes)).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// `outer` with `command` and its environment appended.
pub fn wrap_command(command: &Command, mut outer: Command) -> Command {
    outer.arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    outer
}

fn skip(reason: &str) -> Option<Disk> {
    println!("skipped: no mount namespace can be made here: {reason}");
    None
}
