//! JSON schemas of the documents in the contract, for editors and tests of plugins' authors.

/// Of the manifest that `describe` returns.
pub const MANIFEST_SCHEMA: &str = include_str!("schema/manifest.json");

/// Of the context that `describe` and `init` receive.
pub const CONTEXT_SCHEMA: &str = include_str!("schema/context.json");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use informant_spec::{KubeGrant, PluginSpec};
    use serde::de::DeserializeOwned;
    use serde_json::Value;

    use super::*;
    use crate::component::manifest::{
        EventRule, IndexRule, Indexes, Manifest, MetricDeclaration, PrimaryRule, ReconcilerRules, RelatedRule,
        TimerRule,
    };
    use crate::component::roles::Role;
    use crate::instance::context::DescribeContext;

    fn parsed(schema: &str) -> Value {
        serde_json::from_str(schema).unwrap()
    }

    /// The members that serde expects, as its error for another one names them.
    fn expected<T: DeserializeOwned>() -> BTreeSet<String> {
        let error = serde_json::from_str::<T>(r#"{"no such member":0}"#)
            .err()
            .unwrap()
            .to_string();
        let (_, names) = error.split_once(", expected ").unwrap();
        names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn members(schema: &Value, pointer: &str) -> BTreeSet<String> {
        let properties = schema.pointer(&format!("{pointer}/properties")).unwrap();
        properties.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn the_schema_has_the_members_of_a_manifest() {
        let schema = parsed(MANIFEST_SCHEMA);
        for (pointer, members_of_type) in [
            ("", expected::<Manifest>()),
            ("/$defs/eventRule", expected::<EventRule>()),
            ("/$defs/reconciler", expected::<ReconcilerRules>()),
            ("/$defs/reconciler/properties/for", expected::<PrimaryRule>()),
            ("/$defs/relatedRule", expected::<RelatedRule>()),
            ("/$defs/timer", expected::<TimerRule>()),
            ("/$defs/indexes", expected::<Indexes>()),
            ("/$defs/indexes/properties/objects/items", expected::<IndexRule>()),
            ("/$defs/need/properties/kube", expected::<KubeGrant>()),
            ("/$defs/metric", expected::<MetricDeclaration>()),
        ] {
            assert_eq!(members(&schema, pointer), members_of_type, "{pointer}");
        }
        let roles: Vec<&str> = Role::ALL.iter().map(|role| role.name()).collect();
        assert_eq!(schema["properties"]["roles"]["items"]["enum"], serde_json::json!(roles));
    }

    #[test]
    fn the_schema_has_the_members_of_a_context() {
        let schema = parsed(CONTEXT_SCHEMA);
        let context = DescribeContext::new(&PluginSpec::new("greeter", "greeter.wasm"));
        let context: Value = serde_json::from_slice(&context.to_json()).unwrap();
        let required: BTreeSet<&str> = schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert_eq!(
            context
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect::<BTreeSet<_>>(),
            required
        );
        let known = members(&schema, "");
        assert!(required.iter().all(|name| known.contains(*name)));
    }
}
