package informant

import (
	"encoding/json"
	"fmt"
)

// KV remembers values across calls, instances, versions of the plugin and restarts of Informant. What a call changes
// takes effect when it has succeeded. It needs a section [state] in config.toml.
type KV struct{}

// Get returns the value of a key, and false if it has none.
func (KV) Get(key string) ([]byte, bool, error) {
	value, isThere, err := hosted().KVGet(key)
	return value, isThere, hostError(err)
}

// Set sets a key. A key has 1 to 512 bytes, a value at most 256 KiB.
func (KV) Set(key string, value []byte) error {
	return hostError(hosted().KVSet(key, value))
}

// SetIfAbsent sets a key that has no value, and returns whether it did.
func (KV) SetIfAbsent(key string, value []byte) (bool, error) {
	isSet, err := hosted().KVSetIfAbsent(key, value)
	return isSet, hostError(err)
}

// Delete deletes a key, if it has a value.
func (KV) Delete(key string) error {
	return hostError(hosted().KVDelete(key))
}

// GetJSON reads the value of a key, which is JSON, into a variable, and returns false if it has none.
func (kv KV) GetJSON(key string, into any) (bool, error) {
	value, isThere, err := kv.Get(key)
	if err != nil || !isThere {
		return false, err
	}
	if err := json.Unmarshal(value, into); err != nil {
		return false, fmt.Errorf("the value of the key %q does not match its type: %w", key, err)
	}
	return true, nil
}

// SetJSON sets a key to a value as JSON.
func (kv KV) SetJSON(key string, value any) error {
	document, err := json.Marshal(value)
	if err != nil {
		return TerminalError(fmt.Errorf("the value of the key %q cannot be written: %w", key, err))
	}
	return kv.Set(key, document)
}

// List returns the keys that start with prefix, in the order of their bytes.
func (KV) List(prefix string) ([]string, error) {
	for keys, cursor := []string(nil), ""; ; cursor = keys[len(keys)-1] {
		more, err := hosted().KVList(prefix, cursor, valuesInPage)
		keys = append(keys, more...)
		if err != nil || len(more) < valuesInPage {
			return keys, hostError(err)
		}
	}
}
