package informanttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
)

// Scenario runs a scenario file, which informant plugin test runs, too, against the plugin of the package under test:
// the members path and swap of the file stand for it. unmarshal reads YAML: yaml.Unmarshal of any package. What differs
// fails the test. So does what only informant plugin test can do: a config.toml, settings of config other than the
// resource and index of informers and the config, allow and informers of plugins, after in an answer, and buckets of
// histograms.
//
// Grants are not compared with each call: without allow.kube, allow.http and allow.events, all calls are denied. Timers
// run in the step timer only. The back-off has no random part, and the plugin's own clock is that of the machine.
func Scenario(t testing.TB, file string, unmarshal func(document []byte, value any) error) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var parsed any
	if err := unmarshal(text, &parsed); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	root := node{t: t, file: filepath.Base(file), unmarshal: unmarshal, value: normalized(parsed)}
	if root.has("time") {
		root.at("time").needsInformant()
	}
	root.check(scenarioMembers)
	if !root.has("steps") {
		root.fail("the scenario has no `steps`: write what happens")
	}
	for _, step := range root.at("steps").list() {
		checkStep(step)
	}
	r := &run{t: t, root: root, timers: map[key]*timer{}, deadLetters: map[key]deadLetter{}}
	r.all()
}

var scenarioStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// run is one run of a scenario.
type run struct {
	t           testing.TB
	root        node
	plugin      *Plugin
	refusal     string
	now         time.Duration
	answers     []node
	used        map[string]int
	requests    []object
	timers      map[key]*timer
	deadLetters map[key]deadLetter
	types       map[string][2]string
}

func (r *run) all() {
	r.setAnswers(r.root)
	r.start()
	for _, step := range r.root.at("steps").list() {
		if r.plugin != nil {
			r.act(step)
		}
		if step.has("expect") {
			r.compare(step.at("expect"))
		}
		if r.refusal != "" {
			r.differs(step, "the plugin was refused: "+r.refusal)
		}
		r.refusal = ""
		if r.plugin == nil {
			return
		}
	}
}

func (r *run) differs(at node, why string) {
	r.t.Helper()
	r.t.Errorf("%s: %s: %s", at.file, at.path, why)
}

// --- what happens ---

// section returns the plugin's section of config.
func (r *run) section() (name string, section node) {
	section = node{t: r.t, file: r.root.file, value: object{}}
	if !r.root.has("config") || !r.root.at("config").has("plugin") {
		return "test", section
	}
	sections := r.root.at("config").at("plugin")
	names := sections.names()
	if r.root.has("plugin") {
		names = []string{r.root.at("plugin").text()}
	}
	if len(names) != 1 || !sections.has(names[0]) {
		sections.fail("name one of the plugins in the member `plugin`")
	}
	section = sections.at(names[0])
	for _, member := range section.names() {
		if !slices.Contains([]string{"allow", "component", "config", "informers", "script"}, member) {
			section.at(member).needsInformant()
		}
	}
	return names[0], section
}

func (r *run) start() {
	r.checkConfig()
	name, section := r.section()
	context := map[string]any{"plugin": name, "logLevel": "info"}
	if section.has("config") {
		context["config"] = section.at("config").value
	}
	p, err := start(r.t, context)
	if err != nil {
		r.refusal = err.Error()
		return
	}
	r.plugin = p
	if p.manifest.Reconciler != nil {
		r.root.needsInformant()
	}
	if r.root.has("kv") {
		for _, name := range r.root.at("kv").names() {
			p.fake.values[name] = bytesOf(r.root.at("kv").at(name).value)
		}
	}
	allow, _ := section.value.(object)["allow"].(object)
	if allow["http"] != nil {
		p.HTTP(r.answer)
	}
	if allow["events"] != true {
		p.DenyEvents()
	}
	if allow["kube"] == nil {
		p.Deny("", informant.APIError{Code: "denied", Message: "not granted (allow.kube)"})
	}
	r.watch(section)
	r.checkWhatCanMatch(allow["kube"] != nil)
	if r.root.has("objects") {
		for _, o := range r.root.at("objects").objects() {
			r.apply(o, informant.ReasonInitial)
		}
	}
	if !p.plays("sync-handler") {
		return
	}
	for _, source := range slices.Clone(p.fake.sources) {
		if p.fake.watched[source.ID] {
			r.make(key{source: source.ID}, call{what: syncedCall}, 0, 0)
		}
	}
}

// checkConfig refuses settings that the kit does not simulate.
func (r *run) checkConfig() {
	if !r.root.has("config") {
		return
	}
	config := r.root.at("config")
	if _, isText := config.value.(string); isText {
		config.fail("informanttest has no reader of TOML: run the scenario with `informant plugin test`, " +
			"or write the sections here as YAML")
	}
	for _, name := range config.names() {
		if !slices.Contains([]string{"admin", "cache", "cluster", "health", "http", "informer", "plugin", "state"}, name) {
			config.at(name).needsInformant()
		}
	}
}

// watch adds the sources of config, and those of the kinds in the manifest.
func (r *run) watch(section node) {
	p := r.plugin
	r.types = map[string][2]string{}
	for _, rule := range p.manifest.Events {
		r.types[resourceOf(rule.APIVersion, rule.Kind)] = [2]string{rule.APIVersion, rule.Kind}
	}
	for _, o := range r.written() {
		apiVersion, kind := member(o, "apiVersion"), member(o, "kind")
		r.types[resourceOf(apiVersion, kind)] = [2]string{apiVersion, kind}
	}
	p.fake.watched = map[uint32]bool{}
	p.fake.indexRemedy = "add it to the scenario: config: { informer: { %s: { index: { %s: %s } } } }"
	if r.root.has("config") && r.root.at("config").has("informer") {
		informers := r.root.at("config").at("informer")
		for _, name := range informers.names() {
			wanted, _ := section.value.(object)["informers"].([]any)
			if wanted != nil && !slices.Contains(wanted, any(name)) {
				continue
			}
			for _, member := range informers.at(name).names() {
				if member != "index" && member != "resource" {
					informers.at(name).at(member).needsInformant()
				}
			}
			r.addIndexes(name, informers.at(name))
			resource := informers.at(name).at("resource")
			kind, isKnown := r.types[resource.text()]
			if !isKnown {
				resource.needsInformant()
			}
			p.fake.watched[p.fake.addSource("", name, kind[0], kind[1], true).ID] = true
		}
	}
	for _, rule := range p.manifest.Events {
		if rule.APIVersion != "*" && rule.Kind != "*" {
			p.fake.watched[p.fake.addSource("", "", rule.APIVersion, rule.Kind, true).ID] = true
		}
	}
}

// addIndexes adds the indexes of an informer in config.
func (r *run) addIndexes(name string, informer node) {
	if !informer.has("index") {
		return
	}
	for _, index := range informer.at("index").names() {
		pointer := informer.at("index").at(index)
		if !isPointer(pointer.text()) {
			pointer.fail(fmt.Sprintf("%q is not a JSON pointer: write it as /spec/nodeName", pointer.text()))
		}
		r.plugin.Index(name, index, pointer.text())
	}
}

// written returns all objects that the scenario writes.
func (r *run) written() []object {
	var all []object
	if r.root.has("objects") {
		all = append(all, r.root.at("objects").objects()...)
	}
	for _, step := range r.root.at("steps").list() {
		for _, action := range []string{"apply", "patch"} {
			if step.has(action) {
				all = append(all, step.at(action).objects()...)
			}
		}
	}
	return all
}

func (r *run) act(step node) {
	p := r.plugin
	switch {
	case step.has("apply"):
		for _, o := range step.at("apply").objects() {
			r.apply(o, informant.ReasonWatch)
		}
	case step.has("patch"):
		patch := step.at("patch").objects()[0]
		at, _ := p.fake.keyOf("", patch)
		before := p.fake.objects[at]
		if before == nil {
			step.at("patch").fail("the object does not exist: apply it first")
		}
		r.change(at, merge(before, patch).(object), informant.ReasonWatch)
	case step.has("delete"):
		r.delete(r.existing(step.at("delete")))
	case step.has("wait"):
		r.wait(step.at("wait").duration())
	case step.has("http"):
		r.setAnswers(step)
	case step.has("swap"):
		p.Swap()
	case step.has("trigger"):
		r.ask(r.existing(step.at("trigger")), call{reason: informant.ReasonTrigger, known: asked})
	case step.has("timer"):
		r.tick(step.at("timer").text())
	case step.has("requeue"):
		r.requeue(step.at("requeue"))
	}
}

func (r *run) apply(o object, reason informant.Reason) {
	p := r.plugin
	if namespace := member(o, "metadata", "namespace"); namespace != "" && namespace != "default" {
		created := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace}}
		if at, _ := p.fake.keyOf("", created); p.fake.objects[at] == nil {
			r.change(at, created, reason)
		}
	}
	at, err := p.fake.keyOf("", o)
	if err != nil {
		r.root.fail(err.Error())
	}
	r.change(at, o, reason)
}

// change writes an object to the cluster, and delivers the event.
func (r *run) change(at key, after object, reason informant.Reason) {
	before := r.plugin.fake.objects[at]
	after = copied(after).(object)
	if before != nil {
		for _, name := range []string{"uid", "resourceVersion"} {
			metadata(after)[name] = member(before, "metadata", name)
		}
		// The API server writes nothing then.
		if string(compact(before)) == string(compact(after)) {
			return
		}
	}
	r.plugin.fake.put(at, after)
	r.event(at, before, reason)
	r.settle()
}

func (r *run) delete(at key) {
	before := r.plugin.fake.objects[at]
	if finalizers, _ := metadata(before)["finalizers"].([]any); len(finalizers) > 0 {
		time := scenarioStart.Add(r.now).Format(time.RFC3339)
		marked := merge(before, object{"metadata": object{"deletionTimestamp": time}}).(object)
		r.change(at, marked, informant.ReasonWatch)
		return
	}
	delete(r.plugin.fake.objects, at)
	r.event(at, before, informant.ReasonWatch)
	r.settle()
}

// existing returns the key of a reference to an object that exists.
func (r *run) existing(reference node) key {
	at, isThere := r.keyOf(reference)
	if !isThere {
		reference.fail(reference.text() + " does not exist")
	}
	return at
}

func (r *run) keyOf(reference node) (key, bool) {
	for at := range r.plugin.fake.objects {
		if r.isIts(at, reference) {
			return at, true
		}
	}
	return key{}, false
}

func (r *run) isIts(at key, reference node) bool {
	resource, name := reference.reference()
	return r.plugin.fake.source(at.source).Resource == resource && at.String() == name
}

// requeue redelivers dead letters, or the object of a key.
func (r *run) requeue(reference node) {
	keys, of := slices.SortedFunc(maps.Keys(r.deadLetters), compareKeys), ""
	if reference.text() != "all" {
		of = " of " + reference.text()
		keys = slices.DeleteFunc(keys, func(at key) bool { return !r.isIts(at, reference) })
		if at, isThere := r.keyOf(reference); isThere {
			keys = []key{at}
		}
	}
	if len(keys) == 0 {
		reference.fail("the plugin has no dead letter" + of)
	}
	for _, at := range keys {
		r.redeliver(at)
	}
}

var seriesPattern = regexp.MustCompile(`^([A-Za-z0-9_]+)(?:\{(.*)\})?$`)

// seriesOf returns the name of `failures_total{namespace="shop"}` in the fake.
func (r *run) seriesOf(text string, at node) string {
	parts := seriesPattern.FindStringSubmatch(text)
	if parts == nil {
		at.fail("not a series")
	}
	labels := ""
	if parts[2] != "" {
		pairs := strings.Split(parts[2], ",")
		slices.Sort(pairs)
		labels = "{" + strings.Join(pairs, ",") + "}"
	}
	for name, declared := range r.plugin.fake.metrics {
		switch {
		case declared.Type == "counter" && parts[1] == name+"_total", declared.Type == "gauge" && parts[1] == name:
			return name + labels
		case declared.Type == "histogram" && (parts[1] == name+"_count" || parts[1] == name+"_sum"):
			return parts[1] + labels
		case declared.Type == "histogram" && parts[1] == name+"_bucket":
			at.needsInformant()
		}
	}
	at.fail("the manifest declares no metric " + parts[1] + "; a counter ends in _total")
	return ""
}
