package cli

import (
	"fmt"
	"strconv"
	"strings"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// ReadLimit reads a number of servers, or a percentage of them.
func ReadLimit(word string) (*rolloutv1.Limit, error) {
	text, percent := strings.CutSuffix(word, "%")
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil || percent && n > 100:
		return nil, fmt.Errorf("%q is not a number of servers, or a percentage such as 10%%", word)
	case percent:
		return &rolloutv1.Limit{By: &rolloutv1.Limit_Percent{Percent: uint32(n)}}, nil
	}
	return &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: uint32(n)}}, nil
}

// LimitText returns a limit as it is printed.
func LimitText(l *rolloutv1.Limit) string {
	if p, ok := l.GetBy().(*rolloutv1.Limit_Percent); ok {
		return fmt.Sprintf("%d %%", p.Percent)
	}
	return fmt.Sprint(l.GetServers())
}

// CheckField refuses what cannot be a field of a server. Which ones there are, the registry knows.
func CheckField(text string) error {
	return ident.CheckHostname("field", strings.TrimPrefix(text, "label."))
}

// ReadKeep reads a keep budget such as 2/label.rack or 50%/env.
func ReadKeep(text string) (*rolloutv1.Keep, error) {
	n, field, _ := strings.Cut(text, "/")
	l, err := ReadLimit(n)
	if err != nil || CheckField(field) != nil {
		return nil, fmt.Errorf("%q: want N/FIELD, such as 2/label.rack or 50%%/env", text)
	}
	return &rolloutv1.Keep{Field: field, Working: l}, nil
}
