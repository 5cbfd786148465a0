//! The options of calls: JSON documents of Kubernetes' meta/v1. A member that is not passed on is refused, so that a
//! call never does something else than what was asked for.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::KUBE_PAGE_OBJECTS_MAX;
use crate::capability::kube::api::{KubeDelete, KubeError, KubeErrorCode, KubeList, KubePropagation, KubeWrite};
use crate::json_error::{explain, members};

/// The longest selector or cursor: 64 KiB.
const TEXT_BYTES_MAX: usize = 64 * 1_024;

/// The longest name of a field manager. Source: apimachinery `FieldManagerMaxLength`.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ListOptions {
    label_selector: String,
    field_selector: String,
    limit: u32,
    r#continue: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WriteOptions {
    field_manager: String,
    field_validation: Option<FieldValidation>,
    dry_run: Vec<DryRun>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PatchOptions {
    field_manager: String,
    field_validation: Option<FieldValidation>,
    dry_run: Vec<DryRun>,
    force: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct DeleteOptions {
    propagation_policy: Option<KubePropagation>,
    grace_period_seconds: Option<u32>,
    #[serde(deserialize_with = "members")]
    preconditions: Preconditions,
    dry_run: Vec<DryRun>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Preconditions {
    uid: String,
    resource_version: String,
}

#[derive(Clone, Copy, Deserialize)]
enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The only value that Kubernetes knows.
#[derive(Deserialize)]
enum DryRun {
    All,
}

impl FieldValidation {
    const fn as_str(self) -> &'static str {
        match self {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        }
    }
}

/// The options of a list.
/// Errors: [`KubeErrorCode::Invalid`]; [`KubeErrorCode::TooLarge`] for a text of more than [`TEXT_BYTES_MAX`].
pub(super) fn list(json: &[u8]) -> Result<KubeList, KubeError> {
    let options: ListOptions = parse("ListOptions", json)?;
    let texts = [&options.label_selector, &options.field_selector, &options.r#continue];
    if texts.iter().any(|text| text.len() > TEXT_BYTES_MAX) {
        let message = format!("a selector or cursor has more than {TEXT_BYTES_MAX} bytes");
        return Err(KubeError::new(KubeErrorCode::TooLarge, message));
    }
    Ok(KubeList {
        label_selector: options.label_selector,
        field_selector: options.field_selector,
        limit: match options.limit {
            0 => KUBE_PAGE_OBJECTS_MAX,
            limit => limit.min(KUBE_PAGE_OBJECTS_MAX),
        },
        cursor: options.r#continue,
    })
}

/// The options of a create or an update. `manager` is the default field manager.
pub(super) fn write(json: &[u8], manager: &str) -> Result<KubeWrite, KubeError> {
    let options: WriteOptions = parse("CreateOptions and UpdateOptions", json)?;
    Ok(KubeWrite {
        field_manager: field_manager(options.field_manager, manager)?,
        field_validation: options.field_validation.map(FieldValidation::as_str),
        force: false,
        dry_run: !options.dry_run.is_empty(),
    })
}

/// The options of a patch, which is an `apply` or not. `manager` is the default field manager.
pub(super) fn patch(json: &[u8], is_apply: bool, manager: &str) -> Result<KubeWrite, KubeError> {
    let options: PatchOptions = parse("PatchOptions", json)?;
    if options.force && !is_apply {
        return Err(invalid("options: `force` is for apply only; leave it out".to_owned()));
    }
    Ok(KubeWrite {
        field_manager: field_manager(options.field_manager, manager)?,
        field_validation: options.field_validation.map(FieldValidation::as_str),
        force: options.force,
        dry_run: !options.dry_run.is_empty(),
    })
}

/// The options of a delete.
pub(super) fn delete(json: &[u8]) -> Result<KubeDelete, KubeError> {
    let options: DeleteOptions = parse("DeleteOptions", json)?;
    Ok(KubeDelete {
        propagation: options.propagation_policy,
        grace_period_seconds: options.grace_period_seconds,
        uid: options.preconditions.uid,
        resource_version: options.preconditions.resource_version,
        dry_run: !options.dry_run.is_empty(),
    })
}

/// Parses options; empty means none.
fn parse<T: Default + DeserializeOwned>(kind: &str, json: &[u8]) -> Result<T, KubeError> {
    if json.is_empty() {
        return Ok(T::default());
    }
    // serde accepts a list as a struct.
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err(invalid(format!("options: not a JSON object of {kind}")));
    }
    serde_json::from_slice(json).map_err(|error| invalid(format!("options: {} ({kind})", explain(&error))))
}

fn field_manager(asked: String, default: &str) -> Result<String, KubeError> {
    let name = if asked.is_empty() { default.to_owned() } else { asked };
    if name.len() > FIELD_MANAGER_BYTES_MAX || name.contains(char::is_control) {
        return Err(invalid(format!(
            "options: `fieldManager` is invalid: use at most {FIELD_MANAGER_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(name)
}

fn invalid(message: String) -> KubeError {
    KubeError::new(KubeErrorCode::Invalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_meta_v1_are_passed_on() {
        let options = list(br#"{"labelSelector":"a=b","fieldSelector":"spec.nodeName=n","limit":9000,"continue":"c"}"#);
        let KubeList {
            label_selector,
            field_selector,
            limit,
            cursor,
        } = options.unwrap();
        assert_eq!(
            (&*label_selector, &*field_selector, limit, &*cursor),
            ("a=b", "spec.nodeName=n", 500, "c")
        );
        assert_eq!(list(b"").unwrap(), list(b"{}").unwrap());
        let options = patch(
            br#"{"force":true,"fieldValidation":"Strict","dryRun":["All"]}"#,
            true,
            "m",
        )
        .unwrap();
        assert_eq!(
            (
                &*options.field_manager,
                options.field_validation,
                options.force,
                options.dry_run
            ),
            ("m", Some("Strict"), true, true)
        );
        let options = br#"{"propagationPolicy":"Orphan","gracePeriodSeconds":0,"preconditions":{"uid":"u"}}"#;
        let options = delete(options).unwrap();
        assert_eq!(options.propagation, Some(KubePropagation::Orphan));
        assert_eq!((options.grace_period_seconds, &*options.uid), (Some(0), "u"));
    }

    #[test]
    fn other_options_are_invalid() {
        let messages = [
            list(br#"{"watch":true}"#).unwrap_err(),
            list(b"[]").unwrap_err(),
            write(br#"{"force":true}"#, "m").unwrap_err(),
            write(br#"{"dryRun":["None"]}"#, "m").unwrap_err(),
            write(br#"{"fieldManager":"a\nb"}"#, "m").unwrap_err(),
            patch(br#"{"force":true}"#, false, "m").unwrap_err(),
            delete(br#"{"propagationPolicy":"background"}"#).unwrap_err(),
        ];
        let text: Vec<String> = messages.into_iter().map(|error| error.message).collect();
        insta::assert_snapshot!(text.join("\n"), @"
        options: unknown field `watch`, expected one of `labelSelector`, `fieldSelector`, `limit`, `continue` (ListOptions)
        options: not a JSON object of ListOptions
        options: unknown field `force`, expected one of `fieldManager`, `fieldValidation`, `dryRun` (CreateOptions and UpdateOptions)
        options: unknown variant `None`, expected `All` (CreateOptions and UpdateOptions)
        options: `fieldManager` is invalid: use at most 128 bytes and no control characters
        options: `force` is for apply only; leave it out
        options: unknown variant `background`, expected one of `Background`, `Foreground`, `Orphan`; did you mean `Background`? (DeleteOptions)
        ");
    }
}
