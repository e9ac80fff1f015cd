//! A bundle made from an existing one by adding something; all other files stay bit-identical.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dragoman::bundle::{Bundle, GOLDEN, MODEL_CARD, Manifest};

use super::bundle::remove_folder;
use super::card::file_line;
use crate::error::Error;

/// Small files that the list of files in a model card leaves out.
const UNLISTED: [&str; 2] = [GOLDEN, MODEL_CARD];

/// A new bundle that is being written, in a temporary folder next to its final path.
#[derive(Debug)]
pub struct BundleUpdate {
    /// The existing bundle.
    pub before: Bundle,
    /// The new bundle's manifest; `seal` fills in the files.
    pub manifest: Manifest,
    /// The new bundle's files.
    pub files: BTreeSet<String>,
    partial: PathBuf,
    folder: PathBuf,
}

impl BundleUpdate {
    /// Copies the bundle in `bundle` to a temporary folder; the new bundle goes to `folder` and replaces an existing one there.
    pub fn begin(bundle: &Path, folder: &Path) -> Result<Self, Error> {
        let before = Bundle::open(bundle)?;
        let partial = folder.with_extension("partial");
        remove_folder(&partial)?;
        std::fs::create_dir_all(&partial).map_err(|source| Error::file(&partial, source))?;
        for file in before.manifest.files.keys() {
            std::fs::copy(before.path(file), partial.join(file)).map_err(|source| Error::file(&before.path(file), source))?;
        }
        let (manifest, files) = (before.manifest.clone(), before.manifest.files.keys().cloned().collect());
        Ok(Self { before, manifest, files, partial, folder: folder.to_owned() })
    }

    /// The temporary folder to write to.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Makes a valid bundle of the files written so far, which can be opened in the temporary folder.
    pub fn seal(&self) -> Result<(), Error> {
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        Bundle::seal(&self.partial, self.manifest.clone(), &files)?;
        Ok(())
    }

    /// Returns the files that were added or may have changed, with their sizes in bytes, for the model card.
    fn new_files(&self) -> Result<Vec<(String, u64)>, Error> {
        let shown = self.files.iter().filter(|file| !UNLISTED.contains(&file.as_str()));
        let size = |file: &String| {
            let path = self.partial.join(file);
            let about = std::fs::metadata(&path).map_err(|source| Error::file(&path, source))?;
            Ok((file.clone(), about.len()))
        };
        shown.map(size).collect()
    }

    /// Writes the section under `heading` into the model card, seals the bundle and moves it to its final path.
    pub fn finish(self, heading: &str, section: &str) -> Result<(), Error> {
        let path = self.before.path(MODEL_CARD);
        let card = std::fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        let card = with_files(&card, self.new_files()?);
        let card = with_section(&card, &format!("# {} {}", self.manifest.name, self.manifest.version), heading, section);
        std::fs::write(self.partial.join(MODEL_CARD), card).map_err(|source| Error::file(&self.partial, source))?;
        self.seal()?;
        remove_folder(&self.folder)?;
        std::fs::rename(&self.partial, &self.folder).map_err(|source| Error::file(&self.folder, source))
    }
}

/// The model card with these files, each with its size in bytes, at the end of its list of files.
fn with_files(card: &str, files: impl IntoIterator<Item = (String, u64)>) -> String {
    let mut lines: Vec<String> = card.split_inclusive('\n').map(str::to_owned).collect();
    for (file, bytes) in files {
        let line = format!("{}\n", file_line(&file, bytes));
        let is_listed = |line: &String| line.starts_with("- `") && line.trim_end().ends_with(" MB");
        match (lines.iter().position(|line| line.starts_with(&format!("- `{file}`: "))), lines.iter().rposition(is_listed)) {
            (Some(line_number), _) => lines[line_number] = line,
            (None, Some(last)) => lines.insert(last + 1, line),
            (None, None) => (),
        }
    }
    lines.concat()
}

/// The model card with another title and with `section` after its other results; replaces a section with the same heading.
fn with_section(card: &str, title: &str, heading: &str, section: &str) -> String {
    let body = card.split_once('\n').map_or("", |(_, body)| body);
    let mut parts: Vec<&str> = body.split_inclusive('\n').collect();
    let is_heading = |line: &&str| line.starts_with("## ");
    let position_of = |parts: &[&str], heading: &str| parts.iter().position(|line| line.trim_end() == heading);
    if let Some(from) = position_of(&parts, heading) {
        let length = parts[from + 1..].iter().position(is_heading).map_or(parts.len() - from, |length| length + 1);
        parts.drain(from..from + length);
    }
    let tail = parts.split_off(position_of(&parts, "## Exactness of the graphs").unwrap_or(parts.len()));
    let (head, tail) = (parts.concat(), tail.concat());
    format!("{title}\n{}\n\n{section}{tail}", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_inserted_after_the_results_and_replaced_on_update() {
        let card = "# tiny 0.1.0\n\nAn encoder.\n\n## Exactness of the graphs\n\nExact.\n";
        let once = with_section(card, "# tiny 0.2.0", "## Questions", "## Questions\n\nFirst.\n\n");
        assert_eq!(once, "# tiny 0.2.0\n\nAn encoder.\n\n## Questions\n\nFirst.\n\n## Exactness of the graphs\n\nExact.\n");
        let twice = with_section(&once, "# tiny 0.3.0", "## Questions", "## Questions\n\nSecond.\n\n");
        assert_eq!(twice, "# tiny 0.3.0\n\nAn encoder.\n\n## Questions\n\nSecond.\n\n## Exactness of the graphs\n\nExact.\n");
    }

    #[test]
    fn added_files_are_listed_in_the_card_with_their_sizes() {
        let card = "# tiny\n\n- 8 values\n- `model.onnx`: 1.0 MB\n- `late.safetensors`: 2.0 MB\n\n## Quality\n";
        let files = [("late.safetensors".to_owned(), 2_500_000), ("questions.onnx".to_owned(), 1_000_000)];
        let expect = "# tiny\n\n- 8 values\n- `model.onnx`: 1.0 MB\n- `late.safetensors`: 2.5 MB\n\
                      - `questions.onnx`: 1.0 MB\n\n## Quality\n";
        assert_eq!(with_files(card, files), expect);
    }

    #[test]
    fn replacing_a_section_keeps_the_other_sections() {
        let card = "# tiny 0.1.0\n\n## Questions\n\nFirst.\n\n## Words\n\nSome.\n\n## Exactness of the graphs\n\nExact.\n";
        let other = with_section(card, "# tiny 0.2.0", "## Questions", "## Questions\n\nSecond.\n\n");
        assert_eq!(
            other,
            "# tiny 0.2.0\n\n## Words\n\nSome.\n\n## Questions\n\nSecond.\n\n## Exactness of the graphs\n\nExact.\n"
        );
    }
}
