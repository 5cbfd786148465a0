package runtime

import "unsafe"

// For the adapter of WASI preview 1, which asks for its state before Go's run-time is up.
var boot [160 << 10]byte

var (
	bootOffset uintptr
	isReady    bool
)

func init() {
	memory.refill()
	isReady = true
}

//go:linkname sbrk runtime.sbrk
func sbrk(n uintptr) unsafe.Pointer

func grow(size uintptr) unsafe.Pointer {
	return sbrk(size)
}

//go:wasmexport cabi_realloc
func cabiRealloc(old unsafe.Pointer, _, align, size uintptr) unsafe.Pointer {
	if old != nil {
		panic("cabi_realloc: a list of unknown length")
	}
	if isReady {
		return memory.take(size)
	}
	start := uintptr(unsafe.Pointer(&boot))
	at := alignUp(start+bootOffset, align)
	bootOffset = at + size - start
	if bootOffset > uintptr(len(boot)) {
		panic("cabi_realloc: more than expected before the start")
	}
	return unsafe.Pointer(at)
}
