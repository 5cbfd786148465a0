package informant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"

	"informant.example/plugin-sdk/go/internal/host"
)

// Kube calls the Kubernetes API server. Its writes are deferred: Informant makes them once the call has succeeded, in
// their order, and none of them if it fails. The first one that fails becomes the event's failure. A call defers at
// most 100 writes. Now makes them at once, and waits for the answer.
//
// Each call needs a grant in `allow.kube` of the plugin's section.
type Kube struct {
	// The plugin's name in config.toml.
	plugin string
}

// A Target is an [Address], or an [*Event], which stands for its object.
type Target interface {
	address() (Address, error)
}

// Address is an object or a resource of the API.
type Address struct {
	// Cluster is empty for that of the object that the call is about.
	Cluster string
	// Resource is as in config.toml: v1/pods, apps/v1/deployments.
	Resource string
	// Namespace is empty for cluster-scoped resources, and for a list of all namespaces.
	Namespace string
	Name      string
	// Subresource is status, scale and so on.
	Subresource string
	// UID is that of an event's object. A deferred delete needs it.
	UID string
}

func (a Address) address() (Address, error) {
	return a, nil
}

// Sub returns the address of a subresource: "status", "scale".
func (a Address) Sub(subresource string) Address {
	a.Subresource = subresource
	return a
}

// Address returns the address of the event's object.
func (e *Event) Address() (Address, error) {
	return e.address()
}

func (e *Event) address() (Address, error) {
	info, err := e.Info()
	if err != nil {
		return Address{}, err
	}
	return Address{
		Cluster:   info.Cluster,
		Resource:  info.Resource,
		Namespace: e.Namespace,
		Name:      e.Name,
		UID:       e.UID,
	}, nil
}

// ListOptions select objects.
type ListOptions struct {
	LabelSelector string
	FieldSelector string
	// Limit is the most objects to read. 0 means all.
	Limit int
}

// WriteOptions are for creates, updates and patches. At most one may be passed.
type WriteOptions struct {
	// FieldManager is by default informant- and the plugin's name.
	FieldManager string `json:"fieldManager,omitempty"`
	// FieldValidation is Ignore, Warn or Strict.
	FieldValidation string `json:"fieldValidation,omitempty"`
	// Force is for Apply: take fields from other managers.
	Force bool `json:"force,omitempty"`
	// DryRun changes nothing.
	DryRun bool `json:"-"`
}

// DeleteOptions are for deletes. At most one may be passed.
type DeleteOptions struct {
	// PropagationPolicy is Background, Foreground or Orphan.
	PropagationPolicy string
	// GracePeriodSeconds is by default that of the object.
	GracePeriodSeconds *int64
	// UID and ResourceVersion are those that the object must have. The default UID is that of the address.
	UID             string
	ResourceVersion string
	// DryRun changes nothing.
	DryRun bool
}

var dryRunAll = []string{"All"}

func (o WriteOptions) document() []byte {
	type options struct {
		WriteOptions
		DryRun []string `json:"dryRun,omitempty"`
	}
	if o == (WriteOptions{}) {
		return nil
	}
	all := options{WriteOptions: o}
	if o.DryRun {
		all.DryRun = dryRunAll
	}
	return mustMarshal(all)
}

func (o DeleteOptions) document() []byte {
	type preconditions struct {
		UID             string `json:"uid,omitempty"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	}
	type options struct {
		PropagationPolicy  string         `json:"propagationPolicy,omitempty"`
		GracePeriodSeconds *int64         `json:"gracePeriodSeconds,omitempty"`
		Preconditions      *preconditions `json:"preconditions,omitempty"`
		DryRun             []string       `json:"dryRun,omitempty"`
	}
	if o == (DeleteOptions{}) {
		return nil
	}
	all := options{PropagationPolicy: o.PropagationPolicy, GracePeriodSeconds: o.GracePeriodSeconds}
	if o.UID != "" || o.ResourceVersion != "" {
		all.Preconditions = &preconditions{o.UID, o.ResourceVersion}
	}
	if o.DryRun {
		all.DryRun = dryRunAll
	}
	return mustMarshal(all)
}

func mustMarshal(value any) []byte {
	document, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return document
}

// Get reads an object from the API server, not from the cache.
func (Kube) Get(at Target, into any) error {
	address, err := resolve(at)
	if err != nil {
		return err
	}
	object, refused := hosted().KubeGet(address)
	if refused != nil {
		return apiError(refused)
	}
	return decodeInto(object, into)
}

// List yields objects from the API server, not from the cache. It ends after an error.
func (Kube) List(at Target, options ListOptions) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		address, err := resolve(at)
		if err != nil {
			yield(nil, err)
			return
		}
		for left, cursor := options.Limit, ""; ; {
			items, next, _, refused := hosted().KubeList(address, options.document(left, cursor))
			if refused != nil {
				yield(nil, apiError(refused))
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if left -= len(items); next == "" || options.Limit > 0 && left <= 0 {
				return
			}
			cursor = next
		}
	}
}

// The most objects in a page of the API server.
const pageObjectsMax = 500

func (o ListOptions) document(left int, cursor string) []byte {
	type options struct {
		LabelSelector string `json:"labelSelector,omitempty"`
		FieldSelector string `json:"fieldSelector,omitempty"`
		Limit         int    `json:"limit,omitempty"`
		Continue      string `json:"continue,omitempty"`
	}
	all := options{o.LabelSelector, o.FieldSelector, min(left, pageObjectsMax), cursor}
	if all == (options{}) {
		return nil
	}
	return mustMarshal(all)
}

// Create creates an object. It needs a metadata.name.
func (Kube) Create(at Target, object any, options ...WriteOptions) error {
	_, err := write(at, object, options, func(to host.Address, document, options []byte) ([]byte, *host.APIError) {
		return nil, hosted().DeferCreate(to, document, options)
	})
	return err
}

// Update replaces an object.
func (Kube) Update(at Target, object any, options ...WriteOptions) error {
	_, err := write(at, object, options, func(to host.Address, document, options []byte) ([]byte, *host.APIError) {
		return nil, hosted().DeferUpdate(to, document, options)
	})
	return err
}

// Patch changes an object by a merge patch (RFC 7386): null removes a member, and lists are replaced. With a
// metadata.uid or metadata.resourceVersion it applies to that object or state only.
func (Kube) Patch(at Target, document any, options ...WriteOptions) error {
	return deferPatch(at, host.MergePatch, document, options)
}

// JSONPatch changes an object by a JSON patch (RFC 6902).
func (Kube) JSONPatch(at Target, operations any, options ...WriteOptions) error {
	return deferPatch(at, host.JSONPatch, operations, options)
}

// StrategicPatch is Patch, but lists are merged by key. Custom resources do not support it.
func (Kube) StrategicPatch(at Target, document any, options ...WriteOptions) error {
	return deferPatch(at, host.StrategicPatch, document, options)
}

// Apply is server-side apply. It creates the object if there is none.
func (Kube) Apply(at Target, object any, options ...WriteOptions) error {
	return deferPatch(at, host.ApplyPatch, object, options)
}

func deferPatch(at Target, kind uint8, document any, options []WriteOptions) error {
	_, err := write(at, document, options, func(to host.Address, document, options []byte) ([]byte, *host.APIError) {
		return nil, hosted().DeferPatch(to, kind, document, options)
	})
	return err
}

// Delete deletes an object. It needs a UID: that of an event, or one in the options. An object that is gone by then, or
// that has another UID, counts as deleted.
func (Kube) Delete(at Target, options ...DeleteOptions) error {
	return remove(at, options, hosted().DeferDelete)
}

// Now returns a client whose writes are made at once.
func (Kube) Now() KubeNow {
	return KubeNow{}
}

// KubeNow writes to the Kubernetes API server and waits for the answer. It returns objects as stored.
type KubeNow struct{}

// Create creates an object.
func (KubeNow) Create(at Target, object any, options ...WriteOptions) (Object, error) {
	return write(at, object, options, hosted().KubeCreate)
}

// Update replaces an object.
func (KubeNow) Update(at Target, object any, options ...WriteOptions) (Object, error) {
	return write(at, object, options, hosted().KubeUpdate)
}

// Patch is Kube.Patch.
func (KubeNow) Patch(at Target, document any, options ...WriteOptions) (Object, error) {
	return patch(at, host.MergePatch, document, options)
}

// JSONPatch is Kube.JSONPatch.
func (KubeNow) JSONPatch(at Target, operations any, options ...WriteOptions) (Object, error) {
	return patch(at, host.JSONPatch, operations, options)
}

// StrategicPatch is Kube.StrategicPatch.
func (KubeNow) StrategicPatch(at Target, document any, options ...WriteOptions) (Object, error) {
	return patch(at, host.StrategicPatch, document, options)
}

// Apply is Kube.Apply.
func (KubeNow) Apply(at Target, object any, options ...WriteOptions) (Object, error) {
	return patch(at, host.ApplyPatch, object, options)
}

// Delete deletes an object.
func (KubeNow) Delete(at Target, options ...DeleteOptions) error {
	return remove(at, options, hosted().KubeDelete)
}

func patch(at Target, kind uint8, document any, options []WriteOptions) (Object, error) {
	return write(at, document, options, func(to host.Address, document, options []byte) ([]byte, *host.APIError) {
		return hosted().KubePatch(to, kind, document, options)
	})
}

func resolve(at Target) (host.Address, error) {
	address, err := at.address()
	return host.Address{
		Cluster:     address.Cluster,
		Resource:    address.Resource,
		Namespace:   address.Namespace,
		Name:        address.Name,
		Subresource: address.Subresource,
	}, err
}

func write(
	at Target, object any, options []WriteOptions,
	send func(to host.Address, document, options []byte) ([]byte, *host.APIError),
) (Object, error) {
	address, err := resolve(at)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(object)
	if err != nil {
		return nil, TerminalError(fmt.Errorf("a document for %s cannot be written: %w", address.Resource, err))
	}
	var chosen WriteOptions
	if len(options) > 0 {
		chosen = options[0]
	}
	stored, refused := send(address, document, chosen.document())
	return bytes.Clone(stored), apiError(refused)
}

func remove(at Target, options []DeleteOptions, send func(to host.Address, options []byte) *host.APIError) error {
	address, err := at.address()
	if err != nil {
		return err
	}
	to, _ := resolve(address)
	var chosen DeleteOptions
	if len(options) > 0 {
		chosen = options[0]
	}
	if chosen.UID == "" {
		chosen.UID = address.UID
	}
	return apiError(send(to, chosen.document()))
}
