package engine

import (
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// A restart starts an agent again that nothing else would touch, with the same image and configuration.
func TestARestartReplacesTheProcessOfTheSameVersion(t *testing.T) {
	t.Parallel()
	r, m := configuredBench(t)
	was := r.good("cn-agent", "1.0.0").GetPid()
	outcome(t, r.do(r.wantWith(m, upgrade, values{"level": "info"})), good)
	if now := r.good("cn-agent", "1.0.0").GetPid(); now != was {
		t.Fatalf("an upgrade to the same version started it again: %d, want %d", now, was)
	}
	outcome(t, r.do(r.wantWith(m, taskv1.Verb_VERB_RESTART, values{"level": "info"})), good)
	if now := r.good("cn-agent", "1.0.0").GetPid(); now == was || now == 0 {
		t.Errorf("it runs as %d, want another process than %d", now, was)
	}
}
