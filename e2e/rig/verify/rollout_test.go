package verify_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig/verify"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// inOrder numbers facts about a rollout r of servers a and b, one in each wave, and about the tasks that change them.
func inOrder(bodies ...proto.Message) (facts []ledger.Fact) {
	key := ""
	for n, body := range bodies {
		f := ledger.Fact{Body: body, ID: fmt.Sprint(n), Sequence: uint64(n + 1), Actor: "x"}
		switch b := body.(type) {
		case *intentv1.Accepted:
			f.Noun, f.Key = ledger.Intent, "i"
		case *taskv1.Queued:
			f.Noun, f.Key = ledger.Task, "t-"+b.ServerId
			key = f.Key
		case *taskv1.Assigned, *taskv1.Undone, *taskv1.Succeeded:
			f.Noun, f.Key = ledger.Task, key
		case *instancev1.Wanted:
			f.Noun, f.Key = ledger.Instance, "a.web"
		default:
			f.Noun, f.Key = ledger.Rollout, "r"
		}
		f.Source = f.Noun.Writer()
		facts = append(facts, f)
	}
	return facts
}

func strategy(most uint32, approve bool) *rolloutv1.Strategy {
	return &rolloutv1.Strategy{
		MaxBroken: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: most}}, Approve: approve,
	}
}

func planned(s *rolloutv1.Strategy) *rolloutv1.Planned {
	return &rolloutv1.Planned{Strategy: s, Waves: []uint32{1, 1}, Part: 1, Parts: 1, Targets: []*rolloutv1.Target{
		{ServerId: "a", Wave: 1}, {ServerId: "b", Wave: 2},
	}}
}

func TestARolloutDoesNotGoPastAClosedGate(t *testing.T) {
	knows := &rolloutv1.Basis{Sequence: 1000}
	opened := func(wave uint32) proto.Message { return &rolloutv1.Opened{Wave: wave, Basis: knows} }
	released := func(wave uint32, server string) proto.Message {
		return &rolloutv1.Released{Wave: wave, ServerIds: []string{server}, Basis: knows}
	}
	passed := func(wave uint32) proto.Message { return &rolloutv1.Passed{Wave: wave, Basis: knows} }
	derived := &intentv1.Accepted{Intent: &intentv1.Intent{Source: &intentv1.Source{RolloutId: "r"}}}
	queued := func(server string) proto.Message { return &taskv1.Queued{ServerId: server, IntentId: "i"} }
	assigned, undone := &taskv1.Assigned{}, &taskv1.Undone{}
	broke := []proto.Message{
		planned(strategy(0, false)), derived, opened(1), released(1, "a"), queued("a"), assigned, undone,
	}
	for name, c := range map[string]struct {
		facts []proto.Message
		want  string
	}{
		"in order": {[]proto.Message{
			planned(strategy(0, false)), derived, opened(1), released(1, "a"), queued("a"), assigned,
			&taskv1.Succeeded{}, passed(1), opened(2), released(2, "b"), queued("b"), assigned, &taskv1.Succeeded{},
		}, ""},
		"before it was planned": {[]proto.Message{opened(1)}, "before it was planned"},
		"a wave too early":      {[]proto.Message{planned(strategy(0, false)), opened(2)}, "before wave 1 passed"},
		"a release before its wave": {
			[]proto.Message{planned(strategy(0, false)), released(1, "a")}, "which has not begun",
		},
		"a server of another wave": {
			[]proto.Message{planned(strategy(0, false)), opened(1), released(1, "b")}, "planned was 2",
		},
		"released again": {
			[]proto.Message{planned(strategy(0, false)), opened(1), released(1, "a"), released(1, "a")}, "again",
		},
		"a change that was not released": {
			[]proto.Message{
				planned(strategy(0, false)), derived, opened(1), queued("b"), assigned, &taskv1.Succeeded{},
			},
			"has not released",
		},
		"without an approval": {
			[]proto.Message{planned(strategy(0, true)), opened(1), passed(1), opened(2)}, "without its approval",
		},
		"while it halted": {
			[]proto.Message{planned(strategy(0, false)), opened(1), &rolloutv1.Halted{}, released(1, "a")},
			"does not run",
		},
		"past the limit": {append(broke, passed(1)), "1 servers were broken; it may break 0"},
		"damage that the decision did not know": {
			append(broke, &rolloutv1.Passed{Wave: 1, Basis: &rolloutv1.Basis{Sequence: 5}}), "",
		},
		"damage that a person accepted": {append(broke, &rolloutv1.Halted{}, &rolloutv1.Resumed{}, passed(1)), ""},
	} {
		var broken []string
		for _, err := range verify.Check(inOrder(c.facts...), nil) {
			if !strings.Contains(err.Error(), "never ended") {
				broken = append(broken, err.Error())
			}
		}
		switch {
		case c.want == "" && len(broken) == 0:
		case c.want != "" && len(broken) == 1 && strings.Contains(broken[0], c.want):
		default:
			t.Errorf("%s: %q, want %q", name, broken, c.want)
		}
	}
}

func TestWhatFetchesAheadChangesNothingAndWasAskedForOnceBeforeItsTurn(t *testing.T) {
	planned := &rolloutv1.Planned{Waves: []uint32{1}, Part: 1, Parts: 1, Targets: []*rolloutv1.Target{
		{ServerId: "a", Wave: 1},
	}}
	derived := &intentv1.Accepted{Intent: &intentv1.Intent{Source: &intentv1.Source{RolloutId: "r"}}}
	primed := &rolloutv1.Primed{ServerIds: []string{"a"}}
	queued := func(agent string) proto.Message {
		return &taskv1.Queued{
			ServerId: "a", IntentId: "i", Verb: taskv1.Verb_VERB_REFRESH, Agent: agent, Ahead: &imagev1.Ahead{},
		}
	}
	for want, facts := range map[string][]proto.Message{
		"":                             {planned, derived, primed, queued(""), &taskv1.Assigned{}, &taskv1.Succeeded{}},
		"which its rollout did not":    {planned, derived, queued("")},
		"fetches ahead and changes":    {planned, derived, primed, queued("web")},
		"again, or after its turn":     {planned, derived, primed, primed},
		"ahead while it does not run":  {planned, derived, &rolloutv1.Halted{}, primed},
		"ahead again, or after its tu": {planned, &rolloutv1.Opened{Wave: 1}, releasedA(), primed},
	} {
		var broken []string
		for _, err := range verify.Check(inOrder(facts...), nil) {
			if !strings.Contains(err.Error(), "never ended") {
				broken = append(broken, err.Error())
			}
		}
		if len(broken) > 1 || (want == "") != (len(broken) == 0) || want != "" && !strings.Contains(broken[0], want) {
			t.Errorf("%q, want %q", broken, want)
		}
	}
}

func releasedA() proto.Message { return &rolloutv1.Released{Wave: 1, ServerIds: []string{"a"}} }
