//go:build !wasip1

package host

// Current is Informant: in a native test, the fake of package informanttest, and nil without one.
var Current Host

// NewPlugin returns a new instance of the plugin. Its variables have their first values again.
var NewPlugin func() Plugin
