package drift

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestHealingIsBrakedWhileTooManyServersDrift(t *testing.T) {
	const report = environmentv1.DriftPolicy_DRIFT_POLICY_REPORT
	braked := func(ago time.Duration) *environmentv1.Environment {
		return &environmentv1.Environment{Braked: &environmentv1.Brake{Since: timestamppb.New(now.Add(-ago))}}
	}
	with := func(e *environmentv1.Environment, p environmentv1.DriftPolicy, percent uint32) *environmentv1.Environment {
		e.Drift, e.DriftBrake = p, percent
		return e
	}
	none := &environmentv1.Environment{}
	for name, c := range map[string]struct {
		e    *environmentv1.Environment
		have Count
		want string
	}{
		"nothing drifts":                   {none, Count{0, 100}, ""},
		"no server is online":              {none, Count{}, ""},
		"a fifth drifts":                   {none, Count{20, 100}, ""},
		"more than a fifth drifts":         {none, Count{21, 100}, "drift-braked"},
		"two of three":                     {none, Count{2, 3}, ""},
		"three of three":                   {none, Count{3, 3}, "drift-braked"},
		"over its own brake":               {with(&environmentv1.Environment{}, 0, 5), Count{6, 100}, "drift-braked"},
		"at its own brake":                 {with(&environmentv1.Environment{}, 0, 50), Count{50, 100}, ""},
		"all drift, never braked":          {with(&environmentv1.Environment{}, 0, 100), Count{9, 9}, ""},
		"nothing is healed anyway":         {with(&environmentv1.Environment{}, report, 0), Count{9, 9}, ""},
		"braked, and as many drift":        {braked(time.Hour), Count{21, 100}, ""},
		"braked, and a few less drift":     {braked(time.Hour), Count{11, 100}, ""},
		"braked, and half of that drifts":  {braked(time.Hour), Count{10, 100}, "drift-released"},
		"braked a moment ago":              {braked(time.Second), Count{0, 100}, ""},
		"braked, and one of three drifts":  {braked(time.Hour), Count{1, 3}, "drift-released"},
		"braked, and its servers left":     {braked(time.Hour), Count{}, "drift-released"},
		"braked, and the policy changed":   {with(braked(time.Second), report, 0), Count{9, 9}, "drift-released"},
		"braked, and the brake was lifted": {with(braked(time.Second), 0, 100), Count{9, 9}, "drift-released"},
	} {
		have := ""
		if body := Brake(c.e, c.have, now); body != nil {
			have = ledger.Fact{Noun: ledger.Environment, Body: body}.Name()
		}
		if have != c.want {
			t.Errorf("%s: %q; want %q", name, have, c.want)
		}
	}
}

func TestATallyFollowsEachServer(t *testing.T) {
	const online, offline = serverv1.Presence_PRESENCE_ONLINE, serverv1.Presence_PRESENCE_OFFLINE
	at := func(environment string, p serverv1.Presence) *serverv1.Server {
		s, _ := healthy()
		s.Environment, s.Presence = environment, p
		return s
	}
	agent := func(cause string) *instancev1.Instance {
		_, i := healthy()
		if cause != "" {
			i.State, i.Health, i.ObservedCode = instancev1.State_STATE_FAILED, instancev1.Health_HEALTH_BAD, cause
		}
		return i
	}
	tally := NewTally()
	for n, c := range []struct {
		id    string
		s     *serverv1.Server
		cause string
		want  Count
	}{
		{"a", at("prod", online), "", Count{0, 1}},
		{"a", at("prod", online), code.Damaged, Count{1, 1}},
		{"a", at("prod", online), code.Damaged, Count{1, 1}},
		{"b", at("prod", online), code.CrashLoop, Count{1, 2}}, // it fails by itself
		{"b", at("prod", offline), code.Damaged, Count{1, 1}},
		{"b", at("prod", online), code.LinkMissing, Count{2, 2}},
		{"a", at("test", online), code.Damaged, Count{1, 1}},
		{"b", nil, "", Count{}},
	} {
		tally.Set(c.id, c.s, slices.Values([]*instancev1.Instance{agent(c.cause)}))
		if have := tally.Of("prod"); have != c.want {
			t.Errorf("step %d: %+v; want %+v", n, have, c.want)
		}
	}
	if have := tally.Of("test"); have != (Count{1, 1}) {
		t.Errorf("the other environment has %+v; want one, which drifts", have)
	}
}

func TestAChangeThatLetsMoreBeHealedIsKnown(t *testing.T) {
	const report, heal = environmentv1.DriftPolicy_DRIFT_POLICY_REPORT, environmentv1.DriftPolicy_DRIFT_POLICY_HEAL
	e := func(p environmentv1.DriftPolicy, brake uint32) *environmentv1.Environment {
		return &environmentv1.Environment{Drift: p, DriftBrake: brake}
	}
	for name, c := range map[string]struct {
		have, next *environmentv1.Environment
		want       bool
	}{
		"report becomes heal":               {e(report, 0), e(heal, 0), true},
		"report becomes the default policy": {e(report, 0), e(0, 0), true},
		"heal becomes report":               {e(heal, 0), e(report, 100), false},
		"the brake is lifted":               {e(heal, 0), e(heal, 100), true},
		"the brake is stricter":             {e(heal, 50), e(heal, 0), false},
		"the brake of a report":             {e(report, 20), e(report, 100), false},
		"something else":                    {e(heal, 20), e(heal, 0), false},
	} {
		if have := Widens(c.have, c.next); have != c.want {
			t.Errorf("%s: %v; want %v", name, have, c.want)
		}
	}
	for want, to := range map[string]*environmentv1.Environment{code.TooWide: nil, "": e(report, 0)} {
		if have := MovesTooWide(to, 3, 2, "repair").GetCode(); have != want {
			t.Errorf("a move to %v: %q; want %q", to, have, want)
		}
	}
}
