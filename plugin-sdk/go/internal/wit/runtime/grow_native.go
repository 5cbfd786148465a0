//go:build !wasip1

package runtime

import "unsafe"

// kept keeps what grow returns: native memory is Go's.
var kept [][]uint64

func grow(size uintptr) unsafe.Pointer {
	words := make([]uint64, (size+7)/8)
	kept = append(kept, words)
	return unsafe.Pointer(unsafe.SliceData(words))
}
