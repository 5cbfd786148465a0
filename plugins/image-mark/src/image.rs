//! How an image reference is pinned.

/// How a reference can change its meaning later. The weakest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pinning {
    /// The newest image.
    Floating,
    /// The image that has this tag, which can be moved.
    Tagged,
    /// Always the same image.
    Pinned,
}

impl Pinning {
    /// The pinning of `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`.
    ///
    /// Source: the grammar of distribution's `reference` package.
    pub(crate) fn of(image: &str) -> Self {
        if image.contains('@') {
            return Self::Pinned;
        }
        // A colon before the last slash belongs to a port.
        let last = image.rsplit('/').next().unwrap_or(image);
        match last.split_once(':') {
            None | Some((_, "latest")) => Self::Floating,
            Some(_) => Self::Tagged,
        }
    }

    /// The label's value.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Floating => "floating",
            Self::Tagged => "tagged",
            Self::Pinned => "pinned",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_reference_decides() {
        for (image, pinning) in [
            ("nginx", Pinning::Floating),
            ("nginx:latest", Pinning::Floating),
            ("registry.example.com:5000/web/nginx", Pinning::Floating),
            ("nginx:1.25", Pinning::Tagged),
            ("registry.example.com:5000/web/nginx:1.25", Pinning::Tagged),
            ("nginx@sha256:00ff", Pinning::Pinned),
            ("nginx:latest@sha256:00ff", Pinning::Pinned),
        ] {
            assert_eq!(Pinning::of(image), pinning, "{image}");
        }
    }
}
