package informant

import "fmt"

// OwnerReference is an element of metadata.ownerReferences: Kubernetes deletes an object when its owners are gone.
// [Kube.Children] adds it by itself.
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	// Controller: the owner manages the object. An object has at most one controller.
	Controller bool `json:"controller"`
	// BlockOwnerDeletion: a foreground deletion of the owner waits for the object.
	BlockOwnerDeletion bool `json:"blockOwnerDeletion"`
}

// NewControllerRef returns the reference to the controller of another object. The owner is what a [Recorder] takes: a
// [*Request], or a value whose JSON has apiVersion, kind and metadata with name and uid.
func NewControllerRef(owner any) (OwnerReference, error) {
	reference, err := NewOwnerRef(owner)
	reference.Controller = err == nil
	return reference, err
}

// NewOwnerRef is NewControllerRef, but the owner is not the controller.
func NewOwnerRef(owner any) (OwnerReference, error) {
	found, err := referenceTo(owner)
	if err == nil && found.UID == "" {
		err = &HostError{CodeInvalid, fmt.Sprintf("%T has no metadata.uid, which an owner reference needs", owner)}
	}
	if err != nil {
		return OwnerReference{}, err
	}
	return OwnerReference{
		APIVersion:         found.APIVersion,
		Kind:               found.Kind,
		Name:               found.Name,
		UID:                found.UID,
		BlockOwnerDeletion: true,
	}, nil
}
