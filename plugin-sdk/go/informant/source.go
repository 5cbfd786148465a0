package informant

import (
	"fmt"
	"slices"

	"informant.example/plugin-sdk/go/internal/host"
)

// SourceState is what Informant knows of a source.
type SourceState string

// The states. Treat an unknown one as SourceOther.
const (
	SourceSyncing            SourceState = "syncing"
	SourceLive               SourceState = "live"
	SourceStale              SourceState = "stale"
	SourceWaitingForResource SourceState = "waiting-for-resource"
	SourceForbidden          SourceState = "forbidden"
	SourceRefused            SourceState = "refused"
	SourceStopped            SourceState = "stopped"
	SourceOther              SourceState = "other"
)

// SourceInfo is a source of objects: one resource in one cluster, in one namespace or all of them. All but State is
// constant.
type SourceInfo struct {
	ID    uint32
	State SourceState
	// Informer is the plugin's name for the informer, as in config.toml.
	Informer string
	// Cluster is empty if config.toml has a single, unnamed cluster.
	Cluster    string
	APIVersion string
	Kind       string
	// Resource is v1/pods, as Kube wants it.
	Resource string
	// Namespace is the only one that is read. Empty: all, or the resource has no namespaces.
	Namespace string
	// Namespaced reports whether the objects of the resource have namespaces.
	Namespaced bool
	// Partial reports whether the source may lack objects that exist. An object that is not found may exist then.
	Partial bool
}

func sourceOf(info host.SourceInfo) SourceInfo {
	return SourceInfo{
		ID:         info.ID,
		State:      SourceState(host.Name(host.SourceStates, info.State)),
		Informer:   info.Informer,
		Cluster:    info.Cluster,
		APIVersion: info.APIVersion,
		Kind:       info.Kind,
		Resource:   info.Resource,
		Namespace:  info.Namespace,
		Namespaced: info.Namespaced,
		Partial:    info.Partial,
	}
}

// sources has what is constant for a source. IDs are never reused.
var sources = map[uint32]SourceInfo{}

// constantSource asks for a source once. Its state is that of any earlier time.
func constantSource(id uint32) (SourceInfo, error) {
	if known, isKnown := sources[id]; isKnown {
		return known, nil
	}
	info, err := hosted().Source(id)
	if err != nil {
		return SourceInfo{}, hostError(err)
	}
	sources[id] = sourceOf(info)
	return sources[id], nil
}

// Clusters says which clusters a read covers. The zero value is the cluster of the object or source that the call is
// about.
type Clusters struct {
	// All reads all clusters.
	All bool
	// Named reads this cluster.
	Named string
}

// sourcesIn returns the sources of an informer in these clusters. An empty list stands for all.
func (a about) sourcesIn(informer string, clusters Clusters) ([]uint32, error) {
	cluster := clusters.Named
	switch {
	case clusters.All:
		return nil, nil
	case cluster != "":
	case !a.hasSource:
		return nil, nil
	default:
		source, err := constantSource(a.source)
		if err != nil || source.Cluster == "" {
			return nil, err
		}
		cluster = source.Cluster
	}
	all, err := Store{a}.Sources(informer)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(source SourceInfo) bool { return source.Cluster != cluster })
	if len(all) == 0 {
		message := fmt.Sprintf("the informer %s has no source in the cluster %q", informer, cluster)
		return nil, &HostError{CodeNotReady, message}
	}
	ids := make([]uint32, len(all))
	for at, source := range all {
		ids[at] = source.ID
	}
	return ids, nil
}
