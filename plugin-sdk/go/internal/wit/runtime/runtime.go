// Package runtime is what the generated bindings need at run time. It replaces the package of the same name of
// wit-bindgen.
package runtime

import (
	"runtime"
	"unsafe"
)

var memory = arena{grow: grow}

// Unpin provides memory for the next calls. Generated code calls it in every export once the arguments are Go values.
func Unpin() {
	memory.refill()
}

// Allocate returns zeroed memory on Go's heap, for results of exports and arguments of imports. Generated code calls it
// before each host call that returns something, so it also provides the memory for that.
func Allocate(pinner *runtime.Pinner, size, _ uintptr) unsafe.Pointer {
	memory.refill()
	if size == 0 {
		return nil
	}
	pointer := unsafe.Pointer(unsafe.SliceData(make([]uint64, (size+7)/8)))
	pinner.Pin(pointer)
	return pointer
}
