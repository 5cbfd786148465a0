package informanttest

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/internal/host"
)

// The limits of Informant.
const (
	eventsMax    = 100
	eventNameMax = 128
	noteBytesMax = 1_024
)

var eventNamePattern = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// RecordedEvent is a Kubernetes Event that the plugin has recorded. It formats as "Warning Crashing Pod web/a: note".
type RecordedEvent struct {
	Type   informant.EventType
	Reason string
	Action string
	Note   string
	// Regarding is the object that it is about.
	Regarding informant.ObjectReference
	// Related is the second object, without a name if there is none.
	Related informant.ObjectReference
}

// String returns the Event in one line, without action and second object.
func (e RecordedEvent) String() string {
	return string(e.Type) + " " + e.Reason + " " + e.Regarding.String() + ": " + e.Note
}

// Events returns the Kubernetes Events that the plugin has recorded since the last call, without those of calls that
// failed.
func (p *Plugin) Events() []RecordedEvent {
	events := p.fake.events
	p.fake.events = nil
	return events
}

// DenyEvents lets calls of Recorder fail, as without `events = true` in `allow`.
func (p *Plugin) DenyEvents() {
	p.fake.deniesEvents = true
}

func (f *fake) RecordEvent(event host.Event) *host.Error {
	switch {
	case f.phase != handling:
		return notHere("recorder")
	case f.deniesEvents:
		return hostError("denied", "not granted (allow.events)")
	case len(f.pendingEvents) == eventsMax:
		return hostError("too-large", "a call records at most %d Events", eventsMax)
	}
	for member, name := range map[string]string{"reason": event.Reason, "action": event.Action} {
		if len(name) > eventNameMax || !eventNamePattern.MatchString(name) {
			message := "the %s of an Event is CamelCase, at most %d bytes: %q"
			return hostError("invalid", message, member, eventNameMax, name)
		}
	}
	recorded := RecordedEvent{
		Type:      informant.Normal,
		Reason:    event.Reason,
		Action:    event.Action,
		Note:      shortened(event.Note),
		Regarding: informant.ObjectReference(event.Regarding),
	}
	if event.Type == host.WarningEvent {
		recorded.Type = informant.Warning
	}
	if event.Related != nil {
		recorded.Related = informant.ObjectReference(*event.Related)
	}
	f.pendingEvents = append(f.pendingEvents, recorded)
	return nil
}

// shortened returns as much of a note as an Event has.
func shortened(note string) string {
	if len(note) <= noteBytesMax {
		return note
	}
	end := noteBytesMax
	for end > 0 && !utf8.RuneStart(note[end]) {
		end--
	}
	return strings.Clone(note[:end])
}

// shownEvent is an Event of a scenario.
func shownEvent(e RecordedEvent) object {
	shown := object{
		"type": string(e.Type), "reason": e.Reason, "action": e.Action, "note": e.Note, "regarding": e.Regarding.String(),
	}
	if e.Related.Name != "" {
		shown["related"] = e.Related.String()
	}
	return shown
}
