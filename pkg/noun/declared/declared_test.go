package declared_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/noun/application"
	"github.com/garrison-fleet/garrison/pkg/noun/declared"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

// walk applies every fact to a record that exists and to one that does not.
func walk[T interface {
	comparable
	proto.Message
}](t *testing.T, apply func(T, ledger.Fact) (T, bool), have T, bodies ...proto.Message) {
	t.Helper()
	var none T
	for state, before := range map[declared.State]T{declared.Absent: none, declared.Present: have} {
		for _, body := range bodies {
			f := ledger.Fact{Key: "name", Body: body, At: time.Unix(5, 0)}
			after, fit := apply(proto.CloneOf(before), f)
			next, want := declared.Life.Next(state, f.Name())
			switch {
			case fit != want:
				t.Errorf("%T in %s fits: %v; want %v", body, state, fit, want)
			case !fit && !proto.Equal(before, after):
				t.Errorf("%T does not fit in %s but changed it: %v", body, state, after)
			case fit && (after == none) != (next == declared.Absent):
				t.Errorf("%T in %s leads to %v; want %s", body, state, after, next)
			}
		}
		empty := bodies[0].ProtoReflect().New().Interface()
		if _, fit := apply(proto.CloneOf(before), ledger.Fact{Key: "name", Body: empty}); fit {
			t.Errorf("%T without a record fits in %s", empty, state)
		}
	}
}

func TestEveryFactInEveryStateFollowsTheTableOrChangesNothing(t *testing.T) {
	if err := declared.Life.Check(); err != nil {
		t.Error(err)
	}
	app := &applicationv1.Application{Name: "name"}
	walk(t, application.Apply, app, &applicationv1.Created{Application: app},
		&applicationv1.Changed{Application: app}, &applicationv1.Deleted{})
	env := &environmentv1.Environment{Name: "name"}
	walk(t, environment.Apply, env, &environmentv1.Created{Environment: env},
		&environmentv1.Changed{Environment: env}, &environmentv1.Deleted{})
	one := &agentv1.Agent{Name: "name"}
	walk(t, agent.Apply, one, &agentv1.Created{Agent: one}, &agentv1.Changed{Agent: one}, &agentv1.Deleted{})
}

func TestAChangedAgentKeepsItsCreationTimeAndItsKind(t *testing.T) {
	at := func(second int64, body proto.Message) ledger.Fact {
		return ledger.Fact{Key: "beacon", Body: body, At: time.Unix(second, 0)}
	}
	daemon := &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON}
	a, _ := agent.Apply(nil, at(1, &agentv1.Created{Agent: daemon}))
	a, fit := agent.Apply(a, at(2, &agentv1.Changed{Agent: daemon}))
	if !fit || a.Name != "beacon" || a.CreatedAt.Seconds != 1 || a.ChangedAt.Seconds != 2 {
		t.Errorf("fit %v, record %v", fit, a)
	}
	if _, fit := agent.Apply(a, at(3, &agentv1.Changed{Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_FILES}})); fit {
		t.Error("a change of kind fits")
	}
}
