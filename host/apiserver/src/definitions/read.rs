//! Reading a definition: its names, versions and schemas, with all errors at once.

use std::sync::Arc;

use serde_json::{Value, json};

use super::columns::CustomColumn;
use super::schema::{self, Schema};
use super::{CustomVersion, GROUP, ScalePaths};
use crate::kinds::Kind;
use crate::status::{FieldError, Issue, Status};

/// A definition as the store needs it.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The version in which objects are stored.
    pub(crate) storage: Kind,
    /// The versions that are served.
    pub(crate) served: Vec<Kind>,
}

impl Definition {
    /// Reads a definition; 422 with all its errors.
    pub(crate) fn read(object: &Value) -> Result<Self, Status> {
        let mut reader = Reader {
            object,
            issues: Vec::new(),
        };
        let (storage, served) = reader.versions();
        reader.check_spec();
        let issues = reader.issues;
        match storage {
            Some(storage) if issues.is_empty() => Ok(Self { storage, served }),
            _ => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                Err(Status::invalid_all(GROUP, "CustomResourceDefinition", name, &issues))
            }
        }
    }
}

struct Reader<'a> {
    object: &'a Value,
    issues: Vec<Issue>,
}

impl Reader<'_> {
    fn issue(&mut self, field: &str, type_: FieldError, detail: impl Into<String>) {
        self.issues.push(Issue::new(field, type_, detail.into()));
    }

    fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn check_spec(&mut self) {
        for (pointer, field) in [
            ("/spec/group", "spec.group"),
            ("/spec/names/plural", "spec.names.plural"),
            ("/spec/names/kind", "spec.names.kind"),
        ] {
            if self.text(pointer).is_empty() {
                self.issue(field, FieldError::Required, "");
            }
        }
        let expected = format!("{}.{}", self.text("/spec/names/plural"), self.text("/spec/group"));
        let name = self.text("/metadata/name").to_owned();
        if name != expected {
            let detail = format!("{name:?}: must be spec.names.plural+\".\"+spec.group");
            self.issue("metadata.name", FieldError::Invalid, detail);
        }
        match self.text("/spec/scope").to_owned().as_str() {
            "Cluster" | "Namespaced" => {}
            "" => self.issue("spec.scope", FieldError::Required, ""),
            other => {
                let detail = format!("{other:?}: supported values: \"Cluster\", \"Namespaced\"");
                self.issue("spec.scope", FieldError::NotSupported, detail);
            }
        }
        let strategy = self.text("/spec/conversion/strategy").to_owned();
        if !matches!(strategy.as_str(), "" | "None") {
            let detail = format!("{strategy:?}: supported values: \"None\"; this server calls no conversion webhooks");
            self.issue("spec.conversion.strategy", FieldError::NotSupported, detail);
        }
    }

    fn versions(&mut self) -> (Option<Kind>, Vec<Kind>) {
        let versions: &[Value] = self.object["spec"]["versions"].as_array().map_or(&[], Vec::as_slice);
        let (mut storage, mut served, mut stored) = (None, Vec::new(), 0);
        for (index, version) in versions.iter().enumerate() {
            let kind = self.version(version, &format!("spec.versions[{index}]"));
            if version["storage"] == true {
                stored += 1;
                storage = Some(kind.clone());
            }
            if version["served"] == true {
                served.push(kind);
            }
        }
        if stored != 1 {
            let detail = format!(
                "{}: must have exactly one version marked as storage version",
                json!(versions)
            );
            self.issue("spec.versions", FieldError::Invalid, detail);
        }
        (storage, served)
    }

    fn version(&mut self, version: &Value, path: &str) -> Kind {
        let name = version["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            self.issue(&format!("{path}.name"), FieldError::Required, "");
        }
        let at = format!("{path}.schema.openAPIV3Schema");
        let openapi = &version["schema"]["openAPIV3Schema"];
        let schema = if openapi.is_null() {
            self.issue(&at, FieldError::Required, "schemas are required");
            Schema::default()
        } else {
            schema::read(openapi, &at, &mut self.issues)
        };
        let subresources = &version["subresources"];
        let custom_version = CustomVersion {
            columns: self.columns(&version["additionalPrinterColumns"], path),
            scale: subresources.get("scale").map(|scale| self.scale(scale, path)),
            openapi: openapi.clone(),
            schema,
        };
        let names = &self.object["spec"]["names"];
        let texts = |list: &Value| {
            let items = list.as_array().into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let kind = names["kind"].as_str().unwrap_or_default();
        let singular = names["singular"].as_str().filter(|singular| !singular.is_empty());
        Kind {
            singular: singular.map_or_else(|| kind.to_lowercase(), str::to_owned),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            has_status: subresources.get("status").is_some_and(|status| !status.is_null()),
            has_scale: custom_version.scale.is_some(),
            fields: selectable_fields(version),
            custom_version: Some(Arc::new(custom_version)),
            ..Kind::custom(
                self.text("/spec/group"),
                name,
                kind,
                names["plural"].as_str().unwrap_or_default(),
                self.text("/spec/scope") == "Namespaced",
            )
        }
    }

    fn columns(&mut self, columns: &Value, path: &str) -> Vec<CustomColumn> {
        let columns: &[Value] = columns.as_array().map_or(&[], Vec::as_slice);
        if columns.is_empty() {
            return vec![CustomColumn::age()];
        }
        let mut read = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let path = format!("{path}.additionalPrinterColumns[{index}]");
            for required in ["name", "type", "jsonPath"] {
                if column[required].as_str().is_none_or(str::is_empty) {
                    self.issue(&format!("{path}.{required}"), FieldError::Required, "");
                }
            }
            match CustomColumn::new(column) {
                Ok(column) => read.push(column),
                Err(error) => {
                    let detail = format!("{}: {error}", column["jsonPath"]);
                    self.issue(&format!("{path}.jsonPath"), FieldError::Invalid, detail);
                }
            }
        }
        read
    }

    fn scale(&mut self, scale: &Value, path: &str) -> ScalePaths {
        let mut pointer = |key: &str, below: &str| {
            let said = scale[key].as_str().unwrap_or_default();
            let field = format!("{path}.subresources.scale.{key}");
            if said.is_empty() {
                self.issue(&field, FieldError::Required, "");
            } else if !said.starts_with(below) || said.contains('[') {
                let detail = format!("{said:?}: should be a json path under {below} without array notation");
                self.issue(&field, FieldError::Invalid, detail);
            }
            said.replace('.', "/")
        };
        ScalePaths {
            spec_replicas: pointer("specReplicasPath", ".spec"),
            status_replicas: pointer("statusReplicasPath", ".status"),
            selector: scale["labelSelectorPath"]
                .as_str()
                .filter(|path| !path.is_empty())
                .map(|path| path.replace('.', "/")),
        }
    }
}

/// `selectableFields` as dotted paths.
fn selectable_fields(version: &Value) -> Vec<String> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str())
        .map(|path| path.trim_start_matches('.').to_owned())
        .collect()
}
