package informant_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

// finalizing starts a plugin with a finalizer, which logs what it does.
func finalizing(t *testing.T, cleanup func(ctx *informant.Context) error) *informanttest.Plugin {
	t.Helper()
	return reconciling(t, func(ctx *informant.Context, r *informant.Request) error {
		proceed, err := ctx.Kube.Finalize(r, func() error { return cleanup(ctx) })
		if proceed {
			slog.Info("reconciled")
		}
		return err
	})
}

// putDeleted puts a site that is being deleted.
func putDeleted(t *testing.T, p *informanttest.Plugin, finalizers ...string) {
	t.Helper()
	must(t, p.Put(object{"apiVersion": "example.com/v1", "kind": "Site", "metadata": object{
		"namespace": "web", "name": "a", "finalizers": finalizers, "deletionTimestamp": "2026-01-02T03:04:05Z",
	}}))
}

func cleanedUp(*informant.Context) error {
	slog.Info("cleaned up")
	return nil
}

func TestNothingHasAnEffectBeforeTheFinalizerIsThere(t *testing.T) {
	p := finalizing(t, cleanedUp)
	must(t, p.Reconcile("web/a"))
	checkLogs(t, p)
	writes := p.Writes()
	checkText(t, len(writes), "1")
	if !strings.Contains(writes[0].Document, `{"finalizers":["informant.dev/test"],"resourceVersion":`) {
		t.Error(writes)
	}
	must(t, p.Reconcile("web/a"))
	checkLogs(t, p, "info: reconciled")
	checkText(t, p.Writes(), "[]")
}

func TestADeletedObjectIsCleanedUpAndReleased(t *testing.T) {
	p := finalizing(t, cleanedUp)
	putDeleted(t, p, "theirs", "informant.dev/test")
	must(t, p.Reconcile("web/a"))
	checkLogs(t, p, "info: cleaned up")
	if stored := p.Object("web/a"); !strings.Contains(stored, `"finalizers":["theirs"]`) {
		t.Error(stored)
	}
	p.Writes()
	must(t, p.Reconcile("web/a"))
	must(t, p.Delete("web/a"))
	must(t, p.Reconcile("web/a"))
	checkLogs(t, p)
	checkText(t, p.Writes(), "[]")
}

func TestTheFinalizerStaysIfCleanupFails(t *testing.T) {
	failure := errors.New("busy")
	configMap := child("ConfigMap", "a-config")
	p := finalizing(t, func(ctx *informant.Context) error {
		created := ctx.Kube.Create(informant.Address{Resource: "v1/configmaps", Namespace: "web"}, configMap)
		return errors.Join(created, failure)
	})
	putDeleted(t, p, "informant.dev/test")
	checkError(t, p.Reconcile("web/a"), "busy")
	checkText(t, p.Writes(), "[]")
	failure = nil
	must(t, p.Retry())
	writes := p.Writes()
	if len(writes) != 2 || writes[0].Verb != "create" || !strings.Contains(writes[1].Document, `"finalizers":[]`) {
		t.Error(writes)
	}
}

func TestFinalizersForAnEarlierStateAreAConflict(t *testing.T) {
	p := reconciling(t, func(ctx *informant.Context, r *informant.Request) error {
		metadata := object{"finalizers": []string{"theirs"}}
		if _, err := ctx.Kube.Now().Patch(r, object{"metadata": metadata}); err != nil {
			return err
		}
		_, err := ctx.Kube.Finalize(r, nil)
		return err
	})
	if err := p.Reconcile("web/a"); !informant.IsConflict(err) {
		t.Fatal(err)
	}
}
