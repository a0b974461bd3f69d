package contexts

import (
	"time"

	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// expiresOf returns when the credentials of a context expire, or "".
func expiresOf(c trust.Context) string {
	if _, until := trust.Times(c.JWT); !until.IsZero() {
		return until.UTC().Format(time.RFC3339)
	}
	return ""
}

// past reports whether a time that expiresOf returned has come.
func past(v output.View, until string) bool {
	t, err := time.Parse(time.RFC3339, until)
	return err == nil && !v.At.Before(t)
}

// expires returns the column of the time until which credentials are valid, which marks those that have expired.
func expires[T any](of func(T) string) output.Column[T] {
	return output.Column[T]{Title: "EXPIRES", Key: of, Value: func(v output.View, row T) string {
		if until := of(row); past(v, until) {
			return until + " (expired)"
		}
		return of(row)
	}}
}
