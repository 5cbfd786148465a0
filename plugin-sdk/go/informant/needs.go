package informant

// Verb is a verb of a call to the Kubernetes API, as in RBAC.
type Verb string

// The verbs that Informant grants.
const (
	Get    Verb = "get"
	List   Verb = "list"
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
)

// Need is a permission without which the plugin must not be loaded. It grants nothing by itself.
type Need struct {
	document needDocument
}

type needDocument struct {
	Verbs        []Verb   `json:"verbs"`
	Resource     string   `json:"resource"`
	Namespaces   []string `json:"namespaces,omitempty"`
	Names        []string `json:"names,omitempty"`
	Subresources []string `json:"subresources,omitempty"`
}

// Needs requires these verbs on a resource, written as in config.toml: "v1/pods", "apps/v1/deployments".
func Needs(resource string, verbs ...Verb) *Need {
	need := &Need{needDocument{Verbs: verbs, Resource: resource}}
	current.needs = append(current.needs, need)
	return need
}

// NeedsEvents requires `events = true` in `allow` of the plugin's section: for a plugin that must not run without its
// [Recorder].
func NeedsEvents() {
	current.needsEvents = true
}

// Namespaces requires the grant in these namespaces only.
func (n *Need) Namespaces(names ...string) *Need {
	n.document.Namespaces = append(n.document.Namespaces, names...)
	return n
}

// Names requires the grant for the objects with these names only.
func (n *Need) Names(names ...string) *Need {
	n.document.Names = append(n.document.Names, names...)
	return n
}

// Subresources requires the grant for these subresources, instead of the object itself.
func (n *Need) Subresources(names ...string) *Need {
	n.document.Subresources = append(n.document.Subresources, names...)
	return n
}
