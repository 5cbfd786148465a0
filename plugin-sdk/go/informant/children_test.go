package informant_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

type object = map[string]any

// reconciling starts a plugin that makes these calls for each site that is there, and has the site web/a.
func reconciling(t *testing.T, call func(ctx *informant.Context, r *informant.Request) error) *informanttest.Plugin {
	t.Helper()
	informant.Register(t, func() {
		informant.For[Labeled]("example.com/v1", "Site").
			Reconcile(func(ctx *informant.Context, r *informant.Request, site *Labeled) (result, error) {
				if site == nil {
					return result{}, nil
				}
				return result{}, call(ctx, r)
			}).
			Owns(informant.Related("v1", "ConfigMap")).Owns(informant.Related("v1", "Service"))
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(`{"apiVersion": "example.com/v1", "kind": "Site", "metadata":
		{"namespace": "web", "name": "a", "uid": "u1", "generation": 1}}`))
	return p
}

func child(kind, name string) object {
	return object{"apiVersion": "v1", "kind": kind, "metadata": object{"name": name}}
}

// settingChildren starts a plugin whose sites have these children, and returns what the last call has done.
func settingChildren(t *testing.T, children *[]any) (*informanttest.Plugin, *informant.Children) {
	t.Helper()
	done := new(informant.Children)
	return reconciling(t, func(ctx *informant.Context, r *informant.Request) (err error) {
		*done, err = ctx.Kube.Children(r, *children...)
		return err
	}), done
}

func TestChildrenBecomeThoseOfTheCall(t *testing.T) {
	service, configMap := child("Service", "a-service"), child("ConfigMap", "a-config")
	configMap["data"] = object{"a": "1"}
	children := []any{service, informant.Whole(configMap)}
	p, done := settingChildren(t, &children)
	must(t, p.Reconcile("web/a"))
	checkText(t, *done, "{2 0 [] }")
	metadata := `"metadata":{"labels":{"informant.dev/owner-uid":"u1","informant.dev/plugin":"test"},"name":"%s",` +
		`"namespace":"web","ownerReferences":[{"apiVersion":"example.com/v1","blockOwnerDeletion":true,` +
		`"controller":true,"kind":"Site","name":"a","uid":"u1"}]}`
	checkText(t, p.Writes(), `[patch v1/services web/a-service {"apiVersion":"v1","kind":"Service",`+
		fmt.Sprintf(metadata, "a-service")+`} create v1/configmaps web/a-config {"apiVersion":"v1","data":{"a":"1"},`+
		`"kind":"ConfigMap",`+fmt.Sprintf(metadata, "a-config")+`}]`)
	must(t, p.Reconcile("web/a"))
	checkText(t, *done, "{1 0 [] }")
	checkText(t, p.Writes(), "[]")
	children = []any{service}
	must(t, p.Reconcile("web/a"))
	checkText(t, *done, "{1 1 [] }")
	checkText(t, p.Writes(), "[delete v1/configmaps web/a-config]")
}

func TestOnlyAWholeChildLosesFieldsOfOthers(t *testing.T) {
	service, configMap := child("Service", "a-service"), child("ConfigMap", "a-config")
	configMap["data"] = object{"a": "1"}
	children := []any{service, informant.Whole(configMap)}
	p, _ := settingChildren(t, &children)
	must(t, p.Reconcile("web/a"))
	edit := func(name, field string, value any) {
		t.Helper()
		var edited object
		must(t, informant.Object(p.Object(name)).Decode(&edited))
		edited["metadata"].(object)["labels"].(object)["theirs"] = "1"
		edited[field] = value
		must(t, p.Put(edited))
	}
	edit("web/a-service", "spec", object{"theirs": 1})
	edit("web/a-config", "data", object{"a": "2", "theirs": "1"})
	must(t, p.Reconcile("web/a"))
	if stored := p.Object("web/a-service"); !strings.Contains(stored, `"spec":{"theirs":1}`) {
		t.Error(stored)
	}
	stored := p.Object("web/a-config")
	if !strings.Contains(stored, `"data":{"a":"1"}`) || !strings.Contains(stored, `"theirs":"1"`) {
		t.Error(stored)
	}
}

func TestObjectsOfOthersAreRefused(t *testing.T) {
	children := []any{child("Service", "theirs"), informant.Whole(child("ConfigMap", "a-config"))}
	p, done := settingChildren(t, &children)
	theirs := child("Service", "theirs")
	theirs["metadata"].(object)["namespace"] = "web"
	must(t, p.Put(theirs))
	must(t, p.Reconcile("web/a"))
	checkText(t, *done, "{1 0 [Service web/theirs] }")
	checkText(t, len(p.Writes()), "1")
	children = nil
	must(t, p.Reconcile("web/a"))
	checkText(t, p.Writes(), "[delete v1/configmaps web/a-config]")
}

func TestNothingIsPrunedWhenTheCacheIsBehind(t *testing.T) {
	children := []any{child("Service", "a-service")}
	p, done := settingChildren(t, &children)
	must(t, p.Reconcile("web/a"))
	p.Writes()
	children = nil
	must(t, p.ReconcileBehind("web/a"))
	checkText(t, p.Writes(), "[]")
	checkText(t, done.PruneSkipped, "the cache has not seen all earlier writes for this object")
	must(t, p.Reconcile("web/a"))
	checkText(t, done.Pruned, "1")
}

func TestAFailedCallLeavesChildrenAsTheyAre(t *testing.T) {
	failure := errors.New("busy")
	p := reconciling(t, func(ctx *informant.Context, r *informant.Request) error {
		_, err := ctx.Kube.Children(r, child("Service", "a-service"))
		return errors.Join(err, failure)
	})
	checkError(t, p.Reconcile("web/a"), "busy")
	checkText(t, p.Writes(), "[]")
	failure = nil
	must(t, p.Retry())
	checkText(t, len(p.Writes()), "1")
}

func TestChildrenDoNotCountAmongTheWritesOfACall(t *testing.T) {
	p := reconciling(t, func(ctx *informant.Context, r *informant.Request) error {
		var children []any
		for at := range 101 {
			children = append(children, child("Service", fmt.Sprint("s", at)))
		}
		_, err := ctx.Kube.Children(r, children...)
		for range 100 {
			err = errors.Join(err, ctx.Kube.Patch(r, object{"a": 1}))
		}
		return err
	})
	must(t, p.Reconcile("web/a"))
	checkText(t, len(p.Writes()), "201")
}

func TestChildrenThatCannotBeSetAreRefused(t *testing.T) {
	elsewhere, controlled, many := child("Service", "s"), child("Service", "s"), make([]any, 1_001)
	elsewhere["metadata"].(object)["namespace"] = "other"
	controlled["metadata"].(object)["ownerReferences"] = []object{{"uid": "u2", "controller": true}}
	for message, children := range map[string][]any{
		"Service web/s is twice among the children":                     {child("Service", "s"), child("Service", "s")},
		"v1 Pod is not in `reconciler.owns` of the manifest":            {child("Pod", "p")},
		"an owner in the namespace web can only own objects there":      {elsewhere},
		"metadata.ownerReferences has a controller":                     {controlled},
		"Service web/s cannot be set whole":                             {informant.Whole(child("Service", "s"))},
		"a child needs apiVersion, kind and metadata.name":              {child("Service", "")},
		"an object may have 1000 children, and these are 1001":          many,
		"a child of web/a cannot be written: json: unsupported type: c": {make(chan int)},
	} {
		t.Run(message, func(t *testing.T) {
			p, _ := settingChildren(t, &children)
			if err := p.Reconcile("web/a"); !informant.IsTerminal(err) || !strings.Contains(err.Error(), message) {
				t.Error(err)
			}
			checkText(t, p.Writes(), "[]")
		})
	}
}

func TestChildrenAreSetOnceAndOnlyByReconcile(t *testing.T) {
	check := func(err error, code informant.APICode) {
		t.Helper()
		var refused *informant.APIError
		if !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("%v is not %s", err, code)
		}
	}
	var request *informant.Request
	informant.Register(t, func() {
		informant.For[Labeled]("v1", "Pod").
			Reconcile(func(ctx *informant.Context, r *informant.Request, pod *Labeled) (result, error) {
				request = r
				_, first := ctx.Kube.Children(r)
				_, second := ctx.Kube.Children(r)
				if pod == nil {
					check(first, informant.APINotFound)
				} else {
					must(t, first)
					check(second, informant.APIInvalid)
				}
				return result{}, nil
			})
		informant.Timer("sweep", informant.Every(time.Minute), func(ctx *informant.Context, _ *informant.Tick) error {
			_, err := ctx.Kube.Children(request)
			check(err, informant.APINotHere)
			return nil
		})
	})
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a")))
	must(t, p.Reconcile("web/a"))
	must(t, p.Tick("sweep"))
	must(t, p.Delete("web/a"))
	must(t, p.Reconcile("web/a"))
}

func TestConditionsSayWhatBecameOfChildren(t *testing.T) {
	checkText(t, informant.Children{}.Conditions(), "[{ChildrenRefused False NoneRefused } "+
		"{PruneSkipped False NoneSkipped }]")
	done := informant.Children{Refused: []string{"Secret web/a", "Secret web/b"}, PruneSkipped: "not live"}
	checkText(t, done.Conditions(), "[{ChildrenRefused True OwnedByOthers Secret web/a, Secret web/b} "+
		"{PruneSkipped True CacheIncomplete not live}]")
	done.Refused = make([]string, 30)
	if message := done.Conditions()[0].Message; !strings.HasSuffix(message, " and 10 more") {
		t.Error(message)
	}
}
