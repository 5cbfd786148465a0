package informant

import (
	"fmt"
	"time"

	"informant.example/plugin-sdk/go/internal/host"
)

// Request is the object that is to be reconciled, and why. It formats like [Event].
type Request struct {
	// Event has the reason of the first cause since the last call: ReasonRelated if another object changed.
	*Event
	// CacheIsBehind: the cache may lack writes of earlier calls for this object, or a watch is down. Do not conclude
	// that something is absent.
	CacheIsBehind bool
}

// Reconciler brings what belongs to an object to its wanted state. object is nil if it is gone. Informant calls again
// if it returns an error.
type Reconciler[T any] func(ctx *Context, r *Request, object *T) (Result, error)

// Reconcile calls the function for one object at a time, when that, or one that leads to it, has changed; and after a
// start. A plugin reconciles one kind, and then handles no events.
func (k *Kind[T]) Reconcile(reconciler Reconciler[T]) *Kind[T] {
	k.rule.mustBeOpen("Reconcile")
	if k.rule.reconcile != nil {
		panic(fmt.Sprintf("informant: Reconcile of %v is registered twice", k.rule))
	}
	k.rule.reconcile = func(ctx *Context, r *Request, object any) (Result, error) {
		value, _ := object.(*T)
		return reconciler(ctx, r, value)
	}
	return k
}

// Owns names a kind that the plugin makes for the objects that it reconciles: an object leads to the owner that is its
// controller. [Kube.Children] makes them.
func (k *Kind[T]) Owns(related *RelatedKind) *Kind[T] {
	k.rule.owns = append(k.rule.owns, related)
	return k
}

// Watches names another kind whose objects lead to those that are reconciled, in the same cluster.
func (k *Kind[T]) Watches(related *RelatedKind) *Kind[T] {
	k.rule.watches = append(k.rule.watches, related)
	return k
}

// When limits what has to change in an object for a call of Reconcile: "generation", "labels", or what JSON pointers
// name. That it is being deleted, and its finalizers, always count. "generation" stands for any change of an object
// without metadata.generation.
func (k *Kind[T]) When(parts ...string) *Kind[T] {
	k.rule.when = append(k.rule.when, parts...)
	return k
}

// MinInterval is the shortest time from the end of one call of Reconcile for an object to the start of the next, from
// 10 ms to 24 h. min-interval of the plugin's section overrides it.
func (k *Kind[T]) MinInterval(interval time.Duration) *Kind[T] {
	k.rule.minInterval = &interval
	return k
}

// RelatedKind is a kind whose objects lead to those that are reconciled. The plugin needs an informer for it.
type RelatedKind struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Parts      []string `json:"when,omitempty"`
	By         any      `json:"by,omitempty"`
}

// Related returns a kind for [Kind.Owns] and [Kind.Watches].
func Related(apiVersion, kind string) *RelatedKind {
	return &RelatedKind{APIVersion: apiVersion, Kind: kind}
}

// When limits what has to change in an object, as [Kind.When] does.
func (k *RelatedKind) When(parts ...string) *RelatedKind {
	k.Parts = append(k.Parts, parts...)
	return k
}

// ByOwner: an object leads to the owner that is its controller.
func (k *RelatedKind) ByOwner() *RelatedKind { return k.by("owner") }

// ByAnyOwner: an object leads to each of its owners.
func (k *RelatedKind) ByAnyOwner() *RelatedKind { return k.by("anyOwner") }

// ByNamespace: an object leads to all in its namespace; if namespaces are reconciled, to its namespace.
func (k *RelatedKind) ByNamespace() *RelatedKind { return k.by("namespace") }

// ByLabel: an object leads to the one in its namespace that this label names.
func (k *RelatedKind) ByLabel(name string) *RelatedKind {
	return k.by(map[string]string{"label": name})
}

// ByAnnotation: an object leads to the one that this annotation names: name, in its own namespace, or namespace/name.
func (k *RelatedKind) ByAnnotation(name string) *RelatedKind {
	return k.by(map[string]string{"annotation": name})
}

// ByIndex: an object leads to those that this index of the plugin has under its key: namespace/name, or name without a
// namespace.
func (k *RelatedKind) ByIndex(name string) *RelatedKind {
	return k.by(map[string]string{"index": name})
}

func (k *RelatedKind) by(how any) *RelatedKind {
	k.By = how
	return k
}

// reconciled returns the rule of what the plugin reconciles; nil if it reconciles nothing.
func (r *registry) reconciled() *rule {
	for _, rule := range r.rules {
		if rule.reconcile != nil {
			return rule
		}
	}
	return nil
}

// reconcilerDocument is the member reconciler of the manifest.
type reconcilerDocument struct {
	For         primaryRule    `json:"for"`
	Owns        []*RelatedKind `json:"owns,omitempty"`
	Watches     []*RelatedKind `json:"watches,omitempty"`
	MinInterval string         `json:"minInterval,omitempty"`
}

type primaryRule struct {
	eventRule
	When []string `json:"when,omitempty"`
}

func (r *rule) reconcilerDocument() *reconcilerDocument {
	if r == nil {
		return nil
	}
	primary := eventRule{
		APIVersion: r.apiVersion, Kind: r.kind, Payload: r.payload.document(), Namespaces: r.namespaces,
		LabelSelector: r.selector,
	}
	document := &reconcilerDocument{For: primaryRule{primary, r.when}, Owns: r.owns, Watches: r.watches}
	if r.minInterval != nil {
		document.MinInterval = durationText(*r.minInterval)
	}
	return document
}

func (p *plugin) Reconcile(of host.ObjectRef, call host.Call, behind bool, object []byte, isThere bool) (
	requeue *uint32, failure *host.Failure,
) {
	request := &Request{newEvent(of, call), behind}
	failure = failureOf(p.guard("reconcile", func() error {
		if p.registry == nil {
			return errNotStarted
		}
		r := p.registry.reconciled()
		if r == nil {
			return nil
		}
		var decoded any
		if isThere {
			var err error
			if decoded, err = r.decode(object); err != nil {
				return err
			}
		}
		result, err := r.reconcile(p.context(about{of.Source, true}), request, decoded)
		if err == nil {
			requeue = result.milliseconds()
		}
		return err
	}))
	return requeue, failure
}
