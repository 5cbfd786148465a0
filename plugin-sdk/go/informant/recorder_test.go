package informant_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

// Named has what an Event needs to know of an object.
type Named struct {
	TypeMeta `json:",inline"`
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"metadata"`
}

var node = informant.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n1"}

func TestEventsAreRecordedAboutTheEventsObject(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		return errors.Join(
			ctx.Recorder.Event(e, informant.Normal, "Seen", "100 % seen"),
			ctx.Recorder.WithAction("Restart").WithRelated(node).Eventf(e, informant.Warning, "Crashing", "%d restarts", 3),
		)
	})
	must(t, p.Put(labeled("a")))
	events := p.Events()
	checkText(t, events, "[Normal Seen Pod web/a: 100 % seen Warning Crashing Pod web/a: 3 restarts]")
	pod := informant.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "web", Name: "a", UID: "uid-1"}
	if events[0].Regarding != pod || events[1].Related != node {
		t.Error(events[0].Regarding, events[1].Related)
	}
	checkText(t, events[0].Action+" "+events[1].Action, "Seen Restart")
	if events := p.Events(); len(events) > 0 {
		t.Error(events)
	}
}

func TestAnEventMayBeAboutAnyObjectThatIsNamed(t *testing.T) {
	var named Named
	named.APIVersion, named.Kind, named.Metadata.Name, named.Metadata.Namespace = "apps/v1", "Deployment", "d", "web"
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		record := func(object any) error { return ctx.Recorder.Event(object, informant.Normal, "Seen", "") }
		all := []error{
			record(named), record(&named), record(node), record(&node), record(&informant.Request{Event: e}),
			record(informant.Object(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n2"}}`)),
		}
		for item, err := range informant.ListAs[Named](ctx.Store, "pods", informant.Query{}) {
			all = append(all, err, record(item))
		}
		return errors.Join(all...)
	})
	p.InformerIn("east", "pods", "v1", "Pod")
	must(t, p.PutIn("east", labeled("a")))
	var objects []string
	for _, event := range p.Events() {
		objects = append(objects, event.Regarding.Cluster+": "+event.Regarding.APIVersion+" "+event.Regarding.String())
	}
	checkText(t, strings.Join(objects, ", "), "east: apps/v1 Deployment web/d, east: apps/v1 Deployment web/d, "+
		"east: v1 Node n1, east: v1 Node n1, east: v1 Pod web/a, east: v1 Node n2, east: v1 Pod web/a")
}

func TestAnEventOfATimerHasTheClusterOfItsObject(t *testing.T) {
	informant.Register(t, func() {
		informant.Timer("sweep", informant.Every(time.Minute), func(ctx *informant.Context, _ *informant.Tick) error {
			elsewhere := informant.ObjectReference{Cluster: "west", APIVersion: "v1", Kind: "Node", Name: "n1"}
			all := []error{
				ctx.Recorder.Event(elsewhere, informant.Normal, "Seen", ""),
				ctx.Recorder.Event(node, informant.Normal, "Seen", ""),
			}
			for item, err := range informant.ListAs[Named](ctx.Store, "pods", informant.Query{}) {
				all = append(all, err, ctx.Recorder.Event(item, informant.Normal, "Seen", ""))
			}
			return errors.Join(all...)
		})
	})
	p := informanttest.New(t, nil)
	p.InformerIn("east", "pods", "v1", "Pod")
	must(t, p.PutIn("east", labeled("a")))
	must(t, p.Tick("sweep"))
	var clusters []string
	for _, event := range p.Events() {
		clusters = append(clusters, event.Regarding.Cluster)
	}
	checkText(t, strings.Join(clusters, ","), "west,,east")
}

func TestEventsOfFailedCallsAreDropped(t *testing.T) {
	failure := errors.New("busy")
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		return errors.Join(ctx.Recorder.Event(e, informant.Normal, "Seen", ""), failure)
	})
	checkError(t, p.Put(labeled("a")), "busy")
	checkText(t, p.Events(), "[]")
	failure = nil
	must(t, p.Retry())
	checkText(t, len(p.Events()), "1")
}

func TestEventsThatAreRefusedAreNotRecorded(t *testing.T) {
	for message, record := range map[string]func(r informant.Recorder, e *informant.Event) error{
		`an Event is Normal or Warning, not "Error"`: func(r informant.Recorder, e *informant.Event) error {
			return r.Event(e, "Error", "Seen", "")
		},
		"the reason of an Event is CamelCase": func(r informant.Recorder, e *informant.Event) error {
			return r.WithAction("Look").Event(e, informant.Normal, "not seen", "")
		},
		"informant_test.Labeled has no apiVersion, kind": func(r informant.Recorder, e *informant.Event) error {
			return r.WithRelated(new(Labeled)).Event(e, informant.Normal, "Seen", "")
		},
		"string is not an object": func(r informant.Recorder, e *informant.Event) error {
			return r.Event("web/a", informant.Normal, "Seen", "")
		},
		"a call records at most 100 Events": func(r informant.Recorder, e *informant.Event) error {
			for range 100 {
				if err := r.Event(e, informant.Normal, "Seen", ""); err != nil {
					return err
				}
			}
			return r.Event(e, informant.Normal, "Seen", "")
		},
	} {
		t.Run(message, func(t *testing.T) {
			p := calling(t, func(ctx *informant.Context, e *informant.Event) error { return record(ctx.Recorder, e) })
			err := p.Put(labeled("a"))
			if !informant.IsTerminal(err) || !strings.Contains(err.Error(), message) {
				t.Error(err)
			}
			checkText(t, p.Events(), "[]")
		})
	}
}

func TestEventsNeedAGrant(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		err := ctx.Recorder.Event(e, informant.Normal, "Seen", "")
		var refused *informant.HostError
		if !errors.As(err, &refused) || refused.Code != informant.CodeDenied {
			t.Errorf("%v is not a denial", err)
		}
		return err
	})
	p.DenyEvents()
	if err := p.Put(labeled("a")); !informant.IsTerminal(err) {
		t.Fatal(err)
	}
}

func TestALongNoteIsCut(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		return ctx.Recorder.Event(e, informant.Normal, "Seen", strings.Repeat("a", 1_023)+"äää")
	})
	must(t, p.Put(labeled("a")))
	checkText(t, len(p.Events()[0].Note), "1023")
}

func TestScenariosCompareEvents(t *testing.T) {
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").
			OnUpsert(func(ctx *informant.Context, e *informant.Event, pod *Labeled) (result, error) {
				app := pod.Metadata.Labels["app"]
				return result{}, errors.Join(
					ctx.Recorder.WithRelated(node).Eventf(e, informant.Warning, "Failed", "%s has failed", app),
					ctx.Recorder.Event(node, informant.Normal, "Seen", "a pod"),
				)
			})
	})
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": "web-0", "labels": {"app": "web"}}}`
	t.Run("granted", func(t *testing.T) {
		scenario(t, `{"config": {"plugin": {"test": {"allow": {"events": true}}}}, "steps": [
			{"apply": `+pod+`, "expect": {"events": [
				{"type": "Warning", "reason": "Failed", "action": "Failed", "note": "*failed", "regarding": "Pod shop/web-0",
					"related": "Node n1"},
				{"type": "Normal", "note": "a pod", "regarding": "Node n1", "related": null}]}},
			{"expect": {"events": []}}
		]}`)
	})
	t.Run("not granted", func(t *testing.T) {
		scenario(t, `{"steps": [{"apply": `+pod+`, "expect": {"events": [], "calls": [{"result": "permanent"}]}}]}`)
	})
}
