// Package host is the boundary between the SDK and Informant: what the SDK asks for, and what Informant calls. In a
// component Informant is behind it, in a native test a fake.
package host

import "sync/atomic"

// ObjectRef is the object that a call is about.
type ObjectRef struct {
	Source          uint32
	Namespace       string
	Name            string
	UID             string
	ResourceVersion string
}

// Call says why a call is made. Reason is the number of the case in the contract.
type Call struct {
	Reason  uint8
	Attempt uint32
}

// Tick is a run of a timer. Scheduled is when it was due, RFC 3339 in UTC.
type Tick struct {
	Name      string
	Scheduled string
	Missed    uint32
	Attempt   uint32
}

// FailureKind is how Informant handles a failure.
type FailureKind uint8

// The cases of the contract.
const (
	Retryable FailureKind = iota
	RetryAfter
	Permanent
)

// Failure is why a call failed. AfterMS is for RetryAfter only.
type Failure struct {
	Kind    FailureKind
	Message string
	AfterMS uint32
}

// Plugin is what Informant calls. A nil *Failure and an empty problem mean success.
type Plugin interface {
	Describe(context []byte) (manifest []byte, problem string)
	Init(context []byte) *Failure
	OnAdd(about ObjectRef, call Call, object []byte) (requeue *uint32, failure *Failure)
	OnUpdate(about ObjectRef, call Call, old []byte, hasOld bool, object []byte) (requeue *uint32, failure *Failure)
	OnDelete(about ObjectRef, call Call, last []byte, hasLast, unknown bool) (requeue *uint32, failure *Failure)
	// Without object, it is gone.
	Reconcile(of ObjectRef, call Call, behind bool, object []byte, isThere bool) (*uint32, *Failure)
	OnTimer(tick Tick) *Failure
	OnSynced(source uint32, call Call) *Failure
	Index(about ObjectRef, object []byte) (values [][]string, problem string)
	Save() ([]byte, *Failure)
	Restore(state []byte) *Failure
}

// NewPlugin returns a new instance of the plugin, for native tests. Its variables have their first values again. It is
// nil in a component.
var NewPlugin func() Plugin

// FailureOf decides how Informant handles an error, for native tests. It is nil in a component.
var FailureOf func(err error) *Failure

// ReportGoroutines receives that a call has left goroutines behind, in tests with a fake. Otherwise it is nil.
var ReportGoroutines func(text string)

// TestGoroutines is how many goroutines a native test has started while the plugin ran, such as those of connections to
// a server of the test.
var TestGoroutines atomic.Int64

// Error is why a call of store, kv, metrics or recorder failed. Code is the number of the case in the contract.
type Error struct {
	Code    uint8
	Message string
}

// APIError is why a call of kube failed. Code is the number of the case in the contract.
type APIError struct {
	Code         uint8
	Status       uint16
	Reason       string
	Message      string
	RetryAfterMS uint32
}

// Address is an object, or a resource, of the Kubernetes API.
type Address struct {
	Cluster     string
	Resource    string
	Namespace   string
	Name        string
	Subresource string
}

// Owner is the object that a call of Reconcile is about.
type Owner struct {
	Source    uint32
	Namespace string
	Name      string
	UID       string
}

// Child is an object that belongs to the one that is reconciled.
type Child struct {
	Object []byte
	Whole  bool
}

// Children is what becomes of them. PruneSkipped is empty if all are deleted that have to be.
type Children struct {
	Written      uint32
	Pruned       uint32
	Refused      []string
	PruneSkipped string
}

// SourceInfo is what Informant knows of a source. State is the number of the case in the contract.
type SourceInfo struct {
	ID           uint32
	State        uint8
	Informer     string
	Cluster      string
	APIVersion   string
	Kind         string
	Resource     string
	Namespace    string
	HasNamespace bool
	Namespaced   bool
	Partial      bool
}

// Query selects objects of the cache.
type Query struct {
	Sources       []uint32
	Namespace     string
	HasNamespace  bool
	LabelSelector string
	Pointers      []string
	Limit         uint32
	Cursor        string
}

// Item is an object of the cache.
type Item struct {
	Source uint32
	Object []byte
}

// ObjectKey is the key of an object in the cache.
type ObjectKey struct {
	Source    uint32
	Namespace string
	Name      string
}

// Label is a label of a metric.
type Label struct {
	Name  string
	Value string
}

// Sample is one series of a gauge.
type Sample struct {
	Value  float64
	Labels []Label
}

// Reference names an object for a Kubernetes Event.
type Reference struct {
	Cluster    string
	APIVersion string
	Kind       string
	Namespace  string
	Name       string
	UID        string
}

// Event is a Kubernetes Event. Type is the number of the case in the contract, and Related is nil without a second
// object.
type Event struct {
	Regarding Reference
	Related   *Reference
	Type      uint8
	Reason    string
	Action    string
	Note      string
}

// The types of Kubernetes Events, as numbered in the contract.
const (
	NormalEvent uint8 = iota
	WarningEvent
)

// Host is what the SDK asks of Informant.
type Host interface {
	Log(level uint8, message string, fields [][2]string)

	Source(id uint32) (SourceInfo, *Error)
	Sources(informer string) ([]SourceInfo, *Error)
	Version(source uint32) (version string, synced bool, err *Error)
	Get(source uint32, namespace, name string, pointers []string) (object []byte, found bool, err *Error)
	Find(informer, namespace, name string, pointers []string) (item Item, found bool, err *Error)
	List(informer string, query Query) (items []Item, cursor string, err *Error)
	ByIndex(informer, index, value string, query Query) (items []Item, cursor string, err *Error)
	IndexKeys(informer string, sources []uint32, index, value string) ([]ObjectKey, *Error)
	IndexValues(informer string, sources []uint32, index, cursor string, limit uint32) ([]string, *Error)

	KubeGet(at Address) ([]byte, *APIError)
	KubeList(at Address, options []byte) (items [][]byte, cursor, version string, err *APIError)
	KubeCreate(at Address, object, options []byte) ([]byte, *APIError)
	KubeUpdate(at Address, object, options []byte) ([]byte, *APIError)
	KubePatch(at Address, kind uint8, document, options []byte) ([]byte, *APIError)
	KubeDelete(at Address, options []byte) *APIError
	DeferCreate(at Address, object, options []byte) *APIError
	DeferUpdate(at Address, object, options []byte) *APIError
	DeferPatch(at Address, kind uint8, document, options []byte) *APIError
	DeferDelete(at Address, options []byte) *APIError
	DeferChildren(owner Owner, children []Child) (Children, *APIError)

	KVGet(key string) (value []byte, found bool, err *Error)
	KVSet(key string, value []byte) *Error
	KVSetIfAbsent(key string, value []byte) (bool, *Error)
	KVDelete(key string) *Error
	KVList(prefix, cursor string, limit uint32) ([]string, *Error)

	MetricAdd(name string, amount float64, labels []Label) *Error
	MetricSet(name string, value float64, labels []Label) *Error
	MetricObserve(name string, value float64, labels []Label) *Error
	MetricReplace(name string, samples []Sample) *Error

	RecordEvent(event Event) *Error
}

// The kinds of patches, as numbered in the contract.
const (
	MergePatch uint8 = iota
	JSONPatch
	StrategicPatch
	ApplyPatch
)
