package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func Example() {
	s, _ := server.Apply(nil, ledger.Fact{Key: "s1", Body: &serverv1.Invited{Name: "web-1"}, At: time.Unix(1, 0)})
	s, _ = server.Apply(s, ledger.Fact{Key: "s1", Body: &serverv1.Enrolled{}, At: time.Unix(2, 0)})
	_, fit := server.Apply(s, ledger.Fact{Key: "s1", Body: &serverv1.Forgotten{}, At: time.Unix(3, 0)})
	fmt.Println(s.Name, server.StateOf(s.Life), "managed:", server.Managed(s), "may be forgotten:", fit)
	// Output: web-1 alive managed: true may be forgotten: false
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := server.Life.Check(); err != nil {
		t.Error(err)
	}
}

// in returns a server in a state of its life.
func in(state server.State) *serverv1.Server {
	if state == server.Unknown {
		return nil
	}
	return &serverv1.Server{Id: "s", Life: state.Proto(), TokenSha256: []byte{1}, PublicKey: "key"}
}

func TestEveryFactInEveryStateFollowsTheTableOrChangesNothing(t *testing.T) {
	for _, state := range []server.State{
		server.Unknown, server.Invited, server.Alive, server.Dying, server.Dead,
	} {
		for _, k := range ledger.Kinds {
			if k.Noun != ledger.Server {
				continue
			}
			before := in(state)
			f := ledger.Fact{Noun: ledger.Server, Key: "s", Body: k.Body, At: time.Unix(1, 0)}
			after, fit := server.Apply(proto.CloneOf(before), f)
			next, want := server.Life.Next(state, k.Name)
			switch {
			case fit != want:
				t.Errorf("%s in %s fits: %v; want %v", k.Name, state, fit, want)
			case !fit && state != server.Unknown && !proto.Equal(before, after):
				t.Errorf("%s does not fit in %s but changed it: %v", k.Name, state, after)
			case fit && next == server.Forgotten && after != nil:
				t.Errorf("%s in %s leaves %v; want nothing", k.Name, state, after)
			case fit && next != server.Forgotten && server.StateOf(after.GetLife()) != next:
				t.Errorf("%s in %s leads to %s; want %s", k.Name, state, server.StateOf(after.GetLife()), next)
			}
		}
	}
}

func TestADeadServerHasNoTokenAndNoPresence(t *testing.T) {
	s, _ := server.Apply(in(server.Alive), ledger.Fact{
		Noun: ledger.Server,
		Key:  "s",
		Body: &serverv1.Dead{IntentId: "i", Lost: true},
		At:   time.Unix(1, 0),
	})
	if s.TokenSha256 != nil || s.Presence != serverv1.Presence_PRESENCE_UNSPECIFIED {
		t.Errorf("a dead server keeps %v", s)
	}
}

func TestAnUnmanagedAgentKeepsItsTimeUntilItIsGone(t *testing.T) {
	one, two := &serverv1.FoundAgent{Agent: "one"}, &serverv1.FoundAgent{Agent: "two"}
	s := in(server.Alive)
	var have []string
	for n, list := range [][]*serverv1.FoundAgent{{one}, {one, two}, {two}, {}, {one}} {
		s, _ = server.Apply(s, ledger.Fact{
			Noun: ledger.Server, Key: "s", Body: &serverv1.AgentsFound{Agents: list}, At: time.Unix(int64(n+1), 0),
		})
		row := fmt.Sprintf("%d:", s.FoundAt.Seconds)
		for _, a := range s.Found {
			row += fmt.Sprintf(" %s since %d", a.Agent, a.Since.Seconds)
		}
		have = append(have, row)
	}
	want := []string{"1: one since 1", "2: one since 1 two since 2", "3: two since 2", "4:", "5: one since 5"}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
	if one.Since != nil {
		t.Error("the fold changed the fact")
	}
	s, _ = server.Apply(s, ledger.Fact{Noun: ledger.Server, Key: "s", Body: &serverv1.Dead{}, At: time.Unix(9, 0)})
	if s.Found != nil || s.FoundAt != nil {
		t.Errorf("a dead server has %v", s.Found)
	}
}

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
