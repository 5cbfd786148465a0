package informant_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

// Statused is a site with a status.
type Statused struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Generation      int    `json:"generation"`
	} `json:"metadata"`
	Status struct {
		ObservedGeneration int    `json:"observedGeneration"`
		URL                string `json:"url"`
		Conditions         []struct {
			informant.Condition `json:",inline"`
			LastTransitionTime  string `json:"lastTransitionTime"`
			ObservedGeneration  int    `json:"observedGeneration"`
		} `json:"conditions"`
	} `json:"status"`
}

// settingStatus starts a plugin that sets the status of sites.
func settingStatus(t *testing.T, status func() any) *informanttest.Plugin {
	t.Helper()
	return reconciling(t, func(ctx *informant.Context, r *informant.Request) error {
		return ctx.Kube.SetStatus(r, status())
	})
}

func storedSite(t *testing.T, p *informanttest.Plugin) (found Statused) {
	t.Helper()
	must(t, informant.Object(p.Object("web/a")).Decode(&found))
	return found
}

func ready(status informant.ConditionStatus, reason string) informant.Condition {
	return informant.Condition{Type: "Ready", Status: status, Reason: reason}
}

func TestTheStatusIsWrittenIfItDiffers(t *testing.T) {
	type status struct {
		URL        string                `json:"url"`
		Size       int64                 `json:"size"`
		Conditions []informant.Condition `json:"conditions"`
	}
	wanted := status{URL: "a", Size: 1 << 60}
	p := settingStatus(t, func() any { return wanted })
	version := storedSite(t, p).Metadata.ResourceVersion
	must(t, p.Reconcile("web/a"))
	checkText(t, p.Writes(), fmt.Sprintf(`[patch example.com/v1/sites/status web/a {"metadata":{"resourceVersion":"%s"},`+
		`"status":{"observedGeneration":1,"size":1152921504606846976,"url":"a"}}]`, version))
	must(t, p.Reconcile("web/a"))
	checkText(t, p.Writes(), "[]")
	wanted.URL = "b"
	must(t, p.Reconcile("web/a"))
	checkText(t, storedSite(t, p).Status.URL, "b")
}

func TestConditionsAreMergedByType(t *testing.T) {
	condition := ready(informant.ConditionFalse, "Waiting")
	p := settingStatus(t, func() any { return object{"conditions": []informant.Condition{condition}} })
	long := "2026-01-02T03:04:05Z"
	put := func(generation int) {
		t.Helper()
		must(t, p.Put(object{
			"apiVersion": "example.com/v1", "kind": "Site",
			"metadata": object{"namespace": "web", "name": "a", "generation": generation},
			"status": object{"url": "a", "conditions": []object{
				{"type": "Ready", "status": "False", "reason": "Created", "lastTransitionTime": long},
				{"type": "Theirs", "status": "True", "reason": "Theirs", "lastTransitionTime": long},
			}},
		}))
	}
	put(2)
	must(t, p.Reconcile("web/a"))
	status := storedSite(t, p).Status
	if status.URL != "a" || status.ObservedGeneration != 2 || len(status.Conditions) != 2 {
		t.Fatal(status)
	}
	checkText(t, status.Conditions, "[{{Ready False Waiting } "+long+" 2} {{Theirs True Theirs } "+long+" 0}]")
	must(t, p.Reconcile("web/a"))
	checkText(t, len(p.Writes()), "1")
	condition = ready(informant.ConditionTrue, "Deployed")
	must(t, p.Reconcile("web/a"))
	changed, err := time.Parse(time.RFC3339, storedSite(t, p).Status.Conditions[0].LastTransitionTime)
	if err != nil || time.Since(changed) > time.Hour {
		t.Error(changed, err)
	}
}

func TestAnObjectWithoutGenerationHasNoneObserved(t *testing.T) {
	p := settingStatus(t, func() any {
		return object{"conditions": []informant.Condition{ready(informant.ConditionTrue, "Deployed")}}
	})
	must(t, p.Put(`{"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"namespace": "web", "name": "a"}}`))
	must(t, p.Reconcile("web/a"))
	stored := p.Object("web/a")
	if strings.Contains(stored, "observedGeneration") || !strings.Contains(stored, "Deployed") {
		t.Error(stored)
	}
}

func TestAMemberIsRemovedByNullOnly(t *testing.T) {
	var url any = "a"
	p := settingStatus(t, func() any { return object{"url": url, "empty": object{}} })
	must(t, p.Reconcile("web/a"))
	url = nil
	must(t, p.Reconcile("web/a"))
	must(t, p.Reconcile("web/a"))
	checkText(t, len(p.Writes()), "2")
	checkText(t, storedSite(t, p).Status.URL, "")
}

func TestAStatusForAnEarlierStateIsAConflict(t *testing.T) {
	p := reconciling(t, func(ctx *informant.Context, r *informant.Request) error {
		if r.Attempt == 0 {
			if _, err := ctx.Kube.Now().Patch(r, object{"spec": 1}); err != nil {
				return err
			}
		}
		return ctx.Kube.SetStatus(r, object{"url": "a"})
	})
	if err := p.Reconcile("web/a"); !informant.IsConflict(err) || informant.IsTerminal(err) {
		t.Fatal(err)
	}
	must(t, p.Retry())
	checkText(t, storedSite(t, p).Status.URL, "a")
}

func TestAStatusThatCannotBeSetIsRefused(t *testing.T) {
	for message, status := range map[string]any{
		"the status string is not a JSON object":    "ready",
		"the status chan int is not a JSON object":  make(chan int),
		"the conditions of a status are not a list": object{"conditions": object{}},
		"a condition of a status has no type":       object{"conditions": []any{"Ready"}},
		"a condition of a status has no reason": object{"conditions": []informant.Condition{
			ready(informant.ConditionTrue, ""),
		}},
	} {
		t.Run(message, func(t *testing.T) {
			p := settingStatus(t, func() any { return status })
			err := p.Reconcile("web/a")
			if !informant.IsTerminal(err) || !strings.Contains(err.Error(), message) {
				t.Error(err)
			}
		})
	}
}
