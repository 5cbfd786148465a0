// Command client-go is a subject of the benchmark: a typed shared informer with two indexes and one handler, as most
// controllers have. tests/src/bench/subject.rs describes its arguments and output. With -drop-managed-fields it keeps
// objects without them; with -metadata-only it requests only metadata, of which the handler reads the annotations.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// The annotation with the time at which a pod was written, in microseconds since 1970.
	writtenAnnotation = "bench/written-us"
	// The number of lags per output line.
	lagsInALine = 1000
	// The interval at which the counts are printed.
	printedEvery = 10 * time.Millisecond
)

// counts is how often the handler was called.
type counts struct {
	Adds    int64 `json:"adds"`
	Updates int64 `json:"updates"`
	Lists   int64 `json:"lists"`
}

type lags struct {
	Lags int   `json:"lags"`
	P50  int64 `json:"p50_us"`
	P99  int64 `json:"p99_us"`
	Max  int64 `json:"max_us"`
}

// handler does what the handlers of the other subjects do: it reads some fields of each pod.
type handler struct {
	mutex sync.Mutex
	counts
	deletes int64
	// Updates to the same version: a relist delivers every object again.
	repeated int64
	restarts int64
	running  int64
	nodes    int64
	lagsUs   []int64
	lines    *json.Encoder
}

func (h *handler) OnAdd(object any, _ bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.Adds++
	h.read(object.(metav1.Object))
}

func (h *handler) OnUpdate(old, object any) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	now := object.(metav1.Object)
	if old.(metav1.Object).GetResourceVersion() == now.GetResourceVersion() {
		h.repeated++
	} else {
		h.Updates++
	}
	h.read(now)
}

func (h *handler) OnDelete(any) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.deletes++
}

func (h *handler) read(object metav1.Object) {
	// Without metadata-only, it is one.
	if pod, ok := object.(*corev1.Pod); ok {
		for i := range pod.Status.ContainerStatuses {
			h.restarts += int64(pod.Status.ContainerStatuses[i].RestartCount)
		}
		if pod.Status.Phase == corev1.PodRunning {
			h.running++
		}
		h.nodes += int64(len(pod.Spec.NodeName))
	}
	if written, err := strconv.ParseInt(object.GetAnnotations()[writtenAnnotation], 10, 64); err == nil {
		h.note(time.Now().UnixMicro() - written)
	}
}

func (h *handler) note(lag int64) {
	h.lagsUs = append(h.lagsUs, lag)
	if len(h.lagsUs) < lagsInALine {
		return
	}
	slices.Sort(h.lagsUs)
	at := func(share int) int64 { return h.lagsUs[(lagsInALine-1)*share/100] }
	h.print(lags{Lags: lagsInALine, P50: at(50), P99: at(99), Max: at(100)})
	h.lagsUs = h.lagsUs[:0]
}

func (h *handler) print(line any) {
	if err := h.lines.Encode(line); err != nil {
		// The reader has closed the pipe: the benchmark is over.
		os.Exit(1)
	}
}

// printCounts prints the counts if they have changed.
func (h *handler) printCounts(printed *counts, synced bool) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	now := h.counts
	if synced {
		now.Lists = 1
		if objects := h.Adds - h.deletes; objects > 0 {
			now.Lists += h.repeated / objects
		}
	}
	if now != *printed {
		*printed = now
		h.print(now)
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "client-go:", err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "the cluster to watch")
	sync := flag.String("sync", "", "list or watch-list; without it, client-go's default")
	dropManagedFields := flag.Bool("drop-managed-fields", false, "keep objects without managedFields")
	metadataOnly := flag.Bool("metadata-only", false, "request only metadata")
	flag.Parse()
	switch *sync {
	case "list":
		os.Setenv("KUBE_FEATURE_WatchListClient", "false")
	case "watch-list":
		os.Setenv("KUBE_FEATURE_WatchListClient", "true")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	build := podInformer
	if *metadataOnly {
		build = metadataInformer
	}
	informer, start, err := build(config)
	if err != nil {
		return err
	}
	if *dropManagedFields {
		if err := informer.SetTransform(withoutManagedFields); err != nil {
			return err
		}
	}
	handler := &handler{lines: json.NewEncoder(os.Stdout)}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return err
	}
	start(context.Background().Done())
	var printed counts
	for range time.Tick(printedEvery) {
		handler.printCounts(&printed, registration.HasSynced())
	}
	return nil
}

// podInformer has two indexes: one by namespace by default, and one by node.
func podInformer(config *rest.Config) (cache.SharedIndexInformer, func(<-chan struct{}), error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	byNode := func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}
	return informer, factory.Start, informer.AddIndexers(cache.Indexers{"node": byNode})
}

// metadataInformer has the index by namespace: it knows no nodes.
func metadataInformer(config *rest.Config) (cache.SharedIndexInformer, func(<-chan struct{}), error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	return factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer(), factory.Start, nil
}

func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
