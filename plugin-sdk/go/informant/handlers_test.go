package informant_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

type Labeled struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

type result = informant.Result

func labeled(name string, labels ...string) map[string]any {
	all := map[string]string{}
	for pair := range slices.Chunk(labels, 2) {
		all[pair[0]] = pair[1]
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "web", "name": name, "labels": all},
	}
}

func checkLogs(t *testing.T, p *informanttest.Plugin, expected ...string) {
	t.Helper()
	if logs := p.Logs(); !slices.Equal(logs, expected) {
		t.Fatalf("logged %q, expected %q", logs, expected)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func checkError(t *testing.T, err error, expected string) {
	t.Helper()
	if fmt.Sprint(err) != expected {
		t.Fatalf("failed with %v, expected %s", err, expected)
	}
}

func TestHandlersReceiveEachChange(t *testing.T) {
	logs := func(what string) informant.Handler[Labeled] {
		return func(_ *informant.Context, e *informant.Event, pod *Labeled) (result, error) {
			old := informant.OldOf[Labeled](e)
			before := "-"
			if old != nil {
				before = old.Metadata.Labels["app"]
			}
			slog.Info(what, "of", e, "reason", e.Reason, "old", before, "now", pod.Metadata.Labels["app"],
				"unknown", e.FinalStateUnknown)
			return result{}, nil
		}
	}
	informant.Register(t, func() {
		pods := informant.For[Labeled]("v1", "Pod", informant.Old())
		pods.OnAdd(logs("add")).OnUpdate(logs("update")).OnDelete(logs("delete"))
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a", "app", "x")))
	must(t, p.Put(labeled("a", "app", "y")))
	must(t, p.Vanish("web/a"))
	p.Reason(informant.ReasonReplay)
	must(t, p.Put(labeled("a")))
	checkLogs(t, p,
		"info: add of=web/a reason=watch old=- now=x unknown=false",
		"info: update of=web/a reason=watch old=x now=y unknown=false",
		"info: delete of=web/a reason=watch old=- now=y unknown=true",
		"info: add of=web/a reason=replay old=- now= unknown=false")
}

func TestTheMostSpecificKindIsCalled(t *testing.T) {
	informant.Register(t, func() {
		for _, kind := range []string{"*", "Pod"} {
			informant.For[informant.Object]("*", kind).OnUpsert(
				func(_ *informant.Context, e *informant.Event, o *informant.Object) (result, error) {
					slog.Info(kind, "of", e.Name)
					return result{}, nil
				})
		}
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a")))
	must(t, p.Put(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`))
	checkLogs(t, p, "info: Pod of=a", "info: * of=n")
}

func TestSelectorsMakeAddsAndDeletes(t *testing.T) {
	informant.Register(t, func() {
		pods := informant.For[Labeled]("v1", "Pod", informant.LabelSelector("app in (x, y),!skip"), informant.ChangedOnly())
		pods.OnAdd(named("add")).OnUpdate(named("update")).OnDelete(named("delete"))
	})
	p := informanttest.New(t, nil)
	for _, labels := range [][]string{{"app", "z"}, {"app", "x"}, {"app", "x"}, {"app", "y"}, {"app", "y", "skip", ""}} {
		must(t, p.Put(labeled("a", labels...)))
	}
	checkLogs(t, p, "info: add", "info: update", "info: delete")
}

func named(what string) informant.Handler[Labeled] {
	return func(*informant.Context, *informant.Event, *Labeled) (result, error) {
		slog.Info(what)
		return result{}, nil
	}
}

func TestErrorsAreRetriedUnlessTheyAreTerminal(t *testing.T) {
	var returned error
	attempts := []int{}
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(
			func(_ *informant.Context, e *informant.Event, _ *Labeled) (result, error) {
				attempts = append(attempts, e.Attempt)
				return result{RequeueAfter: time.Second}, returned
			})
	})
	p := informanttest.New(t, nil)
	returned = errors.New("busy")
	checkError(t, p.Put(labeled("a")), "busy")
	checkError(t, p.Retry(), "busy")
	returned = informant.RetryAfter(time.Minute, errors.New("later"))
	checkError(t, p.Retry(), "later")
	returned = informant.TerminalError(errors.New("wrong"))
	err := p.Retry()
	checkError(t, err, "wrong")
	must(t, p.Retry())
	if fmt.Sprint(attempts) != "[0 1 2 3]" || len(p.Requeues()) != 0 {
		t.Fatal(attempts, p.Requeues())
	}
	for _, lasting := range []error{
		&informant.HostError{Code: informant.CodeUnknownIndex},
		fmt.Errorf("reading: %w", &informant.APIError{Code: informant.APIDenied}),
	} {
		if !informant.IsTerminal(lasting) {
			t.Errorf("%#v would be retried", lasting)
		}
	}
	for _, passing := range []error{
		nil, errors.New("x"), informant.TerminalError(nil), informant.RetryAfter(time.Second, nil),
		&informant.HostError{Code: informant.CodeNotReady}, &informant.APIError{Code: informant.APIConflict},
	} {
		if informant.IsTerminal(passing) {
			t.Errorf("%#v would not be retried", passing)
		}
	}
}

func TestAPanicIsAFailureWithItsPlace(t *testing.T) {
	calls := 0
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(
			func(*informant.Context, *informant.Event, *Labeled) (result, error) {
				if calls++; calls == 1 {
					return result{}, fmt.Errorf("%v", []int{}[calls])
				}
				return result{}, nil
			})
	})
	p := informanttest.New(t, nil)
	err := p.Put(labeled("a"))
	const expected = "panic: runtime error: index out of range [1] with length 0 (handlers_test.go:"
	if err == nil || !strings.HasPrefix(err.Error(), expected) || informant.IsTerminal(err) {
		t.Fatal(err)
	}
	logs := p.Logs()
	if len(logs) != 1 || !strings.HasPrefix(logs[0], "error: panic in on-add: runtime error: ") ||
		!strings.Contains(logs[0], "handlers_test.go:") {
		t.Fatal(logs)
	}
	must(t, p.Retry())
	if calls != 2 {
		t.Fatal("the memory of the plugin is lost")
	}
}

func TestAnObjectOfAnotherTypeIsNotRetried(t *testing.T) {
	informant.Register(t, func() { informant.For[Labeled]("v1", "Pod").OnUpsert(named("upsert")) })
	p := informanttest.New(t, nil)
	pod := labeled("a")
	pod["metadata"].(map[string]any)["labels"] = 5
	err := p.Put(pod)
	if !informant.IsTerminal(err) || !strings.Contains(err.Error(), "the object does not match its type") {
		t.Fatal(err)
	}
}

func TestARequeuedObjectIsUpdatedAgain(t *testing.T) {
	informant.Register(t, func() {
		again := func(_ *informant.Context, e *informant.Event, pod *Labeled) (result, error) {
			slog.Info("called", "reason", e.Reason, "app", pod.Metadata.Labels["app"])
			if e.Reason == informant.ReasonRequeueAfter {
				return result{}, nil
			}
			return result{RequeueAfter: 1500 * time.Microsecond}, nil
		}
		informant.For[Labeled]("v1", "Pod").OnUpdate(again).OnAdd(again).OnDelete(again)
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a", "app", "x")))
	must(t, p.Put(labeled("b", "app", "y")))
	must(t, p.Delete("web/b"))
	if asked := fmt.Sprint(p.Requeues()); asked != "[{web/a 2ms} {web/b 2ms}]" {
		t.Fatal(asked)
	}
	p.Logs()
	must(t, p.RunRequeues())
	checkLogs(t, p, "info: called reason=requeue-after app=x", "info: called reason=requeue-after app=y")
	if len(p.Requeues()) != 0 {
		t.Fatal(p.Requeues())
	}
}

func TestStateIsHandedOver(t *testing.T) {
	seen := map[string]int{"first": 1}
	informant.Register(t, func() {
		informant.State(&seen)
		informant.For[Labeled]("v1", "Pod").OnUpsert(
			func(ctx *informant.Context, e *informant.Event, _ *Labeled) (result, error) {
				seen[e.Name]++
				slog.Info("seen", "because", ctx.Info.Because, "seen", seen)
				return result{}, nil
			})
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a")))
	p.Swap()
	must(t, p.Put(labeled("a")))
	checkLogs(t, p, `info: seen because=start seen={"a":1,"first":1}`, `info: seen because=swap seen={"a":2,"first":1}`)
}

func TestAStartResetsState(t *testing.T) {
	seen := map[string]int{"first": 1}
	informant.Register(t, func() {
		informant.State(&seen)
		informant.For[Labeled]("v1", "Pod").OnUpsert(
			func(_ *informant.Context, e *informant.Event, _ *Labeled) (result, error) {
				seen[e.Name]++
				return result{}, nil
			})
	})
	for range 2 {
		t.Run("", func(t *testing.T) {
			must(t, informanttest.New(t, nil).Put(labeled("a")))
			if fmt.Sprint(seen) != "map[a:1 first:1]" {
				t.Fatal(seen)
			}
		})
	}
}

func TestSyncedSourcesAreReported(t *testing.T) {
	logs := func(what string) informant.SyncedHandler {
		return func(ctx *informant.Context, s *informant.Synced) error {
			source, err := s.Info()
			count := 0
			for _, err := range ctx.Store.List(source.Informer, informant.Query{}) {
				if err != nil {
					return err
				}
				count++
			}
			slog.Info(what, "informer", source.Informer, "count", count, "reason", s.Reason)
			return err
		}
	}
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(done).OnSynced(logs("pods"))
		informant.OnSynced(logs("all"))
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a")))
	p.Informer("machines", "v1", "Node")
	must(t, p.Synced())
	checkLogs(t, p,
		"info: pods informer=pods count=1 reason=initial",
		"info: all informer=pods count=1 reason=initial",
		"info: all informer=machines count=0 reason=initial")
}

func TestARegisteredKindHasAnInformerWithoutObjects(t *testing.T) {
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(counts("pods", "nodes", "services"))
		informant.For[Labeled]("v1", "Node").Index("app", func(*Labeled) ([]string, error) { return nil, nil })
		informant.For[Labeled]("*", "Service").OnUpsert(done)
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a")))
	checkLogs(t, p, "info: pods=1", "info: nodes=0",
		"info: services=the test has no informer \"services\": call p.Informer, or put an object")
}

func TestAnIndexExistsForAllKindsOfThePlugin(t *testing.T) {
	informant.Register(t, func() {
		byApp := func(pod *Labeled) ([]string, error) { return []string{pod.Metadata.Labels["app"]}, nil }
		informant.For[Labeled]("v1", "Node").Index("zone", func(*Labeled) ([]string, error) { return []string{"z"}, nil })
		informant.For[Labeled]("v1", "Pod").Index("app", byApp).OnUpsert(
			func(ctx *informant.Context, _ *informant.Event, _ *Labeled) (result, error) {
				for _, informer := range []string{"pods", "nodes"} {
					values, err := ctx.Store.IndexValues(informer, "app")
					slog.Info(informer, "values", values, "error", err)
				}
				return result{}, nil
			})
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`))
	must(t, p.Put(labeled("a", "app", "x")))
	checkLogs(t, p, `info: pods values=["x"] error=null`, "info: nodes values=null error=null")
}

func TestInformersOfRegisteredKindsCanBeRenamed(t *testing.T) {
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(counts("pods"))
		informant.For[Labeled]("v1", "Node").OnUpsert(counts("machines", "nodes"))
	})
	p := informanttest.New(t, nil)
	p.Informer("machines", "v1", "Node")
	must(t, p.PutIn("east", labeled("a")))
	must(t, p.PutIn("west", labeled("b")))
	must(t, p.Put(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`))
	checkLogs(t, p, "info: pods=1", "info: pods=1", "info: machines=1",
		"info: nodes=the test has no informer \"nodes\": call p.Informer, or put an object")
}

// counts logs how many objects these informers have, or why that is not known.
func counts(informers ...string) informant.Handler[Labeled] {
	return func(ctx *informant.Context, _ *informant.Event, _ *Labeled) (result, error) {
		for _, informer := range informers {
			var count any = 0
			for _, err := range ctx.Store.List(informer, informant.Query{}) {
				if err != nil {
					count = err
					break
				}
				count = count.(int) + 1
			}
			slog.Info(fmt.Sprintf("%s=%v", informer, count))
		}
		return result{}, nil
	}
}

func TestInitMayReadAndWriteKeysOnly(t *testing.T) {
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(done)
		informant.OnInit(func(ctx *informant.Context) error {
			must(t, ctx.KV.Set("a", []byte("b")))
			_, err := ctx.Store.Sources("pods")
			return err
		})
	})
	p, err := informanttest.Start(t, nil)
	var refused *informant.HostError
	if p != nil || !informant.IsTerminal(err) || errors.As(err, &refused) {
		t.Fatal(err)
	}
	checkError(t, err, "store cannot be called here")
}

func TestFieldsOfLogLinesKeepTheirTypes(t *testing.T) {
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(
			func(*informant.Context, *informant.Event, *Labeled) (result, error) {
				slog.With("a", 1).WithGroup("g").Warn("text", "b", "5", "c", "five", "d", []int{1}, "e", errors.New("x"),
					"f", time.Minute, slog.Group("h", "i", true), "j", map[string]any{"k": nil}, "l", "")
				slog.Log(context.Background(), informant.LevelTrace, "low")
				return result{}, nil
			})
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a")))
	checkLogs(t, p,
		`warn: text a=1 g.b="5" g.c=five g.d=[1] g.e=x g.f=1m0s g.h.i=true g.j={"k":null} g.l=`,
		"trace: low")
}

func TestLinesBelowTheLogLevelAreNotWritten(t *testing.T) {
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(
			func(*informant.Context, *informant.Event, *Labeled) (result, error) {
				slog.Info("low")
				slog.Warn("high")
				return result{}, nil
			})
	})
	p, err := informanttest.StartWith(t, map[string]any{"logLevel": "warn"})
	must(t, err)
	must(t, p.Put(labeled("a")))
	checkLogs(t, p, "warn: high")
}
