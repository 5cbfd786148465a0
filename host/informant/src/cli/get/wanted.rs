//! What is asked for: `pods`, `pods,services`, `pods web-0 web-1`, `pods/web-0 services/web`.

use anyhow::{Result, bail};

/// The first argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum First {
    /// Resources, or names of informers.
    Resources(Vec<String>),
    /// One object.
    Object { resource: String, name: String },
}

/// One resource, and the objects of it; all if there are no names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Wanted {
    pub(in crate::cli) resource: String,
    pub(in crate::cli) names: Vec<String>,
}

impl First {
    /// Reads `pods`, `pods,services`, `apps/v1/deployments`, `pods/web`, `v1/pods/web` or `apps/v1/deployments/web`.
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, String> {
        let explained =
            "write RESOURCE, RESOURCE,RESOURCE or RESOURCE/NAME, for example pods, pods,services or pods/web";
        if text.contains(',') {
            let mut resources = Vec::new();
            for part in text.split(',') {
                match Self::parse(part)? {
                    Self::Resources(one) if !part.is_empty() => resources.extend(one),
                    _ => return Err(explained.to_owned()),
                }
            }
            return Ok(Self::Resources(resources));
        }
        let parts: Vec<&str> = text.split('/').collect();
        // The core group has no name, and one version.
        let of_resource = match parts[..] {
            ["v1", ..] => 2,
            [_] | [_, _] => 1,
            _ => 3,
        };
        let (resource, name) = parts.split_at(of_resource.min(parts.len()));
        let resource = resource.join("/");
        match name {
            [] => Ok(Self::Resources(vec![resource])),
            [name] if !name.is_empty() => Ok(Self::Object {
                resource,
                name: (*name).to_owned(),
            }),
            _ => Err(explained.to_owned()),
        }
    }
}

/// What the arguments ask for, in their order. Those of one resource that follow each other are one.
pub(in crate::cli) fn of(first: &First, more: &[String]) -> Result<Vec<Wanted>> {
    let (resource, name) = match first {
        First::Resources(resources) => {
            if let Some(object) = more.iter().find(|name| name.contains('/')) {
                let resource = resources.join(",");
                bail!("{object} is not a name: write {resource} NAME…, or RESOURCE/NAME for each object");
            }
            let each = resources.iter().map(|resource| Wanted {
                resource: resource.clone(),
                names: more.to_vec(),
            });
            return Ok(each.collect());
        }
        First::Object { resource, name } => (resource.clone(), name.clone()),
    };
    let mut all = vec![Wanted {
        resource: resource.clone(),
        names: vec![name.clone()],
    }];
    for text in more {
        match First::parse(text) {
            Ok(First::Object { resource, name }) => match all.last_mut() {
                Some(last) if last.resource == resource => last.names.push(name),
                _ => all.push(Wanted {
                    resource,
                    names: vec![name],
                }),
            },
            _ => bail!(
                "two names, {name} and {text}: write {resource}/{name} {resource}/{text}, or {resource} {name} {text}"
            ),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_resources_of_one_to_three_parts() {
        let resources = |names: &[&str]| First::Resources(names.iter().map(|name| (*name).to_owned()).collect());
        for (text, names) in [
            ("pods", &["pods"][..]),
            ("v1/pods", &["v1/pods"]),
            ("apps/v1/deployments", &["apps/v1/deployments"]),
            ("example.com/stable/*", &["example.com/stable/*"]),
            ("po,apps/v1/deployments", &["po", "apps/v1/deployments"]),
        ] {
            assert_eq!(First::parse(text), Ok(resources(names)), "{text}");
        }
        for (text, resource) in [
            ("pods/web", "pods"),
            ("v1/pods/web", "v1/pods"),
            ("apps/v1/deployments/web", "apps/v1/deployments"),
        ] {
            let (resource, name) = (resource.to_owned(), "web".to_owned());
            assert_eq!(First::parse(text), Ok(First::Object { resource, name }), "{text}");
        }
        for text in ["pods/", "v1/pods/a/b", "apps/v1/deployments/a/b", "pods,", "pods,svc/a"] {
            assert!(First::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn several_objects_are_grouped_by_their_resource() {
        let wanted = |first: &str, more: &[&str]| {
            let more: Vec<_> = more.iter().map(|text| (*text).to_owned()).collect();
            let all = of(&First::parse(first).unwrap(), &more).map_err(|error| error.to_string())?;
            let each = all
                .iter()
                .map(|one| format!("{} [{}]", one.resource, one.names.join(" ")));
            Ok::<_, String>(each.collect::<Vec<_>>().join(", "))
        };
        let is = |text: &str| Ok(text.to_owned());
        assert_eq!(wanted("pods,svc", &[]), is("pods [], svc []"));
        assert_eq!(wanted("pods", &["a", "b"]), is("pods [a b]"));
        assert_eq!(
            wanted("pods/a", &["pods/b", "svc/c", "pods/d"]),
            is("pods [a b], svc [c], pods [d]")
        );
        insta::assert_snapshot!(wanted("pods", &["svc/c"]).unwrap_err(), @"svc/c is not a name: write pods NAME…, or RESOURCE/NAME for each object");
        insta::assert_snapshot!(wanted("pods/a", &["b"]).unwrap_err(), @"two names, a and b: write pods/a pods/b, or pods a b");
    }
}
