package informant_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

// calling starts a plugin whose handler of pods makes these calls.
func calling(t *testing.T, call func(ctx *informant.Context, e *informant.Event) error) *informanttest.Plugin {
	t.Helper()
	informant.Register(t, func() {
		informant.Counter("seen", "Seen texts", "text")
		informant.Gauge("bytes", "Bytes of the last text")
		informant.Gauge("last", "The last object", "name")
		informant.Histogram("sizes", "Bytes of texts", []float64{2, 4})
		informant.For[Labeled]("v1", "Pod").
			OnUpsert(func(ctx *informant.Context, e *informant.Event, _ *Labeled) (result, error) {
				return result{}, call(ctx, e)
			}).
			Index("app", func(pod *Labeled) ([]string, error) {
				if pod.Metadata.Labels["app"] == "" {
					return nil, nil
				}
				return []string{pod.Metadata.Labels["app"]}, nil
			})
	})
	return informanttest.New(t, nil)
}

func checkText(t *testing.T, what any, expected string) {
	t.Helper()
	if text := fmt.Sprint(what); text != expected {
		t.Fatalf("it is %s, expected %s", text, expected)
	}
}

func TestDeferredWritesAreMadeAfterASuccess(t *testing.T) {
	var failure error
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		at := informant.Address{Resource: "v1/configmaps", Namespace: e.Namespace}
		named := at
		named.Name = e.Name
		return errors.Join(
			ctx.Kube.Create(at, map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": e.Name},
			}),
			ctx.Kube.Update(named, map[string]any{"data": map[string]string{"a": "<b>"}}),
			ctx.Kube.Patch(e, map[string]any{"metadata": map[string]any{"labels": map[string]string{"seen": "yes"}}}),
			ctx.Kube.JSONPatch(e, []map[string]any{{"op": "remove", "path": "/metadata/labels/app"}}),
			ctx.Kube.Apply(e, map[string]any{"status": 1}, informant.WriteOptions{Force: true}),
			ctx.Kube.Delete(e),
			failure,
		)
	})
	failure = errors.New("busy")
	checkError(t, p.Put(labeled("a", "app", "x")), "busy")
	if writes := p.Writes(); len(writes) > 0 {
		t.Fatal(writes)
	}
	failure = nil
	must(t, p.Retry())
	checkText(t, p.Writes(), `[create v1/configmaps web/a {"apiVersion":"v1","kind":"ConfigMap",`+
		`"metadata":{"name":"a","namespace":"web"}} `+
		`update v1/configmaps web/a {"data":{"a":"<b>"}} `+
		`patch v1/pods web/a {"metadata":{"labels":{"seen":"yes"}}} `+
		`patch v1/pods web/a [{"op":"remove","path":"/metadata/labels/app"}] `+
		`patch v1/pods web/a {"status":1} `+
		`delete v1/pods web/a]`)
}

func TestAFailedDeferredWriteIsTheFailureOfTheEvent(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		return ctx.Kube.Update(informant.Address{Resource: "v1/nodes", Name: "n"}, map[string]any{})
	})
	checkError(t, p.Put(labeled("a")), `v1/nodes "n" not found`)
}

func TestDirectCallsReturnWhatIsStored(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		var pod Labeled
		if err := ctx.Kube.Get(e, &pod); err != nil {
			return err
		}
		address, err := e.Address()
		must(t, err)
		checkText(t, address, "{ v1/pods web a  "+e.UID+"}")
		patch := map[string]any{"metadata": map[string]any{"uid": e.UID, "labels": map[string]any{"app": nil, "b": "c"}}}
		stored, err := ctx.Kube.Now().Patch(e, patch)
		must(t, err)
		must(t, stored.Decode(&pod))
		patch["metadata"] = map[string]string{"uid": "other"}
		if _, err := ctx.Kube.Now().Patch(e, patch); !informant.IsConflict(err) {
			t.Errorf("%v is no conflict", err)
		}
		count := 0
		for object, err := range ctx.Kube.List(informant.Address{Resource: "v1/pods"}, informant.ListOptions{Limit: 3}) {
			must(t, err)
			must(t, object.Decode(&pod))
			count++
		}
		must(t, ctx.Kube.Now().Delete(e))
		if err := ctx.Kube.Get(e, &pod); !informant.IsNotFound(err) {
			t.Errorf("%v does not mean that there is none", err)
		}
		checkText(t, count, "1")
		return nil
	})
	must(t, p.Put(labeled("a", "app", "x")))
	checkText(t, len(p.Writes()), "2")
	events, err := p.Settle()
	must(t, err)
	checkText(t, events, "2")
}

func TestADeniedCallIsNotRetried(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		return ctx.Kube.Patch(e, map[string]any{})
	})
	p.Deny("v1/pods", informant.APIError{Code: informant.APIDenied, Message: "allow.kube = [...]"})
	if err := p.Put(labeled("a")); !informant.IsTerminal(err) || err.Error() != "allow.kube = [...]" {
		t.Fatal(err)
	}
}

func TestOptionsOfWritesHaveTheirNames(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		options := informant.WriteOptions{FieldManager: "me", FieldValidation: "Strict", DryRun: true}
		if _, err := ctx.Kube.Now().StrategicPatch(e, map[string]any{"a": 1}, options); err != nil {
			return err
		}
		grace := int64(3)
		return ctx.Kube.Now().Delete(e, informant.DeleteOptions{
			PropagationPolicy: "Orphan", GracePeriodSeconds: &grace, ResourceVersion: e.ResourceVersion, DryRun: true,
		})
	})
	must(t, p.Put(labeled("a")))
	if writes := p.Writes(); len(writes) > 0 {
		t.Fatal(writes)
	}
}

func TestTheCacheIsReadWithTheFieldsOfTheType(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		if e.Name != "c" {
			return nil
		}
		var found Labeled
		isThere, err := ctx.Store.Find("pods", "web", "a", &found)
		must(t, err)
		checkText(t, fmt.Sprint(isThere, found.Metadata.Labels), "true map[app:x]")
		isThere, err = ctx.Store.Get(e.Source, "web", "missing", &found)
		checkText(t, fmt.Sprint(isThere, err), "false <nil>")
		var names []string
		query := informant.Query{Index: "app", Value: "x", LabelSelector: "!skip", Fields: []string{"/metadata/name"}}
		for item, err := range ctx.Store.List("pods", query) {
			must(t, err)
			names = append(names, item.Object.String())
		}
		checkText(t, names, `[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}]`)
		labels := []string{}
		for item, err := range informant.ListAs[Labeled](ctx.Store, "pods", informant.Query{Limit: 2, Namespace: "web"}) {
			must(t, err)
			labels = append(labels, item.Object.Metadata.Labels["app"])
		}
		checkText(t, labels, "[x x]")
		keys, err := ctx.Store.IndexKeys("pods", "app", "x")
		must(t, err)
		checkText(t, keys, "[{1 web a} {1 web b}]")
		values, err := ctx.Store.IndexValues("pods", "app")
		must(t, err)
		checkText(t, values, "[x y]")
		for _, err = range ctx.Store.List("others", informant.Query{}) {
		}
		return err
	})
	must(t, p.Put(labeled("a", "app", "x")))
	must(t, p.Put(labeled("b", "app", "x", "skip", "")))
	err := p.Put(labeled("c", "app", "y"))
	if !informant.IsTerminal(err) || !strings.Contains(err.Error(), `no informer "others"`) {
		t.Fatal(err)
	}
}

func TestReadsCoverTheClusterOfTheObject(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		count := func(clusters informant.Clusters) (found int) {
			for _, err := range ctx.Store.List("pods", informant.Query{Clusters: clusters}) {
				must(t, err)
				found++
			}
			return found
		}
		if e.Name == "last" {
			here, all := count(informant.Clusters{}), count(informant.Clusters{All: true})
			checkText(t, fmt.Sprint(here, all, count(informant.Clusters{Named: "east"})), "2 3 1")
		}
		return ctx.Kube.Patch(e, map[string]any{"a": 1})
	})
	must(t, p.PutIn("east", labeled("a")))
	must(t, p.PutIn("west", labeled("a")))
	must(t, p.PutIn("west", labeled("last")))
	writes := p.Writes()
	checkText(t, writes[len(writes)-1], `west: patch v1/pods web/last {"a":1}`)
}

func TestKeysTakeEffectWhenTheCallSucceeds(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		count := 0
		if _, err := ctx.KV.GetJSON("count", &count); err != nil {
			return err
		}
		isNew, err := ctx.KV.SetIfAbsent("seen/"+e.Name, []byte("true"))
		must(t, err)
		must(t, ctx.KV.SetJSON("count", count+1))
		keys, err := ctx.KV.List("seen/")
		must(t, err)
		must(t, ctx.KV.Delete("old"))
		_, isThere, err := ctx.KV.Get("old")
		must(t, err)
		checkText(t, isThere, "false")
		if slices.Contains(keys, "seen/b") && e.Attempt == 0 {
			return fmt.Errorf("new=%v keys=%v", isNew, keys)
		}
		return nil
	})
	p.Remember("old", "x")
	must(t, p.Put(labeled("a")))
	checkError(t, p.Put(labeled("b")), "new=true keys=[seen/a seen/b]")
	checkText(t, p.KV(), "map[count:1 seen/a:true]")
	must(t, p.Retry())
	checkText(t, p.KV(), "map[count:2 seen/a:true seen/b:true]")
}

func TestTheAddressNamesWhatIsApplied(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		at := informant.Address{Resource: "v1/configmaps", Namespace: e.Namespace, Name: "m"}
		data := map[string]string{"of": e.Name}
		return ctx.Kube.Apply(at, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data})
	})
	must(t, p.Put(labeled("a")))
	must(t, p.Put(labeled("b")))
	checkText(t, strings.Contains(p.Object("web/m"), `"data":{"of":"b"}`), "true")
}

func TestMetricsTakeEffectWhenTheCallSucceeds(t *testing.T) {
	p := calling(t, func(ctx *informant.Context, e *informant.Event) error {
		must(t, ctx.Metrics.Add("seen", 1, informant.Labels{"text": e.Name}))
		must(t, ctx.Metrics.Set("bytes", 2, nil))
		must(t, ctx.Metrics.Observe("sizes", 3, nil))
		must(t, ctx.Metrics.Replace("last", []informant.Sample{{Value: 1, Labels: informant.Labels{"name": e.Name}}}))
		if e.Attempt == 0 && e.Name == "b" {
			return ctx.Metrics.Add("undeclared", 1, nil)
		}
		return nil
	})
	must(t, p.Put(labeled("a")))
	err := p.Put(labeled("b"))
	checkError(t, err, `the manifest does not declare the metric "undeclared"`)
	checkText(t, p.Metrics(), `map[bytes:2 last{name="a"}:1 seen{text="a"}:1 sizes_count:1 sizes_sum:3]`)
}
