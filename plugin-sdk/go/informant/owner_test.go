package informant_test

import (
	"encoding/json"
	"testing"

	"informant.example/plugin-sdk/go/informant"
)

func TestAnOwnerIsNamedByTypeNameAndUID(t *testing.T) {
	p := reconciling(t, func(ctx *informant.Context, r *informant.Request) error {
		controller, err := informant.NewControllerRef(r)
		must(t, err)
		document, err := json.Marshal(controller)
		must(t, err)
		checkText(t, string(document), `{"apiVersion":"example.com/v1","kind":"Site","name":"a","uid":"u1",`+
			`"controller":true,"blockOwnerDeletion":true}`)
		return nil
	})
	must(t, p.Reconcile("web/a"))
	var named Named
	named.APIVersion, named.Kind, named.Metadata.Name, named.Metadata.UID = "v1", "Node", "n1", "u2"
	owner, err := informant.NewOwnerRef(&named)
	must(t, err)
	checkText(t, owner, "{v1 Node n1 u2 false true}")
}

func TestAnOwnerWithoutNameOrUIDIsRefused(t *testing.T) {
	_, err := informant.NewControllerRef(node)
	checkError(t, err, "informant.ObjectReference has no metadata.uid, which an owner reference needs")
	if owner, err := informant.NewOwnerRef(Labeled{}); err == nil || owner != (informant.OwnerReference{}) {
		t.Error(owner, err)
	}
}
