package informanttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// object is a Kubernetes object. Its numbers are json.Number.
type object = map[string]any

func parse(document []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// objectOf reads an object that a test passes: JSON as text or bytes, or a value that encoding/json can write.
func objectOf(value any) (object, error) {
	var document []byte
	switch v := value.(type) {
	case string:
		document = []byte(v)
	case []byte:
		document = v
	default:
		var err error
		if document, err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	parsed, err := parse(document)
	if err != nil {
		return nil, fmt.Errorf("the object is not JSON: %w", err)
	}
	members, isObject := parsed.(object)
	if !isObject {
		return nil, fmt.Errorf("not an object: %s", document)
	}
	return members, nil
}

// compact writes a value as JSON, with the members of objects in order.
func compact(value any) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}

func copied(value any) any {
	switch v := value.(type) {
	case object:
		members := make(object, len(v))
		for name, member := range v {
			members[name] = copied(member)
		}
		return members
	case []any:
		elements := make([]any, len(v))
		for at, element := range v {
			elements[at] = copied(element)
		}
		return elements
	default:
		return value
	}
}

// member returns a text below an object; empty if there is none.
func member(o object, path ...string) string {
	var value any = o
	for _, name := range path {
		members, _ := value.(object)
		value = members[name]
	}
	text, _ := value.(string)
	return text
}

// metadata returns the metadata of an object, which it adds if there is none.
func metadata(o object) object {
	found, isObject := o["metadata"].(object)
	if !isObject {
		found = object{}
		o["metadata"] = found
	}
	return found
}

// project returns the object with only the fields at these JSON pointers, in its shape.
func project(o object, pointers []string) object {
	paths := [][]string{{"apiVersion"}, {"kind"}}
	for _, pointer := range pointers {
		paths = append(paths, pathOf(pointer))
	}
	if shown, isThere := cut(o, paths); isThere {
		return shown.(object)
	}
	return object{}
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

func pathOf(pointer string) []string {
	parts := strings.Split(pointer, "/")[1:]
	for at, part := range parts {
		parts[at] = unescape.Replace(part)
	}
	return parts
}

// cut returns false if no path leads through the value, or if it is a scalar and every path leads deeper.
func cut(value any, paths [][]string) (any, bool) {
	if slices.ContainsFunc(paths, func(path []string) bool { return len(path) == 0 }) {
		return value, true
	}
	if len(paths) == 0 {
		return nil, false
	}
	below := func(name string) [][]string {
		var rest [][]string
		for _, path := range paths {
			if path[0] == "*" || path[0] == name {
				rest = append(rest, path[1:])
			}
		}
		return rest
	}
	switch v := value.(type) {
	case object:
		shown := object{}
		for name, member := range v {
			if kept, isThere := cut(member, below(name)); isThere {
				shown[name] = kept
			}
		}
		return shown, true
	case []any:
		// Elements keep their positions.
		shown := make([]any, len(v))
		for at, element := range v {
			kept, isThere := cut(element, below(strconv.Itoa(at)))
			if !isThere {
				kept = placeholder(element)
			}
			shown[at] = kept
		}
		return shown, true
	}
	return nil, false
}

func placeholder(element any) any {
	switch element.(type) {
	case object:
		return object{}
	case []any:
		return []any{}
	}
	return nil
}

// merge is a merge patch (RFC 7386).
func merge(target, patch any) any {
	members, isObject := patch.(object)
	if !isObject {
		return patch
	}
	merged, isObject := target.(object)
	if !isObject {
		merged = object{}
	}
	merged = maps.Clone(merged)
	for name, value := range members {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = merge(merged[name], value)
		}
	}
	return merged
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func applyOperations(target any, document []byte) (any, error) {
	var operations []operation
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	if err := decoder.Decode(&operations); err != nil {
		return nil, fmt.Errorf("not a JSON patch: %w", err)
	}
	target = copied(target)
	for at, o := range operations {
		var err error
		if target, err = o.apply(target); err != nil {
			return nil, fmt.Errorf("operation %d, %s %q: %w", at, o.Op, o.Path, err)
		}
	}
	return target, nil
}

func (o operation) apply(target any) (any, error) {
	switch o.Op {
	case "add":
		return edit(target, pathOf(o.Path), o.Value, true)
	case "replace":
		if _, err := lookUp(target, pathOf(o.Path)); err != nil {
			return nil, err
		}
		return edit(target, pathOf(o.Path), o.Value, false)
	case "remove":
		return removeAt(target, pathOf(o.Path))
	case "test":
		found, err := lookUp(target, pathOf(o.Path))
		if err == nil && !reflect.DeepEqual(found, o.Value) {
			err = fmt.Errorf("the value is %s", compact(found))
		}
		return target, err
	case "copy", "move":
		found, err := lookUp(target, pathOf(o.From))
		if err != nil {
			return nil, err
		}
		if o.Op == "move" {
			if target, err = removeAt(target, pathOf(o.From)); err != nil {
				return nil, err
			}
		}
		return edit(target, pathOf(o.Path), copied(found), true)
	}
	return nil, fmt.Errorf("not an operation of a JSON patch")
}

func lookUp(value any, path []string) (any, error) {
	for _, part := range path {
		switch v := value.(type) {
		case object:
			found, isThere := v[part]
			if !isThere {
				return nil, fmt.Errorf("there is no %q", part)
			}
			value = found
		case []any:
			at, err := strconv.Atoi(part)
			if err != nil || at < 0 || at >= len(v) {
				return nil, fmt.Errorf("there is no element %q", part)
			}
			value = v[at]
		default:
			return nil, fmt.Errorf("there is no %q", part)
		}
	}
	return value, nil
}

// edit sets the value at a path; with insert, an element of a list is inserted.
func edit(target any, path []string, value any, insert bool) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	name, rest := path[0], path[1:]
	switch v := target.(type) {
	case object:
		if _, isThere := v[name]; !isThere && len(rest) > 0 {
			return nil, fmt.Errorf("there is no %q", name)
		}
		edited, err := edit(v[name], rest, value, insert)
		v[name] = edited
		return v, err
	case []any:
		at, err := strconv.Atoi(name)
		if name == "-" && len(rest) == 0 {
			at, err = len(v), nil
		}
		if err != nil || at < 0 || at > len(v) || at == len(v) && (len(rest) > 0 || !insert) {
			return nil, fmt.Errorf("there is no element %q", name)
		}
		if len(rest) == 0 && insert {
			return slices.Insert(v, at, value), nil
		}
		v[at], err = edit(v[at], rest, value, insert)
		return v, err
	}
	return nil, fmt.Errorf("there is no %q", name)
}

func removeAt(target any, path []string) (any, error) {
	if _, err := lookUp(target, path); err != nil || len(path) == 0 {
		return nil, err
	}
	name, rest := path[0], path[1:]
	switch v := target.(type) {
	case object:
		if len(rest) == 0 {
			delete(v, name)
			return v, nil
		}
		var err error
		v[name], err = removeAt(v[name], rest)
		return v, err
	case []any:
		at, _ := strconv.Atoi(name)
		if len(rest) == 0 {
			return slices.Delete(v, at, at+1), nil
		}
		var err error
		v[at], err = removeAt(v[at], rest)
		return v, err
	}
	return target, nil
}
