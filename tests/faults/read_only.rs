//! A data directory that cannot be written: the server refuses to start and says why.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::disk::Disk;
use super::program::{Program, command};
use super::{MODEL, check_found, create, failure, fill, start};

#[test]
fn a_read_only_data_directory_is_refused_and_stays_intact() {
    let (folder, server) = Program::fresh(MODEL);
    create(&server.client(), "news");
    fill(&server.client(), "news", 10);
    assert!(server.terminate().success());
    let Some(disk) = Disk::read_only(folder.path()) else { return };
    let error = failure(disk.command(&command(folder.path(), MODEL)));
    assert!(error.contains("cannot write the data directory "), "{error}");
    assert!(error.contains("mounted read-only"), "{error}");
    drop(disk);
    let server = start(command(folder.path(), MODEL));
    (0..10).for_each(|n| check_found(&server.client(), "news", n));
}

#[test]
fn a_data_directory_without_write_permission_is_refused() {
    const NOBODY: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let mut command = command(&data, MODEL);
    if is_root {
        // Permissions do not stop root, so the server runs as a user who owns nothing.
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(NOBODY).current_dir("/");
        let mut probe = Command::new(env!("CARGO_BIN_EXE_dragoman"));
        if let Err(error) = probe.arg("--version").uid(NOBODY).current_dir("/").output() {
            println!("skipped: another user cannot run the program here: {error}");
            return;
        }
    } else {
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o555)).unwrap();
    }
    let error = failure(command);
    assert!(error.contains("cannot write the data directory "), "{error}");
    assert!(error.contains(&data.display().to_string()) && error.contains("Permission denied"), "{error}");
}
