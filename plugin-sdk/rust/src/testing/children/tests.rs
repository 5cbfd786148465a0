use super::base64;
use crate::kube::{Children, ErrorCode, SetChildren};
use crate::prelude::*;
use crate::testing::{Cache, Driver};

/// Makes Secrets and Deployments of the names in the data of a ConfigMap.
struct Sites;

impl Plugin for Sites {
    fn describe(_: Describe) -> Result<Manifest> {
        let sites = Reconciles::of("v1", "ConfigMap")
            .owns(Related::of("v1", "Secret"))
            .owns(Related::of("apps/v1", "Deployment"));
        Ok(Manifest::new().reconciles(sites))
    }

    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl Reconciler for Sites {
    type Object = Value;

    fn reconcile(&mut self, request: &Request, site: Option<Value>) -> Result<Action> {
        let site = site.unwrap_or_default();
        let named = |key: &str| {
            let names = site["data"][key].as_str().unwrap_or_default().split(',');
            names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let done = kube::children(request)
            .whole(named("secrets").iter().map(|name| secret(name)))
            .fields(named("deployments").iter().map(|name| deployment(name)))
            .set()?;
        let Children {
            written,
            pruned,
            refused,
            prune_skipped,
            ..
        } = done;
        info!("written {written}, pruned {pruned}, refused {refused:?}, skipped {prune_skipped:?}");
        Ok(Action::done())
    }
}

crate::export!(Sites: reconciler);

fn secret(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "text": "x" } })
}

fn deployment(name: &str) -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": { "replicas": 1 } })
}

/// The plugin, and a site with these children.
struct Site {
    driver: Driver<Sites>,
    maps: SourceId,
}

impl Site {
    fn new(secrets: &str, deployments: &str) -> Self {
        let driver = Driver::<Sites>::start_with(json!({ "plugin": "sites" })).unwrap();
        let maps = driver.cache().source("configmaps", "v1", "ConfigMap");
        let site = Self { driver, maps };
        site.wants(secrets, deployments);
        site
    }

    fn wants(&self, secrets: &str, deployments: &str) {
        self.driver.cache().put(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "web", "name": "a", "uid": "1" },
            "data": { "secrets": secrets, "deployments": deployments },
        }));
    }

    /// Reconciles the site. Returns what was logged, and the writes.
    fn reconcile(&mut self, is_behind: bool) -> (String, Vec<String>) {
        self.driver.reconcile_behind(self.maps, "web", "a", is_behind).unwrap();
        let writes = self.driver.cache().take_writes().into_iter();
        let writes = writes.map(|write| format!("{} {} {}", write.verb, write.resource, write.object));
        (self.driver.take_log().concat(), writes.collect())
    }

    fn object(&self, kind: &str, name: &str) -> Option<Value> {
        store::get(format!("{kind}s").as_str(), "web", name).unwrap()
    }
}

#[test]
fn children_are_made_with_what_says_whose_they_are() {
    let mut site = Site::new("x", "d");
    let (log, writes) = site.reconcile(false);
    assert_eq!(log, "info: written 2, pruned 0, refused [], skipped None");
    assert_eq!(writes, ["create v1/secrets web/x", "patch apps/v1/deployments web/d"]);
    let secret = site.object("secret", "x").unwrap();
    assert_eq!(
        (&secret["type"], &secret["data"]),
        (&json!("Opaque"), &json!({ "text": "eA==" }))
    );
    let owners = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "1", "controller": true,
        "blockOwnerDeletion": true,
    }]);
    let labels = json!({ "informant.dev/owner-uid": "1", "informant.dev/plugin": "sites" });
    for child in [secret, site.object("deployment", "d").unwrap()] {
        let metadata = &child["metadata"];
        assert_eq!((&metadata["ownerReferences"], &metadata["labels"]), (&owners, &labels));
    }
    let (log, writes) = site.reconcile(false);
    assert_eq!(
        log, "info: written 1, pruned 0, refused [], skipped None",
        "the apply counts"
    );
    assert!(writes.is_empty(), "{writes:?}");
}

#[test]
fn what_others_have_added_stays_in_fields_only() {
    let mut site = Site::new("x", "d");
    site.reconcile(false);
    let mut secret = site.object("secret", "x").unwrap();
    secret["data"]["theirs"] = json!("eQ==");
    secret["metadata"]["labels"]["theirs"] = json!("y");
    site.driver.cache().put(secret);
    let mut deployment = site.object("deployment", "d").unwrap();
    deployment["spec"]["paused"] = json!(true);
    site.driver.cache().put(deployment);
    let (_, writes) = site.reconcile(false);
    assert_eq!(writes, ["update v1/secrets web/x"]);
    let secret = site.object("secret", "x").unwrap();
    assert_eq!(secret["data"], json!({ "text": "eA==" }));
    assert_eq!(secret["metadata"]["labels"]["theirs"], "y");
    let deployment = site.object("deployment", "d").unwrap();
    assert_eq!(deployment["spec"], json!({ "replicas": 1, "paused": true }));
}

#[test]
fn what_is_no_longer_wanted_is_deleted() {
    let mut site = Site::new("x,y", "d");
    site.reconcile(false);
    let mut theirs = secret("z");
    theirs["metadata"]["namespace"] = json!("web");
    site.driver.cache().put(theirs);
    site.wants("x", "");
    let (log, writes) = site.reconcile(true);
    let why = "the cache has not seen all earlier writes for this object";
    assert_eq!(
        log,
        format!("info: written 0, pruned 0, refused [], skipped Some({why:?})")
    );
    assert!(writes.is_empty(), "{writes:?}");
    let (log, writes) = site.reconcile(false);
    assert_eq!(log, "info: written 0, pruned 2, refused [], skipped None");
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert!(site.object("secret", "y").is_none() && site.object("deployment", "d").is_none());
    assert!(site.object("secret", "z").is_some(), "it is somebody else's");
}

#[test]
fn what_belongs_to_somebody_else_stays_as_it_is() {
    let mut site = Site::new("x", "");
    let mut theirs = secret("x");
    theirs["metadata"]["namespace"] = json!("web");
    site.driver.cache().put(theirs);
    let (log, writes) = site.reconcile(false);
    assert_eq!(
        log,
        r#"info: written 0, pruned 0, refused ["Secret web/x"], skipped None"#
    );
    assert!(writes.is_empty(), "{writes:?}");
}

#[test]
fn children_do_not_count_as_writes_of_the_call() {
    let names: Vec<String> = (0..150).map(|number| format!("s{number}")).collect();
    let mut site = Site::new(&names.join(","), "");
    let (_, writes) = site.reconcile(false);
    assert_eq!(writes.len(), 150);
}

#[test]
fn children_that_informant_would_refuse_are_refused() {
    let site = Site::new("", "");
    let event = |name: &str| Event {
        source: site.maps,
        namespace: "web".to_owned(),
        name: name.to_owned(),
        uid: "1".to_owned(),
        resource_version: String::new(),
        reason: Reason::Watch,
        attempt: 0,
    };
    let request = |name: &str| Request::new(event(name), false);
    let set = |name: &str, add: &dyn Fn(SetChildren) -> SetChildren| {
        let answer = crate::call::about(site.maps, || add(kube::children(&request(name))).set());
        site.driver.cache().drop_deferred();
        answer.map_err(|error| (error.code, error.message))
    };
    let with = |child: Value, is_whole: bool| {
        let refused = set("a", &|children| match is_whole {
            true => children.whole([&child]),
            false => children.fields([&child]),
        });
        let (code, message) = refused.unwrap_err();
        assert_eq!(code, ErrorCode::Invalid);
        message
    };
    let mut elsewhere = secret("x");
    elsewhere["metadata"]["namespace"] = json!("other");
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" } });
    for (message, part) in [
        (
            with(json!({ "kind": "Secret" }), false),
            "needs apiVersion, kind and metadata.name",
        ),
        (with(pod, false), "v1 Pod is not in `reconciler.owns`"),
        (with(deployment("d"), true), "let the fields of a Deployment be applied"),
        (with(elsewhere, true), "can only own objects there"),
    ] {
        assert!(message.contains(part), "{message}");
    }
    let twice = set("a", &|children| children.whole([secret("x")]).fields([secret("x")]));
    assert_eq!(twice.unwrap_err().1, "Secret web/x is twice among the children");
    let many = set("a", &|children| children.whole((0..1_001).map(|_| secret("x"))));
    assert_eq!(many.unwrap_err().0, ErrorCode::TooLarge);
    let gone = set("b", &|children| children);
    assert_eq!(gone.unwrap_err().0, ErrorCode::NotFound);
    crate::call::about(site.maps, || {
        kube::children(&request("a")).set().unwrap();
        let again = kube::children(&request("a")).set().unwrap_err();
        assert_eq!(again.code, ErrorCode::Invalid, "{again}");
    });
    let outside = kube::children(&request("a")).set().unwrap_err();
    assert_eq!(outside.code, ErrorCode::NotHere, "{outside}");
}

#[test]
fn a_plugin_without_a_reconciler_has_no_children() {
    let cache = Cache::new();
    let maps = cache.source("configmaps", "v1", "ConfigMap");
    let event = Event {
        source: maps,
        namespace: "web".to_owned(),
        name: "a".to_owned(),
        uid: "1".to_owned(),
        resource_version: String::new(),
        reason: Reason::Watch,
        attempt: 0,
    };
    let request = Request::new(event, false);
    let refused = crate::call::about(maps, || kube::children(&request).set().unwrap_err());
    assert_eq!(refused.code, ErrorCode::NotHere);
}

#[test]
fn base64_is_padded() {
    let texts = ["", "a", "ab", "abc", "abcd"].map(|text| base64(text.as_bytes()));
    assert_eq!(texts, ["", "YQ==", "YWI=", "YWJj", "YWJjZA=="]);
}
