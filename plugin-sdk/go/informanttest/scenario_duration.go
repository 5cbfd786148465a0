package informanttest

import (
	"math/big"
	"regexp"
	"strings"
	"time"
)

// durationUnits are the units of a duration by their names, as in Informant.
var durationUnits = map[string]time.Duration{}

func init() {
	for names, unit := range map[string]time.Duration{
		"ns nsec nanos":             time.Nanosecond,
		"us usec \u00b5s":           time.Microsecond,
		"ms msec millis":            time.Millisecond,
		"s sec secs second seconds": time.Second,
		"m min mins minute minutes": time.Minute,
		"h hr hrs hour hours":       time.Hour,
		"d day days":                24 * time.Hour,
		"w wk wks week weeks":       7 * 24 * time.Hour,
		"M month months":            2_630_016 * time.Second,
		"y yr yrs year years":       31_557_600 * time.Second,
	} {
		for _, name := range strings.Fields(names) {
			durationUnits[name] = unit
		}
	}
}

const (
	durationDigits = `([0-9](?:\s*[0-9])*)\s*`
	durationSpan   = `\s*` + durationDigits + `(?:\.\s*` + durationDigits + `)?([A-Za-z\x{b5}]+)`
)

var (
	durationPattern = regexp.MustCompile(`^(?:` + durationSpan + `)+\s*$`)
	spanPattern     = regexp.MustCompile(durationSpan)
)

// parseDuration reads `1m 30s`, and whatever else config.toml may have. A time.Duration has at most 292 years.
func parseDuration(text string) (time.Duration, bool) {
	if text == "0" {
		return 0, true
	}
	if !durationPattern.MatchString(text) {
		return 0, false
	}
	total := new(big.Int)
	for _, span := range spanPattern.FindAllStringSubmatch(text, -1) {
		whole, part := strings.Join(strings.Fields(span[1]), ""), strings.Join(strings.Fields(span[2]), "")
		passing, isValid := spanOf(whole, part, span[3])
		if !isValid {
			return 0, false
		}
		total.Add(total, passing)
	}
	return time.Duration(total.Int64()), total.IsInt64()
}

// spanOf returns the nanoseconds of a number, WHOLE.PART, of units.
func spanOf(whole, part, name string) (*big.Int, bool) {
	unit, isKnown := durationUnits[name]
	if !isKnown || part != "" && unit == time.Nanosecond {
		return nil, false
	}
	step := time.Nanosecond
	// What is left of a fraction must be whole seconds or, of a unit below an hour, whole nanoseconds.
	if unit >= time.Hour {
		step = time.Second
	}
	number, _ := new(big.Int).SetString(whole, 10)
	fraction, _ := new(big.Int).SetString("0"+part, 10)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(part))), nil)
	fraction.Mul(fraction, big.NewInt(int64(unit/step)))
	steps, rest := new(big.Int).QuoRem(fraction, scale, new(big.Int))
	number.Mul(number, big.NewInt(int64(unit)))
	return number.Add(number, steps.Mul(steps, big.NewInt(int64(step)))), rest.Sign() == 0
}
