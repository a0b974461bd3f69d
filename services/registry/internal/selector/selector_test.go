package selector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

const (
	web1 = "0a000000-0000-0000-0000-000000000001"
	web2 = "0a000000-0000-0000-0000-000000000002"
	old  = "0b000000-0000-0000-0000-000000000003"
	next = "0c000000-0000-0000-0000-000000000004"
)

// rack is two living servers, a dead one whose name is taken again, and an invited one.
func rack() *view.View {
	v := view.New()
	sequence := uint64(0)
	apply := func(noun ledger.Noun, key string, body proto.Message) {
		sequence++
		v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(1, 0), Sequence: sequence})
	}
	apply(ledger.Environment, "prod", &environmentv1.Created{Environment: &environmentv1.Environment{}})
	add := func(id, name, environment, os string) {
		apply(ledger.Server, id,
			&serverv1.Invited{Name: name, Environment: environment, Labels: map[string]string{"os": os}})
	}
	add(old, "web2", "prod", "linux")
	apply(ledger.Server, old, &serverv1.Enrolled{})
	apply(ledger.Server, old, &serverv1.Dead{})
	add(web1, "web1", "prod", "linux")
	apply(ledger.Server, web1, &serverv1.Enrolled{})
	add(web2, "web2", "", "linux")
	apply(ledger.Server, web2, &serverv1.Enrolled{})
	add(next, "next", "prod", "smartos")
	return v
}

func TestASelectorReturnsLivingServersOrARefusal(t *testing.T) {
	labels := map[string]string{"os": "linux"}
	for _, c := range []struct {
		name string
		on   *intentv1.Selector
		want string // ids, or a code
	}{
		{"all", &intentv1.Selector{All: true}, web1 + " " + web2},
		{"a name, and the dead one that had it is not meant", &intentv1.Selector{Servers: []string{"web2"}}, web2},
		{"an id", &intentv1.Selector{Servers: []string{web1}}, web1},
		{"the same one twice", &intentv1.Selector{Servers: []string{web1, "web1"}}, web1},
		{"an environment", &intentv1.Selector{Environment: "prod"}, web1},
		{"labels", &intentv1.Selector{Labels: labels}, web1 + " " + web2},
		{
			"everything must hold",
			&intentv1.Selector{Servers: []string{"web1", "web2"}, Environment: "prod", Labels: labels}, web1,
		},
		{"labels that no server has", &intentv1.Selector{Labels: map[string]string{"os": "plan9"}}, "NO_SERVERS"},
		{
			"labels of one that is only invited",
			&intentv1.Selector{Labels: map[string]string{"os": "smartos"}}, "NO_SERVERS",
		},
		{"a prefix of two", &intentv1.Selector{Servers: []string{"0a"}}, "AMBIGUOUS"},
		{"a prefix of a dead one", &intentv1.Selector{Servers: []string{"0b"}}, "UNKNOWN_SERVER"},
		{"one that is only invited", &intentv1.Selector{Servers: []string{"next"}}, "NOT_ALIVE"},
		{
			"one that is only invited beside another one",
			&intentv1.Selector{Servers: []string{"next", "web1"}}, web1 + " NOT_ALIVE",
		},
		{"an unknown name", &intentv1.Selector{Servers: []string{"web3"}}, "UNKNOWN_SERVER"},
		{
			"an unknown id", &intentv1.Selector{Servers: []string{"0d000000-0000-0000-0000-000000000009"}},
			"UNKNOWN_SERVER",
		},
		{"an unknown environment", &intentv1.Selector{Environment: "test"}, "UNKNOWN_ENVIRONMENT"},
		{"nothing", &intentv1.Selector{}, "EMPTY_SELECTOR"},
		{"not even a selector", nil, "EMPTY_SELECTOR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, refusal := selector.Resolve(rack(), c.on)
			var ids []string
			for _, s := range found.Servers {
				ids = append(ids, s.Id)
			}
			for _, l := range found.Left {
				ids = append(ids, l.Reason.Code)
			}
			have := strings.Join(ids, " ")
			if refusal != nil {
				have = refusal.Code
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASelectorIsSpelledAsFlags(t *testing.T) {
	for want, s := range map[string]*intentv1.Selector{
		"--on SELECTOR": {},
		"--on all":      {All: true},
		"--on a,b":      {Servers: []string{"a", "b"}},
		"--on env=prod --on label.rack=r1 --on label.row=2": {
			Environment: "prod", Labels: map[string]string{"row": "2", "rack": "r1"},
		},
	} {
		if have := selector.Flags(s); have != want {
			t.Errorf("%v: %q; want %q", s, have, want)
		}
	}
	if have := selector.Flags(&intentv1.Selector{Not: []*intentv1.Selector{{All: true}}}); have != "--on SELECTOR" {
		t.Errorf("a nested selector: %q", have)
	}
}
