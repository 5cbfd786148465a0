package informanttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"informant.example/plugin-sdk/go/internal/host"
)

// indexFunc computes the values of an object in an index.
type indexFunc func(object) ([]string, *host.Error)

// indexFunction returns the function of an index: that of a test or, for a JSON pointer, the one of config.toml.
func indexFunction(values any) (indexFunc, error) {
	if pointer, isText := values.(string); isText && isPointer(pointer) {
		return func(o object) ([]string, *host.Error) { return scalarsAt(o, pointer), nil }, nil
	}
	if function, isOfMap := values.(func(map[string]any) []string); isOfMap && function != nil {
		return func(o object) ([]string, *host.Error) { return function(copied(o).(object)), nil }, nil
	}
	function := reflect.ValueOf(values)
	if !isIndexFunction(function) {
		needed := `a JSON pointer such as "/metadata/ownerReferences/*/uid", or a func(*TYPE) []string`
		return nil, errors.New("the values must be " + needed)
	}
	return func(o object) ([]string, *host.Error) {
		shown := reflect.New(function.Type().In(0).Elem())
		if err := json.Unmarshal(compact(o), shown.Interface()); err != nil {
			return nil, hostError("invalid", "the object of an index of the test: %v", err)
		}
		return function.Call([]reflect.Value{shown})[0].Interface().([]string), nil
	}, nil
}

func isIndexFunction(function reflect.Value) bool {
	if function.Kind() != reflect.Func || function.IsNil() {
		return false
	}
	of := function.Type()
	return of.NumIn() == 1 && !of.IsVariadic() && of.In(0).Kind() == reflect.Pointer &&
		of.NumOut() == 1 && of.Out(0) == reflect.TypeFor[[]string]()
}

func isPointer(text string) bool {
	return strings.HasPrefix(text, "/")
}

// scalarsAt returns the values at a JSON pointer, as texts.
func scalarsAt(o object, pointer string) []string {
	values := follow(o, pathOf(pointer))
	slices.Sort(values)
	return slices.Compact(values)
}

func follow(value any, path []string) []string {
	if len(path) == 0 {
		switch value.(type) {
		case string, bool, json.Number, float64:
			return []string{fmt.Sprint(value)}
		}
		return nil
	}
	var found []string
	switch v := value.(type) {
	case object:
		for name, member := range v {
			if path[0] == "*" || path[0] == name {
				found = append(found, follow(member, path[1:])...)
			}
		}
	case []any:
		for at, element := range v {
			if path[0] == "*" || path[0] == strconv.Itoa(at) {
				found = append(found, follow(element, path[1:])...)
			}
		}
	}
	return found
}
