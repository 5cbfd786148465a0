//! Keys that were renamed or removed, and are still accepted for one minor version.

/// A key of an earlier version.
#[derive(Debug)]
pub(crate) struct Deprecated {
    /// Its section as in the header, with `*` for a name: `plugin.*.limits`. Empty for the file itself.
    pub(crate) section: &'static str,
    pub(crate) key: &'static str,
    pub(crate) now: Successor,
    /// The minor version that no longer knows it: the entry is removed there.
    pub(crate) refused_from: &'static str,
}

/// What is in place of a deprecated key.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "no key is deprecated in this version"))]
pub(crate) enum Successor {
    /// A key of the same section, which has its value.
    Key(&'static str),
    /// Nothing: it has no effect. What to do instead.
    Advice(&'static str),
}

/// All of them. To rename a key, change the getter, and add the former name here.
pub(crate) const DEPRECATED: &[Deprecated] = &[];

impl Deprecated {
    /// Whether it belongs into the section with this path.
    pub(crate) fn is_in(&self, path: &str) -> bool {
        let (pattern, names) = (self.section.split('.'), path.split('.'));
        pattern.clone().count() == names.clone().count()
            && pattern.zip(names).all(|(part, name)| part == "*" || part == name)
    }

    /// What to do about it, and until when.
    pub(crate) fn help(&self) -> String {
        let Deprecated { key, refused_from, .. } = self;
        match self.now {
            Successor::Key(now) => format!("use `{now}`: Informant {refused_from} refuses `{key}`"),
            Successor::Advice(advice) => format!("{advice}: Informant {refused_from} refuses `{key}`"),
        }
    }
}
