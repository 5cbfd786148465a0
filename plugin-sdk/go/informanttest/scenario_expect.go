package informanttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"informant.example/plugin-sdk/go/internal/host"
)

// The roles of calls.
var rolesOfCalls = map[string]string{
	"on-add": "event-handler", "on-update": "event-handler", "on-delete": "event-handler",
	"on-timer": "timer-handler", "on-synced": "sync-handler", "save": "state", "restore": "state",
}

// checkWhatCanMatch refuses expectations that can never match, and objects that nothing would notice.
func (r *run) checkWhatCanMatch(hasGrants bool) {
	r.t.Helper()
	noticed := []string{"v1/namespaces", "apiextensions.k8s.io/v1/customresourcedefinitions"}
	var watched []string
	for _, source := range r.plugin.fake.sources {
		if r.plugin.fake.watched[source.ID] {
			watched = append(watched, source.Resource)
		}
	}
	for _, step := range r.root.at("steps").list() {
		if step.has("apply") && !hasGrants {
			for _, o := range step.at("apply").objects() {
				resource := resourceOf(member(o, "apiVersion"), member(o, "kind"))
				if !slices.Contains(watched, resource) && !slices.Contains(noticed, resource) {
					step.at("apply").fail("no informer of the plugin watches " + resource + ", and allow.kube does not cover it")
				}
			}
		}
		if step.has("timer") {
			r.checkTimer(step.at("timer"), step.at("timer").text())
		}
		if !step.has("expect") {
			continue
		}
		expect := step.at("expect")
		if expect.has("calls") {
			_, entries := entriesOf(expect.at("calls"), "calls")
			for _, e := range entries {
				call, about := member(e.value, "call"), member(e.value, "object")
				if call != "" && !r.plugin.plays(rolesOfCalls[call]) {
					e.at.fail("the plugin has no function for " + call)
				}
				if timer := member(e.value, "timer"); timer != "" {
					r.checkTimer(e.at, timer)
				}
				resource, _, isAbout := strings.Cut(about, " ")
				if isAbout && !slices.Contains(watched, resource) {
					e.at.fail("no informer of the plugin watches " + resource)
				}
			}
		}
		if expect.has("events") && r.plugin.fake.deniesEvents {
			if _, entries := entriesOf(expect.at("events"), "events"); len(entries) > 0 {
				entries[0].at.fail("the plugin's section in config lacks `allow: { events: true }`")
			}
		}
		if expect.has("metrics") {
			for _, series := range expect.at("metrics").names() {
				r.seriesOf(series, expect.at("metrics").at(series))
			}
		}
	}
}

// checkTimer refuses a name that is none of a timer.
func (r *run) checkTimer(at node, name string) {
	r.t.Helper()
	if err := r.plugin.checkTimer(name); err != nil {
		at.fail(err.Error())
	}
}

// compare reports what differs from an expect, and forgets what happened.
func (r *run) compare(expect node) {
	r.t.Helper()
	happened := map[string][]object{}
	if r.plugin != nil {
		happened = r.happened()
	}
	for _, stream := range slices.Sorted(maps.Keys(streams)) {
		if expect.has(stream) {
			r.compareStream(stream, expect.at(stream), happened[stream])
		}
	}
	if r.plugin != nil {
		r.compareState(expect)
		r.plugin.calls, r.plugin.fake.lines, r.plugin.fake.sent, r.requests = nil, nil, nil, nil
		r.plugin.fake.events = nil
	}
	if !expect.has("refused") {
		return
	}
	at := expect.at("refused")
	switch {
	case r.refusal == "":
		r.differs(at, "the plugin was not refused")
	case !fits(at.text(), r.refusal):
		r.differs(at, fmt.Sprintf("expected %q, found %q", at.text(), r.refusal))
	}
	r.refusal = ""
}

// happened returns what the lists of an expect are compared with.
func (r *run) happened() map[string][]object {
	p := r.plugin
	all := map[string][]object{"http": r.requests}
	for _, made := range p.calls {
		call := object{"call": made.call, "result": "ok"}
		if made.reason != "" {
			call["reason"], call["attempt"] = made.reason, number(float64(made.attempt))
		}
		if made.object != "" {
			call["object"] = made.object
		}
		if made.timer != "" {
			call["timer"], call["missed"] = made.timer, number(float64(made.missed))
			call["attempt"] = number(float64(made.attempt))
		}
		if made.err != nil {
			call["result"], call["error"] = "retry", made.err.Error()
			switch failure := host.FailureOf(made.err); failure.Kind {
			case host.Permanent:
				call["result"] = "permanent"
			case host.RetryAfter:
				call["requeueAfter"] = (time.Duration(failure.AfterMS) * time.Millisecond).String()
			}
		}
		if made.requeue != nil && made.err == nil {
			call["requeueAfter"] = made.requeue.String()
		}
		all["calls"] = append(all["calls"], call)
	}
	for _, line := range p.fake.lines {
		if line.level == "trace" || line.level == "debug" {
			continue
		}
		fields := object{}
		for _, field := range line.fields {
			// Text as it is, anything else as JSON.
			if value, err := parse([]byte(field[1])); err == nil {
				fields[field[0]] = value
			} else {
				fields[field[0]] = field[1]
			}
		}
		all["log"] = append(all["log"], object{"level": line.level, "message": line.message, "fields": fields})
	}
	for _, sent := range p.fake.sent {
		all["writes"] = append(all["writes"], shownWrite(sent))
	}
	for _, event := range p.fake.events {
		all["events"] = append(all["events"], shownEvent(event))
	}
	for _, at := range slices.SortedFunc(maps.Keys(r.deadLetters), compareKeys) {
		about := p.fake.source(at.source).Resource + " " + at.String()
		all["deadLetters"] = append(all["deadLetters"], object{"object": about, "error": r.deadLetters[at].message})
	}
	return all
}

var resourcePattern = regexp.MustCompile(`^((?:[^/]+/)?v\d[^/]*/[^/]+)(?:/(.+))?$`)

func shownWrite(s sent) object {
	write := object{"verb": s.write.Verb, "result": s.result}
	resource := s.write.Resource
	if parts := resourcePattern.FindStringSubmatch(resource); parts != nil && parts[2] != "" {
		resource, write["subresource"] = parts[1], parts[2]
	}
	write["object"] = resource + " " + s.write.Object
	if s.kind != "" {
		write["kind"] = s.kind
	}
	if s.write.Document != "" {
		write["document"], _ = parse([]byte(s.write.Document))
	}
	return write
}

func (r *run) compareStream(stream string, n node, found []object) {
	r.t.Helper()
	isPart, entries := entriesOf(n, stream)
	if isPart {
		rest := found
		for _, e := range entries {
			at := slices.IndexFunc(rest, func(o object) bool { return entryDifference(stream, e.value, o) == "" })
			if at < 0 {
				r.differs(e.at, fmt.Sprintf("not found: %s; there are: %s", compact(e.value), compact(rest)))
				return
			}
			rest = rest[at+1:]
		}
		return
	}
	for at, e := range entries {
		if at >= len(found) {
			r.differs(e.at, "missing: "+string(compact(e.value)))
		} else if why := entryDifference(stream, e.value, found[at]); why != "" {
			r.differs(e.at, why)
		}
	}
	for _, extra := range found[min(len(entries), len(found)):] {
		r.differs(n, "one too many: "+string(compact(extra)))
	}
}

func entryDifference(stream string, expected, found object) string {
	expected = maps.Clone(expected)
	if text, isText := expected["requeueAfter"].(string); isText {
		passing, _ := parseDuration(text)
		expected["requeueAfter"] = passing.String()
	}
	switch stream {
	case "events":
		return eventDifference(expected, found)
	case "http":
		return requestDifference(expected, found)
	}
	return difference(expected, found, "", false)
}

// eventDifference compares a note as a text in which * stands for any text.
func eventDifference(expected, found object) string {
	if note, isText := expected["note"].(string); isText {
		if why := difference(note, found["note"], "note", true); why != "" {
			return why
		}
		delete(expected, "note")
	}
	return difference(expected, found, "", false)
}

func requestDifference(expected, found object) string {
	if headers, isGiven := expected["headers"].(object); isGiven {
		lowercase := object{}
		for name, value := range headers {
			lowercase[strings.ToLower(name)] = value
		}
		expected["headers"] = lowercase
	}
	body, hasBody := expected["body"]
	delete(expected, "body")
	if why := difference(expected, found, "", false); why != "" || !hasBody {
		return why
	}
	text, isText := body.(string)
	if isText {
		return difference(text, found["body"], "body", true)
	}
	sent, _ := found["body"].(string)
	if body == nil && sent == "" {
		return ""
	}
	parsed, err := parse([]byte(sent))
	if err != nil {
		return fmt.Sprintf("body: expected the JSON %s, found %q", compact(body), sent)
	}
	return difference(body, parsed, "body", false)
}

// fits reports whether a text matches one in which * stands for any text, and \* for an asterisk.
func fits(pattern, text string) bool {
	var expression strings.Builder
	for at, part := range strings.Split(strings.ReplaceAll(pattern, `\*`, "\x00"), "*") {
		if at > 0 {
			expression.WriteString(".*")
		}
		expression.WriteString(regexp.QuoteMeta(strings.ReplaceAll(part, "\x00", "*")))
	}
	return regexp.MustCompile(`(?s)^` + expression.String() + `$`).MatchString(text)
}

// expectsNothing reports whether nothing matches: null, and a mapping all of whose members are so.
func expectsNothing(expected any) bool {
	members, _ := expected.(object)
	for _, member := range members {
		if !expectsNothing(member) {
			return false
		}
	}
	return expected == nil || len(members) > 0
}

// difference returns what differs, as `path: expected ..., found ...`; empty if nothing does.
func difference(expected, found any, path string, isPattern bool) string {
	if found == nil && expectsNothing(expected) {
		return ""
	}
	switch e := expected.(type) {
	case nil:
	case object:
		members, isMapping := found.(object)
		if !isMapping {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(e)) {
			isText := slices.Contains([]string{"error", "message", "url"}, name)
			below := strings.TrimPrefix(path+"."+name, ".")
			if why := difference(e[name], members[name], below, isText); why != "" {
				return why
			}
		}
		return ""
	case []any:
		elements, isList := found.([]any)
		if !isList || len(elements) != len(e) {
			break
		}
		for at := range e {
			if why := difference(e[at], elements[at], fmt.Sprintf("%s[%d]", path, at), false); why != "" {
				return why
			}
		}
		return ""
	case string:
		text, isText := found.(string)
		if isText && (text == e || isPattern && fits(e, text)) {
			return ""
		}
	case json.Number:
		other, isNumber := found.(json.Number)
		if isNumber {
			a, _ := e.Float64()
			b, _ := other.Float64()
			if a == b {
				return ""
			}
		}
	default:
		if expected == found {
			return ""
		}
	}
	return fmt.Sprintf("%s: expected %s, found %s", path, compact(expected), compact(found))
}

func number(value float64) json.Number {
	return json.Number(strings.TrimSuffix(string(compact(value)), ".0"))
}

// compareState compares what is the case now.
func (r *run) compareState(expect node) {
	r.t.Helper()
	fake := r.plugin.fake
	report := func(at node, why string) {
		if why != "" {
			r.differs(at, why)
		}
	}
	if expect.has("objects") {
		for _, at := range expect.at("objects").list() {
			o := at.objects()[0]
			where, _ := fake.keyOf("", o)
			if fake.objects[where] == nil {
				report(at, "the object does not exist")
			} else {
				report(at, difference(o, any(fake.objects[where]), "", false))
			}
		}
	}
	if expect.has("absent") {
		for _, reference := range expect.at("absent").list() {
			if _, exists := r.keyOf(reference); exists {
				report(reference, reference.text()+" exists")
			}
		}
	}
	if expect.has("kv") {
		for _, name := range expect.at("kv").names() {
			at := expect.at("kv").at(name)
			report(at, kvDifference(at.value, fake.values[name]))
		}
	}
	if expect.has("metrics") {
		for _, series := range expect.at("metrics").names() {
			at := expect.at("metrics").at(series)
			var found any
			if value, isThere := fake.series[r.seriesOf(series, at)]; isThere {
				found = number(value)
			}
			report(at, difference(at.value, found, "", false))
		}
	}
	if expect.has("indexes") {
		r.compareIndexes(expect.at("indexes"), report)
	}
}

func (r *run) compareIndexes(indexes node, report func(at node, why string)) {
	fake := r.plugin.fake
	for _, informer := range indexes.names() {
		for _, index := range indexes.at(informer).names() {
			for _, value := range indexes.at(informer).at(index).names() {
				at := indexes.at(informer).at(index).at(value)
				var expected, found []string
				for _, key := range at.list() {
					expected = append(expected, key.text())
				}
				for where, o := range fake.objects {
					values, err := fake.valuesOf(informer, index, where, o)
					if err != nil {
						at.fail(err.Message)
					}
					if fake.source(where.source).Informer == informer && slices.Contains(values, value) {
						found = append(found, where.String())
					}
				}
				slices.Sort(expected)
				slices.Sort(found)
				if !slices.Equal(expected, found) {
					report(at, fmt.Sprintf("expected %q, found %q", expected, found))
				}
			}
		}
	}
}

// kvDifference takes a text as the bytes of a value, or as the JSON of a text.
func kvDifference(expected any, found []byte) string {
	if found == nil {
		if expectsNothing(expected) {
			return ""
		}
		return fmt.Sprintf("expected %s, but the key is not set", compact(expected))
	}
	if text, isText := expected.(string); isText && text == string(found) {
		return ""
	}
	parsed, err := parse(found)
	if err != nil {
		return fmt.Sprintf("expected %s, found %q", compact(expected), found)
	}
	return difference(expected, parsed, "", false)
}
