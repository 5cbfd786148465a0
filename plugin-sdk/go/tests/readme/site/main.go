// Makes a Service and a ConfigMap for each Site.
package main

import "informant.example/plugin-sdk/go/informant"

// Site has the fields of a Site that the plugin receives.
type Site struct {
	Spec struct {
		Title string `json:"title"`
	} `json:"spec"`
}

func init() {
	informant.Needs("v1/services", informant.Create, informant.Patch, informant.Delete)
	informant.Needs("v1/configmaps", informant.Create, informant.Update, informant.Delete)
	informant.Needs("example.com/v1/sites", informant.Patch).Subresources("status")
	informant.For[Site]("example.com/v1", "Site").When("generation").Reconcile(reconcile).
		Owns(informant.Related("v1", "Service").When("/spec")).
		Owns(informant.Related("v1", "ConfigMap").When("/data"))
}

// reconcile is called when a Site, or an object that belongs to it, has changed. It is nil if it is gone.
func reconcile(ctx *informant.Context, r *informant.Request, site *Site) (result informant.Result, err error) {
	if site == nil {
		return result, nil
	}
	type object = map[string]any
	metadata := object{"name": r.Name}
	ports := []object{{"name": "http", "port": 80}}
	done, err := ctx.Kube.Children(r,
		object{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": object{"ports": ports}},
		informant.Whole(object{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": object{"title": site.Spec.Title},
		}),
	)
	if err != nil {
		return result, err
	}
	ready := informant.Condition{Type: "Ready", Status: informant.ConditionTrue, Reason: "Deployed"}
	return result, ctx.Kube.SetStatus(r, object{"conditions": append(done.Conditions(), ready)})
}

func main() {}
