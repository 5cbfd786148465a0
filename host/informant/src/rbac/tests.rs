use super::*;

const SUBJECT: Subject<'static> = Subject {
    name: "informant",
    namespace: "informant",
};

fn grant(json: &str) -> KubeGrant {
    serde_json::from_str(json).unwrap()
}

/// What informers and plugins ask for in all namespaces and in two of them, as YAML documents.
fn documents() -> Vec<String> {
    let mut rights = Rights::default();
    rights.add_informer("nodes", "", "nodes", None);
    rights.add_informer("pods", "", "pods", Some("web"));
    rights.add_informer("pods-again", "", "pods", Some("web"));
    rights.add_grant(
        "marker",
        &grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "namespaces": ["web", "db"]}"#),
    );
    rights.add_grant(
        "scaler",
        &grant(
            r#"{"verbs": ["patch", "update"], "resource": "apps/v1/deployments", "subresources": ["scale", "status"]}"#,
        ),
    );
    rights.add_grant(
        "keeper",
        &grant(r#"{"verbs": ["get", "create", "delete"], "resource": "v1/configmaps", "namespaces": ["web"], "names": ["state"]}"#),
    );
    let documents = yaml(&rights, &SUBJECT);
    documents.split("---\n").map(str::to_owned).collect()
}

fn kind(document: &str) -> &str {
    let kind = document.lines().find_map(|line| line.strip_prefix("kind: "));
    kind.expect("each document has a kind")
}

#[test]
fn informers_and_grants_become_the_narrowest_roles() {
    let mut roles = documents();
    roles.retain(|document| kind(document).ends_with("Role"));
    insta::assert_snapshot!(roles.join("---\n"), @r#"
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata:
      name: "informant"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [informer.nodes]
    - apiGroups: [""]
      resources: ["nodes"]
      verbs: ["get", "list", "watch"]
    # [plugin.scaler]
    - apiGroups: ["apps"]
      resources: ["deployments/scale"]
      verbs: ["update", "patch"]
    # [plugin.scaler]
    - apiGroups: ["apps"]
      resources: ["deployments/status"]
      verbs: ["update", "patch"]
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata:
      name: "informant"
      namespace: "db"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [plugin.marker]
    - apiGroups: [""]
      resources: ["pods"]
      verbs: ["patch"]
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata:
      name: "informant"
      namespace: "web"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [plugin.keeper]
    - apiGroups: [""]
      resources: ["configmaps"]
      verbs: ["create"]
    # [plugin.keeper]
    - apiGroups: [""]
      resources: ["configmaps"]
      resourceNames: ["state"]
      verbs: ["get", "delete"]
    # [informer.pods-again], [informer.pods], [plugin.marker]
    - apiGroups: [""]
      resources: ["pods"]
      verbs: ["get", "list", "watch", "patch"]
    "#);
}

#[test]
fn each_role_is_followed_by_what_binds_it_to_the_service_account() {
    let mut documents = documents();
    assert_eq!(
        documents.iter().map(|document| kind(document)).collect::<Vec<_>>(),
        [
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Role",
            "RoleBinding"
        ]
    );
    documents.retain(|document| !kind(document).ends_with("Role"));
    insta::assert_snapshot!(documents.join("---\n"), @r#"
    apiVersion: v1
    kind: ServiceAccount
    metadata:
      name: "informant"
      namespace: "informant"
      labels: {app.kubernetes.io/name: informant}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata:
      name: "informant"
      labels: {app.kubernetes.io/name: informant}
    roleRef:
      apiGroup: rbac.authorization.k8s.io
      kind: ClusterRole
      name: "informant"
    subjects:
    - kind: ServiceAccount
      name: "informant"
      namespace: "informant"
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata:
      name: "informant"
      namespace: "db"
      labels: {app.kubernetes.io/name: informant}
    roleRef:
      apiGroup: rbac.authorization.k8s.io
      kind: Role
      name: "informant"
    subjects:
    - kind: ServiceAccount
      name: "informant"
      namespace: "informant"
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata:
      name: "informant"
      namespace: "web"
      labels: {app.kubernetes.io/name: informant}
    roleRef:
      apiGroup: rbac.authorization.k8s.io
      kind: Role
      name: "informant"
    subjects:
    - kind: ServiceAccount
      name: "informant"
      namespace: "informant"
    "#);
}

#[test]
fn what_holds_everywhere_is_not_said_again() {
    let mut rights = Rights::default();
    rights.add_informer("pods", "", "pods", None);
    rights.add_informer("of-web", "", "pods", Some("web"));
    rights.add_grant(
        "one",
        &grant(r#"{"verbs": ["get"], "resource": "v1/pods", "names": ["a"]}"#),
    );
    rights.add_grant(
        "two",
        &grant(r#"{"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["web"]}"#),
    );
    let rules = rights.by_scope();
    assert_eq!(rules[&None].len(), 1);
    let of_web: Vec<_> = rules[&Some("web".to_owned())].values().collect();
    assert_eq!(of_web.len(), 1);
    assert_eq!(of_web[0].verbs, BTreeSet::from(["patch"]));
}
