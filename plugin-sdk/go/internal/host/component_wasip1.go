package host

import (
	"bytes"
	"strings"

	kube "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_kube"
	kv "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_kv"
	log "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_log"
	metrics "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_metrics"
	recorder "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_recorder"
	store "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_store"
	types "informant.example/plugin-sdk/go/internal/gen/contract/imports/informant_plugin_types"
	wit "informant.example/plugin-sdk/go/internal/wit/types"
)

// component asks Informant by the imports of the component. It copies the texts and small documents that it returns:
// they share a chunk of memory, which each of them that the plugin keeps would keep.
type component struct{}

func cloned(texts []string) []string {
	for at, text := range texts {
		texts[at] = strings.Clone(text)
	}
	return texts
}

func (component) Log(level uint8, message string, fields [][2]string) {
	pairs := make([]wit.Tuple2[string, string], len(fields))
	for at, field := range fields {
		pairs[at] = wit.Tuple2[string, string]{F0: field[0], F1: field[1]}
	}
	log.Log(level, message, pairs)
}

func answer[T any](result wit.Result[T, types.HostError]) (T, *Error) {
	if result.IsErr() {
		var none T
		refused := result.Err()
		return none, &Error{refused.Code, strings.Clone(refused.Message)}
	}
	return result.Ok(), nil
}

func failed[T any](result wit.Result[T, types.HostError]) *Error {
	_, err := answer(result)
	return err
}

func sourceOf(info store.SourceInfo) SourceInfo {
	source := SourceInfo{
		ID:         info.Id,
		State:      info.State,
		Informer:   strings.Clone(info.Informer),
		Cluster:    strings.Clone(info.Cluster),
		APIVersion: strings.Clone(info.ApiVersion),
		Kind:       strings.Clone(info.Kind),
		Resource:   strings.Clone(info.Resource),
		Namespaced: info.Namespaced,
		Partial:    info.Partial,
	}
	if info.Namespace.IsSome() {
		source.Namespace, source.HasNamespace = strings.Clone(info.Namespace.Some()), true
	}
	return source
}

func (component) Source(id uint32) (SourceInfo, *Error) {
	info, err := answer(store.Source(id))
	return sourceOf(info), err
}

func (component) Sources(informer string) ([]SourceInfo, *Error) {
	infos, err := answer(store.Sources(informer))
	sources := make([]SourceInfo, len(infos))
	for at, info := range infos {
		sources[at] = sourceOf(info)
	}
	return sources, err
}

func (component) Version(source uint32) (string, bool, *Error) {
	version, err := answer(store.Version(source))
	return strings.Clone(version.Version), version.Synced, err
}

func (component) Get(source uint32, namespace, name string, pointers []string) ([]byte, bool, *Error) {
	object, err := answer(store.Get(source, namespace, name, pointers))
	if err != nil || !object.IsSome() {
		return nil, false, err
	}
	return object.Some(), true, nil
}

func (component) Find(informer, namespace, name string, pointers []string) (Item, bool, *Error) {
	item, err := answer(store.Find(informer, namespace, name, pointers))
	if err != nil || !item.IsSome() {
		return Item{}, false, err
	}
	return Item(item.Some()), true, nil
}

func queryOf(query Query) store.Query {
	asked := store.Query{
		Sources:       query.Sources,
		LabelSelector: query.LabelSelector,
		Pointers:      query.Pointers,
		Limit:         query.Limit,
		Cursor:        query.Cursor,
	}
	if query.HasNamespace {
		asked.Namespace = wit.Some(query.Namespace)
	}
	return asked
}

func pageOf(result wit.Result[store.Page, types.HostError]) ([]Item, string, *Error) {
	page, err := answer(result)
	items := make([]Item, len(page.Items))
	for at, item := range page.Items {
		items[at] = Item(item)
	}
	return items, strings.Clone(page.Cursor), err
}

func (component) List(informer string, query Query) ([]Item, string, *Error) {
	return pageOf(store.List(informer, queryOf(query)))
}

func (component) ByIndex(informer, index, value string, query Query) ([]Item, string, *Error) {
	return pageOf(store.ByIndex(informer, index, value, queryOf(query)))
}

func (component) IndexKeys(informer string, sources []uint32, index, value string) ([]ObjectKey, *Error) {
	found, err := answer(store.IndexKeys(informer, sources, index, value))
	keys := make([]ObjectKey, len(found))
	for at, key := range found {
		keys[at] = ObjectKey{key.Source, strings.Clone(key.Namespace), strings.Clone(key.Name)}
	}
	return keys, err
}

func (component) IndexValues(informer string, sources []uint32, index, cursor string, limit uint32) ([]string, *Error) {
	values, err := answer(store.IndexValues(informer, sources, index, cursor, limit))
	return cloned(values), err
}

func apiAnswer[T any](result wit.Result[T, kube.ApiError]) (T, *APIError) {
	if result.IsOk() {
		return result.Ok(), nil
	}
	var none T
	refused := result.Err()
	return none, &APIError{
		Code:         refused.Code,
		Status:       refused.Status,
		Reason:       strings.Clone(refused.Reason),
		Message:      strings.Clone(refused.Message),
		RetryAfterMS: refused.RetryAfterMs,
	}
}

func apiFailed(result wit.Result[wit.Unit, kube.ApiError]) *APIError {
	_, err := apiAnswer(result)
	return err
}

func (component) KubeGet(at Address) ([]byte, *APIError) {
	return apiAnswer(kube.Get(kube.Address(at)))
}

func (component) KubeList(at Address, options []byte) ([][]byte, string, string, *APIError) {
	page, err := apiAnswer(kube.List(kube.Address(at), options))
	return page.Items, strings.Clone(page.Cursor), strings.Clone(page.ResourceVersion), err
}

func (component) KubeCreate(at Address, object, options []byte) ([]byte, *APIError) {
	return apiAnswer(kube.Create(kube.Address(at), object, options))
}

func (component) KubeUpdate(at Address, object, options []byte) ([]byte, *APIError) {
	return apiAnswer(kube.Update(kube.Address(at), object, options))
}

func (component) KubePatch(at Address, kind uint8, document, options []byte) ([]byte, *APIError) {
	return apiAnswer(kube.Patch(kube.Address(at), kind, document, options))
}

func (component) KubeDelete(at Address, options []byte) *APIError {
	return apiFailed(kube.Delete(kube.Address(at), options))
}

func (component) DeferCreate(at Address, object, options []byte) *APIError {
	return apiFailed(kube.DeferCreate(kube.Address(at), object, options))
}

func (component) DeferUpdate(at Address, object, options []byte) *APIError {
	return apiFailed(kube.DeferUpdate(kube.Address(at), object, options))
}

func (component) DeferPatch(at Address, kind uint8, document, options []byte) *APIError {
	return apiFailed(kube.DeferPatch(kube.Address(at), kind, document, options))
}

func (component) DeferDelete(at Address, options []byte) *APIError {
	return apiFailed(kube.DeferDelete(kube.Address(at), options))
}

func (component) DeferChildren(owner Owner, children []Child) (Children, *APIError) {
	all := make([]kube.Child, len(children))
	for at, child := range children {
		all[at] = kube.Child(child)
	}
	of := kube.Owner{Source: owner.Source, Namespace: owner.Namespace, Name: owner.Name, Uid: owner.UID}
	done, err := apiAnswer(kube.DeferChildren(of, all))
	if err != nil {
		return Children{}, err
	}
	result := Children{Written: done.Written, Pruned: done.Pruned, Refused: cloned(done.Refused)}
	if done.PruneSkipped.IsSome() {
		result.PruneSkipped = strings.Clone(done.PruneSkipped.Some())
	}
	return result, nil
}

func (component) KVGet(key string) ([]byte, bool, *Error) {
	value, err := answer(kv.Get(key))
	if err != nil || !value.IsSome() {
		return nil, false, err
	}
	return bytes.Clone(value.Some()), true, nil
}

func (component) KVSet(key string, value []byte) *Error {
	return failed(kv.Set(key, value))
}

func (component) KVSetIfAbsent(key string, value []byte) (bool, *Error) {
	return answer(kv.SetIfAbsent(key, value))
}

func (component) KVDelete(key string) *Error {
	return failed(kv.Delete(key))
}

func (component) KVList(prefix, cursor string, limit uint32) ([]string, *Error) {
	keys, err := answer(kv.List(prefix, cursor, limit))
	return cloned(keys), err
}

func labelsOf(labels []Label) []metrics.Label {
	all := make([]metrics.Label, len(labels))
	for at, label := range labels {
		all[at] = metrics.Label(label)
	}
	return all
}

func (component) MetricAdd(name string, amount float64, labels []Label) *Error {
	return failed(metrics.Add(name, amount, labelsOf(labels)))
}

func (component) MetricSet(name string, value float64, labels []Label) *Error {
	return failed(metrics.Set(name, value, labelsOf(labels)))
}

func (component) MetricObserve(name string, value float64, labels []Label) *Error {
	return failed(metrics.Observe(name, value, labelsOf(labels)))
}

func (component) MetricReplace(name string, samples []Sample) *Error {
	all := make([]metrics.Sample, len(samples))
	for at, sample := range samples {
		all[at] = metrics.Sample{Value: sample.Value, Labels: labelsOf(sample.Labels)}
	}
	return failed(metrics.Replace(name, all))
}

func regardingOf(reference Reference) recorder.Regarding {
	return recorder.Regarding{
		Cluster:    reference.Cluster,
		ApiVersion: reference.APIVersion,
		Kind:       reference.Kind,
		Namespace:  reference.Namespace,
		Name:       reference.Name,
		Uid:        reference.UID,
	}
}

func (component) RecordEvent(event Event) *Error {
	related := wit.None[recorder.Regarding]()
	if event.Related != nil {
		related = wit.Some(regardingOf(*event.Related))
	}
	about := regardingOf(event.Regarding)
	return failed(recorder.Event(about, related, event.Type, event.Reason, event.Action, event.Note))
}
