use super::*;

const SUBJECT: Subject<'static> = Subject {
    name: "informant",
    namespace: "informant",
};

fn grant(json: &str) -> KubeGrant {
    serde_json::from_str(json).unwrap()
}

/// The YAML documents for informers and plugins in all namespaces and in two of them.
fn documents() -> Vec<String> {
    let mut permissions = Permissions::default();
    permissions.add_informer("nodes", "", "nodes", None);
    permissions.add_informer("pods", "", "pods", Some("web"));
    permissions.add_informer("pods-again", "", "pods", Some("web"));
    permissions.add_grant(
        "marker",
        &grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "namespaces": ["web", "db"]}"#),
    );
    permissions.add_grant(
        "scaler",
        &grant(
            r#"{"verbs": ["patch", "update"], "resource": "apps/v1/deployments", "subresources": ["scale", "status"]}"#,
        ),
    );
    permissions.add_grant(
        "state-store",
        &grant(r#"{"verbs": ["get", "create", "delete"], "resource": "v1/configmaps", "namespaces": ["web"], "names": ["state"]}"#),
    );
    let documents = yaml(&permissions, &SUBJECT);
    documents.split("---\n").map(str::to_owned).collect()
}

fn kind(document: &str) -> &str {
    let kind = document.lines().find_map(|line| line.strip_prefix("kind: "));
    kind.expect("each document has a kind")
}

#[test]
fn informers_and_grants_become_minimal_roles() {
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
      verbs: ["list", "watch"]
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
    # [plugin.state-store]
    - apiGroups: [""]
      resources: ["configmaps"]
      verbs: ["create"]
    # [plugin.state-store]
    - apiGroups: [""]
      resources: ["configmaps"]
      resourceNames: ["state"]
      verbs: ["get", "delete"]
    # [informer.pods-again], [informer.pods], [plugin.marker]
    - apiGroups: [""]
      resources: ["pods"]
      verbs: ["list", "watch", "patch"]
    "#);
}

#[test]
fn each_role_is_bound_to_the_service_account() {
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
fn cluster_wide_permissions_are_not_repeated() {
    let mut permissions = Permissions::default();
    permissions.add_informer("pods", "", "pods", None);
    permissions.add_informer("of-web", "", "pods", Some("web"));
    permissions.add_grant("all", &grant(r#"{"verbs": ["get"], "resource": "v1/pods"}"#));
    permissions.add_grant(
        "one",
        &grant(r#"{"verbs": ["get"], "resource": "v1/pods", "names": ["a"]}"#),
    );
    permissions.add_grant(
        "two",
        &grant(r#"{"verbs": ["get", "patch"], "resource": "v1/pods", "namespaces": ["web"]}"#),
    );
    let rules = permissions.by_scope();
    assert_eq!(rules[&None].len(), 1);
    let of_web: Vec<_> = rules[&Some("web".to_owned())].values().collect();
    assert_eq!(of_web.len(), 1);
    assert_eq!(of_web[0].verbs, BTreeSet::from(["patch"]));
}

#[test]
fn reviews_of_callers_are_cluster_wide() {
    let mut permissions = Permissions::default();
    permissions.add_reviews();
    let text = yaml(&permissions, &SUBJECT);
    let role = text
        .split("---\n")
        .find(|document| kind(document) == "ClusterRole")
        .unwrap();
    insta::assert_snapshot!(role, @r#"
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata:
      name: "informant"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [admin] tls
    - apiGroups: ["authentication.k8s.io"]
      resources: ["tokenreviews"]
      verbs: ["create"]
    # [admin] tls
    - apiGroups: ["authorization.k8s.io"]
      resources: ["subjectaccessreviews"]
      verbs: ["create"]
    "#);
}

#[test]
fn replicas_need_leases_and_secrets_in_their_namespace() {
    let mut permissions = Permissions::default();
    permissions.add_replicas("informant", true);
    let text = yaml(&permissions, &SUBJECT);
    let role = text.split("---\n").find(|document| kind(document) == "Role").unwrap();
    insta::assert_snapshot!(role, @r#"
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata:
      name: "informant"
      namespace: "informant"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [state] store
    - apiGroups: [""]
      resources: ["secrets"]
      verbs: ["get", "create", "update"]
    # [ha]
    - apiGroups: ["coordination.k8s.io"]
      resources: ["leases"]
      verbs: ["get", "list", "watch", "create", "patch"]
    "#);
}

#[test]
fn a_plugin_with_an_identity_has_its_own_objects() {
    let mut permissions = Permissions::default();
    permissions.add_informer("pods", "", "pods", None);
    let account = "system:serviceaccount:shop:labeler".parse().unwrap();
    let of_plugin = permissions.of_plugin("label", Some(&account));
    of_plugin.add_grant(
        "label",
        &grant(r#"{"verbs": ["patch"], "resource": "v1/pods", "namespaces": ["shop"]}"#),
    );
    of_plugin.add_events("label");
    // Informant may impersonate it, and it has roles of its own.
    let documents = yaml(&permissions, &SUBJECT);
    let its: Vec<&str> = documents
        .split("---\n")
        .filter(|document| document.contains("labeler"))
        .collect();
    insta::assert_snapshot!(its.join("---\n"), @r#"
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata:
      name: "informant"
      namespace: "shop"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [plugin.label] as
    - apiGroups: [""]
      resources: ["serviceaccounts"]
      resourceNames: ["labeler"]
      verbs: ["impersonate"]
    ---
    apiVersion: v1
    kind: ServiceAccount
    metadata:
      name: "labeler"
      namespace: "shop"
      labels: {app.kubernetes.io/name: informant}
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRole
    metadata:
      name: "informant:shop:labeler"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [plugin.label]
    - apiGroups: ["events.k8s.io"]
      resources: ["events"]
      verbs: ["create", "patch"]
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: ClusterRoleBinding
    metadata:
      name: "informant:shop:labeler"
      labels: {app.kubernetes.io/name: informant}
    roleRef:
      apiGroup: rbac.authorization.k8s.io
      kind: ClusterRole
      name: "informant:shop:labeler"
    subjects:
    - kind: ServiceAccount
      name: "labeler"
      namespace: "shop"
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata:
      name: "informant:shop:labeler"
      namespace: "shop"
      labels: {app.kubernetes.io/name: informant}
    rules:
    # [plugin.label]
    - apiGroups: [""]
      resources: ["pods"]
      verbs: ["patch"]
    ---
    apiVersion: rbac.authorization.k8s.io/v1
    kind: RoleBinding
    metadata:
      name: "informant:shop:labeler"
      namespace: "shop"
      labels: {app.kubernetes.io/name: informant}
    roleRef:
      apiGroup: rbac.authorization.k8s.io
      kind: Role
      name: "informant:shop:labeler"
    subjects:
    - kind: ServiceAccount
      name: "labeler"
      namespace: "shop"
    "#);
}
