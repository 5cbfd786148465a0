package informant

import "slices"

// The finalizer of a plugin is this and the plugin's name in config.toml.
const finalizerPrefix = "informant.dev/"

// Finalize lets cleanup run before the object that r is about is gone. It reports whether the object is to be
// reconciled:
//
//	if proceed, err := ctx.Kube.Finalize(r, func() error { return removeBucket(site) }); !proceed {
//		return informant.Result{}, err
//	}
//
// Without the plugin's finalizer, informant.dev/NAME, it defers the write that adds it: this leads to the next call, so
// that nothing has an effect before the finalizer is there. If the object is being deleted, it calls cleanup, and then
// defers the write that removes the finalizer. If cleanup returns an error, the finalizer stays, and the error is that
// of Finalize: return it, and cleanup is called again.
//
// The writes are merge patches for the state that the call is about. If the object has changed since then, they are a
// conflict, and the plugin is called again, also after cleanup, which must be able to run twice. The grant is patch for
// the resource.
func (k Kube) Finalize(r *Request, cleanup func() error) (proceed bool, err error) {
	var present struct {
		Metadata struct {
			DeletionTimestamp string   `json:"deletionTimestamp"`
			Finalizers        []string `json:"finalizers"`
		} `json:"metadata"`
	}
	err = r.cached(&present, "/metadata/deletionTimestamp", "/metadata/finalizers")
	if IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	name, finalizers := finalizerPrefix+k.plugin, present.Metadata.Finalizers
	isDeleted, at := present.Metadata.DeletionTimestamp != "", slices.Index(finalizers, name)
	switch {
	case at >= 0 && !isDeleted:
		return true, nil
	case at >= 0:
		if err := cleanup(); err != nil {
			return false, err
		}
		finalizers = slices.Delete(finalizers, at, at+1)
	case isDeleted:
		return false, nil
	default:
		finalizers = append(finalizers, name)
	}
	metadata := r.version()
	metadata["finalizers"] = finalizers
	return false, k.Patch(r, map[string]any{"metadata": metadata})
}
