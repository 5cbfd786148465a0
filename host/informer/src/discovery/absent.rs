//! Resources that discovery lacks, while it is uncertain that they are gone: [`AbsentResources`].

use std::collections::BTreeMap;

use informant_spec::GroupVersionResource;

use super::ServedResources;

/// How many successive discovery responses have to lack a resource before its sources may end. One may come from an API
/// server that just starts, or lags behind the others.
pub const ABSENT_RESPONSES_MIN: u32 = 2;

/// The resources of an informer that the last responses lack, each with the number of these responses.
#[derive(Debug, Default)]
pub struct AbsentResources(BTreeMap<GroupVersionResource, u32>);

impl AbsentResources {
    /// `served`, the newest response, with those resources of `before` that it lacks but that may still be served. A
    /// resource ends only when [`ABSENT_RESPONSES_MIN`] successive responses lack it and `is_gone` says that the API
    /// server answers requests for its objects with 404 too.
    ///
    /// A resource that is now offered in another version keeps the one that is watched until that has ended: the same
    /// objects must neither be watched twice nor deleted because of a preference.
    #[must_use]
    pub fn keep_until_gone(
        &mut self,
        mut served: ServedResources,
        before: &ServedResources,
        is_gone: impl Fn(&GroupVersionResource) -> bool,
    ) -> ServedResources {
        self.0
            .retain(|resource, _| before.resources.contains_key(resource) && !served.resources.contains_key(resource));
        for (resource, known) in &before.resources {
            if served.resources.contains_key(resource) {
                continue;
            }
            let responses = self.0.entry(resource.clone()).or_default();
            *responses = responses.saturating_add(1);
            if *responses >= ABSENT_RESPONSES_MIN && is_gone(resource) {
                self.0.remove(resource);
                continue;
            }
            let is_other_version = |other: &GroupVersionResource| {
                other.group == resource.group
                    && other.plural == resource.plural
                    && !before.resources.contains_key(other)
            };
            served.resources.retain(|other, _| !is_other_version(other));
            served.resources.insert(resource.clone(), known.clone());
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Discovered;

    fn resources(names: &[&str]) -> ServedResources {
        let mut served = ServedResources::default();
        for name in names {
            let (version, plural) = name.split_once('/').expect("VERSION/PLURAL");
            let gvr = GroupVersionResource::new("shop.example.com", version, plural);
            let found = Discovered {
                gvr: gvr.clone(),
                kind: plural.to_owned(),
                namespaced: true,
                other_names: Vec::new(),
            };
            served.resources.insert(gvr, found);
        }
        served
    }

    fn names(served: &ServedResources) -> Vec<String> {
        let resources = served.resources.keys();
        resources
            .map(|resource| format!("{}/{}", resource.version, resource.plural))
            .collect()
    }

    #[test]
    fn a_resource_ends_after_two_absences_and_its_own_404() {
        let before = resources(&["v1/orders", "v1/carts"]);
        let lacking = || resources(&["v1/carts"]);
        let mut absent = AbsentResources::default();
        let mut keep = |served, is_gone: bool| names(&absent.keep_until_gone(served, &before, |_| is_gone));
        assert_eq!(keep(lacking(), true), ["v1/carts", "v1/orders"]);
        assert_eq!(keep(lacking(), false), ["v1/carts", "v1/orders"]);
        assert_eq!(keep(lacking(), true), ["v1/carts"]);
    }

    #[test]
    fn a_response_that_has_the_resource_starts_the_count_again() {
        let before = resources(&["v1/orders"]);
        let mut absent = AbsentResources::default();
        for served in [&[][..], &["v1/orders"], &[]] {
            let kept = absent.keep_until_gone(resources(served), &before, |_| true);
            assert_eq!(names(&kept), ["v1/orders"]);
        }
    }

    #[test]
    fn another_version_replaces_the_watched_one_only_when_it_ends() {
        let before = resources(&["v1beta1/orders"]);
        let mut absent = AbsentResources::default();
        for _ in 0..5 {
            let kept = absent.keep_until_gone(resources(&["v1/orders"]), &before, |_| false);
            assert_eq!(names(&kept), ["v1beta1/orders"]);
        }
        let kept = absent.keep_until_gone(resources(&["v1/orders"]), &before, |_| true);
        assert_eq!(names(&kept), ["v1/orders"]);
    }
}
