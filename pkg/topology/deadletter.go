package topology

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The stream of dead letters before topology 2, and its subjects.
const (
	oldDeadLetter         = "QUARANTINE"
	oldDeadLetterSubjects = "garrison.quarantine.*"
)

// movePatience bounds the wait for the bus to copy the dead letters, which are 64 MiB at most.
const movePatience = 2 * time.Minute

// moveDeadLetters plans the move of the dead letters of a bus from before topology 2.
func (p *Plan) moveDeadLetters(ctx context.Context, js jetstream.JetStream, streams []jetstream.StreamConfig) error {
	old, err := streamConfig(ctx, js, oldDeadLetter)
	if err != nil || old == nil {
		return err
	}
	i := slices.IndexFunc(streams, func(s jetstream.StreamConfig) bool { return s.Name == DeadLetter })
	p.Changes = append(p.Changes, Change{
		What:  "stream " + oldDeadLetter,
		How:   "its messages move to " + DeadLetter + ", then it is deleted",
		apply: func(ctx context.Context, js jetstream.JetStream) error { return moveDeadLetters(ctx, js, streams[i]) },
	})
	return nil
}

// moveDeadLetters has the bus copy the old stream into the new one, then deletes the old one.
// It is safe to run again after an interruption: the bus resumes the copy where it stopped.
func moveDeadLetters(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, movePatience)
	defer cancel()
	if err := copyDeadLetters(ctx, js, want); err != nil {
		return fmt.Errorf("copy %s to %s: %w", oldDeadLetter, DeadLetter, err)
	}
	if _, err := js.UpdateStream(ctx, want); err != nil {
		return err
	}
	return js.DeleteStream(ctx, oldDeadLetter)
}

func copyDeadLetters(ctx context.Context, js jetstream.JetStream, to jetstream.StreamConfig) error {
	to.Sources = []*jetstream.StreamSource{{
		Name: oldDeadLetter,
		SubjectTransforms: []jetstream.SubjectTransformConfig{{
			Source: oldDeadLetterSubjects, Destination: DeadLetterSubject("{{wildcard(1)}}", "unknown"),
		}},
	}}
	s, err := js.UpdateStream(ctx, to)
	if err != nil {
		return err
	}
	return waitCopied(ctx, js, s)
}

// waitCopied waits until the new stream holds a copy of every message of the old one.
func waitCopied(ctx context.Context, js jetstream.JetStream, to jetstream.Stream) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		old, err := js.Stream(ctx, oldDeadLetter)
		if err != nil {
			return err
		}
		info, err := to.Info(ctx)
		if err != nil {
			return err
		}
		left := old.CachedInfo().State.Msgs // fewer when some expire meanwhile
		if left == 0 || info.State.Msgs >= left && caughtUp(info.Sources) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// caughtUp reports whether a stream has reached its only source and has copied all of it.
func caughtUp(sources []*jetstream.StreamSourceInfo) bool {
	return len(sources) == 1 && sources[0].Active >= 0 && sources[0].Lag == 0
}
