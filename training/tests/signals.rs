//! A signal ends a run after the current step: with a checkpoint, with success, and with a message on how to resume.

#![cfg(unix)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use dragoman_training::checkpoint;
use dragoman_training::config::{EncoderKind, Norm};
use dragoman_training::data::tokenizer;
use tch::Device;

/// Writes sentences in two languages and trains a tokenizer on them.
fn write_tokenizer(folder: &Path, out: &Path) {
    let words = [
        ("en", ["the baker", "our neighbor", "a child"], ["opens", "paints", "buys"], ["the window", "a green door", "apples"]),
        (
            "de",
            ["der Bäcker", "unsere Nachbarin", "ein Kind"],
            ["öffnet", "bemalt", "kauft"],
            ["das Fenster", "eine grüne Tür", "Äpfel"],
        ),
    ];
    for (code, subjects, verbs, objects) in words {
        let mut lines = String::new();
        for subject in subjects {
            for verb in verbs {
                for object in objects {
                    lines.push_str(&format!("{subject} {verb} {object}.\n"));
                }
            }
        }
        std::fs::write(folder.join(format!("tiny.{code}.txt")), lines).unwrap();
    }
    tokenizer::train(&support::config(EncoderKind::Bag, Norm::Pre, 1), folder, out).unwrap();
}

fn check(signal: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["raw", "shards"] {
        std::fs::create_dir(path(name)).unwrap();
    }
    write_tokenizer(&path("raw"), &path("tokenizer.json"));
    support::write_shard(&path("shards"));
    let config = support::config(EncoderKind::Bag, Norm::Pre, 1_000_000);
    std::fs::write(path("config.toml"), toml::to_string(&config).unwrap()).unwrap();
    let command = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dragoman-train"));
        command.arg("train").args(["--threads", "1"]).args(more);
        for (flag, name) in
            [("--config", "config.toml"), ("--data", "shards"), ("--tokenizer", "tokenizer.json"), ("--run", "run")]
        {
            command.arg(flag).arg(path(name));
        }
        command.stdout(Stdio::piped());
        command
    };
    let mut child = command(&[]).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("stage smoke") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the run ended before its first log line");
    }
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    assert!(rest.contains("stopped with a checkpoint at stage smoke, step"), "{rest}");
    assert!(rest.contains("run the same command to resume"), "{rest}");
    let stopped = checkpoint::load(&checkpoint::path(&path("run")), Device::Cpu).unwrap().position;
    let output = command(&["--stop-after-steps", "2"]).output().unwrap();
    assert!(output.status.success());
    let went_on = checkpoint::load(&checkpoint::path(&path("run")), Device::Cpu).unwrap().position;
    assert_eq!(went_on.step, stopped.step + 2);
}

#[test]
fn sigterm_leaves_a_checkpoint_to_resume_from() {
    check("-TERM");
}

#[test]
fn sigint_leaves_a_checkpoint_to_resume_from() {
    check("-INT");
}
