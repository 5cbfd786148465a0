package runtime

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// write does what the host does: it asks for memory and writes a text to it.
func write(a *arena, text string) string {
	pointer := (*byte)(a.take(uintptr(len(text))))
	copy(unsafe.Slice(pointer, len(text)), text)
	return unsafe.String(pointer, len(text))
}

func TestTextsSurviveCollectionsBetweenAllocations(t *testing.T) {
	a := &arena{grow: grow}
	var texts, expected []string
	for call := range 30 {
		a.refill()
		for part := range 5 {
			text := strings.Repeat(fmt.Sprintf("%d.%d ", call, part), 9000)
			texts = append(texts, write(a, text))
			expected = append(expected, text)
			runtime.GC()
		}
	}
	for at, text := range texts {
		if text != expected[at] {
			t.Fatalf("text %d was overwritten", at)
		}
	}
}

func TestPiecesAreAlignedAndDoNotOverlap(t *testing.T) {
	a := &arena{grow: grow}
	a.refill()
	var end uintptr
	for size := uintptr(1); size < 100; size++ {
		at := uintptr(a.take(size))
		if at%8 != 0 || at < end {
			t.Fatalf("a piece of %d bytes is at %d, after one that ends at %d", size, at, end)
		}
		end = at + size
	}
}

func TestACallGrowsMemoryOnlyTheFirstTime(t *testing.T) {
	grown := 0
	a := &arena{grow: func(size uintptr) unsafe.Pointer {
		grown++
		return grow(size)
	}}
	for range 10 {
		a.refill()
		for range 3 {
			a.take(4 << 20)
		}
	}
	if grown != 3 {
		t.Fatalf("memory grew %d times instead of once for each piece of the first call", grown)
	}
}

func TestTakingAllocatesNothingOnTheHeap(t *testing.T) {
	a := &arena{grow: grow}
	a.refill()
	if allocations := testing.AllocsPerRun(1000, func() { a.take(16) }); allocations != 0 {
		t.Fatalf("%v allocations for each piece", allocations)
	}
}

func TestMemoryThatIsRefusedEndsTheCall(t *testing.T) {
	a := &arena{grow: func(uintptr) unsafe.Pointer { return nil }}
	a.refill()
	defer func() {
		if recover() == nil {
			t.Fatal("address 0 was handed out")
		}
	}()
	a.take(4 << 20)
}

func TestSmallCallsAfterALargeOneShareAChunk(t *testing.T) {
	a := &arena{grow: grow}
	a.refill()
	a.take(4 << 20)
	a.refill()
	chunk := unsafe.SliceData(a.chunk)
	for range 100 {
		a.take(5)
		a.refill()
	}
	if unsafe.SliceData(a.chunk) != chunk {
		t.Fatal("a small call allocated a chunk of the size of the large one")
	}
}
