package leak

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	manual      = serverv1.Ownership_OWNERSHIP_MANUAL
	provisioned = serverv1.Ownership_OWNERSHIP_PROVISIONED
	unknown     = serverv1.Ownership_OWNERSHIP_UNSPECIFIED
)

func TestADeadServerIsLeakedWhileSomethingMayBeLeft(t *testing.T) {
	link := &serverv1.FoundAgent{Agent: "web", Trace: serverv1.Trace_TRACE_LINK, Path: "agents/web"}
	other := &serverv1.FoundAgent{Agent: "web", Trace: serverv1.Trace_TRACE_PROCESS, OtherServerId: "s2"}
	found := func(of ...*serverv1.FoundAgent) proto.Message { return &serverv1.AgentsFound{Agents: of} }
	dead, done := &serverv1.Dead{}, &serverv1.Uninstalled{}
	byHand := &serverv1.Uninstalled{Via: "ssh root@web-1"}
	for _, c := range []struct {
		name      string
		ownership serverv1.Ownership
		facts     []proto.Message
		want      string
	}{
		{"alive, with something found", manual, []proto.Message{found(link)}, ""},
		{"no receipt of its executor", manual, []proto.Message{dead}, "RECEIPT"},
		{"uninstalled", manual, []proto.Message{dead, done}, ""},
		{"uninstalled, foreign files left", manual, []proto.Message{dead, &serverv1.Uninstalled{Left: 3}}, ""},
		{"uninstalled, its own files left", manual, []proto.Message{dead, &serverv1.Uninstalled{LeftOwn: 2}}, "PATHS"},
		{"and cleaned then", manual, []proto.Message{dead, &serverv1.Uninstalled{LeftOwn: 2}, byHand}, ""},
		{"the ownership is unknown", unknown, []proto.Message{dead}, "OWNERSHIP"},
		{"the same, cleaned", unknown, []proto.Message{dead, byHand}, ""},
		{"an agent was found", manual, []proto.Message{found(link), dead, done}, "FOUND"},
		{
			"more were found than are listed", manual,
			[]proto.Message{&serverv1.AgentsFound{More: 2}, dead, done}, "FOUND",
		},
		{"the same, cleaned", manual, []proto.Message{found(link), dead, byHand}, ""},
		{"another server's was found", manual, []proto.Message{found(other), dead, done}, ""},
		{"it was gone before the death", manual, []proto.Message{found(link), found(), dead, done}, ""},
		{"a provisioner removes the machine", provisioned, []proto.Message{found(link), dead}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &serverv1.Server{Id: "s", Life: serverv1.Life_LIFE_ALIVE, Ownership: c.ownership}
			for n, body := range c.facts {
				next, fit := server.Apply(s,
					ledger.Fact{Noun: ledger.Server, Key: "s", Body: body, At: time.Unix(int64(n), 0)})
				if !fit {
					t.Fatalf("fact %d does not fit: %v", n, body)
				}
				s = next
			}
			var have []string
			for _, l := range Leaks(s) {
				have = append(have, strings.TrimPrefix(l.Kind.String(), "DUTY_KIND_"))
			}
			if diff := cmp.Diff(c.want, strings.Join(have, " ")); diff != "" || Leaked(s) != (c.want != "") {
				t.Errorf("leaked %v: %s", Leaked(s), diff)
			}
		})
	}
}

func TestALeakNamesTheUnmanagedAgents(t *testing.T) {
	s := &serverv1.Server{
		Life: serverv1.Life_LIFE_DEAD, Ownership: manual, CleanUp: &serverv1.CleanUp{Code: "TIMED_OUT"},
		FoundAtDeathMore: 4,
	}
	for n := range 5 {
		s.FoundAtDeath = append(s.FoundAtDeath, &serverv1.FoundAgent{
			Agent: fmt.Sprint("web-", n), Version: "1.0.0", Trace: serverv1.Trace_TRACE_UNIT, Path: "garrison-x",
		})
	}
	leaks := Leaks(s)
	want := "unmanaged at its death: web-0 1.0.0 (unit garrison-x), web-1 1.0.0 (unit garrison-x), " +
		"web-2 1.0.0 (unit garrison-x), 6 more"
	if have := leaks[len(leaks)-1].Reason; have != want {
		t.Errorf("the reason is %q, want %q", have, want)
	}
}
