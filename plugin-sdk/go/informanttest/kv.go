package informanttest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"informant.example/plugin-sdk/go/internal/host"
)

// The limits of Informant.
const (
	keyBytesMax   = 512
	valueBytesMax = 256 << 10
	bytesMax      = 1 << 20
	bytesOfKey    = 64
)

func (f *fake) checkKey(name string) *host.Error {
	switch {
	case f.phase != handling && f.phase != starting:
		return notHere("kv")
	case name == "" || strings.ContainsRune(name, 0):
		return hostError("invalid", "a key must not be empty or contain NUL: %q", name)
	case len(name) > keyBytesMax:
		return hostError("too-large", "the key has %d bytes, at most %d are possible", len(name), keyBytesMax)
	}
	return nil
}

func (f *fake) KVGet(name string) ([]byte, bool, *host.Error) {
	if err := f.checkKey(name); err != nil {
		return nil, false, err
	}
	value, isThere := f.present()[name]
	return value, isThere, nil
}

// present returns the values as the present call sees them.
func (f *fake) present() map[string][]byte {
	values := maps.Clone(f.values)
	maps.Copy(values, f.pendingValues)
	maps.DeleteFunc(values, func(_ string, value []byte) bool { return value == nil })
	return values
}

func (f *fake) KVSet(name string, value []byte) *host.Error {
	if err := f.checkKey(name); err != nil {
		return err
	}
	if len(value) > valueBytesMax {
		message := "the value of %q has %d bytes, at most %d are possible"
		return hostError("too-large", message, name, len(value), valueBytesMax)
	}
	values := f.present()
	values[name] = value
	total := 0
	for name, value := range values {
		total += bytesOfKey + len(name) + len(value)
	}
	if total > bytesMax {
		message := "limits.kv: all keys and values would have %d bytes, at most %d are possible"
		return hostError("exhausted", message, total, bytesMax)
	}
	f.pendingValues[name] = append([]byte{}, value...)
	return nil
}

func (f *fake) KVSetIfAbsent(name string, value []byte) (bool, *host.Error) {
	if _, isThere, err := f.KVGet(name); err != nil || isThere {
		return false, err
	}
	err := f.KVSet(name, value)
	return err == nil, err
}

func (f *fake) KVDelete(name string) *host.Error {
	if err := f.checkKey(name); err != nil {
		return err
	}
	f.pendingValues[name] = nil
	return nil
}

func (f *fake) KVList(prefix, cursor string, limit uint32) ([]string, *host.Error) {
	if f.phase != handling && f.phase != starting {
		return nil, notHere("kv")
	}
	names := slices.Sorted(maps.Keys(f.present()))
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) || name <= cursor })
	return names[:min(len(names), int(cmp.Or(limit, 1_000)))], nil
}
