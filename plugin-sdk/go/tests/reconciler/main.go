// Reconciles pods: says what it receives, and asks for another call if the pod has the label "again".
package main

import (
	"fmt"
	"log/slog"
	"time"

	"informant.example/plugin-sdk/go/informant"
)

type pod struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

func init() {
	informant.For[pod]("v1", "Pod").When("labels").Reconcile(reconcile).Owns(informant.Related("v1", "Secret"))
}

func reconcile(_ *informant.Context, r *informant.Request, p *pod) (done informant.Result, err error) {
	what, behind := "there", ""
	if p == nil {
		what = "gone"
	}
	if r.CacheIsBehind {
		behind = " behind"
	}
	slog.Info(fmt.Sprintf("%v %v %s%s", r, r.Reason, what, behind))
	if p != nil && p.Metadata.Labels["again"] != "" {
		done.RequeueAfter = 3 * time.Second
	}
	return done, nil
}

func main() {}
