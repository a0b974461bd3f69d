package rollout

import (
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/timestamppb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// startAt is --at: when the first wave begins.
type startAt struct {
	at    time.Time // zero means at once
	given bool
	now   func() time.Time
}

func (s *startAt) add(flags *pflag.FlagSet, now func() time.Time, without string) {
	s.now = now
	read := cli.StartReader(now)
	flags.Var(cli.FlagValue{Read: func(text string) (err error) {
		s.given = true
		s.at, err = read(text)
		return err
	}}, "at", "begin at this `TIME`, and do not watch: 22:00 or \"2026-12-01 22:00\" in UTC, both with an IANA zone "+
		"behind, +2h, RFC 3339, or now; without it, "+without)
}

// set sets the start of a rollout where the flag is given. A time in the past is refused.
func (s *startAt) set(q *intentv1.Rollout) error {
	switch {
	case !s.given:
	case s.at.IsZero():
		q.StartAt = nil
	case !s.at.After(s.now()):
		return cli.Usage("--at %s is in the past. Try: a later time, +2h, or no --at, to begin at once",
			s.at.UTC().Format(time.RFC3339))
	default:
		q.StartAt = timestamppb.New(s.at)
	}
	return nil
}
