package informant

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

type payloadKind int

const (
	whole payloadKind = iota
	onlyMetadata
	none
)

// payload is how much of an object a plugin receives: with pointers, only those fields.
type payload struct {
	kind     payloadKind
	pointers []string
}

// The most pointers that Informant accepts in one read.
const pointersMax = 256

// Read from every object anyway.
var typeMembers = []string{"/apiVersion", "/kind"}

// payloadOf returns the fields of a type.
func payloadOf(t reflect.Type) (payload, error) {
	pointers, err := pointersOf(t)
	switch {
	case err != nil:
		return payload{}, err
	case len(pointers) > pointersMax || slices.Contains(pointers, ""):
		return payload{kind: whole}, nil
	case len(pointers) == 0:
		return payload{kind: none}, nil
	}
	if fields := slices.DeleteFunc(slices.Clone(pointers), isTypeMember); len(fields) > 0 {
		pointers = fields
	}
	return payload{kind: whole, pointers: pointers}, nil
}

func isTypeMember(pointer string) bool {
	return slices.Contains(typeMembers, pointer)
}

var knownPointers sync.Map

// pointersOf returns the JSON pointers to the fields of a type. One that is empty stands for the whole value.
func pointersOf(t reflect.Type) ([]string, error) {
	if known, isKnown := knownPointers.Load(t); isKnown {
		return known.([]string), nil
	}
	w := walk{}
	if err := w.value(t, ""); err != nil {
		return nil, err
	}
	knownPointers.Store(t, w.pointers)
	return w.pointers, nil
}

// walk collects the pointers of a type.
type walk struct {
	pointers []string
	// The structs that contain the present value. A type that contains itself is requested whole.
	within []reflect.Type
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (w *walk) value(t reflect.Type, at string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	pointer := reflect.PointerTo(t)
	if pointer.Implements(jsonUnmarshaler) || pointer.Implements(textUnmarshaler) {
		return w.leaf(at)
	}
	switch t.Kind() {
	case reflect.Struct:
		return w.members(t, at)
	case reflect.Slice, reflect.Array, reflect.Map:
		return w.elements(t.Elem(), at)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("%s: JSON has no values for a field of type %v", at, t)
	default:
		return w.leaf(at)
	}
}

func (w *walk) leaf(at string) error {
	w.pointers = append(w.pointers, at)
	return nil
}

// elements requests the elements of a list or map: the whole of it, unless only parts of each are read.
func (w *walk) elements(element reflect.Type, at string) error {
	of := walk{within: w.within}
	if err := of.value(element, ""); err != nil {
		return fmt.Errorf("%s/*%w", at, err)
	}
	if len(of.pointers) == 0 || slices.Contains(of.pointers, "") {
		return w.leaf(at)
	}
	for _, pointer := range of.pointers {
		w.pointers = append(w.pointers, at+"/*"+pointer)
	}
	return nil
}

func (w *walk) members(t reflect.Type, at string) error {
	if slices.Contains(w.within, t) {
		return w.leaf(at)
	}
	w.within = append(slices.Clone(w.within), t)
	defer func() { w.within = w.within[:len(w.within)-1] }()
	before := len(w.pointers)
	for field := range fieldsOf(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		isInlined := field.Anonymous && name == "" || slices.Contains(strings.Split(options, ","), "inline")
		switch {
		case name == "-" && options == "":
			continue
		case isInlined:
			if err := w.value(field.Type, at); err != nil {
				return err
			}
			continue
		case name == "":
			return fmt.Errorf("the field %s of %v has no json tag; write `json:\"%s\"`, as the member of the object is called",
				field.Name, t, lowerFirst(field.Name))
		}
		if err := w.value(field.Type, at+"/"+escape(name)); err != nil {
			return err
		}
	}
	// A struct below the object that reads no member still tells whether the member is there.
	if len(w.pointers) == before && at != "" {
		return w.leaf(at)
	}
	return nil
}

// fieldsOf yields the fields of a struct that encoding/json reads.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for field := range t.NumField() {
			if found := t.Field(field); found.IsExported() || found.Anonymous {
				if !yield(found) {
					return
				}
			}
		}
	}
}

// escape writes a name as a part of a JSON pointer.
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func lowerFirst(name string) string {
	return strings.ToLower(name[:1]) + name[1:]
}

// pointersFor returns the pointers for reading an object into a variable: none for the whole object.
func pointersFor(into any) ([]string, error) {
	t := reflect.TypeOf(into)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil, errors.New("an object is read into a variable: pass its address")
	}
	read, err := payloadOf(t.Elem())
	return read.pointers, err
}
