package informanttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"informant.example/plugin-sdk/go/internal/host"
)

// key is the key of an object in the cache.
type key struct {
	source          uint32
	namespace, name string
}

func (k key) String() string {
	if k.namespace == "" {
		return k.name
	}
	return k.namespace + "/" + k.name
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// phase is what the plugin is called for. It decides which functions of the host it may call.
type phase int

const (
	// Only log.
	nothing phase = iota
	// Also kv.
	starting
	// Everything.
	handling
	// The cache, for save and restore.
	swapping
)

// fake is Informant for the plugin of a test.
type fake struct {
	phase phase
	// The source that the present call is about; 0 without one.
	about   uint32
	sources []host.SourceInfo
	// The sources that exist because the plugin registers their kinds: the test or the first object says the rest.
	registered map[uint32]bool
	objects    map[key]object
	version    int
	log        []string
	lines      []logLine
	// The sources that informers watch; nil for all.
	watched map[uint32]bool
	// The plugin's own index values, and those of the test by informer and name.
	pluginIndex func(o object, at key, index string) ([]string, bool)
	testIndexes map[[2]string]indexFunc
	// How the test adds an index, given the informer, the name and a pointer.
	indexRemedy string
	// By the resource, or empty for all.
	refusals map[string]*host.APIError

	writes   []Write
	sent     []sent
	deferred []func() *host.APIError
	// How many of them are of children.
	childWrites int
	// The objects that the plugin changed, with their previous states.
	changed []change

	values         map[string][]byte
	pendingValues  map[string][]byte
	metrics        map[string]declaration
	series         map[string]float64
	pendingMetrics []func()

	// The name of the plugin, what it reconciles, or nil, and what it has set in the present call.
	plugin      string
	reconciler  *reconciler
	isBehind    bool
	hasChildren bool

	events        []RecordedEvent
	pendingEvents []RecordedEvent
	deniesEvents  bool
}

type change struct {
	at     key
	before object
}

var _ host.Host = (*fake)(nil)

func newFake() *fake {
	return &fake{
		registered:    map[uint32]bool{},
		objects:       map[key]object{},
		testIndexes:   map[[2]string]indexFunc{},
		indexRemedy:   "add it with p.Index(%q, %q, %q)",
		refusals:      map[string]*host.APIError{},
		values:        map[string][]byte{},
		pendingValues: map[string][]byte{},
		metrics:       map[string]declaration{},
		series:        map[string]float64{},
	}
}

// end makes what a call has changed take effect, or drops it. It returns the first error of a deferred write.
func (f *fake) end(hasSucceeded bool) *host.APIError {
	writes, values, metrics, events := f.deferred, f.pendingValues, f.pendingMetrics, f.pendingEvents
	f.deferred, f.pendingValues, f.pendingMetrics, f.pendingEvents = nil, map[string][]byte{}, nil, nil
	f.childWrites, f.hasChildren = 0, false
	if !hasSucceeded {
		return nil
	}
	for name, value := range values {
		if value == nil {
			delete(f.values, name)
		} else {
			f.values[name] = value
		}
	}
	for _, apply := range metrics {
		apply()
	}
	for _, write := range writes {
		if err := write(); err != nil {
			return err
		}
	}
	f.events = append(f.events, events...)
	return nil
}

// logLine is a line of the log, for scenarios.
type logLine struct {
	level, message string
	fields         [][2]string
}

func (f *fake) Log(level uint8, message string, fields [][2]string) {
	f.lines = append(f.lines, logLine{host.Name(host.Levels, level), message, fields})
	line := host.Name(host.Levels, level) + ": " + message
	for _, field := range fields {
		line += " " + field[0] + "=" + field[1]
	}
	f.log = append(f.log, line)
}

func hostError(code, format string, arguments ...any) *host.Error {
	return &host.Error{Code: host.Number(host.ErrorCodes, code), Message: fmt.Sprintf(format, arguments...)}
}

func notHere(phases string) *host.Error {
	return hostError("not-here", "%s cannot be called here", phases)
}

// register adds a source of a kind that the plugin registers, unless there is one.
func (f *fake) register(apiVersion, kind string) {
	isIts := func(s host.SourceInfo) bool { return s.APIVersion == apiVersion && s.Kind == kind }
	if !slices.ContainsFunc(f.sources, isIts) {
		f.registered[f.addSource("", "", apiVersion, kind, true).ID] = true
	}
}

// addSource returns the source of a kind in a cluster, and adds it if there is none.
func (f *fake) addSource(cluster, informer, apiVersion, kind string, namespaced bool) host.SourceInfo {
	for at := range f.sources {
		source := &f.sources[at]
		if source.APIVersion != apiVersion || source.Kind != kind {
			continue
		}
		if f.registered[source.ID] {
			delete(f.registered, source.ID)
			source.Cluster, source.Namespaced = cluster, namespaced
			source.Informer = cmp.Or(informer, source.Informer)
		}
		if source.Cluster == cluster {
			return *source
		}
	}
	resource := resourceOf(apiVersion, kind)
	if informer == "" {
		informer = resource[strings.LastIndexByte(resource, '/')+1:]
	}
	source := host.SourceInfo{
		ID:         uint32(len(f.sources) + 1),
		State:      host.Number(host.SourceStates, "live"),
		Informer:   informer,
		Cluster:    cluster,
		APIVersion: apiVersion,
		Kind:       kind,
		Resource:   resource,
		Namespaced: namespaced,
	}
	f.sources = append(f.sources, source)
	return source
}

// resourceOf returns the apiVersion and the lowercase plural of a kind.
func resourceOf(apiVersion, kind string) string {
	plural := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(plural, "s"), strings.HasSuffix(plural, "x"):
		plural += "es"
	case strings.HasSuffix(plural, "y") && !strings.HasSuffix(plural, "ey") && !strings.HasSuffix(plural, "ay"):
		plural = strings.TrimSuffix(plural, "y") + "ies"
	default:
		plural += "s"
	}
	return apiVersion + "/" + plural
}

func (f *fake) source(id uint32) host.SourceInfo {
	return f.sources[id-1]
}

// keyOf returns where an object belongs.
func (f *fake) keyOf(cluster string, o object) (key, error) {
	apiVersion, kind, name := member(o, "apiVersion"), member(o, "kind"), member(o, "metadata", "name")
	if apiVersion == "" || kind == "" || name == "" {
		return key{}, fmt.Errorf("an object needs apiVersion, kind and metadata.name: %s", compact(o))
	}
	namespace := member(o, "metadata", "namespace")
	source := f.addSource(cluster, "", apiVersion, kind, namespace != "")
	return key{source.ID, namespace, name}, nil
}

// put stores an object with a new version, and a uid if it has none.
func (f *fake) put(at key, o object) object {
	o = copied(o).(object)
	f.version++
	meta := metadata(o)
	if meta["uid"] == nil {
		meta["uid"] = fmt.Sprintf("uid-%d", f.version)
		if before := f.objects[at]; before != nil {
			meta["uid"] = member(before, "metadata", "uid")
		}
	}
	meta["resourceVersion"] = fmt.Sprint(f.version)
	f.objects[at] = o
	return o
}

func (f *fake) Source(id uint32) (host.SourceInfo, *host.Error) {
	if f.phase < handling {
		return host.SourceInfo{}, notHere("store")
	}
	if id == 0 || int(id) > len(f.sources) {
		return host.SourceInfo{}, hostError("not-found", "there is no source %d", id)
	}
	return f.source(id), nil
}

func (f *fake) Sources(informer string) ([]host.SourceInfo, *host.Error) {
	if f.phase < handling {
		return nil, notHere("store")
	}
	var found []host.SourceInfo
	for _, source := range f.sources {
		if source.Informer == informer {
			found = append(found, source)
		}
	}
	if found == nil {
		message := "the test has no informer %q: call p.Informer, or put an object"
		return nil, hostError("unknown-informer", message, informer)
	}
	return found, nil
}

func (f *fake) Version(source uint32) (string, bool, *host.Error) {
	_, err := f.Source(source)
	return fmt.Sprint(f.version), true, err
}

func (f *fake) Get(source uint32, namespace, name string, pointers []string) ([]byte, bool, *host.Error) {
	if _, err := f.Source(source); err != nil {
		return nil, false, err
	}
	o, isThere := f.objects[key{source, namespace, name}]
	if !isThere {
		return nil, false, nil
	}
	return shown(o, pointers), true, nil
}

func shown(o object, pointers []string) []byte {
	if len(pointers) == 0 {
		return compact(o)
	}
	return compact(project(o, pointers))
}

func (f *fake) Find(informer, namespace, name string, pointers []string) (host.Item, bool, *host.Error) {
	sources, err := f.Sources(informer)
	if err != nil {
		return host.Item{}, false, err
	}
	if f.about != 0 {
		cluster := f.source(f.about).Cluster
		sources = slices.DeleteFunc(sources, func(s host.SourceInfo) bool { return s.Cluster != cluster })
	}
	if len(sources) != 1 {
		message := "the informer %q has %d sources here, so it is not clear which one is meant"
		return host.Item{}, false, hostError("invalid", message, informer, len(sources))
	}
	o, isThere, err := f.Get(sources[0].ID, namespace, name, pointers)
	return host.Item{Source: sources[0].ID, Object: o}, isThere, err
}

// The most bytes of objects in a page, as in Informant.
const pageBytesMax = 1 << 20

func (f *fake) List(informer string, query host.Query) ([]host.Item, string, *host.Error) {
	return f.list(informer, query, func(key, object) (bool, *host.Error) { return true, nil })
}

func (f *fake) ByIndex(informer, index, value string, query host.Query) ([]host.Item, string, *host.Error) {
	return f.list(informer, query, func(at key, o object) (bool, *host.Error) {
		values, err := f.valuesOf(informer, index, at, o)
		return slices.Contains(values, value), err
	})
}

// The informer's own index.
const namespaceIndex = "namespace"

func (f *fake) valuesOf(informer, index string, at key, o object) ([]string, *host.Error) {
	if index == namespaceIndex {
		return []string{at.namespace}, nil
	}
	if values, isThere := f.testIndexes[[2]string{informer, index}]; isThere {
		return values(o)
	}
	if values, isThere := f.pluginIndex(o, at, index); isThere {
		return values, nil
	}
	pointer := "/path/of/the/value"
	if index == "owner" {
		pointer = "/metadata/ownerReferences/*/uid"
	}
	remedy := fmt.Sprintf(f.indexRemedy, informer, index, pointer)
	return nil, hostError("unknown-index", "informer %q has no index %q in this test; %s", informer, index, remedy)
}

// selected returns the keys of an informer's objects in these sources, in order.
func (f *fake) selected(informer string, sources []uint32) ([]key, *host.Error) {
	known, err := f.Sources(informer)
	if err != nil {
		return nil, err
	}
	isMeant := func(at key) bool {
		return slices.ContainsFunc(known, func(s host.SourceInfo) bool { return s.ID == at.source }) &&
			(len(sources) == 0 || slices.Contains(sources, at.source))
	}
	keys := slices.SortedFunc(maps.Keys(f.objects), compareKeys)
	return slices.DeleteFunc(keys, func(at key) bool { return !isMeant(at) }), nil
}

func (f *fake) list(informer string, query host.Query, has func(key, object) (bool, *host.Error)) (
	[]host.Item, string, *host.Error,
) {
	keys, err := f.selected(informer, query.Sources)
	if err != nil {
		return nil, "", err
	}
	requirements, wrong := parseSelector(query.LabelSelector)
	if wrong != nil {
		return nil, "", hostError("invalid", "%v", wrong)
	}
	var items []host.Item
	bytes, last := 0, ""
	for _, at := range keys {
		o := f.objects[at]
		cursor := fmt.Sprintf("%010d/%s/%s", at.source, at.namespace, at.name)
		if cursor <= query.Cursor || query.HasNamespace && at.namespace != query.Namespace || !selects(requirements, o) {
			continue
		}
		isFound, err := has(at, o)
		if err != nil {
			return nil, "", err
		}
		if !isFound {
			continue
		}
		document := shown(o, query.Pointers)
		bytes += len(document)
		isFull := bytes > pageBytesMax || query.Limit > 0 && len(items) == int(query.Limit)
		if isFull && len(items) > 0 {
			return items, last, nil
		}
		items = append(items, host.Item{Source: at.source, Object: document})
		last = cursor
	}
	return items, "", nil
}

func (f *fake) IndexKeys(informer string, sources []uint32, index, value string) ([]host.ObjectKey, *host.Error) {
	keys, err := f.selected(informer, sources)
	if err != nil {
		return nil, err
	}
	var found []host.ObjectKey
	for _, at := range keys {
		values, err := f.valuesOf(informer, index, at, f.objects[at])
		if err != nil {
			return nil, err
		}
		if slices.Contains(values, value) {
			found = append(found, host.ObjectKey{Source: at.source, Namespace: at.namespace, Name: at.name})
		}
	}
	return found, nil
}

func (f *fake) IndexValues(informer string, sources []uint32, index, cursor string, limit uint32) (
	[]string, *host.Error,
) {
	keys, err := f.selected(informer, sources)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, at := range keys {
		values, err := f.valuesOf(informer, index, at, f.objects[at])
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			all[value] = value > cursor
		}
	}
	maps.DeleteFunc(all, func(_ string, isAfter bool) bool { return !isAfter })
	sorted := slices.Sorted(maps.Keys(all))
	return sorted[:min(len(sorted), int(cmp.Or(limit, 1_000)))], nil
}
