package informant

import "testing"

// Register replaces what the test binary has registered, for the rest of a test.
func Register(t *testing.T, register func()) {
	t.Helper()
	before := base
	base = registry{}
	t.Cleanup(func() { base = before })
	register()
}
