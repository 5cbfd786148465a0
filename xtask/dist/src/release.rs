//! Which release is packed.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;

/// A version, and what the files say about it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Release {
    /// The version, as in Cargo.toml
    #[arg(long)]
    pub(crate) version: String,
    /// The time of the files, in seconds since 1970
    #[arg(long)]
    pub(crate) epoch: u64,
    /// The commit
    #[arg(long)]
    pub(crate) revision: String,
    /// The tag; a release without one is a trial
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// The address of the repository, below which releases are downloaded
    #[arg(long)]
    pub(crate) source: Option<String>,
}

impl Release {
    /// The tag of this version.
    pub(crate) fn expected_tag(&self) -> String {
        format!("v{}", self.version)
    }

    /// Checks that the tag names this version.
    pub(crate) fn check_tag(&self) -> Result<()> {
        let (Some(tag), expected) = (&self.tag, self.expected_tag()) else {
            return Ok(());
        };
        ensure!(
            *tag == expected,
            "the tag is `{tag}`, but Cargo.toml has version {}: tag the commit `{expected}`, or change the version",
            self.version
        );
        Ok(())
    }

    /// The time of the files, as documents write it.
    pub(crate) fn created(&self) -> Result<String> {
        let seconds = i64::try_from(self.epoch)?;
        let time = Timestamp::from_second(seconds).with_context(|| format!("{seconds} s is not a time"))?;
        Ok(time.to_string())
    }
}

#[cfg(test)]
pub(crate) fn release() -> Release {
    Release {
        version: "0.1.0".to_owned(),
        epoch: 1_700_000_000,
        revision: "0123456789abcdef".to_owned(),
        tag: None,
        source: Some("https://example.com/informant".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn tag_must_name_the_version() {
        let mut release = release();
        release.check_tag().unwrap();
        release.tag = Some("v0.1.0".to_owned());
        release.check_tag().unwrap();
        release.tag = Some("v0.2.0".to_owned());
        insta::assert_snapshot!(release.check_tag().unwrap_err(), @"the tag is `v0.2.0`, but Cargo.toml has version 0.1.0: tag the commit `v0.1.0`, or change the version");
    }

    #[test]
    fn time_is_written_in_utc() {
        assert_eq!(release().created().unwrap(), "2023-11-14T22:13:20Z");
    }
}
