package runtime

import "unsafe"

// An arena hands out the memory in which a host call, or the caller of an export, writes lists and strings.
//
// The host asks for it by cabi_realloc, in which no import may be called. An allocation on Go's heap may start the
// garbage collector, which reads the clock, an import. So the arena only cuts pieces off a chunk that was allocated
// before, outside of cabi_realloc. Strings and slices of Go then point into the chunk and keep it alive.
type arena struct {
	// Of words, so that every piece can be aligned to 8 bytes.
	chunk []uint64
	// The one before it: the arguments of a call whose export has not begun to run may point into it.
	previous []uint64
	// The bytes of the chunk that are handed out.
	offset uintptr
	// The bytes handed out since the last refill.
	used uintptr
	// The bytes that a chunk must have left for the next call: half as much again as any call has needed.
	reserve uintptr
	// Allocates without Go's heap, for a call that needs more than the chunk has left. Never given back: a call that
	// needs as much again finds it in the reserve.
	grow func(size uintptr) unsafe.Pointer
}

const (
	reserveMin = 256 << 10
	chunkMin   = 512 << 10
	sizeMax    = 1 << 30
)

// refill provides for the next call. It must not be called in cabi_realloc.
func (a *arena) refill() {
	a.reserve = max(a.reserve, a.used+a.used/2, reserveMin)
	a.used = 0
	if uintptr(len(a.chunk))*8-a.offset < a.reserve {
		a.previous = a.chunk
		// More than the reserve, so that small calls after a large one do not need a chunk each.
		a.chunk = make([]uint64, max(a.reserve+max(a.reserve/4, reserveMin), chunkMin)/8+1)
		a.offset = 0
	}
}

// take returns memory aligned to 8 bytes. It does not allocate on Go's heap.
func (a *arena) take(size uintptr) unsafe.Pointer {
	if size > sizeMax {
		panic("cabi_realloc: more than WebAssembly's memory has")
	}
	a.used += size + 8
	start := alignUp(a.offset, 8)
	if end := start + size; end <= uintptr(len(a.chunk))*8 {
		a.offset = end
		return unsafe.Add(unsafe.Pointer(unsafe.SliceData(a.chunk)), start)
	}
	grown := a.grow(size + 8)
	if grown == nil {
		// Address 0 is ordinary memory in WebAssembly: what is written there would destroy the program's data.
		panic("out of memory")
	}
	return unsafe.Add(grown, alignUp(uintptr(grown), 8)-uintptr(grown))
}

func alignUp(value, align uintptr) uintptr {
	return (value + align - 1) &^ (align - 1)
}
