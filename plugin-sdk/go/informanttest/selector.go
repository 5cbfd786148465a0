package informanttest

import (
	"fmt"
	"slices"
	"strings"
)

// requirement is one part of a label selector.
type requirement struct {
	label string
	// Absent matches objects without the label.
	absent bool
	// nil: any value.
	values []string
	negate bool
}

func (r requirement) matches(o object) bool {
	labels, _ := metadata(o)["labels"].(object)
	value, isThere := labels[r.label].(string)
	switch {
	case r.absent:
		return !isThere
	case r.values == nil:
		return isThere
	case r.negate:
		return !isThere || !slices.Contains(r.values, value)
	default:
		return isThere && slices.Contains(r.values, value)
	}
}

// parseSelector reads a selector in the syntax of Kubernetes. An empty one selects everything.
func parseSelector(selector string) ([]requirement, error) {
	var requirements []requirement
	if strings.TrimSpace(selector) == "" {
		return nil, nil
	}
	depth := 0
	isOuterComma := func(letter rune) bool {
		switch letter {
		case '(':
			depth++
		case ')':
			depth--
		}
		return letter == ',' && depth == 0
	}
	for _, part := range strings.FieldsFunc(selector, isOuterComma) {
		r, err := parseRequirement(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		requirements = append(requirements, r)
	}
	return requirements, nil
}

func parseRequirement(text string) (requirement, error) {
	var r requirement
	var list string
	var isFound bool
	for _, operator := range []struct {
		text           string
		negate, isList bool
	}{{"!=", true, false}, {"==", false, false}, {"=", false, false}, {" notin ", true, true}, {" in ", false, true}} {
		if r.label, list, isFound = strings.Cut(text, operator.text); !isFound {
			continue
		}
		r.negate = operator.negate
		list = strings.TrimSpace(list)
		if operator.isList {
			inner, isOpen := strings.CutPrefix(list, "(")
			inner, isClosed := strings.CutSuffix(inner, ")")
			if !isOpen || !isClosed {
				return r, fmt.Errorf("label selector: %q is not a list of values in parentheses", list)
			}
			list = inner
		}
		r.values = []string{}
		for value := range strings.SplitSeq(list, ",") {
			r.values = append(r.values, strings.TrimSpace(value))
		}
		break
	}
	if !isFound {
		r.label, r.absent = strings.CutPrefix(text, "!")
	}
	r.label = strings.TrimSpace(r.label)
	if r.label == "" || strings.ContainsAny(r.label, " \t") {
		return r, fmt.Errorf("label selector: %q is not a valid requirement", text)
	}
	return r, nil
}

func selects(requirements []requirement, o object) bool {
	return !slices.ContainsFunc(requirements, func(r requirement) bool { return !r.matches(o) })
}
