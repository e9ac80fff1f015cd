//! A bundle made from an existing one, with something added: everything else in it stays the same to the last bit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dragoman::bundle::{Bundle, MODEL_CARD, Manifest};

use super::bundle::remove_folder;
use crate::error::Error;

/// A new bundle while it is written, beside its final place.
#[derive(Debug)]
pub struct Addition {
    /// The bundle that is added to.
    pub before: Bundle,
    /// What the new one says of itself; the files are filled in by `seal`.
    pub manifest: Manifest,
    /// The files of the new one.
    pub files: BTreeSet<String>,
    partial: PathBuf,
    folder: PathBuf,
}

impl Addition {
    /// Copies the bundle in `bundle`; the new one goes to `folder`, where it replaces an existing one.
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

    /// Where to write.
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Makes a bundle of what is there so far, which can be opened in its temporary place.
    pub fn seal(&self) -> Result<(), Error> {
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        Bundle::seal(&self.partial, self.manifest.clone(), &files)?;
        Ok(())
    }

    /// Writes the section under `heading` into the model card, seals the bundle and moves it to its place.
    pub fn finish(self, heading: &str, section: &str) -> Result<(), Error> {
        let path = self.before.path(MODEL_CARD);
        let card = std::fs::read_to_string(&path).map_err(|source| Error::file(&path, source))?;
        let card = with_section(&card, &format!("# {} {}", self.manifest.name, self.manifest.version), heading, section);
        std::fs::write(self.partial.join(MODEL_CARD), card).map_err(|source| Error::file(&self.partial, source))?;
        self.seal()?;
        remove_folder(&self.folder)?;
        std::fs::rename(&self.partial, &self.folder).map_err(|source| Error::file(&self.folder, source))
    }
}

/// The card under another title, with `section` before its notes, replacing a section under the same heading.
fn with_section(card: &str, title: &str, heading: &str, section: &str) -> String {
    let body = card.split_once('\n').map_or("", |(_, body)| body);
    let mut parts: Vec<&str> = body.split_inclusive('\n').collect();
    let is_heading = |line: &&str| line.starts_with("## ");
    let at = |parts: &[&str], heading: &str| parts.iter().position(|line| line.trim_end() == heading);
    if let Some(from) = at(&parts, heading) {
        let length = parts[from + 1..].iter().position(is_heading).map_or(parts.len() - from, |length| length + 1);
        parts.drain(from..from + length);
    }
    let tail = parts.split_off(at(&parts, "## Notes").unwrap_or(parts.len()));
    let (head, tail) = (parts.concat(), tail.concat());
    format!("{title}\n{}\n\n{section}{tail}", head.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_gets_the_section_before_its_notes_and_only_once() {
        let card = "# tiny 0.1.0\n\nAn encoder.\n\n## Notes\n\nNone.\n";
        let once = with_section(card, "# tiny 0.2.0", "## Questions", "## Questions\n\nFirst.\n\n");
        assert_eq!(once, "# tiny 0.2.0\n\nAn encoder.\n\n## Questions\n\nFirst.\n\n## Notes\n\nNone.\n");
        let twice = with_section(&once, "# tiny 0.3.0", "## Questions", "## Questions\n\nSecond.\n\n");
        assert_eq!(twice, "# tiny 0.3.0\n\nAn encoder.\n\n## Questions\n\nSecond.\n\n## Notes\n\nNone.\n");
    }

    #[test]
    fn a_section_leaves_the_others_as_they_are() {
        let card = "# tiny 0.1.0\n\n## Questions\n\nFirst.\n\n## Words\n\nSome.\n\n## Notes\n\nNone.\n";
        let other = with_section(card, "# tiny 0.2.0", "## Questions", "## Questions\n\nSecond.\n\n");
        assert_eq!(other, "# tiny 0.2.0\n\n## Words\n\nSome.\n\n## Questions\n\nSecond.\n\n## Notes\n\nNone.\n");
    }
}
