//! What logs and errors call a source: [`SourceName`].

use std::fmt;

use crate::spec::SourceSpec;

/// Names one source in logs, as fields, and in errors, as text.
#[derive(Debug)]
pub(crate) struct SourceName {
    pub(crate) informer: String,
    cluster: String,
    pub(crate) resource: String,
    namespace: Option<String>,
    text: String,
}

impl SourceName {
    pub(crate) fn of(spec: &SourceSpec) -> Self {
        let (informer, resource) = (spec.informer.clone(), spec.resource.to_string());
        let namespace = match &spec.namespace {
            Some(namespace) => format!(" in {namespace}"),
            None => String::new(),
        };
        let cluster = match spec.cluster.as_str() {
            "" => String::new(),
            cluster => format!(", cluster {cluster}"),
        };
        Self {
            text: format!("informer {informer} ({resource}{namespace}{cluster})"),
            informer,
            cluster: spec.cluster.clone(),
            resource,
            namespace: spec.namespace.clone(),
        }
    }

    /// `None` if the only cluster has no name.
    pub(crate) fn cluster(&self) -> Option<&str> {
        Some(self.cluster.as_str()).filter(|cluster| !cluster.is_empty())
    }

    /// `None` for all namespaces.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for SourceName {
    /// For example `informer pods (v1/pods in default, cluster east)`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// `log!(warn, source_name, field = value, …, "message")`: a log event with the fields that identify the source. Fields
/// without a value are left out.
macro_rules! log {
    ($level:ident, $source:expr, $($event:tt)+) => {{
        let source: &$crate::source_name::SourceName = &$source;
        tracing::$level!(
            informer = source.informer.as_str(),
            cluster = source.cluster(),
            resource = source.resource.as_str(),
            namespace = source.namespace(),
            $($event)+
        )
    }};
}

/// `log_unless!(quiet, warn, source_name, …)`: as [`log!`], at level debug if `quiet`.
macro_rules! log_unless {
    ($quiet:expr, $level:ident, $source:expr, $($event:tt)+) => {
        if $quiet {
            $crate::source_name::log!(debug, $source, $($event)+)
        } else {
            $crate::source_name::log!($level, $source, $($event)+)
        }
    };
}
pub(crate) use {log, log_unless};

#[cfg(test)]
mod tests {
    use super::*;
    use informant_spec::GroupVersionResource;

    #[test]
    fn the_text_contains_only_the_parts_that_are_set() {
        let mut spec = SourceSpec::new("pods", GroupVersionResource::new("", "v1", "pods"), "Pod");
        let name = SourceName::of(&spec);
        assert_eq!(name.as_str(), "informer pods (v1/pods)");
        assert_eq!((name.cluster(), name.namespace()), (None, None));
        spec.namespace = Some("default".to_owned());
        spec.cluster = "east".to_owned();
        let name = SourceName::of(&spec);
        assert_eq!(name.to_string(), "informer pods (v1/pods in default, cluster east)");
        assert_eq!((name.cluster(), name.namespace()), (Some("east"), Some("default")));
    }
}
