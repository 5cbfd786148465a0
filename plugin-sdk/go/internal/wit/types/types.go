// Package types has the generic types of the generated bindings. It replaces the package of the same name of
// wit-bindgen.
package types

// The cases of an Option.
const (
	OptionNone = 0
	OptionSome = 1
)

// Option is a value, or none.
type Option[T any] struct {
	tag   uint8
	value T
}

// Some wraps a value.
func Some[T any](value T) Option[T] {
	return Option[T]{OptionSome, value}
}

// None is no value.
func None[T any]() Option[T] {
	return Option[T]{}
}

// Tag is OptionNone or OptionSome.
func (o Option[T]) Tag() uint8 {
	return o.tag
}

// IsSome reports whether there is a value.
func (o Option[T]) IsSome() bool {
	return o.tag == OptionSome
}

// Some returns the value.
func (o Option[T]) Some() T {
	if o.tag != OptionSome {
		panic("tag mismatch")
	}
	return o.value
}

// The cases of a Result.
const (
	ResultOk  = 0
	ResultErr = 1
)

// Result is a value, or an error.
type Result[T, E any] struct {
	tag   uint8
	value any
}

// Ok wraps a value.
func Ok[T, E any](value T) Result[T, E] {
	return Result[T, E]{ResultOk, value}
}

// Err wraps an error.
func Err[T, E any](value E) Result[T, E] {
	return Result[T, E]{ResultErr, value}
}

// Tag is ResultOk or ResultErr.
func (r Result[T, E]) Tag() uint8 {
	return r.tag
}

// IsOk reports whether there is a value.
func (r Result[T, E]) IsOk() bool {
	return r.tag == ResultOk
}

// IsErr reports whether there is an error.
func (r Result[T, E]) IsErr() bool {
	return r.tag == ResultErr
}

// Ok returns the value.
func (r Result[T, E]) Ok() T {
	return r.value.(T)
}

// Err returns the error.
func (r Result[T, E]) Err() E {
	return r.value.(E)
}

// Tuple2 is a pair.
type Tuple2[A, B any] struct {
	F0 A
	F1 B
}

// Unit is what a function returns that returns nothing.
type Unit struct{}
