//! The fuzz loop: mutates inputs, sends them to a target, and keeps those with new answers.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::corpus;

/// Default duration in seconds for all targets together.
const SECONDS: u64 = 10;
/// The number of targets that share the time.
const TARGETS: u64 = 5;
/// The longest that one input may take, on a machine that is also busy with other work.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum number of inputs to mutate; further inputs replace existing ones.
const INPUTS_MAX: usize = 2_000;
/// Maximum size of an input in bytes.
const BYTES_MAX: usize = 64 << 10;

/// A fuzz target.
pub trait Target {
    /// Words and symbols that a mutation may insert.
    const WORDS: &'static [&'static str];

    /// Sends an input; returns a summary of the response, or what is wrong with it.
    async fn feed(&mut self, input: &[u8]) -> Result<String, String>;
}

/// A random number generator: xorshift.
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Fuzzes a target until its time is up: first the whole corpus, then mutations.
pub async fn hunt<T: Target>(name: &str, mut target: T) {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let share = Duration::from_millis(number("DRAGOMAN_FUZZ_S", SECONDS) * 1_000 / TARGETS);
    let seed = number("DRAGOMAN_FUZZ_SEED", 0x5eed).max(1);
    let keeps = std::env::var_os("DRAGOMAN_FUZZ_KEEP").is_some();
    // After a stack overflow, this file is the only record of the input.
    let last = std::env::temp_dir().join(format!("dragoman-fuzz-{name}-{}", std::process::id()));
    let (mut inputs, mut dice, started) = (corpus::load(name), Random(seed), Instant::now());
    let (mut known, mut fed, kept) = (HashSet::new(), 0_u64, inputs.len());
    while fed < kept as u64 || started.elapsed() < share {
        let input = match inputs.get(fed as usize).filter(|_| fed < kept as u64) {
            Some(input) => input.clone(),
            None => changed(&inputs, T::WORDS, &mut dice),
        };
        fed += 1;
        std::fs::write(&last, &input).unwrap();
        let asked = Instant::now();
        let response = target.feed(&input).await;
        let slow = asked.elapsed() > PATIENCE;
        match response {
            Ok(response) if !slow => {
                if known.insert(without_values(&response)) && fed > kept as u64 {
                    if keeps {
                        corpus::keep(name, "new", &input);
                    }
                    let place = if inputs.len() < INPUTS_MAX { inputs.len() } else { dice.below(INPUTS_MAX) };
                    inputs.truncate(INPUTS_MAX);
                    if place == inputs.len() { inputs.push(input) } else { inputs[place] = input }
                }
            }
            response => {
                let file = corpus::keep(name, "defect", &input);
                panic!("{} (seed {seed}) took {:?}: {response:?}", file.display(), asked.elapsed());
            }
        }
    }
    let _ = std::fs::remove_file(last);
    println!("{name}: {fed} inputs, {} different answers, seed {seed}", known.len());
}

/// A response without the values from its input, so that equivalent answers are equal.
fn without_values(response: &str) -> String {
    let mut text = String::new();
    let mut quoted = false;
    for c in response.chars() {
        quoted ^= c == '"';
        if !quoted && !c.is_ascii_digit() && text.len() < 160 {
            text.push(c);
        }
    }
    text
}

/// A mutation of one input, or a splice of two.
fn changed(inputs: &[Vec<u8>], words: &[&str], dice: &mut Random) -> Vec<u8> {
    let mut input = inputs[dice.below(inputs.len())].clone();
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(input.len() + 1);
        let end = (at + 1 + dice.below(16)).min(input.len());
        match dice.below(9) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = [0, 0xff, b'"', b'\n', 0x80, b'0'][dice.below(6)],
            2 => drop(input.drain(at.min(end)..end)),
            3 => {
                let copy = input[at.min(end)..end].to_vec();
                input.splice(at..at, copy);
            }
            4 if !words.is_empty() => drop(input.splice(at..at, words[dice.below(words.len())].bytes())),
            5 if !words.is_empty() => drop(input.splice(at.min(end)..end, words[dice.below(words.len())].bytes())),
            6 => {
                let other = &inputs[dice.below(inputs.len())];
                let cut = dice.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[cut..]);
            }
            7 => input.truncate(at),
            _ => input.insert(at, dice.below(256) as u8),
        }
    }
    input.truncate(BYTES_MAX);
    input
}
