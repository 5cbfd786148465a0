//! The labels of the informer room's series.
//!
//! An empty `cluster`, as where only one is configured, is to Prometheus the same as no label.

use prometheus_client::encoding::EncodeLabelSet;

/// Which informer, in which cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct InformerLabels {
    pub(crate) informer: String,
    pub(crate) cluster: String,
}

impl InformerLabels {
    pub(crate) fn new(informer: &str, cluster: &str) -> Self {
        Self {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
        }
    }
}

/// An informer's own labels and one word more.
macro_rules! labels_with {
    ($(#[$doc:meta])* $name:ident, $word:ident: $type:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(crate) struct $name {
            informer: String,
            cluster: String,
            $word: $type,
        }

        impl $name {
            pub(crate) fn new(labels: &InformerLabels, $word: $type) -> Self {
                Self { informer: labels.informer.clone(), cluster: labels.cluster.clone(), $word }
            }
        }
    };
}

labels_with!(
    /// What came of a request.
    ResultLabels, result: &'static str
);
labels_with!(
    /// Why something happened.
    ReasonLabels, reason: &'static str
);
labels_with!(
    /// Which kind of event or thing.
    TypeLabels, r#type: &'static str
);
labels_with!(
    /// Which state, as the configuration and the command line write it.
    StateLabels, state: &'static str
);
labels_with!(
    /// Which index.
    IndexLabels, index: String
);
