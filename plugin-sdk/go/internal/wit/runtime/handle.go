package runtime

// Handle is the number of a resource of the host. 0 stands for one that was dropped or given away.
type Handle struct {
	value int32
}

// MakeHandle wraps a number that the host has returned.
func MakeHandle(value int32) *Handle {
	if value == 0 {
		panic("nil handle")
	}
	return &Handle{value}
}

// Use returns the number.
func (h *Handle) Use() int32 {
	if h.value == 0 {
		panic("nil handle")
	}
	return h.value
}

// Take returns the number and gives it away.
func (h *Handle) Take() int32 {
	value := h.Use()
	h.value = 0
	return value
}

// TakeOrNil is Take, and 0 for a handle that was given away before.
func (h *Handle) TakeOrNil() int32 {
	value := h.value
	h.value = 0
	return value
}

// Set gives a number to a handle without one.
func (h *Handle) Set(value int32) {
	if value == 0 {
		panic("nil handle")
	}
	if h.value != 0 {
		panic("handle already set")
	}
	h.value = value
}
