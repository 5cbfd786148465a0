//! Changes metrics of the plugin's own, which its manifest declares with [`Manifest::metric`](crate::Manifest::metric).
//!
//! Informant exports them with its own metrics: as `informant_plugin_custom_NAME`, with the label `plugin`.
//!
//! What a handler changes takes effect when it succeeds. A handler that fails or panics has changed nothing. Only
//! handler calls can change metrics; other calls are denied.
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn example(event: &Event) -> Result {
//! metrics::add("restarts", 1.0, &[("namespace", &event.namespace)])?;
//! metrics::set("nodes", 3.0, &[])?;
//! # Ok(())
//! # }
//! ```
//!
//! A plugin has at most 1,000 series, and a series ends when nothing has changed it for an hour. Informant drops and
//! counts what is above the limit, and the call succeeds.

use crate::bindings::imports::informant::plugin::metrics::{Label, Sample};
use crate::failure::Result;
use crate::host;
#[cfg(doc)]
use crate::host_error::ErrorCode;
use crate::host_error::HostError;

/// Adds to a counter or a gauge. The amount for a counter is not negative.
///
/// # Errors
/// [`ErrorCode::Denied`]; [`ErrorCode::Invalid`] for a metric that the manifest does not declare or that has another
/// type, other labels, and a number that is not finite; [`ErrorCode::TooLarge`] for a label value of more than 512
/// bytes.
pub fn add(name: &str, amount: f64, labels: &[(&str, &str)]) -> Result<(), HostError> {
    Ok(host::metrics_add(name, amount, &given(labels))?)
}

/// Sets a gauge.
///
/// # Errors
/// As for [`add`].
pub fn set(name: &str, value: f64, labels: &[(&str, &str)]) -> Result<(), HostError> {
    Ok(host::metrics_set(name, value, &given(labels))?)
}

/// Counts a value in a histogram.
///
/// # Errors
/// As for [`add`].
pub fn observe(name: &str, value: f64, labels: &[(&str, &str)]) -> Result<(), HostError> {
    Ok(host::metrics_observe(name, value, &given(labels))?)
}

/// Replaces all series of a gauge: those that `samples` lacks end.
///
/// ```no_run
/// # use informant_plugin_sdk::prelude::*;
/// # fn example(pods: &std::collections::BTreeMap<String, u32>) -> Result {
/// metrics::replace("pods", pods.iter().map(|(node, pods)| (f64::from(*pods), [("node", node.as_str())])))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As for [`add`].
pub fn replace<'a, L: AsRef<[(&'a str, &'a str)]>>(
    name: &str,
    samples: impl IntoIterator<Item = (f64, L)>,
) -> Result<(), HostError> {
    let samples = samples.into_iter().map(|(value, labels)| Sample {
        value,
        labels: given(labels.as_ref()),
    });
    Ok(host::metrics_replace(name, &samples.collect::<Vec<_>>())?)
}

fn given(labels: &[(&str, &str)]) -> Vec<Label> {
    let label = |(name, value): &(&str, &str)| Label {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    labels.iter().map(label).collect()
}

#[cfg(test)]
mod tests;
