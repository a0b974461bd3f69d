package selection

import (
	"fmt"
	"strings"
)

// ParseLabels parses words that set labels, LABEL=VALUE, and that remove them, LABEL-.
func ParseLabels(words []string) (set map[string]string, unset []string, err error) {
	set = map[string]string{}
	for _, w := range words {
		if label, ok := strings.CutSuffix(w, "-"); ok && !strings.Contains(w, "=") && label != "" {
			unset = append(unset, label)
			continue
		}
		label, value, ok := strings.Cut(w, "=")
		if !ok || label == "" {
			return nil, nil, fmt.Errorf("%q is not LABEL=VALUE or LABEL-", w)
		}
		if had, ok := set[label]; ok && had != value {
			return nil, nil, fmt.Errorf("label %s has two values, %q and %q", label, had, value)
		}
		set[label] = value
	}
	return set, unset, nil
}
