//go:build ignore

// Writes schema.txt: the layout of the kinds that the embedded API server accepts in Kubernetes' protocol buffers,
// read from the struct tags of k8s.io/api. Run in /tests, whose go.mod selects the version:
//
//	go run ../host/apiserver/src/protobuf/generate.go > ../host/apiserver/src/protobuf/schema.txt
package main

import (
	"fmt"
	"path"
	"reflect"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Group versions whose kinds clients send.
var groupVersions = []string{
	"v1", "apps/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1", "autoscaling/v1", "autoscaling/v2", "batch/v1",
	"coordination.k8s.io/v1", "discovery.k8s.io/v1", "networking.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1",
	"scheduling.k8s.io/v1", "storage.k8s.io/v1",
}

// Kinds of these groups that the server does not have.
var absent = map[string]bool{
	"authentication.k8s.io/v1 TokenRequest": true, "authentication.k8s.io/v1 TokenReview": true,
	"autoscaling/v1 HorizontalPodAutoscaler": true, "networking.k8s.io/v1 IPAddress": true, "networking.k8s.io/v1 ServiceCIDR": true,
	"storage.k8s.io/v1 CSIDriver": true, "storage.k8s.io/v1 CSINode": true, "storage.k8s.io/v1 CSIStorageCapacity": true,
	"storage.k8s.io/v1 VolumeAttachment": true, "storage.k8s.io/v1 VolumeAttributesClass": true, "v1 Binding": true,
	"v1 ComponentStatus": true, "v1 PodStatusResult": true, "v1 RangeAllocation": true,
}

var written = map[reflect.Type]bool{}

func name(t reflect.Type) string {
	version := path.Base(t.PkgPath())
	return path.Base(path.Dir(t.PkgPath())) + "." + version + "." + t.Name()
}

// The type of a value on the wire, and the messages that it needs.
func wire(t reflect.Type, needed *[]reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return wire(t.Elem(), needed)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "bytes"
	case t.Kind() == reflect.Slice:
		return "[]" + wire(t.Elem(), needed)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Slice && t.Elem().Elem().Kind() != reflect.Uint8:
		// A named list as a map's value is a message of its own. Only users' extra values are such; this server has no users.
		return ""
	case t.Kind() == reflect.Map:
		return "map:" + wire(t.Elem(), needed)
	case t.Kind() == reflect.Struct:
		*needed = append(*needed, t)
		return name(t)
	}
	switch t.Kind() {
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint32, reflect.Uint64, reflect.Uint8:
		return "int"
	case reflect.Float64:
		return "double"
	}
	return t.Kind().String()
}

func write(t reflect.Type) {
	if written[t] {
		return
	}
	written[t] = true
	fmt.Printf("message %s\n", name(t))
	var needed []reflect.Type
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		json, flags, _ := strings.Cut(field.Tag.Get("json"), ",")
		when := "always"
		if field.Type.Kind() != reflect.Pointer && strings.Contains(flags, "omitempty") {
			when = "set"
		}
		if strings.Contains(flags, "inline") || json == "" {
			json, when = "-", "inline"
		}
		if wire := wire(field.Type, &needed); wire != "" {
			fmt.Printf("%s %s %s %s\n", tag[1], json, when, wire)
		}
	}
	for _, t := range needed {
		write(t)
	}
}

func main() {
	var kinds []string
	types := map[string]reflect.Type{}
	for _, text := range groupVersions {
		gv, _ := schema.ParseGroupVersion(text)
		for kind, t := range scheme.Scheme.KnownTypes(gv) {
			key := text + " " + kind
			_, isObject := reflect.New(t).Interface().(metav1.Object)
			if isObject && !absent[key] {
				kinds = append(kinds, key)
				types[key] = t
			}
		}
	}
	options := "* DeleteOptions"
	kinds, types[options] = append(kinds, options), reflect.TypeOf(metav1.DeleteOptions{})
	sort.Strings(kinds)
	for _, key := range kinds {
		fmt.Printf("kind %s %s\n", key, name(types[key]))
	}
	for _, key := range kinds {
		write(types[key])
	}
}
