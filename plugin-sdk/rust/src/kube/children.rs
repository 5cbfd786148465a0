//! Children: the objects that belong to the one that is reconciled, all at once.

use serde::Serialize;

use super::status::Condition;
use super::write::json;
use super::{Result, contract};
use crate::event::Request;
use crate::host;

/// The most objects that the message of a condition lists, as in every SDK.
const LISTED_MAX: usize = 20;

/// Builds the call that sets the children of an object: see [`children`](super::children()).
#[derive(Debug, Clone)]
#[must_use = "sets nothing until you call `set`"]
pub struct SetChildren {
    owner: contract::Owner,
    children: Vec<contract::Child>,
}

impl SetChildren {
    pub(super) fn of(request: &Request) -> Self {
        Self {
            owner: contract::Owner {
                source: request.source.0,
                namespace: request.namespace.clone(),
                name: request.name.clone(),
                uid: request.uid.clone(),
            },
            children: Vec::new(),
        }
    }

    /// Adds objects of which the fields are given: they are applied, and fields that others have set stay. See
    /// [`Patch::apply`](super::Patch::apply).
    pub fn fields<T: Serialize>(self, objects: impl IntoIterator<Item = T>) -> Self {
        self.add(objects, false)
    }

    /// Adds objects of which everything but metadata and status is given: what others have added is removed. For
    /// ConfigMap, Secret, Role, RoleBinding, ResourceQuota and NetworkPolicy.
    pub fn whole<T: Serialize>(self, objects: impl IntoIterator<Item = T>) -> Self {
        self.add(objects, true)
    }

    fn add<T: Serialize>(mut self, objects: impl IntoIterator<Item = T>, whole: bool) -> Self {
        let child = |object: T| contract::Child {
            object: json(&object),
            whole,
        };
        self.children.extend(objects.into_iter().map(child));
        self
    }

    /// Defers the writes. Without any object, all that the plugin has made for this one are deleted.
    ///
    /// # Errors
    /// [`Error`](super::Error), with [`ErrorCode::Invalid`](super::ErrorCode::Invalid) for an object of a kind that is
    /// not in `owns`, and for a second call.
    pub fn set(self) -> Result<Children> {
        Ok(host::kube_defer_children(&self.owner, &self.children)?.into())
    }
}

/// What [`SetChildren::set`] has deferred.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// How many objects are written, unless they turn out to be as they should.
    pub written: u32,
    /// How many are deleted: they belong to the object, and are no longer among its children.
    pub pruned: u32,
    /// Objects that exist and belong to somebody else: they stay as they are. `Secret web/a`.
    pub refused: Vec<String>,
    /// Why none is deleted, such as a source that is not live. `None`: all that have to be are.
    pub prune_skipped: Option<String>,
}

impl From<contract::Children> for Children {
    fn from(done: contract::Children) -> Self {
        Self {
            written: done.written,
            pruned: done.pruned,
            refused: done.refused,
            prune_skipped: done.prune_skipped,
        }
    }
}

impl Children {
    /// The conditions `ChildrenRefused` and `PruneSkipped`, which tell users what was not done: for
    /// [`set_status`](super::set_status). The reasons of true ones are `OwnedByOthers` and `CacheIncomplete`.
    pub fn conditions(&self) -> Vec<Condition> {
        let refused = match self.refused.len() {
            0 => Condition::new("ChildrenRefused", false, "NoneRefused"),
            count => {
                let listed = self.refused[..count.min(LISTED_MAX)].join(", ");
                let more = match count.saturating_sub(LISTED_MAX) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                Condition::new("ChildrenRefused", true, "OwnedByOthers").message(format_args!("{listed}{more}"))
            }
        };
        let skipped = match &self.prune_skipped {
            None => Condition::new("PruneSkipped", false, "NoneSkipped"),
            Some(reason) => Condition::new("PruneSkipped", true, "CacheIncomplete").message(reason),
        };
        vec![refused, skipped]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn conditions(done: &Children) -> Value {
        serde_json::to_value(done.conditions()).expect("they are JSON")
    }

    #[test]
    fn conditions_say_what_was_not_done() {
        assert_eq!(
            conditions(&Children::default()),
            json!([
                { "type": "ChildrenRefused", "status": "False", "reason": "NoneRefused", "message": "" },
                { "type": "PruneSkipped", "status": "False", "reason": "NoneSkipped", "message": "" },
            ])
        );
        let done = Children {
            refused: vec!["Secret web/x".to_owned(), "Secret web/y".to_owned()],
            prune_skipped: Some("the source is not live".to_owned()),
            ..Children::default()
        };
        assert_eq!(
            conditions(&done),
            json!([
                {
                    "type": "ChildrenRefused", "status": "True", "reason": "OwnedByOthers",
                    "message": "Secret web/x, Secret web/y",
                },
                {
                    "type": "PruneSkipped", "status": "True", "reason": "CacheIncomplete",
                    "message": "the source is not live",
                },
            ])
        );
    }

    #[test]
    fn a_condition_lists_a_limited_number_of_objects() {
        let done = Children {
            refused: vec!["Secret web/x".to_owned(); LISTED_MAX + 2],
            ..Children::default()
        };
        let [refused, _] = &*done.conditions() else {
            panic!("two conditions");
        };
        assert!(
            refused.message.ends_with(", Secret web/x and 2 more"),
            "{}",
            refused.message
        );
    }
}
