// Keeps a Deployment and a Service for each Website, and an Ingress if it has a host. README.md says how.
package main

import "informant.example/plugin-sdk/go/informant"

// Website has the fields of a Website that the plugin reads.
type Website struct {
	Spec struct {
		Image    string `json:"image"`
		Replicas int    `json:"replicas"`
		Host     string `json:"host"`
	} `json:"spec"`
	Status struct {
		Conditions []informant.Condition `json:"conditions"`
	} `json:"status"`
}

func init() {
	informant.Plugin("website", "0.1.0")
	informant.Needs("example.com/v1/websites", informant.Patch)
	informant.Needs("example.com/v1/websites", informant.Patch).Subresources("status")
	for _, resource := range []string{"apps/v1/deployments", "v1/services", "networking.k8s.io/v1/ingresses"} {
		informant.Needs(resource, informant.Create, informant.Patch, informant.Delete)
	}
	informant.For[Website]("example.com/v1", "Website").When("generation").Reconcile(reconcile).
		Owns(informant.Related("apps/v1", "Deployment").When("generation", "labels", "/metadata/ownerReferences", "/status")).
		Owns(informant.Related("v1", "Service")).
		Owns(informant.Related("networking.k8s.io/v1", "Ingress"))
}

// reconcile is called when a Website, or an object that belongs to it, has changed. It is nil if it is gone.
func reconcile(ctx *informant.Context, r *informant.Request, site *Website) (result informant.Result, err error) {
	if site == nil {
		return result, nil
	}
	proceed, err := ctx.Kube.Finalize(r, func() error {
		return ctx.Recorder.Event(r, informant.Normal, "Deleted", "The objects of the Website are deleted with it")
	})
	if !proceed {
		return result, err
	}
	done, err := ctx.Kube.Children(r, site.children(r.Name)...)
	if err != nil {
		return result, err
	}
	var deployment Deployment
	if len(done.Refused) == 0 {
		if _, err := ctx.Store.Find("deployments", r.Namespace, r.Name, &deployment); err != nil {
			return result, err
		}
	}
	ready := site.readiness(&deployment, done.Refused)
	if err := site.record(ctx, r, ready); err != nil {
		return result, err
	}
	return result, ctx.Kube.SetStatus(r, map[string]any{
		"readyReplicas": deployment.Status.ReadyReplicas,
		"conditions":    append(done.Conditions(), ready),
	})
}

// record records an Event if the Website was created, became available, or failed for another reason than before.
func (site *Website) record(ctx *informant.Context, r *informant.Request, ready informant.Condition) error {
	before, wasThere := conditionOf(site.Status.Conditions, "Ready")
	switch {
	case before.Reason == ready.Reason:
		return nil
	case ready.Reason != available && ready.Reason != deploying:
		return ctx.Recorder.Event(r, informant.Warning, ready.Reason, ready.Message)
	case !wasThere:
		made := "its Deployment and Service"
		if site.Spec.Host != "" {
			made = "its Deployment, Service and Ingress"
		}
		return ctx.Recorder.Eventf(r, informant.Normal, "Created", "Created %s", made)
	case ready.Reason == available:
		return ctx.Recorder.Event(r, informant.Normal, available, ready.Message)
	}
	return nil
}

func main() {}
