package informant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Config reads the plugin's configuration, the table `config` of its section, into a variable. What the variable has at
// first are the defaults. An unknown key is an error, and so is what the method Validate() error of the variable
// returns, if it has one: Informant then refuses the plugin.
func Config(variable any) {
	current.config = newVariable("Config", current.config, variable)
}

// State hands over a variable, as JSON, when another version of the plugin replaces this one.
func State(variable any) {
	current.state = newVariable("State", current.state, variable)
}

// A state has at most 16 MiB.
const stateBytesMax = 16 << 20

// variable is one of the plugin's, and the value that it has at first.
type variable struct {
	value   reflect.Value
	initial reflect.Value
}

func newVariable(what string, present *variable, pointer any) *variable {
	value := reflect.ValueOf(pointer)
	if value.Kind() != reflect.Pointer || value.IsNil() {
		panic(fmt.Sprintf("informant.%s: pass the address of a variable", what))
	}
	if present != nil {
		panic(fmt.Sprintf("informant.%s is called twice: put everything into one struct", what))
	}
	return &variable{value: value, initial: deepCopy(value.Elem())}
}

// reset gives the variable its first value.
func (v *variable) reset() {
	if v != nil {
		v.value.Elem().Set(deepCopy(v.initial))
	}
}

// readConfig reads the configuration.
func (v *variable) readConfig(document []byte) error {
	if v == nil || len(document) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v.value.Interface()); err != nil {
		return TerminalError(configError(err))
	}
	if checked, isChecked := v.value.Interface().(interface{ Validate() error }); isChecked {
		if err := checked.Validate(); err != nil {
			return TerminalError(fmt.Errorf("config: %w", err))
		}
	}
	return nil
}

func configError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("config: `%s` is a %s, expected a Go %v", wrong.Field, wrong.Value, wrong.Type)
	}
	if unknown, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field "); isUnknown {
		return fmt.Errorf("config: unknown key `%s`", strings.Trim(unknown, `"`))
	}
	return fmt.Errorf("config: %w", err)
}

func (v *variable) save() ([]byte, error) {
	if v == nil {
		return nil, TerminalError(errors.New("the plugin registers no State"))
	}
	state, err := json.Marshal(v.value.Interface())
	if err == nil && len(state) > stateBytesMax {
		err = fmt.Errorf("it has %d bytes, and a state has at most %d", len(state), stateBytesMax)
	}
	if err != nil {
		return nil, TerminalError(fmt.Errorf("the state cannot be handed over: %w", err))
	}
	return state, nil
}

func (v *variable) restore(state []byte) error {
	if v == nil {
		return TerminalError(errors.New("the plugin registers no State"))
	}
	if err := json.Unmarshal(state, v.value.Interface()); err != nil {
		return TerminalError(fmt.Errorf("the state that the version before saved does not fit: %w", err))
	}
	return nil
}

// deepCopy copies a value with the maps, slices and structs that it refers to.
func deepCopy(value reflect.Value) reflect.Value {
	copied := reflect.New(value.Type()).Elem()
	copied.Set(value)
	switch value.Kind() {
	case reflect.Map:
		if value.IsNil() {
			break
		}
		copied.Set(reflect.MakeMapWithSize(value.Type(), value.Len()))
		for entries := value.MapRange(); entries.Next(); {
			copied.SetMapIndex(entries.Key(), deepCopy(entries.Value()))
		}
	case reflect.Slice:
		if value.IsNil() {
			break
		}
		copied.Set(reflect.MakeSlice(value.Type(), value.Len(), value.Len()))
		for at := range value.Len() {
			copied.Index(at).Set(deepCopy(value.Index(at)))
		}
	case reflect.Pointer:
		if !value.IsNil() {
			copied.Set(reflect.New(value.Type().Elem()))
			copied.Elem().Set(deepCopy(value.Elem()))
		}
	case reflect.Struct:
		for field := range value.NumField() {
			if value.Type().Field(field).IsExported() {
				copied.Field(field).Set(deepCopy(value.Field(field)))
			}
		}
	}
	return copied
}
