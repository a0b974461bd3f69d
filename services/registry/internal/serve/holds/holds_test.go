package holds

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	holdnoun "github.com/garrison-fleet/garrison/pkg/noun/hold"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/hold"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
)

// site has the servers web-1, web-2 and db-1, on which web runs.
type site struct {
	*recordstest.World
	api *table.API
}

func start(t *testing.T) *site {
	t.Helper()
	s := &site{World: recordstest.New(t)}
	s.api = table.New(s.Records, zerolog.Nop(), Noun(s.Records))
	s.Agent("web")
	s.Image("web", "1.0.0")
	for _, name := range []string{"web-1", "web-2", "db-1"} {
		s.Server(name, "")
	}
	s.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.Everywhere()))
	s.Image("web", "1.1.0")
	return s
}

func (s *site) hold(on *intentv1.Selector) *holdv1.Hold {
	s.T.Helper()
	return recordstest.Call(s.World, s.noted(""), record.Set(&holdv1.Hold{Agent: "web", On: on})).Record.GetHold()
}

// noted puts records as a caller that says why.
func (s *site) noted(why string) func(
	context.Context, bus.Caller, *registryv1.PutRecordRequest,
) (*registryv1.PutRecordResponse, error) {
	return func(
		ctx context.Context, c bus.Caller, q *registryv1.PutRecordRequest,
	) (*registryv1.PutRecordResponse, error) {
		c.Note = why
		return s.api.Put(ctx, c, q)
	}
}

// left returns why a plan of an upgrade, or of a removal, leaves out each server.
func (s *site) left(in *intentv1.Intent) string {
	why := map[string]string{}
	p := intent.Plan(s.View, intent.Ask{Intent: in, At: s.At})
	p.Targets("", nil, func(x *intentv1.Target) bool {
		why[x.ServerName] = x.Reason.GetCode()
		return true
	})
	return strings.Join([]string{why["web-1"], why["web-2"], why["db-1"]}, ",")
}

func up() *intentv1.Intent { return recordstest.Upgrade("web", "", recordstest.Everywhere()) }

func ringed(s *site, name string) {
	s.Fact(ledger.Server, recordstest.ServerID(name), &serverv1.Changed{Labels: map[string]string{"ring": "0"}})
}

func TestEveryChangeOfAHeldAgentIsLeftOutWhereItIsHeld(t *testing.T) {
	t.Parallel()
	remove := &intentv1.Intent{Ask: &intentv1.Intent_Remove{
		Remove: &intentv1.Remove{Agent: "web", On: recordstest.Everywhere()},
	}}
	ring := &intentv1.Selector{Labels: map[string]string{"ring": "0"}}
	for name, c := range map[string]struct {
		happens func(*site)
		in      *intentv1.Intent
		want    string
	}{
		"an upgrade": {func(s *site) { s.hold(recordstest.On("web-1")) }, up(), "HELD,,"},
		"a removal":  {func(s *site) { s.hold(recordstest.On("web-1")) }, remove, "HELD,,"},
		"a server that its selector matches later": {func(s *site) {
			ringed(s, "web-1")
			s.hold(ring)
			ringed(s, "web-2")
		}, up(), "HELD,HELD,"},
		"a hold whose time passed": {func(s *site) {
			recordstest.Call(s.World, s.api.Put, record.Set(&holdv1.Hold{
				Agent: "web", On: recordstest.On("web-1"), Until: timestamppb.New(s.At.Add(time.Hour)),
			}))
			s.At = s.At.Add(2 * time.Hour)
			s.hold(recordstest.On("web-2"))
			q := &registryv1.ListRecordsRequest{Noun: "hold", Agent: "web"}
			list := recordstest.Call(s.World, s.api.List, q).Holds
			if len(list) != 1 || list[0].Servers != 1 || list[0].SetBy != "alice" ||
				list[0].ServerNames[recordstest.ServerID("web-2")] != "web-2" {
				t.Errorf("listed %v, want the second hold alone", list)
			}
		}, up(), ",HELD,"},
		"a hold of a server that is forgotten": {func(s *site) {
			s.hold(recordstest.On("web-1", "db-1"))
			s.Fact(ledger.Server, recordstest.ServerID("db-1"), &serverv1.Dead{Lost: true})
			s.Fact(ledger.Server, recordstest.ServerID("db-1"), &serverv1.Forgotten{})
		}, up(), "HELD,,"},
	} {
		s := start(t)
		c.happens(s)
		if have := s.left(c.in); have != c.want {
			t.Errorf("%s: left out are %q, want %q", name, have, c.want)
		}
	}
}

// A pause of ten years is a mistyped time.
func TestAPauseOfTheSiteLastsForAMonthAtMost(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		agent string
		lasts time.Duration
		want  string
	}{
		{"", holdnoun.LongestPause + time.Second, code.Invalid},
		{"", 10 * 365 * 24 * time.Hour, code.Invalid},
		{"", holdnoun.LongestPause, ""},
		{"web", 10 * 365 * 24 * time.Hour, ""},
	} {
		h := &holdv1.Hold{Agent: c.agent, On: holdnoun.Site(), Until: timestamppb.New(s.At.Add(c.lasts))}
		if have := recordstest.Code(s.World, s.noted("a move"), record.Set(h)); have != c.want {
			t.Errorf("%q for %s: %q, want %q", c.agent, c.lasts, have, c.want)
		}
	}
}

func TestAHoldKeepsItsEndUntilAnotherIsGiven(t *testing.T) {
	t.Parallel()
	s := start(t)
	day, hour := timestamppb.New(s.At.Add(24*time.Hour)), timestamppb.New(s.At.Add(time.Hour))
	for _, c := range []struct{ given, want *timestamppb.Timestamp }{
		{day, day}, {nil, day}, {&timestamppb.Timestamp{}, nil}, {nil, nil}, {hour, hour}, {nil, hour},
	} {
		h := &holdv1.Hold{Agent: "web", On: recordstest.On("web-1"), Until: c.given}
		if have := recordstest.Call(s.World, s.noted("why"), record.Set(h)).Record.GetHold().GetUntil(); !proto.Equal(
			have, c.want) {
			t.Errorf("with the end %v it is held until %v; want %v", c.given, have, c.want)
		}
	}
	s.At = s.At.Add(2 * time.Hour)
	if h := s.hold(recordstest.On("web-1")); h.GetUntil() != nil {
		t.Errorf("a hold that ended keeps its end %v", h.GetUntil())
	}
}

func TestTheEndOfAPauseThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, err := s.api.Delete(t.Context(), bus.Caller{}, record.Delete(ledger.Hold, holdnoun.ID("", holdnoun.Site()), 0))
	if r := fault.RefusalOf(err); r.GetCode() != code.NotFound || r.GetMessage() != "the site is not paused" {
		t.Errorf("have %v", err)
	}
}

func TestAHoldEndsAsAWhole(t *testing.T) {
	t.Parallel()
	s := start(t)
	first := s.hold(recordstest.On("web-1", "web-2"))
	again := s.hold(recordstest.On("web-2", "web-1"))
	if n := len(s.Names(ledger.Hold, first.Id)); again.Id != first.Id || n != 1 {
		t.Errorf("the same servers in another order are another hold %s, or one of %d facts", again.Id, n)
	}
	release := func(on *intentv1.Selector) string {
		q := &registryv1.DeleteRecordRequest{Noun: "hold", Agent: "web", On: on}
		return recordstest.Code(s.World, s.api.Delete, q)
	}
	if have := release(recordstest.On("web-1")); have != code.HoldIsWider {
		t.Errorf("released on one of two servers: %q", have)
	}
	if have := release(recordstest.On("db-1")); have != code.NotFound {
		t.Errorf("released where it is not held: %q", have)
	}
	for name, want := range map[string]int{"web-1": 1, "db-1": 0} {
		q := &registryv1.ListRecordsRequest{Noun: "hold", On: recordstest.On(name)}
		if list := recordstest.Call(s.World, s.api.List, q).Holds; len(list) != want {
			t.Errorf("about %s are %v; want %d", name, list, want)
		}
	}
	if have := release(recordstest.Everywhere()); have != "" || s.View.HoldCount() != 0 {
		t.Errorf("released everywhere: %q, %d are left", have, s.View.HoldCount())
	}
	h := s.hold(recordstest.On("web-1"))
	recordstest.Call(s.World, s.api.Delete, record.Delete(ledger.Hold, h.Id[:8], 0))
}

func TestAPauseOfTheSiteHoldsEveryAgentAndKeepsItsReason(t *testing.T) {
	t.Parallel()
	s := start(t)
	set := func(until time.Duration, why string) *holdv1.Hold {
		return recordstest.Call(s.World, s.noted(why), record.Set(&holdv1.Hold{
			On: recordstest.Everywhere(), Until: timestamppb.New(s.At.Add(until)),
		})).Record.GetHold()
	}
	set(time.Hour, "a move")
	if have := s.left(up()); have != "HELD,HELD,HELD" {
		t.Errorf("left out are %q", have)
	}
	if h := set(3*time.Hour, ""); h.Reason != "a move" || h.Id != holdnoun.ID("", holdnoun.Site()) || h.Servers != 3 {
		t.Errorf("extended, it is %v", h)
	}
	s.At = s.At.Add(2 * time.Hour)
	if hold.Pause(s.View, s.At) == nil || hold.Pause(s.View, s.At.Add(2*time.Hour)) != nil {
		t.Error("it does not end when it was extended to")
	}
	recordstest.Call(s.World, s.api.Delete, record.Delete(ledger.Hold, holdnoun.ID("", holdnoun.Site()), 0))
	if have := s.left(up()); have != ",," {
		t.Errorf("once it ended, left out are %q", have)
	}
}

func TestAPauseNeedsAnEndAReasonAndAllServers(t *testing.T) {
	t.Parallel()
	s := start(t)
	all, later := recordstest.Everywhere(), timestamppb.New(s.At.Add(time.Hour))
	for name, c := range map[string]struct {
		why  string
		hold *holdv1.Hold
	}{
		"no end":       {"x", &holdv1.Hold{On: all}},
		"no reason":    {"", &holdv1.Hold{On: all, Until: later, Reason: "a field that the fold sets"}},
		"some servers": {"x", &holdv1.Hold{On: recordstest.On("web-1"), Until: later}},
	} {
		if have := recordstest.Code(s.World, s.noted(c.why), record.Set(c.hold)); have != code.Invalid {
			t.Errorf("%s: %q, want %s", name, have, code.Invalid)
		}
	}
}

func TestWrongHoldsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	one := recordstest.On("web-1")
	for want, q := range map[string]*holdv1.Hold{
		code.UnknownAgent:  {Agent: "ghost", On: one},
		code.EmptySelector: {Agent: "web"},
		code.UnknownServer: {Agent: "web", On: recordstest.On("web-9")},
		code.Invalid:       {Agent: "web", On: one, Until: timestamppb.New(s.At)},
	} {
		if have := recordstest.Code(s.World, s.api.Put, record.Set(q)); have != want {
			t.Errorf("set %v: %q, want %s", q, have, want)
		}
	}
	for id, want := range map[string]string{"": code.Malformed, "0badc0de": code.NotFound} {
		if have := recordstest.Code(s.World, s.api.Delete, record.Delete(ledger.Hold, id, 0)); have != want {
			t.Errorf("unset %q: %q, want %s", id, have, want)
		}
	}
	have := recordstest.Code(s.World, s.api.List, &registryv1.ListRecordsRequest{Noun: "hold", Agent: "ghost"})
	if have != code.UnknownAgent {
		t.Errorf("list: %q", have)
	}
}
