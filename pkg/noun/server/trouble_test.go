package server_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestTheTroubleOfAServerHasACode(t *testing.T) {
	t.Parallel()
	says := func(state serverv1.ExecutorState, code string) *serverv1.Server {
		return &serverv1.Server{Condition: &serverv1.ServerCondition{State: state, Code: code}}
	}
	const running, suspended, busy = serverv1.ExecutorState_EXECUTOR_STATE_RUNNING,
		serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED, serverv1.ExecutorState_EXECUTOR_STATE_BUSY
	clone := says(suspended, code.ClockSkew)
	clone.Duplicate = &serverv1.ServerDuplicate{}
	shutOut := says(suspended, "")
	shutOut.Standing = serverv1.Standing_STANDING_QUARANTINED
	for want, s := range map[string]*serverv1.Server{
		code.DuplicateIdentity: clone, code.ExecutorSuspended: says(suspended, ""),
		code.ClockSkew: says(suspended, code.ClockSkew), code.NoSpace: says(running, code.NoSpace),
	} {
		s.Life = serverv1.Life_LIFE_ALIVE
		if have := server.Trouble(s); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
	for name, s := range map[string]*serverv1.Server{
		"it runs": says(running, ""), "it said nothing": {}, "a critical section": says(busy, code.NoSpace),
		"it is shut out": shutOut,
	} {
		s.Life = serverv1.Life_LIFE_ALIVE
		if have := server.Trouble(s); have != "" {
			t.Errorf("%s: have %q", name, have)
		}
	}
}
