//go:build !wasip1

package host

// Current is Informant: in a native test, the fake of package informanttest, and nil without one.
var Current Host
