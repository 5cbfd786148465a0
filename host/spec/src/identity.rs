//! The identity that a plugin acts with: a ServiceAccount of Kubernetes.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// What the name of each ServiceAccount's user begins with.
const PREFIX: &str = "system:serviceaccount:";

/// Bytes of a namespace and of the name of a ServiceAccount.
const PART_BYTES_MAX: [usize; 2] = [63, 253];

/// A ServiceAccount. Source: kubernetes `staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceAccount {
    pub namespace: String,
    pub name: String,
}

/// The text is no user of a ServiceAccount.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("is no ServiceAccount: write \"system:serviceaccount:NAMESPACE:NAME\"")]
pub struct ServiceAccountError;

impl FromStr for ServiceAccount {
    type Err = ServiceAccountError;

    fn from_str(text: &str) -> Result<ServiceAccount, ServiceAccountError> {
        let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
        let (namespace, name) = parts.ok_or(ServiceAccountError)?;
        let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        let is_valid = |(part, bytes_max): (&str, usize)| {
            let ends = |end: Option<char>| end.is_some_and(|end| end.is_ascii_alphanumeric());
            (1..=bytes_max).contains(&part.len())
                && part.bytes().all(is_inner)
                && ends(part.chars().next())
                && ends(part.chars().next_back())
        };
        let is_namespace = !namespace.contains('.') && is_valid((namespace, PART_BYTES_MAX[0]));
        match is_namespace && is_valid((name, PART_BYTES_MAX[1])) {
            true => Ok(ServiceAccount {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            false => Err(ServiceAccountError),
        }
    }
}

impl fmt::Display for ServiceAccount {
    /// Its user, as the API server calls it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}:{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_service_account_names_it() {
        let user = "system:serviceaccount:team-a:label.er";
        let account: ServiceAccount = user.parse().unwrap();
        assert_eq!((&*account.namespace, &*account.name), ("team-a", "label.er"));
        assert_eq!(account.to_string(), user);
        for other in [
            "",
            "team-a:labeler",
            "system:serviceaccount:team-a",
            "system:serviceaccount::labeler",
            "system:serviceaccount:team.a:labeler",
            "system:serviceaccount:team-a:-x",
            "system:serviceaccount:team-a:a:b",
            "system:serviceaccount:team-a:A",
            "system:masters",
        ] {
            assert_eq!(other.parse::<ServiceAccount>(), Err(ServiceAccountError), "{other}");
        }
    }
}
