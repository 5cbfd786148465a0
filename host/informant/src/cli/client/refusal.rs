//! What to do when the daemon refuses the caller.

use super::identity::{Origin, Token};
use crate::admin::{AdminError, Code, ResourceRight};

/// The group of what only Informant has.
const OWN_GROUP: &str = "informant.dev";

/// The same error, with what to check and what to ask for.
pub(super) fn explain(mut error: AdminError, token: Option<&Token>) -> AdminError {
    let Some(Token { origin, .. }) = token else {
        return error;
    };
    let hint = match (error.code, &error.missing_right) {
        (Code::Unauthenticated, _) => of_token(origin),
        (Code::Forbidden, Some(right)) => format!("{}\n{}", check(right, origin), grant(right)),
        _ => return error,
    };
    error.message = format!("{}\n{hint}", error.message);
    error
}

fn of_token(origin: &Origin) -> String {
    let check = match origin {
        Origin::User => "check it with `kubectl auth whoami`, or pass --service-account [NAMESPACE/]NAME",
        Origin::ServiceAccount { .. } => "its audience is `informant`: is this daemon one of the same cluster?",
        Origin::File(_) => "it may have expired, or be for another audience than `informant` and the API server's",
    };
    format!("it was {origin}; {check}")
}

/// The command that tells whether the caller has a right.
fn check(right: &ResourceRight, origin: &Origin) -> String {
    let ResourceRight {
        verb,
        group,
        resource,
        subresource,
        namespace,
        name,
    } = right;
    let mut command = format!("kubectl auth can-i {verb} {resource}");
    let mut add = |before: &str, text: &str| {
        if !text.is_empty() {
            command.push_str(before);
            command.push_str(text);
        }
    };
    add(".", group);
    add("/", name);
    add(" --subresource ", subresource);
    add(" -n ", namespace);
    let (mut whose, mut all) = (String::new(), "");
    match origin {
        Origin::User => {}
        Origin::ServiceAccount { namespace, name } => {
            add(" --as ", &format!("system:serviceaccount:{namespace}:{name}"))
        }
        Origin::File(_) => whose = format!(" as the user of {origin}"),
    }
    if namespace.is_empty() && group != OWN_GROUP {
        all = " --all-namespaces";
    }
    format!("check{whose}: {command}{all}")
}

/// What to ask an administrator for.
fn grant(right: &ResourceRight) -> String {
    let role = match (right.group.as_str(), right.verb.as_str()) {
        // It shows objects, so that no role of the chart has it.
        (OWN_GROUP, _) if right.subresource == "capture" => "a ClusterRole with this right, in a ClusterRoleBinding",
        (OWN_GROUP, "update") => "the ClusterRole informant-operate, in a ClusterRoleBinding",
        (OWN_GROUP, _) => "the ClusterRole informant-view, in a ClusterRoleBinding",
        (_, _) if right.namespace.is_empty() => "a ClusterRole with this right, in a ClusterRoleBinding",
        (_, _) => "a Role or ClusterRole with this right, in a RoleBinding",
    };
    format!("ask for: {role}")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn explained(code: Code, right: Option<ResourceRight>, origin: Origin) -> String {
        let error = AdminError {
            code,
            message: "it is refused".to_owned(),
            fresh_as_of: None,
            missing_right: right.map(Box::new),
        };
        let header = HeaderValue::from_static("Bearer secret");
        explain(error, Some(&Token { header, origin })).message
    }

    fn right(verb: &str, group: &str, resource: &str, namespace: &str) -> ResourceRight {
        ResourceRight {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            ..ResourceRight::default()
        }
    }

    #[test]
    fn missing_right_comes_with_a_check_and_a_role() {
        let refused = |right, origin| explained(Code::Forbidden, Some(right), origin);
        insta::assert_snapshot!(refused(right("list", "", "pods", "web"), Origin::User), @"
        it is refused
        check: kubectl auth can-i list pods -n web
        ask for: a Role or ClusterRole with this right, in a RoleBinding
        ");
        let account = || Origin::ServiceAccount {
            namespace: "team".to_owned(),
            name: "ci".to_owned(),
        };
        insta::assert_snapshot!(refused(right("get", "apps", "deployments", ""), account()), @"
        it is refused
        check: kubectl auth can-i get deployments.apps --as system:serviceaccount:team:ci --all-namespaces
        ask for: a ClusterRole with this right, in a ClusterRoleBinding
        ");
        insta::assert_snapshot!(refused(right("list", OWN_GROUP, "plugins", ""), Origin::User), @"
        it is refused
        check: kubectl auth can-i list plugins.informant.dev
        ask for: the ClusterRole informant-view, in a ClusterRoleBinding
        ");
        let action = ResourceRight {
            subresource: "pause".to_owned(),
            name: "greeter".to_owned(),
            ..right("update", OWN_GROUP, "plugins", "")
        };
        insta::assert_snapshot!(refused(action, Origin::File("token".into())), @"
        it is refused
        check as the user of the token in token: kubectl auth can-i update plugins.informant.dev/greeter --subresource pause
        ask for: the ClusterRole informant-operate, in a ClusterRoleBinding
        ");
        assert_eq!(explained(Code::Forbidden, None, Origin::User), "it is refused");
    }

    #[test]
    fn refused_token_is_described_but_not_shown() {
        let account = Origin::ServiceAccount {
            namespace: "team".to_owned(),
            name: "ci".to_owned(),
        };
        let all = [Origin::User, account, Origin::File("token".into())];
        let all = all.map(|origin| explained(Code::Unauthenticated, None, origin));
        insta::assert_snapshot!(all.join("\n"), @"
        it is refused
        it was the token of the kubeconfig's user; check it with `kubectl auth whoami`, or pass --service-account [NAMESPACE/]NAME
        it is refused
        it was a token of the service account team/ci; its audience is `informant`: is this daemon one of the same cluster?
        it is refused
        it was the token in token; it may have expired, or be for another audience than `informant` and the API server's
        ");
    }
}
