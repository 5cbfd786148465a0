package informanttest

import (
	"bytes"
	"maps"
	"slices"

	"informant.example/plugin-sdk/go/internal/host"
)

// The most children of an object, as in Informant.
const childrenMax = 1_000

// The labels of a child.
const (
	ownerLabel  = "informant.dev/owner-uid"
	pluginLabel = "informant.dev/plugin"
)

// wholeKinds are those that can be set whole.
var wholeKinds = []string{"ConfigMap", "Secret", "Role", "RoleBinding", "ResourceQuota", "NetworkPolicy"}

func (f *fake) DeferChildren(owner host.Owner, children []host.Child) (host.Children, *host.APIError) {
	var done host.Children
	at := key{owner.Source, owner.Namespace, owner.Name}
	switch {
	case f.phase != handling || f.reconciler == nil || f.about != owner.Source:
		return done, apiError("not-here", "only reconcile has children: those of the object that it is about")
	case f.hasChildren:
		return done, apiError("invalid", "the call has set its children already: set all of them at once")
	case len(children) > childrenMax:
		return done, apiError("too-large", "an object may have %d children, and these are %d", childrenMax, len(children))
	case owner.UID == "" || member(f.objects[at], "metadata", "uid") != owner.UID:
		return done, apiError("not-found", "%v is gone; the API server deletes what it owned", at)
	}
	f.hasChildren = true
	wanted := map[key]bool{}
	for _, child := range children {
		o, err := f.child(owner, child.Object)
		if err != nil {
			return done, err
		}
		found, _ := f.keyOf(f.source(owner.Source).Cluster, o)
		label := member(o, "kind") + " " + found.String()
		if wanted[found] {
			return done, apiError("invalid", "%s is twice among the children", label)
		}
		wanted[found] = true
		before := f.objects[found]
		switch {
		case before != nil && !belongsTo(before, owner.UID):
			done.Refused = append(done.Refused, label)
		case isTerminating(before):
		case child.Whole && !slices.Contains(wholeKinds, member(o, "kind")):
			return done, apiError("invalid", "%s cannot be set whole; let its fields be applied", label)
		case child.Whole && before != nil && isSame(before, whole(before, o)):
		default:
			if err := f.deferChild(found, f.childWrite(found, o, child.Whole)); err != nil {
				return done, err
			}
			done.Written++
		}
	}
	if f.isBehind {
		done.PruneSkipped = "the cache has not seen all earlier writes for this object"
		return done, nil
	}
	for _, found := range slices.SortedFunc(maps.Keys(f.objects), compareKeys) {
		o := f.objects[found]
		if wanted[found] || !f.isPrunable(owner, found, o) {
			continue
		}
		preconditions := object{"uid": metadata(o)["uid"], "resourceVersion": metadata(o)["resourceVersion"]}
		options := compact(object{"preconditions": preconditions})
		remove := func(at host.Address) *host.APIError { return f.delete(at, options) }
		if err := f.deferChild(found, remove); err != nil {
			return done, err
		}
		done.Pruned++
	}
	return done, nil
}

// child returns an object as it is written: with what says whose it is.
func (f *fake) child(owner host.Owner, document []byte) (object, *host.APIError) {
	o, err := readDocument(document)
	if err != nil {
		return nil, err
	}
	apiVersion, kind, name := member(o, "apiVersion"), member(o, "kind"), member(o, "metadata", "name")
	if apiVersion == "" || kind == "" || name == "" {
		return nil, apiError("invalid", "a child needs apiVersion, kind and metadata.name")
	}
	if !f.isOwned(apiVersion, kind) {
		message := "%s %s: %s %s is not in `reconciler.owns` of the manifest: name it there"
		return nil, apiError("invalid", message, kind, name, apiVersion, kind)
	}
	meta, of := metadata(o), f.source(owner.Source)
	if owner.Namespace != "" {
		if namespace := member(o, "metadata", "namespace"); namespace != "" && namespace != owner.Namespace {
			message := "%s %s: an owner in the namespace %s can only own objects there; the API server would delete others"
			return nil, apiError("invalid", message, kind, name, owner.Namespace)
		}
		meta["namespace"] = owner.Namespace
	}
	owners, _ := meta["ownerReferences"].([]any)
	if slices.ContainsFunc(owners, isController) {
		message := "%s %s: metadata.ownerReferences has a controller, and an object has one: its owner"
		return nil, apiError("invalid", message, kind, name)
	}
	meta["ownerReferences"] = append(owners, object{
		"apiVersion": of.APIVersion, "kind": of.Kind, "name": owner.Name, "uid": owner.UID,
		"controller": true, "blockOwnerDeletion": true,
	})
	meta["labels"] = merge(meta["labels"], object{ownerLabel: owner.UID, pluginLabel: f.plugin})
	return o, nil
}

// deferChild is push, for a write that does not count among those of the call.
func (f *fake) deferChild(of key, write func(host.Address) *host.APIError) *host.APIError {
	source := f.source(of.source)
	at := host.Address{Cluster: source.Cluster, Resource: source.Resource, Namespace: of.namespace, Name: of.name}
	at, err := f.permitted(at)
	if err != nil {
		return err
	}
	f.deferred = append(f.deferred, func() *host.APIError { return write(at) })
	f.childWrites++
	return nil
}

// childWrite makes a child as it is wanted.
func (f *fake) childWrite(of key, wanted object, isWhole bool) func(host.Address) *host.APIError {
	return func(at host.Address) (err *host.APIError) {
		before := f.objects[of]
		switch {
		case isWhole && before == nil:
			_, err = f.create(at, compact(wanted), nil)
		case isWhole:
			_, err = f.update(at, compact(whole(before, wanted)), nil)
		case before == nil || !isSame(before, merge(before, wanted)):
			_, err = f.patch(at, host.ApplyPatch, compact(wanted), []byte(`{"force":true}`))
		}
		return err
	}
}

// whole returns what an update of an object sends, so that everything but metadata and status is as it is wanted.
func whole(before, wanted object) object {
	after := maps.Clone(wanted)
	for _, name := range []string{"metadata", "status"} {
		delete(after, name)
		if kept := before[name]; kept != nil {
			after[name] = kept
		}
	}
	meta := maps.Clone(metadata(before))
	for name, value := range metadata(wanted) {
		present := meta[name]
		_, isObject := present.(object)
		switch {
		case isObject:
			meta[name] = merge(present, value)
		case present == nil || name == "finalizers":
			meta[name] = value
		}
	}
	after["metadata"] = meta
	return after
}

func (f *fake) isPrunable(owner host.Owner, at key, o object) bool {
	source := f.source(at.source)
	return f.isOwned(source.APIVersion, source.Kind) && source.Cluster == f.source(owner.Source).Cluster &&
		(owner.Namespace == "" || at.namespace == owner.Namespace) &&
		member(o, "metadata", "labels", ownerLabel) == owner.UID &&
		member(o, "metadata", "labels", pluginLabel) == f.plugin &&
		belongsTo(o, owner.UID) && !isTerminating(o)
}

// isOwned reports whether the manifest names a kind in reconciler.owns.
func (f *fake) isOwned(apiVersion, kind string) bool {
	isIts := func(rule relatedRule) bool { return rule.APIVersion == apiVersion && rule.Kind == kind }
	return slices.ContainsFunc(f.reconciler.Owns, isIts)
}

// belongsTo reports whether the object with this uid is the controller of another.
func belongsTo(o object, uid string) bool {
	owners, _ := metadata(o)["ownerReferences"].([]any)
	return slices.ContainsFunc(owners, func(owner any) bool {
		return isController(owner) && member(owner.(object), "uid") == uid
	})
}

func isController(owner any) bool {
	members, _ := owner.(object)
	return members["controller"] == true
}

func isTerminating(o object) bool {
	return member(o, "metadata", "deletionTimestamp") != ""
}

func isSame(a, b any) bool {
	return bytes.Equal(compact(a), compact(b))
}
