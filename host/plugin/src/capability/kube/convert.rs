//! Conversions between the contract's types and this crate's.

use crate::bindings::informant::plugin::kube::{Address, ApiError, ApiErrorCode, PatchKind};
use crate::capability::kube::api::{KubeAddress, KubeError, KubeErrorCode, KubePatchKind};
use informant_spec::{KubeResource, is_name, is_segment};

/// The subresources of a namespace: anything else after a namespace's name in a path is a resource in it.
const OF_NAMESPACES: [&str; 2] = ["finalize", "status"];

impl TryFrom<Address> for KubeAddress {
    type Error = KubeError;

    /// Rejects addresses whose path could lead to another object.
    fn try_from(address: Address) -> Result<KubeAddress, KubeError> {
        let invalid = |message: String| KubeError::new(KubeErrorCode::Invalid, message);
        let resource = KubeResource::parse(&address.resource).map_err(|error| invalid(error.to_string()))?;
        for (field, word, is_valid) in [
            ("namespace", &address.namespace, is_segment(&address.namespace)),
            ("name", &address.name, is_name(&resource, &address.name)),
            ("subresource", &address.subresource, is_segment(&address.subresource)),
        ] {
            if !word.is_empty() && !is_valid {
                return Err(invalid(format!("{field}: {word:?} is not a valid name")));
            }
        }
        let of_namespace = resource.group.is_empty() && resource.plural == "namespaces";
        if of_namespace && !address.namespace.is_empty() {
            return Err(invalid(
                "a namespace is not in a namespace: leave `namespace` empty".to_owned(),
            ));
        }
        if of_namespace && !address.subresource.is_empty() && !OF_NAMESPACES.contains(&address.subresource.as_str()) {
            return Err(invalid(format!(
                "a namespace has no subresource {:?}",
                address.subresource
            )));
        }
        Ok(KubeAddress {
            cluster: address.cluster,
            resource,
            namespace: address.namespace,
            name: address.name,
            subresource: address.subresource,
        })
    }
}

impl From<PatchKind> for KubePatchKind {
    fn from(kind: PatchKind) -> KubePatchKind {
        match kind {
            PatchKind::Merge => KubePatchKind::Merge,
            PatchKind::Json => KubePatchKind::Json,
            PatchKind::Strategic => KubePatchKind::Strategic,
            PatchKind::Apply => KubePatchKind::Apply,
        }
    }
}

impl From<KubeError> for ApiError {
    fn from(error: KubeError) -> ApiError {
        let retry_after_ms = error
            .retry_after
            .map_or(0, |after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX).max(1));
        ApiError {
            code: error.code.into(),
            status: error.status,
            reason: error.reason,
            message: error.message,
            retry_after_ms,
        }
    }
}

impl From<KubeErrorCode> for ApiErrorCode {
    fn from(code: KubeErrorCode) -> ApiErrorCode {
        match code {
            KubeErrorCode::Denied => ApiErrorCode::Denied,
            KubeErrorCode::NotHere => ApiErrorCode::NotHere,
            KubeErrorCode::Forbidden => ApiErrorCode::Forbidden,
            KubeErrorCode::Unauthorized => ApiErrorCode::Unauthorized,
            KubeErrorCode::NotFound => ApiErrorCode::NotFound,
            KubeErrorCode::AlreadyExists => ApiErrorCode::AlreadyExists,
            KubeErrorCode::Conflict => ApiErrorCode::Conflict,
            KubeErrorCode::Invalid => ApiErrorCode::Invalid,
            KubeErrorCode::Expired => ApiErrorCode::Expired,
            KubeErrorCode::TooLarge => ApiErrorCode::TooLarge,
            KubeErrorCode::TooManyRequests => ApiErrorCode::TooManyRequests,
            KubeErrorCode::Timeout => ApiErrorCode::Timeout,
            KubeErrorCode::Unavailable => ApiErrorCode::Unavailable,
            KubeErrorCode::Unsupported => ApiErrorCode::Unsupported,
        }
    }
}
