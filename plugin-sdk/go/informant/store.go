package informant

import (
	"iter"

	"informant.example/plugin-sdk/go/internal/host"
)

// Store reads the cache. During a call, all reads of a source see the same snapshot, which is at least as new as the
// event. Informers are named as in `informers` of the plugin's section.
//
// An object is read into a variable, and only the fields that its type has are read.
type Store struct {
	about about
}

// Query selects objects of an informer. The zero Query selects all, in the cluster of the object that the call is
// about.
type Query struct {
	// Index and Value select the objects with this value in an index.
	Index string
	Value string
	// Namespace is empty for all namespaces.
	Namespace string
	// LabelSelector is in the syntax of kubectl get -l.
	LabelSelector string
	// Fields are JSON pointers to the fields to read, at most 256. By default they are those of the type.
	Fields []string
	// Limit is the most objects to read. 0 means all.
	Limit    int
	Clusters Clusters
}

// Item is an object in the cache.
type Item[T any] struct {
	Source uint32
	Object T
}

// Key is the key of an object in the cache.
type Key struct {
	Source    uint32
	Namespace string
	Name      string
}

// Get reads an object of a source, such as e.Source. It returns false if there is none.
func (s Store) Get(source uint32, namespace, name string, into any) (bool, error) {
	pointers, err := pointersFor(into)
	if err != nil {
		return false, err
	}
	object, isThere, refused := hosted().Get(source, namespace, name, pointers)
	if refused != nil || !isThere {
		return false, hostError(refused)
	}
	return true, decodeInto(object, into)
}

// Find reads an object of an informer with a single kind, in the cluster of the object that the call is about. It
// returns false if there is none.
func (s Store) Find(informer, namespace, name string, into any) (bool, error) {
	pointers, err := pointersFor(into)
	if err != nil {
		return false, err
	}
	item, isThere, refused := hosted().Find(informer, namespace, name, pointers)
	if refused != nil || !isThere {
		return false, hostError(refused)
	}
	return true, decodeInto(item.Object, into)
}

// List yields the objects of an informer, whole unless the query has Fields. It ends after an error.
func (s Store) List(informer string, query Query) iter.Seq2[Item[Object], error] {
	return ListAs[Object](s, informer, query)
}

// ListAs yields the objects of an informer with the fields of T. It ends after an error.
func ListAs[T any](s Store, informer string, query Query) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		asked, err := s.queryOf(informer, query, new(T))
		for left := query.Limit; err == nil; {
			asked.Limit = uint32(left)
			items, cursor, refused := page(informer, query, asked)
			if err = hostError(refused); err != nil {
				break
			}
			for _, found := range items {
				item := Item[T]{Source: found.Source}
				if err = decodeInto(found.Object, &item.Object); err != nil {
					break
				}
				if !yield(item, nil) {
					return
				}
			}
			if left -= len(items); cursor == "" || query.Limit > 0 && left <= 0 {
				break
			}
			asked.Cursor = cursor
		}
		if err != nil {
			yield(Item[T]{}, err)
		}
	}
}

func (s Store) queryOf(informer string, query Query, into any) (host.Query, error) {
	sources, err := s.about.sourcesIn(informer, query.Clusters)
	if err != nil {
		return host.Query{}, err
	}
	pointers := query.Fields
	if pointers == nil {
		if pointers, err = pointersFor(into); err != nil {
			return host.Query{}, err
		}
	}
	return host.Query{
		Sources:       sources,
		Namespace:     query.Namespace,
		HasNamespace:  query.Namespace != "",
		LabelSelector: query.LabelSelector,
		Pointers:      pointers,
	}, nil
}

func page(informer string, query Query, asked host.Query) ([]host.Item, string, *host.Error) {
	if query.Index != "" {
		return hosted().ByIndex(informer, query.Index, query.Value, asked)
	}
	return hosted().List(informer, asked)
}

// IndexKeys returns the keys of the objects with this value in an index, in the cluster of the object that the call is
// about.
func (s Store) IndexKeys(informer, index, value string, clusters ...Clusters) ([]Key, error) {
	sources, err := s.about.sourcesIn(informer, only(clusters))
	if err != nil {
		return nil, err
	}
	found, refused := hosted().IndexKeys(informer, sources, index, value)
	keys := make([]Key, len(found))
	for at, key := range found {
		keys[at] = Key(key)
	}
	return keys, hostError(refused)
}

// IndexValues returns the values in use in an index, sorted, in the cluster of the object that the call is about.
func (s Store) IndexValues(informer, index string, clusters ...Clusters) ([]string, error) {
	sources, err := s.about.sourcesIn(informer, only(clusters))
	if err != nil {
		return nil, err
	}
	for values, cursor := []string(nil), ""; ; cursor = values[len(values)-1] {
		more, refused := hosted().IndexValues(informer, sources, index, cursor, valuesInPage)
		values = append(values, more...)
		if refused != nil || len(more) < valuesInPage {
			return values, hostError(refused)
		}
	}
}

const valuesInPage = 1_000

func only(clusters []Clusters) Clusters {
	if len(clusters) == 0 {
		return Clusters{}
	}
	return clusters[0]
}

// Source returns a source, with its present state.
func (s Store) Source(id uint32) (SourceInfo, error) {
	info, err := hosted().Source(id)
	return sourceOf(info), hostError(err)
}

// Sources returns the sources of an informer: one for each kind, cluster and namespace that it covers.
func (s Store) Sources(informer string) ([]SourceInfo, error) {
	infos, err := hosted().Sources(informer)
	all := make([]SourceInfo, len(infos))
	for at, info := range infos {
		all[at] = sourceOf(info)
	}
	return all, hostError(err)
}

// Version returns the resource version up to which the cache has seen everything, and whether the first list is
// complete.
func (s Store) Version(source uint32) (version string, synced bool, err error) {
	version, synced, refused := hosted().Version(source)
	return version, synced, hostError(refused)
}
