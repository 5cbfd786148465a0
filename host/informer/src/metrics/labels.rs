//! The labels of the informer crate's series.
//!
//! To Prometheus an empty `cluster`, as with a single cluster, is the same as no label.

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

/// An informer's labels and one more.
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
    /// The result of a request.
    ResultLabels, result: &'static str
);
labels_with!(
    /// Why something happened.
    ReasonLabels, reason: &'static str
);
labels_with!(
    /// The type of an event or thing.
    TypeLabels, r#type: &'static str
);
labels_with!(
    /// The state, as the configuration and the command line write it.
    StateLabels, state: &'static str
);
labels_with!(
    /// Which index.
    IndexLabels, index: String
);
