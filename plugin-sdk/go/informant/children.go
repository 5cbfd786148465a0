package informant

import (
	"encoding/json"
	"fmt"
	"strings"

	"informant.example/plugin-sdk/go/internal/host"
)

// Child is an object for [Kube.Children]: see [Whole].
type Child struct {
	object  any
	isWhole bool
}

// Whole returns a child of which everything but metadata and status is given: what others have added is removed. It is
// a ConfigMap, Secret, Role, RoleBinding, ResourceQuota or NetworkPolicy.
func Whole(object any) Child {
	return Child{object, true}
}

// Children is what [Kube.Children] has deferred.
type Children struct {
	// Written is how many objects are written, unless they turn out to be as they should.
	Written int
	// Pruned is how many are deleted: they belong to the object, and are no longer among its children.
	Pruned int
	// Refused are objects that exist and belong to somebody else: they stay as they are. "Secret web/a".
	Refused []string
	// PruneSkipped is why none is deleted. Empty: all that have to be are.
	PruneSkipped string
}

// Children makes these the objects that belong to the one that r is about. It defers writes of those that are not as
// they should be, and deletes of those that are no longer among them:
//
//	done, err := ctx.Kube.Children(r, deployment, service, informant.Whole(configMap))
//
// Each is a value whose JSON has apiVersion, kind and metadata.name. Without metadata.namespace it is in that of its
// owner. Its fields are applied, and those of others stay: see [Kube.Apply]. [Whole] removes those of others. Informant
// adds an owner reference and the labels informant.dev/owner-uid and informant.dev/plugin.
//
// [Kind.Owns] names the kinds, and the plugin needs an informer for each. The grants are create and patch, create and
// update for [Whole], and delete. Call it once for a request, with all of them, at most 1,000: these do not count as
// writes of the call.
func (Kube) Children(r *Request, objects ...any) (Children, error) {
	children := make([]host.Child, len(objects))
	for at, object := range objects {
		child, isChild := object.(Child)
		if !isChild {
			child = Child{object: object}
		}
		document, err := json.Marshal(child.object)
		if err != nil {
			return Children{}, TerminalError(fmt.Errorf("a child of %v cannot be written: %w", r, err))
		}
		children[at] = host.Child{Object: document, Whole: child.isWhole}
	}
	owner := host.Owner{Source: r.Source, Namespace: r.Namespace, Name: r.Name, UID: r.UID}
	done, refused := hosted().DeferChildren(owner, children)
	return Children{int(done.Written), int(done.Pruned), done.Refused, done.PruneSkipped}, apiError(refused)
}

// The most objects that the message of a condition lists: the API server accepts 32,768 bytes.
const listedMax = 20

// Conditions returns conditions for [Kube.SetStatus]. ChildrenRefused is true, with the reason OwnedByOthers, if there
// are refused objects; otherwise its reason is NoneRefused. PruneSkipped is true, with the reason CacheIncomplete, if
// none is deleted; otherwise its reason is NoneSkipped.
func (c Children) Conditions() []Condition {
	refused := Condition{Type: "ChildrenRefused", Status: ConditionFalse, Reason: "NoneRefused"}
	if count := len(c.Refused); count > 0 {
		refused.Status, refused.Reason = ConditionTrue, "OwnedByOthers"
		refused.Message = strings.Join(c.Refused[:min(count, listedMax)], ", ")
		if count > listedMax {
			refused.Message += fmt.Sprintf(" and %d more", count-listedMax)
		}
	}
	skipped := Condition{Type: "PruneSkipped", Status: ConditionFalse, Reason: "NoneSkipped"}
	if c.PruneSkipped != "" {
		skipped.Status, skipped.Reason, skipped.Message = ConditionTrue, "CacheIncomplete", c.PruneSkipped
	}
	return []Condition{refused, skipped}
}
