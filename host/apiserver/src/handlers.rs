//! Handlers of all routes.

use std::sync::Arc;

use http::{Method, Response};
use serde::Deserialize;
use serde_json::Value;

use crate::body::{self, Body};
use crate::call::Call;
use crate::definitions::UnknownFields;
use crate::discovery;
use crate::document;
use crate::kinds::{Kind, Served};
use crate::list;
use crate::openapi;
use crate::page::Page;
use crate::patch::Patch;
use crate::query::{self, ListOptions, VersionParam};
use crate::representation::Representation;
use crate::review;
use crate::routes::{Attributes, Resource, Route};
use crate::scale;
use crate::selection::Selection;
use crate::status::Status;
use crate::stored::{self, Stored};
use crate::watch;
use crate::writes::{Deletion, Part, Preconditions, Write};

/// Answers a request.
pub(crate) fn answer(call: &Call<'_>, route: Route, attributes: Attributes) -> Result<Response<Body>, Status> {
    if let Route::Resource(resource) = route {
        return if review::is_review(&resource) {
            review::answer(call, &resource)
        } else {
            match Target::find(call, &resource)? {
                Some(target) => target.answer(attributes),
                None => Ok(not_found_text()),
            }
        };
    }
    if !matches!(*call.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    let store = call.state.store();
    let registry = store.registry();
    let found = match &route {
        Route::Groups { core } => Some(discovery::groups(registry, *core, call.accept)),
        Route::Group(group) => discovery::group(registry, group).map(|it| body::json(200, &it)),
        Route::GroupVersion(group, version) => {
            discovery::resources(registry, group, version).map(|it| body::json(200, &it))
        }
        Route::Version => Some(body::json(200, &discovery::version())),
        Route::Health => Some(body::text(200, "ok")),
        Route::OpenApiV2 => Some(body::json(200, &openapi::v2(registry))),
        Route::OpenApiV3Root => Some(body::json(200, &openapi::v3_root(registry))),
        Route::OpenApiV3(group, version) => openapi::v3(registry, group, version).map(|it| body::json(200, &it)),
        Route::Faults | Route::Nothing | Route::Resource(_) => None,
    };
    Ok(found.unwrap_or_else(not_found_text))
}

/// kube-apiserver's response to unknown paths, including resources of absent definitions. It is not a `Status`.
fn not_found_text() -> Response<Body> {
    body::text(404, "404 page not found\n")
}

/// A resource request whose resource exists.
struct Target<'a> {
    call: &'a Call<'a>,
    resource: &'a Resource,
    served: Served,
    kind: Arc<Kind>,
}

/// The body of a delete.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptions {
    preconditions: Option<Preconditions>,
    dry_run: Vec<String>,
}

impl<'a> Target<'a> {
    /// `None` if the resource would be that of an absent definition.
    fn find(call: &'a Call<'a>, resource: &'a Resource) -> Result<Option<Self>, Status> {
        let store = call.state.store();
        let registry = store.registry();
        let Some(served) = registry
            .find(&resource.group, &resource.version, &resource.plural)
            .cloned()
        else {
            return if registry.is_built_in(&resource.group, &resource.version) {
                Err(Status::no_such_resource())
            } else {
                Ok(None)
            };
        };
        let kind = Arc::clone(&served.kind);
        let known_subresource = match resource.subresource.as_str() {
            "" => true,
            "status" => kind.has_status,
            "scale" => kind.has_scale && !resource.name.is_empty(),
            _ => false,
        };
        // A namespaced object needs a namespace in its path; a cluster-scoped one must not have one.
        let placed = match kind.namespaced {
            true => resource.name.is_empty() || !resource.namespace.is_empty(),
            false => resource.namespace.is_empty(),
        };
        if !known_subresource || !placed {
            return Err(Status::no_such_resource());
        }
        Ok(Some(Self {
            call,
            resource,
            served,
            kind,
        }))
    }

    fn representation(&self) -> Result<Representation, Status> {
        Representation::negotiate(self.call.accept, self.call.query)
    }

    fn part(&self) -> Part {
        if self.resource.subresource == "status" {
            Part::Status
        } else {
            Part::Main
        }
    }

    /// Whether the path names an object, or a collection that can be written: one namespace's, or that of a
    /// cluster-wide kind.
    fn is_in_place(&self) -> bool {
        !self.kind.namespaced || !self.resource.namespace.is_empty()
    }

    fn answer(&self, attributes: Attributes) -> Result<Response<Body>, Status> {
        let status_only = self.part() == Part::Status;
        if self.resource.name.is_empty() {
            return match *self.call.method {
                Method::GET if attributes.verb == "watch" => self.watch(attributes),
                Method::GET => self.list(),
                Method::POST if self.is_in_place() => self.create(),
                Method::DELETE if self.is_in_place() && !self.kind.is_namespaces() => self.delete_collection(),
                _ => Err(Status::method_not_allowed()),
            };
        }
        if self.resource.subresource == "scale" {
            return self.scale();
        }
        match *self.call.method {
            Method::GET => self.get(),
            Method::PUT => self.update(),
            Method::PATCH => self.patch(),
            Method::DELETE if !status_only => self.delete(),
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn get(&self) -> Result<Response<Body>, Status> {
        self.show(200, &*self.stored()?)
    }

    /// The object at the version that the request allows.
    fn stored(&self) -> Result<Arc<Stored>, Status> {
        let store = self.call.state.store();
        let key = stored::key(&self.resource.namespace, &self.resource.name);
        let found = match query::version(self.call.query)? {
            VersionParam::Unset => store.collection(self.served.slot).objects.get(&key).cloned(),
            version => {
                let newest = self.call.cache.revision(&store);
                if let VersionParam::At(version) = version
                    && version > newest
                {
                    return Err(Status::too_large(version, newest));
                }
                self.call.cache.objects(&store, self.served.slot).get(&key).cloned()
            }
        };
        drop(store);
        found.ok_or_else(|| Status::not_found(&self.kind, &self.resource.name))
    }

    fn list(&self) -> Result<Response<Body>, Status> {
        let representation = self.representation()?;
        let options = ListOptions::read(self.call.query)?;
        let selection = self.selection(&options)?;
        let page = {
            let store = self.call.state.store();
            let paging_at_zero = self.call.state.options.paging_at_zero;
            list::list(
                &store,
                self.call.cache,
                &self.served,
                &selection,
                &options,
                paging_at_zero,
            )?
        };
        Ok(representation.list_response(page, self.call.state.now_unix_seconds()))
    }

    fn watch(&self, attributes: Attributes) -> Result<Response<Body>, Status> {
        let options = ListOptions::read(self.call.query)?;
        let request = watch::Request {
            served: self.served.clone(),
            selection: self.selection(&options)?,
            representation: self.representation()?,
            options,
            attributes,
            frozen: self.call.frozen,
        };
        watch::open(self.call.state, self.call.cache, request)
    }

    /// What a list or watch selects.
    fn selection(&self, options: &ListOptions) -> Result<Selection, Status> {
        let selection = Selection::read(&self.kind, &self.resource.namespace, options)?;
        match self.call.state.options.sharded_list_and_watch {
            true => selection.in_shards(&options.shard_selector),
            false => Ok(selection),
        }
    }

    fn create(&self) -> Result<Response<Body>, Status> {
        let object = self.document()?;
        let written = self.write(self.dry_run()?, |write| write.create(object))?;
        self.show(201, &written.stored)
    }

    fn update(&self) -> Result<Response<Body>, Status> {
        let object = self.document()?;
        let written = self.write(self.dry_run()?, |write| write.update(&self.resource.name, object))?;
        self.show(200, &written.stored)
    }

    fn patch(&self) -> Result<Response<Body>, Status> {
        let patch = Patch::read(&self.kind, self.call.content_type, self.call.query, self.call.body)?;
        let dry_run = self.dry_run()?;
        let (written, created) = self.write(dry_run, |write| write.patch(&self.resource.name, &patch))?;
        self.show(if created { 201 } else { 200 }, &written.stored)
    }

    /// Reads or writes the object through its scale.
    fn scale(&self) -> Result<Response<Body>, Status> {
        let mut scale = scale::of(&self.kind, &*self.stored()?);
        match *self.call.method {
            Method::GET => return Ok(body::json(200, &scale)),
            Method::PUT => scale = self.document()?,
            Method::PATCH => {
                let patch = Patch::read(&self.kind, self.call.content_type, self.call.query, self.call.body)?;
                // A patch without a version is unconditional.
                scale["metadata"]["resourceVersion"] = Value::Null;
                patch.apply(&mut scale)?;
            }
            _ => return Err(Status::method_not_allowed()),
        }
        let patch = scale::patch(&self.kind, &self.resource.name, &scale)?;
        let dry_run = self.dry_run()?;
        let (written, _) = self.write(dry_run, |write| write.patch(&self.resource.name, &patch))?;
        Ok(body::json(200, &scale::of(&self.kind, &written.stored)))
    }

    fn delete(&self) -> Result<Response<Body>, Status> {
        let (preconditions, dry_run) = self.delete_options()?;
        match self.write(dry_run, |write| write.delete(&self.resource.name, &preconditions))? {
            Deletion::Waiting(object) => self.show(200, &object),
            Deletion::Done(last) if self.kind.delete_returns_object => self.show(200, &last),
            Deletion::Done(last) => {
                let mut status = Status::new(200, "", "");
                status.details.name = last.name.to_string();
                status.details.group.clone_from(&self.kind.group);
                status.details.kind.clone_from(&self.kind.plural);
                status.details.uid = last.uid.to_string();
                Ok(status.into_response())
            }
        }
    }

    fn delete_collection(&self) -> Result<Response<Body>, Status> {
        let (_, dry_run) = self.delete_options()?;
        let options = ListOptions::read(self.call.query)?;
        let selection = Selection::read(&self.kind, &self.resource.namespace, &options)?;
        let items = self.write(dry_run, |write| write.delete_collection(&selection))?;
        let revision = self.call.state.store().revision();
        let page = Page {
            kind: Arc::clone(&self.kind),
            items,
            revision,
            next: None,
            remaining: None,
            shards: None,
        };
        Ok(Representation::Object.list_response(page, 0))
    }

    fn delete_options(&self) -> Result<(Preconditions, bool), Status> {
        let options: DeleteOptions = if self.call.body.is_empty() {
            DeleteOptions::default()
        } else {
            serde_json::from_value(self.document()?)
                .map_err(|error| Status::bad_request(format!("DeleteOptions: {error}")))?
        };
        let asked: Vec<&str> = options.dry_run.iter().map(String::as_str).collect();
        if !matches!(asked.as_slice(), [] | ["All"]) {
            return Err(Status::invalid_dry_run("DeleteOptions", &asked));
        }
        let dry_run = self.dry_run()? || !asked.is_empty();
        Ok((options.preconditions.unwrap_or_default(), dry_run))
    }

    /// Whether the write is a dry run.
    fn dry_run(&self) -> Result<bool, Status> {
        self.call.query.dry_run(match *self.call.method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "DeleteOptions",
        })
    }

    fn write<T>(&self, dry_run: bool, write: impl FnOnce(&mut Write<'_>) -> Result<T, Status>) -> Result<T, Status> {
        let now = self.call.state.now_rfc3339();
        let mut store = self.call.state.store();
        // Its definition may have been deleted since the request was routed.
        if store.collection(self.served.slot).retired {
            return Err(Status::no_such_resource());
        }
        write(&mut Write {
            store: &mut store,
            kind: Arc::clone(&self.kind),
            slot: self.served.slot,
            namespace: &self.resource.namespace,
            now: &now,
            part: self.part(),
            dry_run,
            unknown_fields: match self.call.query.get("fieldValidation") {
                Some("Strict") => UnknownFields::Refuse,
                _ => UnknownFields::Drop,
            },
        })
    }

    fn show(&self, code: u16, object: &Stored) -> Result<Response<Body>, Status> {
        let now = self.call.state.now_unix_seconds();
        Ok(self.representation()?.object_response(code, &self.kind, object, now))
    }

    fn document(&self) -> Result<Value, Status> {
        document::read(self.call.content_type, self.call.body)
    }
}
