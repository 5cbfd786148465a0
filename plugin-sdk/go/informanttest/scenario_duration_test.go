package informanttest

import (
	"testing"
	"time"
)

func TestDurationsAreThoseOfConfigTOML(t *testing.T) {
	for text, expected := range map[string]time.Duration{
		"0":            0,
		"500ms":        500 * time.Millisecond,
		"1m 30s":       90 * time.Second,
		"1m30s":        90 * time.Second,
		"1d":           24 * time.Hour,
		"1.5h":         90 * time.Minute,
		" 1 0 s ":      10 * time.Second,
		"1M":           2_630_016 * time.Second,
		"2weeks 1 day": 15 * 24 * time.Hour,
		"10\u00b5s":    10 * time.Microsecond,
	} {
		if found, isDuration := parseDuration(text); !isDuration || found != expected {
			t.Errorf("%q: %v, %v", text, found, isDuration)
		}
	}
	for _, wrong := range []string{
		"", "5", "1x", "s", "1.s", ".5s", "-1s", "1,5s", "1.0001h", "1.5ns", "1H", "1m, 30s", "300y",
	} {
		if found, isDuration := parseDuration(wrong); isDuration {
			t.Errorf("%q: %v", wrong, found)
		}
	}
}
