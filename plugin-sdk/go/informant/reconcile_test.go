package informant_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

func site(_ *informant.Context, r *informant.Request, pod *Labeled) (result, error) {
	if pod == nil {
		slog.Info(fmt.Sprintf("%v is gone, behind: %v", r, r.CacheIsBehind))
		return result{}, nil
	}
	slog.Info(fmt.Sprintf("%v %v %v", r, r.Reason, pod.Metadata.Labels["app"]))
	return result{RequeueAfter: 3 * time.Second}, nil
}

func TestObjectIsReconciledWithAndWithoutIt(t *testing.T) {
	informant.Register(t, func() { informant.For[Labeled]("v1", "Pod").Reconcile(site) })
	p := informanttest.New(t, nil)
	must(t, p.Put(labeled("a", "app", "shop")))
	must(t, p.Reconcile("web/a"))
	must(t, p.Delete("web/a"))
	must(t, p.ReconcileBehind("web/a"))
	checkLogs(t, p, "info: web/a watch shop", "info: web/a is gone, behind: true")
}

func TestContradictionsOfReconcileAreRefused(t *testing.T) {
	checkRefused(t, func() {
		informant.For[Labeled]("v1", "Pod").Reconcile(site)
		informant.For[Labeled]("v1", "Node").OnUpsert(done)
	}, "a plugin does one of both")
	checkRefused(t, func() {
		informant.For[Labeled]("v1", "Pod").Reconcile(site)
		informant.For[Labeled]("v1", "Node").Reconcile(site)
	}, "a plugin reconciles one kind")
	checkRefused(t, func() {
		informant.For[Labeled]("v1", "Pod").OnUpsert(done).Owns(informant.Related("v1", "Secret"))
	}, "which it lacks")
}
