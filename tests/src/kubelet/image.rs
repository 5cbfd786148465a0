//! What an image contains, and how its program is started.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::guests;

/// An image. Libraries and common programs in it are those of the machine.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub(super) entrypoint: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(String, String)>,
    /// Files and folders with their paths in the image.
    pub(super) files: Vec<(PathBuf, String)>,
    /// Where its files are when it is mounted as a volume.
    pub(super) folder: PathBuf,
}

impl Image {
    /// The image that `deploy/Containerfile` describes, with the `informant` of this build.
    ///
    /// # Errors
    /// If it was not built, or the stage `plain` of the file has an instruction in a form that is not understood.
    pub fn informant() -> Result<Self> {
        let path = guests::workspace_folder().join("deploy").join("Containerfile");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let stages = text.split("\nFROM ");
        let stage = stages.filter(|stage| stage.lines().next().is_some_and(|from| from.ends_with(" AS plain")));
        let stage = stage.last().context("no stage `plain`")?;
        let mut image = Self::default();
        for line in stage.lines() {
            let (instruction, rest) = line.split_once(' ').unwrap_or_default();
            let words = || serde_json::from_str(rest).with_context(|| line.to_owned());
            match instruction {
                "ENTRYPOINT" => image.entrypoint = words()?,
                "CMD" => image.arguments = words()?,
                "ENV" => {
                    let (name, value) = rest.split_once('=').with_context(|| line.to_owned())?;
                    image.environment.push((name.to_owned(), value.to_owned()));
                }
                "COPY" if rest.starts_with("--from=") => {
                    let target = rest.rsplit(' ').next().unwrap_or_default();
                    image.files.push((guests::informant()?, target.to_owned()));
                }
                _ => {}
            }
        }
        Ok(image)
    }

    /// An image with the files of `folder` at its root.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn of_files(folder: &Path) -> Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((path, format!("/{name}")));
        }
        Ok(Self {
            files,
            folder: folder.to_owned(),
            ..Self::default()
        })
    }
}
