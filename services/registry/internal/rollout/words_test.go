package rollout_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

func TestWhatAWaveWaitsForCountsItsServers(t *testing.T) {
	for want, counts := range map[string][3]uint32{ // pending, reached, succeeded
		"the servers of wave 1: 2 of 5 succeeded, 3 under way":            {0, 3, 2},
		"the servers of wave 1: 2 of 5 succeeded, 1 under way, 2 pending": {2, 1, 2},
		"the server of wave 1: 0 of 1 succeeded, 1 under way":             {0, 1, 0},
	} {
		w := &rolloutv1.Wave{OpenedAt: timestamppb.Now(), Counts: map[uint32]uint32{}}
		for n, s := range []rolloutv1.TargetState{
			rolloutv1.TargetState_TARGET_STATE_PENDING, rolloutv1.TargetState_TARGET_STATE_REACHED,
			rolloutv1.TargetState_TARGET_STATE_SUCCEEDED,
		} {
			w.Counts[uint32(s)], w.Servers = counts[n], w.Servers+counts[n]
		}
		r := &rolloutv1.Rollout{State: rolloutv1.State_STATE_RUNNING, Waves: []*rolloutv1.Wave{w}}
		if have := rollout.Decide(rollout.Input{Rollout: r, Now: time.Now()}).Waits; have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}

func TestOneServerIsNoServers(t *testing.T) {
	for servers, want := range map[int]string{
		1: "3 canaries were asked for, but only 1 server can be a canary",
		2: "3 canaries were asked for, but only 2 servers can be canaries",
	} {
		_, err := rollout.Waves(fleet(servers), stages(canaries(3)), "r")
		if have := fault.RefusalOf(err).GetMessage(); have != want {
			t.Errorf("have %q, want %q", have, want)
		}
	}
}
