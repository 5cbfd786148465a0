package informant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Handler handles a change of an object. In OnDelete, object is the last state in the cache; it is nil if only the
// object's name is known. Informant retries the event if the handler returns an error.
type Handler[T any] func(ctx *Context, e *Event, object *T) (Result, error)

// Kind is the registration of a kind of objects. Its methods set handlers, each at most once.
type Kind[T any] struct {
	rule *rule
}

// An Option changes what a plugin receives of a kind.
type Option func(*rule)

// ChangedOnly skips updates after which the payload is the same.
func ChangedOnly() Option {
	return func(r *rule) { r.changedOnly = true }
}

// Old delivers the previous state with each update: see [OldOf].
func Old() Option {
	return func(r *rule) { r.old = true }
}

// Namespaces delivers only objects in these namespaces. An empty name stands for objects without a namespace.
func Namespaces(names ...string) Option {
	return func(r *rule) { r.namespaces = append(r.namespaces, names...) }
}

// LabelSelector delivers only objects whose labels match, in the syntax of kubectl get -l.
func LabelSelector(selector string) Option {
	return func(r *rule) { r.selector = selector }
}

// Fields delivers the fields at these JSON pointers, instead of those of the struct: "/spec/containers/*/image".
// Without pointers the whole object is delivered.
func Fields(pointers ...string) Option {
	return func(r *rule) { r.payload = payload{kind: whole, pointers: pointers} }
}

// MetadataOnly delivers only the metadata.
func MetadataOnly() Option {
	return func(r *rule) { r.payload = payload{kind: onlyMetadata} }
}

// NoPayload delivers no object: the handler receives a zero T.
func NoPayload() Option {
	return func(r *rule) { r.payload = payload{kind: none} }
}

// For registers a kind of objects, such as For[Pod]("v1", "Pod"). "*" stands for every apiVersion or kind. T is a
// struct of your own, a type of k8s.io/api, a map, or [Object].
//
// The plugin receives the fields that T has, at all depths, by their json tags. A type with more than 256 fields, as
// most of k8s.io/api, receives the whole object; [Fields] limits that. A struct without fields receives no payload.
//
// It panics if the registration is invalid.
func For[T any](apiVersion, kind string, options ...Option) *Kind[T] {
	r := &rule{apiVersion: apiVersion, kind: kind, decode: decode[T]}
	var err error
	if r.payload, err = payloadOf(reflect.TypeFor[T]()); err != nil {
		panic(fmt.Sprintf("informant.For(%q, %q): %v", apiVersion, kind, err))
	}
	for _, option := range options {
		option(r)
	}
	current.rules = append(current.rules, r)
	return &Kind[T]{r}
}

// OnAdd handles new objects, and each object of a first list or a replay.
func (k *Kind[T]) OnAdd(handler Handler[T]) *Kind[T] {
	k.set(&k.rule.onAdd, "OnAdd", handler)
	return k
}

// OnUpdate handles changes, and each object of a resync.
func (k *Kind[T]) OnUpdate(handler Handler[T]) *Kind[T] {
	k.set(&k.rule.onUpdate, "OnUpdate", handler)
	return k
}

// OnUpsert handles adds and updates alike: the object now has this state.
func (k *Kind[T]) OnUpsert(handler Handler[T]) *Kind[T] {
	k.set(&k.rule.onAdd, "OnUpsert", handler)
	k.set(&k.rule.onUpdate, "OnUpsert", handler)
	return k
}

// OnDelete handles objects that are gone.
func (k *Kind[T]) OnDelete(handler Handler[T]) *Kind[T] {
	k.set(&k.rule.onDelete, "OnDelete", handler)
	return k
}

// OnSynced is called after each first list and each replay of a source of this kind, once every object was attempted.
func (k *Kind[T]) OnSynced(handler SyncedHandler) *Kind[T] {
	current.onSynced = append(current.onSynced, syncedRule{k.rule, handler})
	return k
}

// Index computes the values of an object in an index of the plugin. It receives the fields of T, and runs in an
// instance of its own: it can only log.
//
// Several kinds may have an index of one name. The index exists in all informers of the plugin, also in those of other
// kinds, whose objects have no values in it.
func (k *Kind[T]) Index(name string, values func(object *T) ([]string, error)) *Kind[T] {
	k.rule.mustBeOpen("Index")
	if slices.ContainsFunc(k.rule.indexes, func(index index) bool { return index.name == name }) {
		panic(fmt.Sprintf("informant: the index %q of %v is registered twice", name, k.rule))
	}
	k.rule.indexes = append(k.rule.indexes, index{name, func(object any) ([]string, error) { return values(object.(*T)) }})
	return k
}

func (k *Kind[T]) set(handler *anyHandler, name string, typed Handler[T]) {
	k.rule.mustBeOpen(name)
	if *handler != nil {
		panic(fmt.Sprintf("informant: %s of %v: there is a handler for these events already", name, k.rule))
	}
	*handler = func(ctx *Context, e *Event, object any) (Result, error) {
		value, _ := object.(*T)
		return typed(ctx, e, value)
	}
}

// SyncedHandler is called when the handlers have received every object of a source.
type SyncedHandler func(ctx *Context, s *Synced) error

// OnSynced is called for each source of the plugin: see [Kind.OnSynced].
func OnSynced(handler SyncedHandler) {
	current.onSynced = append(current.onSynced, syncedRule{nil, handler})
}

// Plugin sets the name and the version in the manifest, for people. The default name is that of the main package.
func Plugin(name, version string) {
	current.name, current.version = name, version
}

// Parallel allows several instances to handle the events. Each has its own memory.
func Parallel() {
	current.parallel = true
}

// WaitUntilSeen counts an event as handled when the cache has seen its deferred writes, instead of when the API server
// has accepted them.
func WaitUntilSeen() {
	current.waitUntilSeen = true
}

// Setup calls register after the configuration was read, for what depends on it: register may call For, Needs and the
// other functions that register something. Informant refuses the plugin if it returns an error.
func Setup(register func(info *Info) error) {
	current.setups = append(current.setups, register)
}

// OnInit is called once in each instance that handles events, before the first one. It can read and write ctx.KV. An
// error is retried in a new instance, unless it is a [TerminalError], which rejects the plugin.
func OnInit(handler func(ctx *Context) error) {
	current.onInit = append(current.onInit, handler)
}

type anyHandler func(ctx *Context, e *Event, object any) (Result, error)

type index struct {
	name   string
	values func(object any) ([]string, error)
}

type syncedRule struct {
	// nil: all sources.
	rule    *rule
	handler SyncedHandler
}

// rule is what a plugin registers for a kind.
type rule struct {
	apiVersion, kind          string
	payload                   payload
	changedOnly, old          bool
	namespaces                []string
	selector                  string
	decode                    func(document []byte) (any, error)
	onAdd, onUpdate, onDelete anyHandler
	reconcile                 func(ctx *Context, r *Request, object any) (Result, error)
	when                      []string
	owns, watches             []*RelatedKind
	minInterval               *time.Duration
	indexes                   []index
	isClosed                  bool
}

func (r *rule) String() string {
	return r.apiVersion + " " + r.kind
}

func (r *rule) hasHandlers() bool {
	return r.onAdd != nil || r.onUpdate != nil || r.onDelete != nil
}

func (r *rule) mustBeOpen(what string) {
	if r.isClosed {
		panic(fmt.Sprintf("informant: %s of %v: register handlers in init or in Setup, where you call For", what, r))
	}
}

const anyName = "*"

func (r *rule) matches(apiVersion, kind string) bool {
	return (r.apiVersion == anyName || r.apiVersion == apiVersion) && (r.kind == anyName || r.kind == kind)
}

// specificity is higher for a rule that names more of the type.
func (r *rule) specificity() int {
	score := 0
	if r.apiVersion != anyName {
		score += 2
	}
	if r.kind != anyName {
		score++
	}
	return score
}

// mostSpecific returns the rule for a type, or nil.
func mostSpecific(rules []*rule, apiVersion, kind string) *rule {
	var best *rule
	for _, r := range rules {
		if r.matches(apiVersion, kind) && (best == nil || r.specificity() > best.specificity()) {
			best = r
		}
	}
	return best
}

// registry is what a plugin has registered.
type registry struct {
	name, version           string
	parallel, waitUntilSeen bool
	needsEvents             bool
	rules                   []*rule
	onSynced                []syncedRule
	timers                  []*timer
	onInit                  []func(*Context) error
	setups                  []func(*Info) error
	needs                   []*Need
	metrics                 []*MetricDeclaration
	config, state           *variable
}

var (
	// base is what the plugin registers in init.
	base registry
	// current is where functions register: base, or during a Setup the copy of an instance.
	current = &base
)

// copied returns a registry to which a Setup may add.
func (r *registry) copied() *registry {
	for _, r := range r.rules {
		r.isClosed = true
	}
	copied := *r
	copied.rules = slices.Clone(r.rules)
	copied.onSynced = slices.Clone(r.onSynced)
	copied.timers = slices.Clone(r.timers)
	copied.onInit = slices.Clone(r.onInit)
	copied.needs = slices.Clone(r.needs)
	copied.metrics = slices.Clone(r.metrics)
	return &copied
}

// handled returns the rules with handlers.
func (r *registry) handled() []*rule {
	return slices.DeleteFunc(slices.Clone(r.rules), func(r *rule) bool { return !r.hasHandlers() })
}

// indexed returns the rules with indexes.
func (r *registry) indexed() []*rule {
	return slices.DeleteFunc(slices.Clone(r.rules), func(r *rule) bool { return len(r.indexes) == 0 })
}

// indexNames returns the names of all indexes, in their order.
func (r *registry) indexNames() []string {
	var names []string
	for _, r := range r.rules {
		for _, index := range r.indexes {
			if !slices.Contains(names, index.name) {
				names = append(names, index.name)
			}
		}
	}
	return names
}

// decode reads a document as a T. Without a document it is the zero T.
func decode[T any](document []byte) (any, error) {
	object := new(T)
	if raw, isRaw := any(object).(*Object); isRaw {
		*raw = bytes.Clone(document)
		return object, nil
	}
	if len(document) == 0 {
		return object, nil
	}
	if err := json.Unmarshal(document, object); err != nil {
		return nil, TerminalError(fmt.Errorf("the object does not match its type: %w", err))
	}
	return object, nil
}
