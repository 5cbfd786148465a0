//! Names newer images in an annotation of the workloads that run older ones, and records an Event about each. README.md
//! says how.

mod image;
mod registry;
mod version;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

use image::Image;
use registry::Registries;

/// The annotation that the plugin writes.
const ANNOTATION: &str = "informant/image-updates";

/// Repositories that one run asks about: 20. The others follow in the next ones.
const REPOSITORIES_MAX: usize = 20;

/// Workloads that one run writes: 90, fewer than the writes that a call may defer. The others follow.
const WRITES_MAX: usize = 90;

/// What is read of a workload.
const FIELDS: [&str; 7] = [
    "/metadata/namespace",
    "/metadata/name",
    "/metadata/uid",
    "/metadata/annotations",
    "/metadata/deletionTimestamp",
    "/spec/template/spec/containers/*/image",
    "/spec/template/spec/initContainers/*/image",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Config {
    /// The informers of the workloads.
    informers: Vec<String>,
    /// How often a repository is asked for its tags.
    #[serde(default = "every_hours")]
    every_hours: u64,
    #[serde(default)]
    registries: Registries,
}

fn every_hours() -> u64 {
    6
}

struct ImageUpdates {
    config: Config,
    /// What is known of each repository.
    known: BTreeMap<String, Known>,
}

/// When a repository was asked, in seconds since 1970, and what is known of each tag in use.
struct Known {
    asked: u64,
    newest: BTreeMap<String, Newest>,
}

/// The newest tag of the form of another one.
enum Newest {
    /// The registry has not answered yet.
    Unknown,
    Itself,
    Other(String),
}

/// A workload, and its images with a tag.
struct Workload {
    item: store::Item<Value>,
    images: Vec<Image>,
}

impl Plugin for ImageUpdates {
    fn describe(_: Describe) -> Result<Manifest> {
        let timer = Timer::every("check", Duration::from_secs(300));
        Ok(Manifest::new().timer(timer).needs(Need::events()))
    }

    fn init(init: Init) -> Result<Self> {
        Ok(Self {
            config: init.config()?,
            known: BTreeMap::new(),
        })
    }
}

impl TimerHandler for ImageUpdates {
    fn on_timer(&mut self, _: &Tick) -> Result {
        let workloads = self.workloads()?;
        self.ask(&workloads);
        let mut writes = 0;
        for workload in &workloads {
            if writes < WRITES_MAX && self.mark(workload)? {
                writes += 1;
            }
        }
        Ok(())
    }
}

impl ImageUpdates {
    fn workloads(&self) -> Result<Vec<Workload>> {
        let mut workloads = Vec::new();
        for informer in &self.config.informers {
            for item in store::list(informer).all_clusters().fields(FIELDS).objects::<Value>() {
                let item = item?;
                let pod = &item.object["spec"]["template"]["spec"];
                let containers = ["initContainers", "containers"].map(|member| pod[member].as_array());
                let containers = containers.into_iter().flatten().flatten();
                let images = containers.filter_map(|container| Image::parse(container["image"].as_str()?));
                let images = images.collect();
                if item.object["metadata"]["deletionTimestamp"].is_null() {
                    workloads.push(Workload { item, images });
                }
            }
        }
        Ok(workloads)
    }

    /// Asks about repositories that are due, those first that were not asked for longest. One that does not answer
    /// delays no other.
    fn ask(&mut self, workloads: &[Workload]) {
        let mut used: BTreeMap<String, Vec<&Image>> = BTreeMap::new();
        for image in workloads.iter().flat_map(|workload| &workload.images) {
            used.entry(image.repository()).or_default().push(image);
        }
        self.known.retain(|repository, _| used.contains_key(repository));
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let mut due: Vec<(u64, String)> = Vec::new();
        for (repository, images) in &used {
            let asked = match self.known.get(repository) {
                None => 0,
                Some(known) if images.iter().any(|image| !known.newest.contains_key(&image.tag)) => 0,
                Some(known) => known.asked,
            };
            if asked.saturating_add(self.config.every_hours.saturating_mul(3_600)) <= now {
                due.push((asked, repository.clone()));
            }
        }
        due.sort();
        for (_, repository) in due.into_iter().take(REPOSITORIES_MAX) {
            let images = &used[&repository];
            let newest = match self.config.registries.tags(images[0]) {
                Ok(tags) => {
                    let newest = |tag: &str| match version::newest(tag, tags.iter().map(String::as_str)) {
                        Some(newest) => Newest::Other(newest.to_owned()),
                        None => Newest::Itself,
                    };
                    images
                        .iter()
                        .map(|image| (image.tag.clone(), newest(&image.tag)))
                        .collect()
                }
                Err(failure) => {
                    warn!("{repository}: {failure}");
                    // What was known stays; it is asked again when it is due.
                    let mut newest = self
                        .known
                        .remove(&repository)
                        .map(|known| known.newest)
                        .unwrap_or_default();
                    for image in images {
                        newest.entry(image.tag.clone()).or_insert(Newest::Unknown);
                    }
                    newest
                }
            };
            self.known.insert(repository, Known { asked: now, newest });
        }
    }

    /// Writes the annotation if it differs. Returns whether it does.
    fn mark(&self, Workload { item, images }: &Workload) -> Result<bool> {
        let mut updates = Vec::new();
        for image in images {
            let known = self.known.get(&image.repository());
            match known.and_then(|known| known.newest.get(&image.tag)) {
                // An answer follows in a later run. Until then, what the annotation says stays.
                None | Some(Newest::Unknown) => return Ok(false),
                Some(Newest::Itself) => {}
                Some(Newest::Other(newest)) => updates.push(format!("{}:{newest}", image.repository())),
            }
        }
        updates.dedup();
        let wanted = (!updates.is_empty()).then(|| updates.join(", "));
        let metadata = &item.object["metadata"];
        if metadata["annotations"][ANNOTATION].as_str() == wanted.as_deref() {
            return Ok(false);
        }
        let source = store::source(item.source)?;
        let text = |member: &str| metadata[member].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let address = kube::object(&source.resource, namespace, name).in_cluster(&source.cluster);
        let patch = json!({ "metadata": { "uid": metadata["uid"], "annotations": { ANNOTATION: wanted } } });
        kube::defer_patch(&address).merge(&patch)?;
        if let Some(updates) = &wanted {
            let about = recorder::object(&source.api_version, &source.kind, namespace, name).uid(text("uid"));
            let note = format!("There are newer images: {updates}");
            recorder::event(about.in_cluster(&source.cluster), "NewerImage")
                .note(note)
                .record()?;
        }
        Ok(true)
    }
}

export!(ImageUpdates: timers);
