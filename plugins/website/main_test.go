package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"informant.example/plugin-sdk/go/informant"
	"informant.example/plugin-sdk/go/informanttest"
)

// start puts a Website into the cache, and reconciles it until nothing is left to do.
func start(t *testing.T, spec object) *informanttest.Plugin {
	t.Helper()
	p := informanttest.New(t, nil)
	putSite(t, p, spec, 1)
	settle(t, p)
	return p
}

func putSite(t *testing.T, p *informanttest.Plugin, spec object, generation int) {
	t.Helper()
	site := object{
		"apiVersion": "example.com/v1",
		"kind":       "Website",
		"metadata":   object{"namespace": "web", "name": "shop", "uid": "u1"},
	}
	if present := p.Object(site); present != "" {
		site = parsed(t, present)
	}
	site["spec"] = spec
	site["metadata"].(object)["generation"] = generation
	put(t, p, site)
}

func put(t *testing.T, p *informanttest.Plugin, o object) {
	t.Helper()
	if err := p.Put(o); err != nil {
		t.Fatal(err)
	}
}

// settle reconciles the Website as often as its own writes lead to it.
func settle(t *testing.T, p *informanttest.Plugin) {
	t.Helper()
	for range 3 {
		if err := p.Reconcile("web/shop"); err != nil {
			t.Fatal(err)
		}
	}
}

func parsed(t *testing.T, text string) (o object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return o
}

// reference is what is needed to find an object.
func reference(apiVersion, kind string) object {
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"namespace": "web", "name": "shop"}}
}

func deploymentOf(t *testing.T, p *informanttest.Plugin) object {
	t.Helper()
	return parsed(t, p.Object(reference("apps/v1", "Deployment")))
}

// report sets the status of the Deployment, as its controller does.
func report(t *testing.T, p *informanttest.Plugin, generation, ready int, conditions ...object) {
	t.Helper()
	deployment := deploymentOf(t, p)
	deployment["metadata"].(object)["generation"] = generation
	deployment["status"] = object{
		"observedGeneration": generation, "updatedReplicas": ready, "readyReplicas": ready, "conditions": conditions,
	}
	put(t, p, deployment)
	settle(t, p)
}

// status returns the status of the Website, and its condition Ready.
func status(t *testing.T, p *informanttest.Plugin) (members object, ready string) {
	t.Helper()
	members, _ = parsed(t, p.Object(reference("example.com/v1", "Website")))["status"].(object)
	return members, conditionIn(members, "Ready")
}

func conditionIn(status object, name string) string {
	conditions, _ := status["conditions"].([]any)
	for _, condition := range conditions {
		if c := condition.(object); c["type"] == name {
			return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

func expectReady(t *testing.T, p *informanttest.Plugin, expected string) {
	t.Helper()
	if _, ready := status(t, p); ready != expected {
		t.Errorf("Ready is %q, expected %q", ready, expected)
	}
}

func expectEvents(t *testing.T, p *informanttest.Plugin, expected ...string) {
	t.Helper()
	var events []string
	for _, event := range p.Events() {
		events = append(events, event.String())
	}
	if !slices.Equal(events, expected) {
		t.Errorf("recorded %q, expected %q", events, expected)
	}
}

// writes returns verb, resource and object of the writes since the last call.
func writes(p *informanttest.Plugin) (lines []string) {
	for _, write := range p.Writes() {
		lines = append(lines, write.Verb+" "+write.Resource+" "+write.Object)
	}
	return lines
}

func expectWrites(t *testing.T, p *informanttest.Plugin, expected ...string) {
	t.Helper()
	if made := writes(p); !slices.Equal(made, expected) {
		t.Errorf("wrote %q, expected %q", made, expected)
	}
}

const (
	created = "Normal Created Website web/shop: Created its Deployment and Service"
	served  = "Normal Available Website web/shop: 2 of 2 replicas are ready"
)

func TestAWebsiteHasADeploymentAndAService(t *testing.T) {
	p := start(t, object{"image": "shop:1", "replicas": 2})
	// The finalizer comes first, and the rest follows in the next call. A third call writes nothing.
	expectWrites(t, p,
		"patch example.com/v1/websites web/shop",
		"patch apps/v1/deployments web/shop",
		"patch v1/services web/shop",
		"patch example.com/v1/websites/status web/shop",
	)
	expectEvents(t, p, created)
	expectReady(t, p, "False Deploying: 0 of 2 replicas are ready")
	site := p.Object(reference("example.com/v1", "Website"))
	if !strings.Contains(site, `"finalizers":["informant.dev/test"]`) {
		t.Error(site)
	}
}

func TestTheStatusFollowsTheDeployment(t *testing.T) {
	p := start(t, object{"image": "shop:1", "replicas": 2})
	report(t, p, 1, 1)
	expectReady(t, p, "False Deploying: 1 of 2 replicas are ready")
	report(t, p, 1, 2)
	expectReady(t, p, "True Available: 2 of 2 replicas are ready")
	members, _ := status(t, p)
	if members["readyReplicas"] != 2.0 || members["observedGeneration"] != 1.0 {
		t.Error(members)
	}
	expectEvents(t, p, created, served)
}

func TestANewImageIsNotReadyBeforeItIsObserved(t *testing.T) {
	p := start(t, object{"image": "shop:1", "replicas": 2})
	report(t, p, 1, 2)
	p.Events()
	putSite(t, p, object{"image": "shop:2", "replicas": 2}, 2)
	if err := p.Reconcile("web/shop"); err != nil {
		t.Fatal(err)
	}
	expectReady(t, p, "False Deploying: 2 of 2 replicas are ready")
	report(t, p, 2, 2)
	expectReady(t, p, "True Available: 2 of 2 replicas are ready")
	expectEvents(t, p, served)
}

func TestAFailedDeploymentIsReportedOnce(t *testing.T) {
	p := start(t, object{"image": "shop:1", "replicas": 2})
	p.Events()
	stuck := object{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
	report(t, p, 1, 0, stuck)
	report(t, p, 1, 1, stuck)
	expectReady(t, p, "False ProgressDeadlineExceeded: timed out")
	expectEvents(t, p, "Warning ProgressDeadlineExceeded Website web/shop: timed out")
	quota := object{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
	report(t, p, 1, 1, stuck, quota)
	expectReady(t, p, "False FailedCreate: exceeded quota")
	report(t, p, 1, 2)
	expectReady(t, p, "True Available: 2 of 2 replicas are ready")
	expectEvents(t, p, "Warning FailedCreate Website web/shop: exceeded quota", served)
}

func TestAHostHasAnIngressAsLongAsItIsSet(t *testing.T) {
	p := start(t, object{"image": "shop:1", "replicas": 2, "host": "shop.example.com"})
	ingress := reference("networking.k8s.io/v1", "Ingress")
	if stored := p.Object(ingress); !strings.Contains(stored, `"host":"shop.example.com"`) {
		t.Error(stored)
	}
	expectEvents(t, p, "Normal Created Website web/shop: Created its Deployment, Service and Ingress")
	p.Writes()
	putSite(t, p, object{"image": "shop:1", "replicas": 2}, 2)
	settle(t, p)
	expectWrites(t, p, "delete networking.k8s.io/v1/ingresses web/shop", "patch example.com/v1/websites/status web/shop")
	if stored := p.Object(ingress); stored != "" {
		t.Error(stored)
	}
}

func TestNothingIsDeletedWhileTheCacheIsBehind(t *testing.T) {
	p := start(t, object{"image": "shop:1", "replicas": 2, "host": "shop.example.com"})
	p.Writes()
	putSite(t, p, object{"image": "shop:1", "replicas": 2}, 2)
	if err := p.ReconcileBehind("web/shop"); err != nil {
		t.Fatal(err)
	}
	expectWrites(t, p, "patch example.com/v1/websites/status web/shop")
	members, _ := status(t, p)
	if skipped := conditionIn(members, "PruneSkipped"); !strings.HasPrefix(skipped, "True CacheIncomplete: ") {
		t.Error(skipped)
	}
}

func TestAnObjectOfOthersIsNotTouched(t *testing.T) {
	p := informanttest.New(t, nil)
	service := reference("v1", "Service")
	service["spec"] = object{"type": "ExternalName", "externalName": "shop.example.com"}
	put(t, p, service)
	before := p.Object(service)
	putSite(t, p, object{"image": "shop:1", "replicas": 2}, 1)
	settle(t, p)
	if stored := p.Object(service); stored != before {
		t.Error(stored)
	}
	taken := "Exists already, and does not belong to it: Service web/shop"
	expectReady(t, p, "False NameTaken: "+taken)
	expectEvents(t, p, "Warning NameTaken Website web/shop: "+taken)
	// When it is gone, the Website gets its own.
	if err := p.Delete(service); err != nil {
		t.Fatal(err)
	}
	settle(t, p)
	expectReady(t, p, "False Deploying: 0 of 2 replicas are ready")
}

func TestADeletedWebsiteIsCleanedUpOnce(t *testing.T) {
	p := start(t, object{"image": "shop:1", "replicas": 2})
	p.Events()
	p.Writes()
	site := parsed(t, p.Object(reference("example.com/v1", "Website")))
	site["metadata"].(object)["deletionTimestamp"] = "2026-11-28T11:21:16Z"
	put(t, p, site)
	settle(t, p)
	expectWrites(t, p, "patch example.com/v1/websites web/shop")
	expectEvents(t, p, "Normal Deleted Website web/shop: The objects of the Website are deleted with it")
	if stored := p.Object(site); !strings.Contains(stored, `"finalizers":[]`) {
		t.Error(stored)
	}
	if err := p.Delete(site); err != nil {
		t.Fatal(err)
	}
	settle(t, p)
	expectWrites(t, p)
}

func TestARefusedWriteIsNoSuccess(t *testing.T) {
	p := informanttest.New(t, nil)
	p.Deny("v1/services", informant.APIError{Code: "denied", Message: "not granted"})
	putSite(t, p, object{"image": "shop:1", "replicas": 2}, 1)
	if err := p.Reconcile("web/shop"); err != nil {
		t.Fatal(err)
	}
	if err := p.Reconcile("web/shop"); !informant.IsTerminal(err) {
		t.Error(err)
	}
	expectWrites(t, p, "patch example.com/v1/websites web/shop")
	expectEvents(t, p)
}

func TestScenariosHaveTheDefinition(t *testing.T) {
	definition := strings.ReplaceAll(read(t, "crd.yaml"), "\n", "\n      ")
	files, err := filepath.Glob("*.scenario.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if !strings.Contains(read(t, file), strings.TrimSpace(definition)) {
			t.Errorf("%s has another definition than crd.yaml", file)
		}
	}
}

func TestTheReadmeShowsTheConfiguration(t *testing.T) {
	if !strings.Contains(read(t, "README.md"), "```toml\n"+read(t, "config.toml")+"```\n") {
		t.Error("README.md does not have the configuration in config.toml")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
