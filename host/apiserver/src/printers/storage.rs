//! Volumes and their classes.

use serde_json::{Value, json};

use super::cells::{UNSET, is_deleted, items, name_or_default, or, plain, text};
use super::column::{AGE, Column, NAME, column, field};

pub(super) const PERSISTENT_VOLUMES: &[Column] = &[
    NAME,
    column("Capacity", &["/spec/capacity"], |it, _| {
        json!(or(&it["spec"]["capacity"]["storage"], "0"))
    }),
    column("Access Modes", &["/spec/accessModes"], |it, _| {
        json!(access_modes(&it["spec"]["accessModes"]))
    }),
    field("Reclaim Policy", &["/spec/persistentVolumeReclaimPolicy"], plain),
    column("Status", &["/status/phase"], |it, _| json!(phase(it))),
    column("Claim", &["/spec/claimRef"], |it, _| {
        let claim = &it["spec"]["claimRef"];
        json!(if claim.is_object() {
            format!("{}/{}", text(&claim["namespace"]), text(&claim["name"]))
        } else {
            String::new()
        })
    }),
    field("StorageClass", &["/spec/storageClassName"], plain),
    column(
        "VolumeAttributesClass",
        &["/spec/volumeAttributesClassName"],
        |it, _| json!(attributes_class(it)),
    ),
    field("Reason", &["/status/reason"], plain),
    AGE,
    field("VolumeMode", &["/spec/volumeMode"], |it| json!(or(it, UNSET))).wide(),
];

pub(super) const PERSISTENT_VOLUME_CLAIMS: &[Column] = &[
    NAME,
    column("Status", &["/status/phase"], |it, _| json!(phase(it))),
    field("Volume", &["/spec/volumeName"], plain),
    column("Capacity", &["/spec/volumeName", "/status/capacity"], |it, _| {
        json!(if is_bound(it) {
            or(&it["status"]["capacity"]["storage"], "0")
        } else {
            ""
        })
    }),
    column("Access Modes", &["/spec/volumeName", "/status/accessModes"], |it, _| {
        json!(if is_bound(it) {
            access_modes(&it["status"]["accessModes"])
        } else {
            String::new()
        })
    }),
    field("StorageClass", &["/spec/storageClassName"], plain),
    column(
        "VolumeAttributesClass",
        &["/spec/volumeAttributesClassName"],
        |it, _| json!(attributes_class(it)),
    ),
    AGE,
    field("VolumeMode", &["/spec/volumeMode"], |it| json!(or(it, UNSET))).wide(),
];

pub(super) const STORAGE_CLASSES: &[Column] = &[
    column("Name", &["/metadata/annotations"], |it, _| {
        name_or_default(it, "storageclass.kubernetes.io/is-default-class")
    }),
    field("Provisioner", &["/provisioner"], plain),
    field("ReclaimPolicy", &["/reclaimPolicy"], |it| json!(or(it, "Delete"))),
    field("VolumeBindingMode", &["/volumeBindingMode"], |it| {
        json!(or(it, "Immediate"))
    }),
    column("AllowVolumeExpansion", &["/allowVolumeExpansion"], |it, _| {
        json!(it["allowVolumeExpansion"] == true)
    }),
    AGE,
];

fn is_bound(claim: &Value) -> bool {
    !text(&claim["spec"]["volumeName"]).is_empty()
}

fn phase(volume: &Value) -> &str {
    if is_deleted(volume) {
        "Terminating"
    } else {
        text(&volume["status"]["phase"])
    }
}

fn attributes_class(volume: &Value) -> &str {
    or(&volume["spec"]["volumeAttributesClassName"], UNSET)
}

/// `RWO,ROX`, each once and in Kubernetes' order.
fn access_modes(modes: &Value) -> String {
    let names = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let present = |(long, _): &(&str, &str)| items(modes).iter().any(|mode| mode == long);
    let short: Vec<&str> = names.into_iter().filter(present).map(|(_, short)| short).collect();
    short.join(",")
}
